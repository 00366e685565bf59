"""`OptimalInInfo`, a wrapper that adds the fewest steps to success to `info`."""

import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..checks import counted
from ..env import Env, Step
from ..random import Key
from ..wrapper import Wrapper, refuse_self_resetting

UNKNOWN = -1  # number of steps of a state from which no success is known to be possible


class Distances:
    """Fewest steps to success from every state of some levels, made by `levels.distances`.

    Hashable, compared by content. Calls work inside `jit` and `vmap`.
    """

    def __init__(self, words: UInt32[np.ndarray, "n words"], steps: Int32[np.ndarray, " n"]):
        """Take `words_of` each state, in any order, and the number of steps from each state."""
        order = np.lexsort(words.T[::-1])
        self.words, self.steps = words[order], steps[order]

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.steps)

    def __repr__(self) -> str:
        """Return the number of states."""
        return f"<distances of {counted(len(self), 'state')}>"

    def __eq__(self, other: object) -> bool:
        """Return whether two tables have the same states and distances."""
        return isinstance(other, Distances) and self._digest == other._digest

    def __hash__(self) -> int:
        """Return a hash of the states and distances."""
        return hash(self._digest)

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(str(self.words.shape).encode())
        digest.update(self.words.tobytes() + self.steps.tobytes())
        return digest.hexdigest()

    def __call__(self, state: Any) -> Int32[Array, ""]:
        """Return the fewest steps from a state to success.

        The result is -1 if success is impossible, and if the state is in none of the levels.
        state: state of the environment without wrappers. Its time is ignored.
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
    """Return the contents of a state without its time: equal words mean equal states."""
    leaves = jax.tree.leaves(state.replace(time=jnp.zeros_like(state.time)))
    packed = jnp.concatenate([_bytes_of(jnp.asarray(leaf)) for leaf in leaves])
    padded = jnp.pad(packed, (0, -packed.size % 4))
    return jax.lax.bitcast_convert_type(padded.reshape(-1, 4), jnp.uint32)


def _bytes_of(leaf: Array) -> UInt8[Array, " bytes"]:
    """Return the bytes of an array."""
    leaf = leaf.astype(jnp.uint8) if leaf.dtype == jnp.bool_ else leaf
    return jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1)


def _is_less(row: UInt32[Array, " words"], wanted: UInt32[Array, " words"]) -> Bool[Array, ""]:
    """Return whether a row comes before the wanted one in lexicographic order."""
    first = jnp.argmax(row != wanted)  # the first word that differs; 0 if none does
    return row[first] < wanted[first]


class OptimalInInfo(Wrapper):
    """Adds `info["optimal"]`: the fewest steps from the state after a step to success, int32.

    0 after success, and -1 if success has become impossible. The time limit is ignored. Use it for
    shaped rewards, and to compare a policy with shortest plans. The table of
    `jaxenvs.levels.distances` must have the levels that are played, so wrap `levels.from_levels`.
    """

    distances: Distances

    def __post_init__(self) -> None:
        """Raise `TypeError` unless the table can have the states of `env`."""
        super().__post_init__()
        refuse_self_resetting(self.env, "OptimalInInfo", "wrap the environment inside")
        if not isinstance(self.distances, Distances):
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

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and add `info["optimal"]`."""
        stepped = super().step(key, state, action, params)
        success = self.env.succeeded(stepped)
        left = jnp.where(stepped.terminated, UNKNOWN, self.distances(stepped.state))
        optimal = left if success is None else jnp.where(success, 0, left)
        return stepped._replace(info={**stepped.info, "optimal": optimal})
