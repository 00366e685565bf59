"""Fuzzing: random play that includes illegal and invalid actions, with a check of every step.

The play and the checks are one compiled program. The environments of a batch differ in levels, time
limits and other params. Half of the actions are drawn uniformly from the action space. The other
half are drawn to be illegal (by the action mask) or invalid (outside the space), where possible.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree

from ..core.env import Env, Step
from ..core.random import Key
from ..core.spaces import Box, Dict, Discrete, Space
from ..core.vector import make_vec
from ..core.wrapper import Wrapper

# Time limits, in steps, that are drawn in addition to the default time limit.
LIMITS = (1, 2, 3, 17, np.iinfo(np.int32).max)
# Weight of the default time limit in the random draw, where each of LIMITS has weight 1.
USUAL = 7 * len(LIMITS)
# Values of the argument `variation`, which successive calls of `Fuzzer.play` use in turn.
VARIATIONS = (0.0, 0.5, 4.0)
# Largest `variation` (range of the random float params) at which the observations and rewards of
# all environments of jaxenvs stay in their spaces.
NEAR = 0.5
OUTSIDE = (np.nan, np.inf, -np.inf, 1e30)  # floats that invalid actions consist of
OF_SPACES = ("reward outside", "observation outside", "first observation outside")

# Name of each rule of the contract -> mask of the steps that break it.
Rules = dict[str, Bool[Array, "*batch"]]


class Fuzzed(NamedTuple):
    """Result of fuzzing: number of steps, and how many of them break each rule."""

    steps: int
    broken: dict[str, int]  # name of each rule -> number of steps that break it


def fuzz(
    env: Env, *, steps: int, seed: int = 0, rows: int = 256, length: int = 64, near: float = 0.0
) -> Fuzzed:
    """Play at least `steps` steps in a batch of `rows` environments, and count broken rules.

    The batch restarts with new levels and params every `length` steps. `Fuzzer.play` multiplies
    float params by random factors, whose range is called `variation`. An observation or reward
    outside of its space breaks a rule only if `variation` is at most `near`. With `near` 0, spaces
    are thus tested only with the default float params.
    """
    fuzzer = Fuzzer(env, rows, length, near)
    total: dict[str, int] = {}
    calls = -(-max(steps, 1) // (rows * length))
    for call in range(calls):
        key = jax.random.fold_in(jax.random.key(seed), call)
        found = jax.device_get(fuzzer.play(key, 0.5, VARIATIONS[call % len(VARIATIONS)]))
        total = {rule: total.get(rule, 0) + int(count) for rule, count in found.items()}
    return Fuzzed(calls * rows * length, total)


@dataclasses.dataclass(frozen=True)
class Fuzzer:
    """Plays `length` steps in a batch of `rows` environments; compiled once."""

    env: Env
    rows: int = 256
    length: int = 64
    # Limit of the argument `variation` of `play`, up to which an observation or a reward outside of
    # its space counts as a broken rule. `variation` sets how far float params differ from the
    # defaults.
    near: float = 0.0

    @functools.partial(jax.jit, static_argnums=0)
    def play(
        self, key: Key, hostile: float | Array, variation: float | Array
    ) -> dict[str, Int32[Array, ""]]:
        """Play with random actions and params; return the number of steps that break each rule.

        The result maps the name of each rule to a number of steps. `_rules` checks all rules except
        one: `play` itself checks the first observation after a reset. `hostile` is the probability
        that `_act` draws a wrong action: one that is illegal by the mask or outside the action
        space, where possible. Float params are multiplied or divided by a random factor of up to
        `2 ** variation`. If `variation` is above the field `near`, observations and rewards outside
        of their spaces are not counted.
        """
        key_params, key_reset, key_play = jax.random.split(key, 3)
        params = self._vary(key_params, jnp.float32(variation))
        source = self.env.reset_source
        venv = make_vec(
            self.env,
            self.rows,
            autoreset="none",
            # `pool` draws from prepared levels, and needs equal params in all environments, but
            # here the params differ. `exact` generates a new level for each reset.
            reset_source="exact" if source == "pool" else source,
        )
        state = venv.reset(key_reset, params).state

        def one(state: Any, key: Key) -> tuple[Any, dict[str, Array]]:
            key_action, key_step, key_again = jax.random.split(key, 3)
            row_keys = jax.random.split(key_step, self.rows)
            act = functools.partial(self._act, hostile=jnp.float32(hostile))
            action = jax.vmap(act)(jax.random.split(key_action, self.rows), state.env, params)
            step = jax.vmap(self.env.step)(row_keys, state.env, action, params)
            rules = jax.vmap(self._rules)(row_keys, state.env, action, step, params)
            again = venv.reset_rows(key_again, state.replace(env=step.state), step.done, params)
            inside = jax.vmap(self.env.observation_space.contains)(again.obs)
            rules["first observation outside"] = step.done & ~inside
            return again.state, {name: rule.sum(dtype=jnp.int32) for name, rule in rules.items()}

        _, counts = jax.lax.scan(one, state, jax.random.split(key_play, self.length))
        counts = {name: count.sum(dtype=jnp.int32) for name, count in counts.items()}
        for name in OF_SPACES:
            counts[name] = jnp.where(variation <= self.near, counts[name], 0)
        return counts

    def _vary(self, key: Key, variation: Array) -> Any:
        """Return params with random values per environment.

        The time limit is one of `LIMITS` or the default. Float params are multiplied by random
        factors, as `play` explains.
        """
        defaults = self.env.checked_params(None, "fuzz")
        leaves, structure = jax.tree_util.tree_flatten_with_path(defaults)
        varied = []
        for key_leaf, (path, leaf) in zip(jax.random.split(key, len(leaves)), leaves, strict=True):
            rows = jnp.broadcast_to(leaf, (self.rows, *leaf.shape))
            if _is_limit(path):
                choices = jnp.stack([*map(jnp.int32, LIMITS), *[leaf] * USUAL])
                rows = jax.random.choice(key_leaf, choices, (self.rows,))
            elif leaf.ndim == 0 and jnp.issubdtype(leaf.dtype, jnp.floating):
                exponent = jax.random.uniform(key_leaf, (self.rows,), leaf.dtype, -1.0, 1.0)
                rows = rows * jnp.exp2(exponent * variation.astype(leaf.dtype))
            varied.append(rows)
        return jax.tree.unflatten(structure, varied)

    def _act(self, key: Key, state: Any, params: Any, hostile: Array) -> PyTree[Array]:
        """Draw an action: a wrong one with probability `hostile`, else one of the action space.

        Half of the wrong actions are drawn from all values of the dtype, most of which lie outside
        the action space. The other half are drawn from the actions that the action mask forbids,
        or, if it forbids none, from the action space.
        """
        key_kind, key_sample, key_masked, key_wild = jax.random.split(key, 4)
        space = self.env.action_space
        action = space.sample(key_sample)
        kind = jax.random.uniform(key_kind, dtype=jnp.float32)
        if isinstance(space, Discrete):
            masked = ~self.env.action_mask(state, params)
            order = jax.random.uniform(key_masked, masked.shape, jnp.float32)
            first = jnp.argmax(jnp.where(masked, order, -1.0)).astype(action.dtype)
            action = jnp.where((kind < hostile) & masked.any(), first, action)
        return jax.tree.map(
            lambda a, b: jnp.where(kind < hostile / 2, a, b), _wild(key_wild, space), action
        )

    def _rules(self, key: Key, state: Any, action: PyTree, step: Step, params: Any) -> Rules:
        """Return for each rule of the contract whether the step breaks it."""
        env, time = self.env, step.state.time
        low, high = env.reward_range
        limit = env.time_limit(step.state, params)
        floats = [
            leaf
            for leaf in jax.tree.leaves((step.state, step.obs, step.info))
            if jnp.issubdtype(leaf.dtype, jnp.floating)
        ]
        return {
            "terminated and truncated": step.terminated & step.truncated,
            "truncated before or after the limit": step.truncated
            != ((time >= limit) & ~step.terminated),
            "clock": time != state.time + 1,
            "reward outside": ~((step.reward >= low) & (step.reward <= high)),
            "observation outside": ~env.observation_space.contains(step.obs),
            "not a number": jnp.stack(
                [jnp.zeros((), jnp.bool_), *[jnp.isnan(leaf).any() for leaf in floats]]
            ).any(),
            "invalid action not reported": step.info["invalid_action"]
            != ~env.action_space.contains(action),
            "masked action did something": self._moved(key, state, action, step, params),
        }

    def _moved(
        self, key: Key, state: Any, action: PyTree, step: Step, params: Any
    ) -> Bool[Array, ""]:
        """Return whether an action that the mask forbids has a wrong effect.

        A forbidden action must have the same effect as `idle_action`. If there is no idle action, a
        forbidden action may only increase `time`. The result is False for wrappers, and for spaces
        other than Discrete, which have no mask.
        """
        env = self.env
        if not isinstance(env.action_space, Discrete) or isinstance(env, Wrapper):
            return jnp.zeros((), jnp.bool_)
        taken, _ = env.action_space.clip(action)
        still = state.ticked()
        if env.idle_action is not None:
            still = env.step(key, state, jnp.int32(env.idle_action), params).state
        pairs = zip(jax.tree.leaves(step.state), jax.tree.leaves(still), strict=True)
        moved = jnp.stack([(a != b).any() for a, b in pairs]).any()
        return ~env.action_mask(state, params)[taken] & moved


def limited(params: Any, limit: Any) -> Any:
    """Return params with another time limit.

    The params of a wrapper may contain the limit at any depth.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: limit if _is_limit(path) else leaf, params
    )


def _is_limit(path: Any) -> bool:
    return jax.tree_util.keystr(path).endswith("max_steps_in_episode")


def _wild(key: Key, space: Space) -> PyTree[Array]:
    """Draw an action from all values of the dtype, most of which lie outside the space.

    Floats are drawn from `OUTSIDE`.
    """
    if isinstance(space, Dict):
        keys = jax.random.split(key, len(space.spaces))
        parts = zip(keys, space.spaces.items(), strict=True)
        return {name: _wild(key, part) for key, (name, part) in parts}
    if not isinstance(space, Box):
        raise TypeError(f"fuzz: does not support the space {space}")
    if jnp.issubdtype(space.dtype, jnp.floating):
        return jax.random.choice(key, jnp.asarray(OUTSIDE, space.dtype), space.shape)
    if space.dtype == np.bool_:
        return jax.random.bernoulli(key, shape=space.shape)
    bits = jax.random.bits(key, space.shape, jnp.uint32)
    return jax.lax.bitcast_convert_type(bits, jnp.int32).astype(space.dtype)
