"""`OptimalInInfo`, a wrapper whose `info` has the minimum number of steps to success."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..checks import counted
from ..env import Env, Step
from ..random import Key
from ..wrapper import Wrapper, refuse_self_resetting
from .content import ByContent

# number of steps that stands for "success is impossible" and for "the table lacks this state"
UNKNOWN = -1


class DistanceTable(ByContent):
    """Fewest steps to success from every state that can be reached in a set of levels.

    `levels.distances` makes the table. A call `table(state)` works inside `jit` and `vmap`.
    """

    def __init__(self, words: UInt32[np.ndarray, "n words"], steps: Int32[np.ndarray, " n"]):
        """Store the table, sorted by `words` for a binary search.

        words: each state as uint32 words, made by `words_of`; the states may be in any order.
        steps: fewest steps from state i to success; -1 if success is impossible.
        """
        order = np.lexsort(words.T[::-1])
        self.words, self.steps = words[order], steps[order]

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.steps)

    def __repr__(self) -> str:
        """Return text with the number of states."""
        return f"<distances of {counted(len(self), 'state')}>"

    @property
    def content(self) -> tuple[np.ndarray, np.ndarray]:
        """All states as words (see `words_of`), and the fewest steps from each to success."""
        return self.words, self.steps

    def __call__(self, state: Any) -> Int32[Array, ""]:
        """Return the fewest steps from a state to success.

        The result is -1 if success is impossible, or if the table lacks the state.
        state: state of the unwrapped environment; its field `time` is ignored.
        """
        table, wanted = jnp.asarray(self.words), words_of(state)

        def halved(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bounds
            middle = (low + high) // 2
            is_less = _is_less(table[middle], wanted) & (low < high)
            return jnp.where(is_less, middle + 1, low), jnp.where(is_less, high, middle)

        ends = jnp.int32(0), jnp.int32(len(self))
        place, _ = jax.lax.fori_loop(0, len(self).bit_length(), halved, ends)
        place = jnp.minimum(place, len(self) - 1)
        is_found = (table[place] == wanted).all()
        return jnp.where(is_found, jnp.asarray(self.steps)[place], UNKNOWN)


def words_of(state: Any) -> UInt32[Array, " words"]:
    """Return a state's bytes as uint32 words, with the time set to 0.

    Two states have equal words if and only if they are equal except for the time.
    """
    leaves = jax.tree.leaves(state.replace(time=jnp.zeros_like(state.time)))
    packed = jnp.concatenate([_bytes_of(jnp.asarray(leaf)) for leaf in leaves])
    padded = jnp.pad(packed, (0, -packed.size % 4))
    return jax.lax.bitcast_convert_type(padded.reshape(-1, 4), jnp.uint32)


def _bytes_of(leaf: Array) -> UInt8[Array, " bytes"]:
    """Return the bytes of an array."""
    leaf = leaf.astype(jnp.uint8) if leaf.dtype == jnp.bool_ else leaf
    return jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1)


def _is_less(row: UInt32[Array, " words"], wanted: UInt32[Array, " words"]) -> Bool[Array, ""]:
    """Return whether `row` comes before `wanted` in lexicographic order."""
    # Index of the first word that differs; 0 if the rows are equal.
    first = jnp.argmax(row != wanted)
    return row[first] < wanted[first]


class OptimalInInfo(Wrapper):
    """Adds `info["optimal"]`: the fewest steps from the state after a step to success, int32.

    The value is 0 after success, and -1 if success has become impossible. The time limit is
    ignored. Use the value for shaped rewards, or to compare a policy with shortest plans.

    `jaxenvs.levels.distances` makes the table for a set of levels, so wrap an environment that
    plays only these levels, as `levels.from_levels` returns. The table is valid for the default
    params of the environment. Another time limit is allowed, but params that change the task, such
    as another ruleset of XLand, make `info["optimal"]` wrong.
    """

    distances: DistanceTable

    def __post_init__(self) -> None:
        """Raise an error if `distances` is no table for states of `env`, or `env` resets itself."""
        super().__post_init__()
        refuse_self_resetting(self.env, "OptimalInInfo", "wrap the environment inside")
        if not isinstance(self.distances, DistanceTable):
            kind = type(self.distances).__name__
            raise TypeError(
                f"OptimalInInfo: distances must come from jaxenvs.levels.distances, got {kind}"
            )
        inside: Env = self.env
        while isinstance(inside, Wrapper):
            if not inside._keeps_state():
                kind = type(inside).__name__
                raise TypeError(
                    f"OptimalInInfo: {kind} has states of its own; put it around OptimalInInfo"
                )
            inside = inside.env
        words = jax.eval_shape(words_of, inside.state_shape).size
        known = self.distances.words.shape[1]
        if words != known:
            kind = type(inside).__name__
            raise ValueError(
                f"OptimalInInfo: the distances are for states of {known} words, {kind} has "
                f"states of {words}; compute them with jaxenvs.levels.distances"
            )

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and add `info["optimal"]`."""
        stepped = super().step(key, state, action, params)
        success = self.env.succeeded(stepped)
        left = jnp.where(stepped.terminated, UNKNOWN, self.distances(stepped.state))
        optimal = left if success is None else jnp.where(success, 0, left)
        return stepped._replace(info={**stepped.info, "optimal": optimal})
