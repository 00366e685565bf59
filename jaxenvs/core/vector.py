"""Batches of copies of one environment, which step together and restart themselves (auto-reset).

`make_vec` returns a `VectorEnv`, whose methods are pure functions. In environment states,
actions and observations, the first axis of every array is the environment.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt8

from . import checks, eager, reset_sources, stock
from .carries import as_carry, varying_like
from .env import Env, Reset, Step
from .masking import has_illegal
from .parts.batch import BATCH
from .platforms import has_accelerator
from .random import Keys
from .registry import make
from .spaces import Dict, Space, batched
from .starts import POOL, PURPOSE_SHIFT, STEP, Starts, along, param_axes, select
from .stock import Stock
from .struct import Struct, struct
from .wrapper import refuse_self_resetting
from .wrappers.normalisation import refuse_shared

AUTORESETS = ("same_step", "next_step", "none")
RESET_SOURCES = ("fresh", "exact", "auto", "pool", "stock")
MAX_ENVS = 1 << PURPOSE_SHIFT


@struct
class VectorState(Struct):
    """State of a batch. The first axis of every leaf of `env` is the environment."""

    env: Any
    # 1 where the next step restarts a done episode; None unless `autoreset` is `next_step`.
    ended: UInt8[Array, " num_envs"] | None
    # Levels from which resets draw, first axis `pool_size`; None unless `reset_source` is `pool`.
    pool: Any
    stock: Stock | None = None  # Prepared first states; None unless `reset_source` is `stock`.


@dataclasses.dataclass(frozen=True)
class VectorEnv:
    """`num_envs` copies of `env` that step together; made by `make_vec`, frozen and hashable.

    `autoreset` sets when the next episode begins after an episode is done:
      same_step  in the same step: the returned obs and state are the first of the next episode;
                 `info["final_obs"]` is the last observation of the done episode (computed only if
                 the caller uses it), and `info["final_mask"]` is the mask of its legal actions,
                 present only if `env` can forbid an action;
      next_step  in the next step, which ignores its action and has reward 0;
      none       never; call `reset_rows` to restart the environments that you select.

    `reset_source` sets the source of the next episode's level:
      fresh  every step generates a level for every environment; only done environments use theirs.
             Suits levels that are very cheap to generate, on a GPU;
      exact  every step generates levels for the done environments only, `chunk` at a time. The
             levels are the same as with `fresh`, bit for bit;
      auto   `exact` on a CPU and for large batches, `fresh` otherwise. Suits cheap levels;
      pool   levels are drawn from `pool_size` prepared levels. This source is the cheapest, but
             levels repeat until you call `refresh`, for example between rollouts. `refresh`
             replaces the `refresh_size` oldest levels (by default all levels);
      stock  episodes begin in `stock_size` prepared first states, each of which is used once;
             `chunk` new states are made whenever there is room. Episodes are as independent as with
             `exact` and cost little more than with `pool`. Suits expensive levels on a GPU. The
             levels that an environment gets depend on the whole batch. If params differ between
             environments, `stock` works like `exact`; if params change, old states are discarded.
    """

    env: Env
    num_envs: int
    autoreset: str = "same_step"
    reset_source: str = "exact"
    pool_size: int = 4096
    chunk: int | None = None
    refresh_size: int | None = None
    stock_size: int | None = None

    def __post_init__(self) -> None:
        checks.integer_field("make_vec", "num_envs", self.num_envs, 1, MAX_ENVS)
        checks.integer_field("make_vec", "pool_size", self.pool_size, 1)
        if self.chunk is not None:
            checks.integer_field("make_vec", "chunk", self.chunk, 1, MAX_ENVS)
        if self.refresh_size is not None:
            checks.integer_field("make_vec", "refresh_size", self.refresh_size, 1, self.pool_size)
        if self.stock_size is not None:
            checks.integer_field("make_vec", "stock_size", self.stock_size, 1, MAX_ENVS)
            if self.reset_source == "stock" and self.chunk and self.chunk > self.stock_size:
                raise ValueError(
                    f"make_vec: chunk={self.chunk} levels are made at a time, which must fit into "
                    f"stock_size={self.stock_size}"
                )
        checks.one_of("make_vec", "autoreset", self.autoreset, AUTORESETS)
        checks.one_of("make_vec", "reset_source", self.reset_source, RESET_SOURCES)
        if self.autoreset != "none":
            advice = "leave AutoReset out, or give autoreset='none'"
            refuse_self_resetting(self.env, "make_vec", advice)
        if self.autoreset == "next_step":
            advice = (
                "needs autoreset='same_step' or 'none': with 'next_step' some environments of a "
                "batch only restart in a step, and have no values"
            )
            refuse_shared(self.env, "make_vec", advice)

    @property
    def action_space(self) -> Space:
        """Action space of the batch."""
        return batched(self.env.action_space, self.num_envs)

    @property
    def observation_space(self) -> Space:
        """Observation space of the batch."""
        return batched(self.env.observation_space, self.num_envs)

    @property
    def single_action_space(self) -> Space:
        """Action space of one environment."""
        return self.env.action_space

    @property
    def single_observation_space(self) -> Space:
        """Observation space of one environment."""
        return self.env.observation_space

    @property
    def default_params(self) -> Any:
        """Params of one environment.

        To vary a parameter over the batch, give its leaf a leading axis of `num_envs`.
        """
        return self.env.default_params

    @eager.compiled
    def reset(self, key: Keys, params: Any = None) -> Reset:
        """Start every environment. `key` is one key for the batch, or one key per environment.

        With one key for the batch, the episode of environment i depends on the key and on i, but
        not on `num_envs`.
        """
        key = self._key(key, "reset")
        params = self.checked_params(params, "reset")
        starts = self._starts(key, params)
        obs, env_state = starts.new_rows(starts.rows)
        ended = None
        if self.autoreset == "next_step":
            ended = varying_like(key.reshape(-1)[0], jnp.zeros(self.num_envs, jnp.uint8))
        pool = self._draw_pool(key, params, self.pool_size) if self.reset_source == "pool" else None
        stocked = self.reset_source == "stock" and starts.has_one_setting
        if stocked:
            stock.check_memory(self.env, self._stock_size, self._stock_chunk)
        made = self._ring(starts).filled() if stocked else None
        return Reset(obs, VectorState(env=env_state, ended=ended, pool=pool, stock=made))

    @eager.compiled
    def reset_again(self, key: Keys, state: VectorState, params: Any = None) -> Reset:
        """Start every environment as `reset` does, but keep what outlives episodes in `state`.

        Unlike `reset_rows`, it also replaces the levels that `pool` and `stock` have prepared. So
        the new episodes depend only on `key` and `params`.
        """
        self._check_rows(state, ())
        key = self._key(key, "reset_again")
        obs, new = self.reset(key, params)
        if not self.env.carries_over:
            return Reset(obs, new)
        params = self.checked_params(params, "reset_again")
        axes = self.param_axes(params)
        kept = jax.vmap(self.env.carry_over, in_axes=(0, 0, axes))(state.env, new.env, params)
        kept = as_carry(key.reshape(-1)[0], kept)  # wrappers begin some memories with constants
        obs = jax.vmap(self.env.observe, in_axes=(0, axes))(kept, params)
        return Reset(obs, new.replace(env=kept))

    @eager.compiled
    def step(
        self, key: Keys, state: VectorState, action: PyTree[Array], params: Any = None
    ) -> Step:
        """Advance every environment by its action; restart done episodes as `autoreset` says."""
        action = _arrays(self.env.action_space, action)
        self._check_rows(state, action)
        key = self._key(key, "step")
        params = self.checked_params(params, "step")
        starts = self._starts(key, params)
        axes, row_keys = starts.axes, starts.keys(STEP, starts.rows)
        over_batch = jax.vmap(self.env.step, in_axes=(0, 0, 0, axes), axis_name=BATCH)
        stepped = over_batch(row_keys, state.env, action, params)
        # The barrier keeps XLA from fusing the computation of reward, terminated and truncated into
        # each selection by `ended` below. With this fusion, each selection would read the old
        # state, so a scan would have to copy the old state before overwriting it. For DoorKey, the
        # copy takes two of fourteen kernels.
        outcome = (stepped.reward, stepped.terminated, stepped.truncated)
        reward, terminated, truncated = jax.lax.optimization_barrier(outcome)
        stepped = stepped._replace(reward=reward, terminated=terminated, truncated=truncated)
        if self.autoreset == "none":
            return stepped._replace(state=state.replace(env=stepped.state))
        if self.autoreset == "next_step":
            ended = jnp.asarray(state.ended).astype(jnp.bool_)
            stepped = _blank(stepped, ended)
            # For an environment that this step only restarts, keep the old state. In the new state,
            # the statistics of wrappers may include this step.
            if self.env.carries_over:
                stepped = stepped._replace(state=select(ended, state.env, stepped.state))
            state = state.replace(ended=stepped.done.astype(jnp.uint8))
        else:
            ended = stepped.done
            final = {"final_obs": stepped.obs}
            if has_illegal(self.env):
                masks = jax.vmap(self.env.action_mask, in_axes=(0, axes))
                final["final_mask"] = masks(stepped.state, params)
            stepped = stepped._replace(info={**stepped.info, **final})
        state = self._restart(starts, state.replace(env=stepped.state), ended)
        obs = jax.vmap(self.env.observe, in_axes=(0, axes))(state.env, params)
        return stepped._replace(obs=obs, state=state)

    @eager.compiled
    def reset_rows(
        self,
        key: Keys,
        state: VectorState,
        rows: Bool[Array, " num_envs"],
        params: Any = None,
    ) -> Reset:
        """Restart the environments where the mask `rows` is true; the others are unchanged.

        Raises `TypeError` if `rows` is no mask: `num_envs` values of dtype bool.
        """
        rows = jnp.asarray(rows)
        if rows.dtype != jnp.bool_ or rows.shape != (self.num_envs,):
            raise TypeError(
                f"reset_rows: rows must be a bool array of shape ({self.num_envs},), got "
                f"{rows.dtype} {rows.shape}"
            )
        self._check_rows(state, rows)
        key = self._key(key, "reset_rows")
        params = self.checked_params(params, "reset_rows")
        state = self._restart(self._starts(key, params), state, rows)
        if state.ended is not None:
            state = state.replace(ended=jnp.where(rows, jnp.uint8(0), state.ended))
        obs = jax.vmap(self.env.observe, in_axes=(0, self.param_axes(params)))(state.env, params)
        return Reset(obs, state)

    @eager.compiled
    def action_mask(
        self, state: VectorState, params: Any = None
    ) -> Bool[Array, "num_envs actions"]:
        """Return the mask of legal actions of each environment; true: legal."""
        params = self.checked_params(params, "action_mask")
        mask = jax.vmap(self.env.action_mask, in_axes=(0, self.param_axes(params)))
        return mask(state.env, params)

    def refresh(self, key: Keys, state: VectorState, params: Any = None) -> VectorState:
        """Replace the `refresh_size` oldest levels of the pool (None: all levels) by new ones.

        Returns the state unchanged if `reset_source` is not `pool`.
        """
        return self._refreshed(key, state, params) if self.reset_source == "pool" else state

    @eager.compiled
    def _refreshed(self, key: Keys, state: VectorState, params: Any) -> VectorState:
        params = self.checked_params(params, "refresh")
        count = self.pool_size if self.refresh_size is None else self.refresh_size
        drawn = self._draw_pool(self._key(key, "refresh"), params, count)
        if count == self.pool_size:
            return state.replace(pool=drawn)

        def queued(old: Array, new: Array) -> Array:
            return jnp.concatenate([old[count:], new])

        return state.replace(pool=jax.tree.map(queued, state.pool, drawn))

    def _starts(self, key: Keys, params: Any) -> Starts:
        return Starts(self.env, self.num_envs, key, params)

    def _restart(self, starts: Starts, state: VectorState, ended: Array) -> VectorState:
        """Begin a new episode in each environment where `ended` is true.

        Then apply `env.carry_over`, which copies statistics of the old episode into the new state.
        """
        begun = self._begun(starts, state, ended)
        if not self.env.carries_over:
            return begun
        carry = jax.vmap(self.env.carry_over, in_axes=(0, 0, starts.axes))
        kept = carry(state.env, begun.env, starts.params)
        return begun.replace(env=select(ended, kept, begun.env))

    def _begun(self, starts: Starts, state: VectorState, ended: Array) -> VectorState:
        """Begin new episodes where `ended` is true, with levels or states from `reset_source`."""
        source, rows = self.reset_source, state.env
        if source == "stock" and state.stock is not None and starts.has_one_setting:
            rows, left = self._ring(starts).restart(state.stock, rows, ended)
            return state.replace(env=rows, stock=left)
        if source == "pool":
            return state.replace(env=reset_sources.pool(starts, state.pool, rows, ended))
        if source in ("exact", "stock"):
            chunk = self.chunk if source == "exact" else None
            return state.replace(env=reset_sources.exact(starts, rows, ended, chunk))
        restart = reset_sources.fresh if source == "fresh" else reset_sources.auto
        return state.replace(env=restart(starts, rows, ended))

    def _ring(self, starts: Starts) -> stock.Ring:
        return stock.Ring(starts, self._stock_size, self._stock_chunk)

    @property
    def _stock_size(self) -> int:
        return self.stock_size or stock.usual_size(self._stock_chunk, self.num_envs)

    @property
    def _stock_chunk(self) -> int:
        chunk = self.chunk or stock.usual_chunk(self.env, self.num_envs)
        return min(chunk, self.stock_size or chunk)

    def _draw_pool(self, key: Keys, params: Any, count: int) -> Any:
        """Draw `count` levels for the pool, from which all environments draw at their resets."""
        if any(axis is not None for axis in jax.tree.leaves(self.param_axes(params))):
            raise ValueError(
                "make_vec: environments share the levels of a pool, so they need the same params; "
                "with batched params use reset_source='exact' or 'fresh'"
            )
        pool_key = jax.random.fold_in(key.reshape(-1)[0], POOL << PURPOSE_SHIFT)
        keys = jax.random.split(pool_key, count)
        draw = functools.partial(self.env.sample_level, params=params)
        if self.env.levels_at_once:
            return jax.lax.map(draw, keys, batch_size=self.env.levels_at_once)
        return jax.vmap(draw)(keys)

    def _key(self, key: Keys, where: str) -> Keys:
        key = checks.any_key(key, where)
        if key.shape not in ((), (self.num_envs,)):
            raise TypeError(
                f"{where}: give one key, or {self.num_envs} keys (one for each environment); got a "
                f"batch of shape {key.shape}"
            )
        return key

    def param_axes(self, params: Any) -> Any:
        """Return `vmap` axes of `params`: 0 for leaves with a value per environment, else None."""
        return param_axes(self.env, params)

    def checked_params(self, params: Any, where: str) -> Any:
        """Return `params`, or the default params if None.

        Raises `TypeError` if the structure is wrong or a batched leaf does not have `num_envs`
        values.
        """
        if params is None:
            params = self.env.default_params
        if jax.tree.structure(params) != jax.tree.structure(self.env.default_params):
            # raises TypeError, because the structures differ
            self.env.checked_params(params, where)
        axes = self.param_axes(params)
        rows = jax.tree.map(lambda leaf, axis: axis if axis is None else len(leaf), params, axes)
        for count in jax.tree.leaves(rows):
            if count != self.num_envs:
                raise TypeError(
                    f"{where}: a batched leaf of params has {count} values, this batch has "
                    f"{self.num_envs}"
                )
        return params

    def _check_rows(self, state: Any, rows: PyTree[Array]) -> None:
        """Raise `TypeError` unless the arrays of `state` and `rows` have `num_envs` rows."""
        if not isinstance(state, VectorState):
            kind = type(state).__name__
            raise TypeError(f"the state must come from this batch's reset or step, got {kind}")
        for name, tree in (("state", state.env), ("action or mask", rows)):
            for leaf in jax.tree.leaves(tree):
                if jnp.ndim(leaf) < 1 or jnp.shape(leaf)[0] != self.num_envs:
                    raise TypeError(
                        f"this batch has {self.num_envs} environments: the {name} needs that as "
                        f"its first axis, got shape {jnp.shape(leaf)}"
                    )


def make_vec(
    env: Env | str,
    num_envs: int,
    *,
    autoreset: str = "same_step",
    reset_source: str | None = None,
    pool_size: int = 4096,
    chunk: int | None = None,
    refresh_size: int | None = None,
    stock_size: int | None = None,
    **fields: Any,
) -> VectorEnv:
    """Return `num_envs` copies of an environment that step together.

    `env` is an environment or an id. `fields` are constructor fields and params for `make`, allowed
    only with an id. `VectorEnv` explains the other arguments. If `reset_source` is None, the
    default of the environment is used, except in one case: on an accelerator, `stock` replaces a
    default of `exact` if episodes restart by themselves. Raises the errors of `make`, and
    `ValueError` for an unknown `autoreset` or `reset_source`.
    """
    if isinstance(env, str):
        env = make(env, **fields)
    elif not isinstance(env, Env):
        kind = type(env).__name__
        raise TypeError(f"make_vec: needs an id or an environment of make(), got {kind} {env!r}")
    elif fields:
        raise TypeError(f"make_vec: fields {sorted(fields)} belong to make(); give them with an id")
    source = reset_source
    if source is None:  # with `autoreset="none"`, the environment's own default is used
        source = env.reset_source if autoreset == "none" else usual_source(env)
    return VectorEnv(env, num_envs, autoreset, source, pool_size, chunk, refresh_size, stock_size)


def usual_source(env: Env) -> str:
    """Return the default reset source of a batch that restarts by itself.

    It is the environment's own default, but on an accelerator `stock` replaces `exact`.
    """
    expensive = env.reset_source == "exact"
    return "stock" if expensive and has_accelerator() else env.reset_source


def over_rows(function: Callable[..., Any], axes: Any, rows: int) -> Callable[..., Any]:
    """Return `function` mapped by `jax.vmap` over the first axis (length `rows`) of its inputs.

    If `rows` is 1, remove this axis, call `function` and add the axis again: without a batch axis,
    XLA compiles in half the time.
    """
    if rows != 1:
        return jax.vmap(function, axes)

    def row_of(axis: int | None, part: Any) -> Any:
        return part if axis is None else jax.tree.map(lambda leaf: leaf[0], part)

    def run(*arguments: Any) -> Any:
        one = jax.tree.map(row_of, axes, arguments, is_leaf=lambda axis: axis is None)
        return jax.tree.map(lambda leaf: leaf[None], function(*one))

    return run


def _arrays(space: Space, action: Any) -> Any:
    """Convert an action to arrays, also lists and tuples, which JAX would treat as pytrees.

    Raises `TypeError` for integers that JAX would wrap to 32 bits.
    """

    if isinstance(space, Dict) and isinstance(action, Mapping):
        parts = space.spaces
        return {k: _arrays(parts[k], v) if k in parts else v for k, v in action.items()}

    def is_list(part: Any) -> bool:
        return isinstance(part, (list, tuple))

    def convert(part: Any) -> Array:
        if is_list(part):
            has_arrays = any(isinstance(it, jax.Array) for it in jax.tree.leaves(part))
            part = jnp.asarray(part) if has_arrays else np.asarray(part)
        return checks.as_array(space, part)

    return jax.tree.map(convert, action, is_leaf=is_list)


def _blank(stepped: Step, ended: Bool[Array, " num_envs"]) -> Step:
    """Clear reward, end flags and info of the environments where `ended` is true.

    This step only restarts these environments. Their reward and all entries of their info become
    zero; `terminated` and `truncated` become false.
    """

    def zero(leaf: Array) -> Array:
        return jnp.where(along(ended, leaf), jnp.zeros_like(leaf), leaf)

    return stepped._replace(
        reward=zero(stepped.reward),
        terminated=zero(stepped.terminated),
        truncated=zero(stepped.truncated),
        info=jax.tree.map(zero, stepped.info),
    )
