"""Batches of one environment with auto-reset, as pure functions over a leading axis."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree, UInt8

from . import checks, eager, random
from .env import ROWS_PER_LANE, Env, Reset, Step
from .masking import has_illegal
from .platforms import by_platform
from .random import Keys
from .registry import make
from .struct import Struct, struct

AUTORESETS = ("same_step", "next_step", "none")
RESET_SOURCES = ("fresh", "exact", "auto", "pool")
STEP, RESET, LEVEL, POOL = range(4)  # purposes of keys
_PURPOSE_SHIFT = 28  # keys are folded with a number: purpose in the high bits, row in the low
MAX_ENVS = 1 << _PURPOSE_SHIFT


@struct
class VectorState(Struct):
    """State of a batch: every leaf of `env` has the batch as its first axis."""

    env: Any
    ended: UInt8[Array, " num_envs"] | None  # next_step: the previous step ended the episode
    pool: Any  # pool: prepared levels, first axis of length pool_size


@dataclasses.dataclass(frozen=True)
class VectorEnv:
    """`num_envs` copies of `env` that step together; made by `make_vec`, frozen and hashable.

    `autoreset` says when the successor of an ended episode begins:
      same_step  in the step that ended it: obs and state are the next episode's first, and
                 `info["final_obs"]` is the true successor (computed only if it is read), and
                 `info["final_mask"]` its legal actions, where `env` ever forbids one;
      next_step  in the step after, which ignores its action and has reward 0;
      none       never; call `reset_rows` for the environments that should start again.

    `reset_source` says where its level comes from:
      fresh  every step generates a level for every environment: for tiny levels on a GPU;
      exact  levels are generated for ended episodes only, `chunk` at a time: the same levels as
             with `fresh`, bit for bit;
      auto   `exact` on a CPU, `fresh` elsewhere: for levels that are cheap to make;
      pool   levels are drawn from `pool_size` prepared ones: the cheapest, but they repeat until
             `refresh` (between rollouts, say) replaces the `refresh_size` oldest; by default
             all.
    """

    env: Env
    num_envs: int
    autoreset: str = "same_step"
    reset_source: str = "exact"
    pool_size: int = 4096
    chunk: int | None = None
    refresh_size: int | None = None

    def __post_init__(self) -> None:
        checks.integer_field("make_vec", "num_envs", self.num_envs, 1, MAX_ENVS)
        checks.integer_field("make_vec", "pool_size", self.pool_size, 1)
        if self.chunk is not None:
            checks.integer_field("make_vec", "chunk", self.chunk, 1)
        if self.refresh_size is not None:
            checks.integer_field("make_vec", "refresh_size", self.refresh_size, 1, self.pool_size)
        checks.one_of("make_vec", "autoreset", self.autoreset, AUTORESETS)
        checks.one_of("make_vec", "reset_source", self.reset_source, RESET_SOURCES)

    @property
    def default_params(self) -> Any:
        """Numbers of one environment; any leaf may be given a leading axis of `num_envs`."""
        return self.env.default_params

    @eager.compiled
    def reset(self, key: Keys, params: Any = None) -> Reset:
        """Start every environment; `key` is one key, or one for each environment.

        Environment i depends on the key and on i, not on `num_envs`.
        """
        key = self._key(key, "reset")
        params = self.checked_params(params, "reset")
        obs, env_state = self._new_rows(key, self._rows, params)
        ended = jnp.zeros(self.num_envs, jnp.uint8) if self.autoreset == "next_step" else None
        pool = self._draw_pool(key, params, self.pool_size) if self.reset_source == "pool" else None
        return Reset(obs, VectorState(env=env_state, ended=ended, pool=pool))

    @eager.compiled
    def step(
        self, key: Keys, state: VectorState, action: PyTree[Array], params: Any = None
    ) -> Step:
        """Advance every environment by its action; restart those whose episode ended."""
        self._check_rows(state, action)
        key = self._key(key, "step")
        params = self.checked_params(params, "step")
        axes = self.param_axes(params)
        row_keys = self._row_keys(key, STEP, self._rows)
        stepped = jax.vmap(self.env.step, in_axes=(0, 0, 0, axes))(
            row_keys, state.env, action, params
        )
        # Made once, as data: otherwise each selection reads the old state again, and a scan must
        # then copy the state before it is overwritten (two kernels of fourteen in DoorKey).
        outcome = (stepped.reward, stepped.terminated, stepped.truncated)
        reward, terminated, truncated = jax.lax.optimization_barrier(outcome)
        stepped = stepped._replace(reward=reward, terminated=terminated, truncated=truncated)
        if self.autoreset == "none":
            return stepped._replace(state=state.replace(env=stepped.state))
        if self.autoreset == "next_step":
            ended = jnp.asarray(state.ended).astype(jnp.bool_)
            stepped = _blank(stepped, ended)
            state = state.replace(ended=stepped.done.astype(jnp.uint8))
        else:
            ended = stepped.done
            final = {"final_obs": stepped.obs}
            if has_illegal(self.env):
                masks = jax.vmap(self.env.action_mask, in_axes=(0, axes))
                final["final_mask"] = masks(stepped.state, params)
            stepped = stepped._replace(info={**stepped.info, **final})
        after = self._restart(key, state.pool, stepped.state, ended, params)
        obs = jax.vmap(self.env.observe, in_axes=(0, axes))(after, params)
        return stepped._replace(obs=obs, state=state.replace(env=after))

    @eager.compiled
    def reset_rows(
        self,
        key: Keys,
        state: VectorState,
        rows: Bool[Array, " num_envs"],
        params: Any = None,
    ) -> Reset:
        """Restart the environments of the mask and leave the others as they are."""
        self._check_rows(state, rows)
        key = self._key(key, "reset_rows")
        params = self.checked_params(params, "reset_rows")
        after = self._restart(key, state.pool, state.env, rows, params)
        if state.ended is not None:
            state = state.replace(ended=jnp.where(rows, jnp.uint8(0), state.ended))
        obs = jax.vmap(self.env.observe, in_axes=(0, self.param_axes(params)))(after, params)
        return Reset(obs, state.replace(env=after))

    @eager.compiled
    def action_mask(
        self, state: VectorState, params: Any = None
    ) -> Bool[Array, "num_envs actions"]:
        """Tell which actions are legal in each environment."""
        params = self.checked_params(params, "action_mask")
        mask = jax.vmap(self.env.action_mask, in_axes=(0, self.param_axes(params)))
        return mask(state.env, params)

    def refresh(self, key: Keys, state: VectorState, params: Any = None) -> VectorState:
        """Draw `refresh_size` levels of the pool anew, the oldest first, or all of them.

        With another reset source there is nothing to do.
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

    def _restart(self, key: Keys, pool: Any, env_state: Any, ended: Array, params: Any) -> Any:
        """Return `env_state` with a new episode in each row that ended."""
        how = {
            "exact": self._restart_in_chunks,
            "fresh": self._restart_by_selection,
            "pool": functools.partial(self._restart_from_pool, pool),
            "auto": self._restart_as_the_platform_likes,
        }[self.reset_source]
        return how(key, env_state, ended, params)

    def _restart_as_the_platform_likes(
        self, key: Keys, env_state: Any, ended: Array, params: Any
    ) -> Any:
        """On a CPU work counts, elsewhere kernels; the result is the same."""
        return by_platform(
            key,
            env_state,
            ended,
            params,
            cpu=self._restart_in_chunks,
            default=self._restart_by_selection,
        )

    def _restart_by_selection(self, key: Keys, env_state: Any, ended: Array, params: Any) -> Any:
        """Generate a level for every row, and use it where the row ended."""
        new = self._new_rows(key, self._rows, params).state
        return _select(ended, new, env_state)

    def _restart_from_pool(
        self, pool: Any, key: Keys, env_state: Any, ended: Array, params: Any
    ) -> Any:
        """Give each ended row one of the prepared levels."""
        rows = self._rows
        counters = rows if key.ndim == 0 else jnp.full_like(rows, LEVEL)
        picked = random.below(random.hashed(key, counters), self.pool_size)
        levels = jax.tree.map(lambda leaf: leaf[picked], pool)
        return _select(ended, self._begin(key, rows, levels, params).state, env_state)

    def _restart_in_chunks(self, key: Keys, env_state: Any, ended: Array, params: Any) -> Any:
        """Generate levels for the ended rows only, in chunks. The default chunk suits the platform:
        on a CPU an idle lane costs its work, elsewhere each trip costs its kernels."""
        batch = (key, env_state, ended, params)
        if self.chunk:
            return self._restart_ended_rows(self.chunk, *batch)
        wide, narrow = (
            functools.partial(self._restart_ended_rows, max(1, max(512, self.num_envs) // rows))
            for rows in (ROWS_PER_LANE, self.env.rows_per_lane)
        )
        if self.env.rows_per_lane == ROWS_PER_LANE:
            return wide(*batch)
        return by_platform(*batch, cpu=narrow, default=wide)

    def _restart_ended_rows(
        self, lanes: int, key: Keys, env_state: Any, ended: Array, params: Any
    ) -> Any:
        """Generate levels for the ended rows only, in chunks, and write those rows in place.

        Lane `lane` serves the rows `group * chunk + lane`, so a trip of the loop finds its rows by
        a maximum over the groups, without a sort or a prefix sum over the batch.
        """
        lanes = min(lanes, self.num_envs)
        groups = -(-self.num_envs // lanes)
        pending = jnp.pad(ended.astype(jnp.uint8), (0, groups * lanes - self.num_envs))
        pending = pending.reshape(groups, lanes)
        order = jnp.arange(groups, 0, -1, dtype=jnp.int32)[:, None]  # first group counts most

        def serve(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
            env_state, pending, number = carry
            first = groups - jnp.where(pending != 0, order, 0).max(axis=0)
            # A lane with no row left writes beyond the last row, which drops the write.
            rows = jnp.minimum(first * lanes + np.arange(lanes, dtype=np.int32), self.num_envs)
            chosen = self._params_of(params, rows)
            new, accepted = self._candidates(key, rows, number, chosen)
            env_state = jax.tree.map(
                lambda leaf, world: leaf.at[jnp.where(accepted, rows, self.num_envs)].set(
                    world, mode="drop"
                ),
                env_state,
                new,
            )
            served = (jnp.arange(groups, dtype=jnp.int32)[:, None] == first) & accepted
            # A lane whose level was not accepted stays at its row and draws the next one.
            number = jnp.where(accepted, 0, number + 1)
            return env_state, jnp.where(served, jnp.uint8(0), pending), number

        number = jnp.zeros_like(pending[0], jnp.int32)
        start = (env_state, pending, number)
        if self.env.level_budget > 1:
            return jax.lax.while_loop(lambda carry: (carry[1] != 0).any(), serve, start)[0]
        trips = pending.sum(axis=0, dtype=jnp.int32).max()
        return jax.lax.fori_loop(0, trips, lambda _, carry: serve(carry), start)[0]

    def _candidates(
        self, key: Keys, rows: Array, number: Array, params: Any
    ) -> tuple[Any, Bool[Array, " rows"]]:
        """Initial states for candidate level `number` of each row, and which are accepted.

        The last level of the budget is always accepted.
        """
        axes = self.param_axes(params)
        levels = jax.vmap(self.env.candidate, in_axes=(0, 0, axes))(
            self._row_keys(key, LEVEL, rows), number, params
        )
        new = self._begin(key, rows, levels, params).state
        if self.env.level_budget == 1:
            return new, jnp.ones(rows.shape, jnp.bool_)
        last = number + 1 >= self.env.level_budget
        return new, jax.vmap(self.env.accepts)(levels) | last

    @property
    def _rows(self) -> Int32[Array, " num_envs"]:
        return jnp.arange(self.num_envs, dtype=jnp.int32)

    def _new_rows(self, key: Keys, rows: Int32[Array, " rows"], params: Any) -> Reset:
        """Start an episode for each of the given rows, each in a fresh level."""
        count, size = rows.shape[0], self.env.levels_at_once or rows.shape[0]

        def begin(rows: Int32[Array, " rows"]) -> Reset:
            chosen = self._params_of(params, rows)
            draw = jax.vmap(self.env.sample_level, in_axes=(0, self.param_axes(params)))
            return self._begin(key, rows, draw(self._row_keys(key, LEVEL, rows), chosen), chosen)

        if count <= size:
            return begin(rows)
        groups = -(-count // size)  # the last one is filled up with the last row
        groups = rows[np.minimum(np.arange(groups * size), count - 1).reshape(groups, size)]
        begun = jax.lax.map(begin, groups)
        # Not by `batch_size`, which refuses arrays without elements.
        return jax.tree.map(lambda x: x.reshape(groups.size, *x.shape[2:])[:count], begun)

    def _begin(self, key: Keys, rows: Int32[Array, " rows"], levels: Any, params: Any) -> Reset:
        """Start an episode in the given level of each of the given rows."""
        return jax.vmap(self.env.reset_to, in_axes=(0, 0, self.param_axes(params)))(
            self._row_keys(key, RESET, rows), levels, params
        )

    def _draw_pool(self, key: Keys, params: Any, count: int) -> Any:
        """Draw levels that ended rows will share."""
        if any(axis is not None for axis in jax.tree.leaves(self.param_axes(params))):
            raise ValueError(
                "make_vec: environments share the levels of a pool, so they need the same params; "
                "with batched params use reset_source='exact' or 'fresh'"
            )
        pool_key = jax.random.fold_in(key.reshape(-1)[0], POOL << _PURPOSE_SHIFT)
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

    @staticmethod
    def _row_keys(key: Keys, purpose: int, rows: Int32[Array, " rows"]) -> Keys:
        """Keys of the given rows: from the row's number, or from one key for each row."""
        if key.ndim == 0:  # one fold for both numbers: each is a threefry, a kernel or two
            numbers = rows.astype(jnp.uint32) | jnp.uint32(purpose << _PURPOSE_SHIFT)
            return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)
        return jax.vmap(jax.random.fold_in, in_axes=(0, None))(key[rows], purpose)

    def _params_of(self, params: Any, rows: Array) -> Any:
        """Params of the given rows, or of one row."""
        return jax.tree.map(
            lambda leaf, axis: leaf if axis is None else jnp.asarray(leaf)[rows],
            params,
            self.param_axes(params),
        )

    def param_axes(self, params: Any) -> Any:
        """0 for leaves of `params` that have a value for each environment, None for the others."""
        return param_axes(self.env, params)

    def checked_params(self, params: Any, where: str) -> Any:
        """Return the params, or the defaults, checked against `num_envs`."""
        if params is None:
            params = self.env.default_params
        if jax.tree.structure(params) != jax.tree.structure(self.env.default_params):
            self.env.checked_params(params, where)  # raises
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
        """The batch axes of the state and of the action (or the mask) must be this batch's."""
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
    **fields: Any,
) -> VectorEnv:
    """Return `num_envs` copies of an environment (or of an id, with its fields) that step together.

    `reset_source` defaults to what the environment's spec names. Raises as `make` does, and
    `ValueError` for an unknown mode or source.
    """
    if isinstance(env, str):
        env = make(env, **fields)
    elif not isinstance(env, Env):
        kind = type(env).__name__
        raise TypeError(f"make_vec: needs an id or an environment of make(), got {kind} {env!r}")
    elif fields:
        raise TypeError(f"make_vec: fields {sorted(fields)} belong to make(); give them with an id")
    source = env.reset_source if reset_source is None else reset_source
    return VectorEnv(env, num_envs, autoreset, source, pool_size, chunk, refresh_size)


def param_axes(env: Env, params: Any) -> Any:
    """0 for leaves of `params` with one axis more than the defaults have, None for the others."""

    def axis(leaf: Any, default: Any) -> int | None:
        return 0 if jnp.ndim(leaf) == jnp.ndim(default) + 1 else None

    return jax.tree.map(axis, params, env.default_params)


def over_rows(function: Callable[..., Any], axes: Any, rows: int) -> Callable[..., Any]:
    """Like `jax.vmap`, but a single row is compiled without a batch axis, in half the time."""
    if rows != 1:
        return jax.vmap(function, axes)

    def row_of(axis: int | None, part: Any) -> Any:
        return part if axis is None else jax.tree.map(lambda leaf: leaf[0], part)

    def run(*arguments: Any) -> Any:
        one = jax.tree.map(row_of, axes, arguments, is_leaf=lambda axis: axis is None)
        return jax.tree.map(lambda leaf: leaf[None], function(*one))

    return run


def _select(mask: Array, new: Any, old: Any) -> Any:
    """Take the rows of the mask from `new`, the others from `old`."""
    return jax.tree.map(lambda a, b: jnp.where(_along(mask, a), a, b), new, old)


def _along(mask: Array, leaf: Array) -> Array:
    """Reshape a mask over rows so that it broadcasts along `leaf`."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def _blank(stepped: Step, ended: Bool[Array, " num_envs"]) -> Step:
    """Undo the step of rows that only begin anew: no reward, no end, empty info."""

    def zero(leaf: Array) -> Array:
        return jnp.where(_along(ended, leaf), jnp.zeros_like(leaf), leaf)

    return stepped._replace(
        reward=zero(stepped.reward),
        terminated=zero(stepped.terminated),
        truncated=zero(stepped.truncated),
        info=jax.tree.map(zero, stepped.info),
    )
