"""`to_gymnasium_vec`: a batch of one environment as a `gymnasium.vector.VectorEnv`.

The batch supports all three autoreset modes. Environment i of a batch with seed s behaves as
`to_gymnasium` with seed s + i. Infos have the format of `gymnasium.vector.SyncVectorEnv`. There are
two deliberate differences from `SyncVectorEnv`. First, `options` are not modified. Second, without
autoreset, a step after the end of an episode raises an error that names the environments.
"""

import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, UInt8

from ..core import checks, drawing
from ..core.env import Env
from ..core.masking import has_illegal
from ..core.random import Keys
from ..core.vector import VectorEnv, make_vec
from . import common
from .gymnasium import (
    MASK,
    Seen,
    can_render,
    checked_render_mode,
    draw_words,
    keys_of,
    metadata_of,
    on_host,
    refuse_options,
)
from .spaces import gymnasium_space

MODES = {
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.DISABLED: "none",
}
# Entries of `make_vec`'s info that are removed; `_final` adds entries in Gymnasium's form instead.
FINAL = ("final_obs", "final_mask")
Mask = Bool[np.ndarray, " num_envs"]


class GymnasiumVectorEnv(common.Adapter, gymnasium.vector.VectorEnv):
    """Gymnasium's `VectorEnv`, made by `to_gymnasium_vec` or `gymnasium.make_vec`."""

    MADE_BY = "to_gymnasium_vec"  # name of the function that error messages mention

    def __init__(
        self,
        env: Env | str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        params: Any = None,
        reset_source: str | None = None,
        render_mode: str | None = None,
        render_tile_size: int = 16,
        **fields: Any,
    ) -> None:
        """Make the batch from the arguments of `to_gymnasium_vec`."""
        where = self.MADE_BY
        self.jaxenv = common.environment(env, fields, where)
        # TorchRL reads the attribute `autoreset_mode`, which Gymnasium's own batches have.
        self.mode = self.autoreset_mode = _mode(autoreset_mode, where)
        # Not the default of `make_vec`, which may be `stock` on an accelerator. With `stock`, an
        # episode depends on the other environments' episodes, not only on its own seed.
        source = reset_source or self.jaxenv.reset_source
        self.venv = make_vec(self.jaxenv, num_envs, autoreset=MODES[self.mode], reset_source=source)
        self.params = common.host_params(self.jaxenv, params, where, self.venv)
        self.num_envs = num_envs
        self.render_mode = checked_render_mode(self.jaxenv, render_mode, render_tile_size, where)
        self.metadata = {**metadata_of(self.jaxenv), "autoreset_mode": self.mode}
        self.single_observation_space = gymnasium_space(self.jaxenv.observation_space)
        self.single_action_space = gymnasium_space(self.jaxenv.action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._tile_size = render_tile_size
        self._compile()
        self._keys: Array | None = None
        # Per environment: the number that is folded into its key (see `GymnasiumEnv._number`),
        # whether it has made no step since its reset, and whether its episode has ended.
        self._numbers = np.zeros(num_envs, np.uint32)
        self._fresh = np.ones(num_envs, np.bool_)
        self._over = np.zeros(num_envs, np.bool_)
        self._state: Any = None

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment, or in those that `options["reset_mask"]` selects.

        Environment i gets the seed `seed + i`, or `seed[i]` if `seed` is a list. An environment
        whose seed is None continues its sequence of random numbers. Returns the observations and
        the infos, as in Gymnasium.
        """
        refuse_options(options, ("reset_mask",))
        rows = self._rows_of(options)
        seeded = self._seed(seed, rows)
        self._numbers = np.where(seeded, 0, self._numbers + (rows & self._fresh & ~seeded))
        self._numbers = self._numbers.astype(np.uint32)
        self._fresh |= rows
        self._over &= ~rows
        where = (self._keys, self._numbers)
        self.params = jax.device_put(self.params)
        if self._state is None or (rows.all() and (seeded.all() or not self.jaxenv.carries_over)):
            # Without statistics to keep, None: a state as input would compile `reset` once more.
            old = self._state if self.jaxenv.carries_over else None
            self._state, seen = self._reset(*where, self.params, old)
        else:
            self._state, seen = self._reset_rows(*where, self._state, rows, self.params)
        obs, mask = jax.device_get(seen)
        info = {} if mask is None else gathered({MASK: mask}, rows)
        return on_host(self.observation_space, obs), info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, Mask, Mask, dict[str, Any]]:
        """Advance every environment by its action; return the results, as in Gymnasium.

        Raises `InvalidAction` for an invalid action.
        """
        # Mask of environments that only restart in this step.
        begins = self._over & (self.mode is AutoresetMode.NEXT_STEP)
        seen, done, final_obs = self.advance(actions, begins)
        info = gathered(seen.info, ~(begins | self._fresh))
        if seen.mask is not None:
            info |= gathered({MASK: seen.mask}, self._fresh | ~done)
        if self.mode is AutoresetMode.SAME_STEP:
            info |= self._final(done, final_obs, seen.info)
        obs = on_host(self.observation_space, seen.obs)
        return (
            obs,
            np.asarray(seen.reward, np.float64),
            np.array(seen.terminated),
            np.array(seen.truncated),
            info,
        )

    def advance(self, actions: Any, begins: Mask | None = None) -> tuple[Seen, Mask, Any]:
        """Advance the environments; those where the mask `begins` is true only restart.

        Returns the results on the host, the mask of done episodes, and `final_obs`. In the mode
        SAME_STEP, `final_obs` has the observations before done episodes restart, still on the
        device. In other modes, `final_obs` is None.
        """
        self._ready()
        invalid = gymnasium.error.InvalidAction
        action = common.taken(self.jaxenv.action_space, actions, self.num_envs, invalid)
        begins = np.zeros(self.num_envs, np.bool_) if begins is None else begins
        self._numbers = self._numbers + (~begins).astype(np.uint32)
        self._state, seen, final_obs = self._step(
            self._keys, self._numbers, self._state, action, self.params
        )
        seen = jax.device_get(seen)
        done = seen.terminated | seen.truncated
        self._over = done & (self.mode is not AutoresetMode.SAME_STEP)
        self._fresh = done if self.mode is AutoresetMode.SAME_STEP else begins
        return seen, done, final_obs

    def render(self) -> tuple[UInt8[np.ndarray, "height width 3"], ...] | None:
        """Return a picture of each environment if `render_mode` is "rgb_array".

        Otherwise warn and return None.
        """
        if not can_render(self.render_mode, self._state):
            return None
        paint = drawing.painter(self.jaxenv, self._tile_size, batched=True)
        return tuple(np.array(paint(self._state.env, self.params)))

    def _compile(self) -> None:
        self._reset, self._reset_rows, self._step = compiled(self.venv)

    def _rows_of(self, options: dict[str, Any] | None) -> Mask:
        """Return the mask of environments to reset, from the options of `reset`."""
        if not options:
            return np.ones(self.num_envs, np.bool_)
        rows = options["reset_mask"]
        good = isinstance(rows, np.ndarray) and rows.dtype == np.bool_
        if not good or rows.shape != (self.num_envs,) or not rows.any():
            raise ValueError(
                "reset: options['reset_mask'] must be a NumPy array of bools with shape "
                f"({self.num_envs},) and at least one True, got {rows!r}"
            )
        if self._state is None and not rows.all():
            raise gymnasium.error.ResetNeeded(
                "reset: reset all environments once before resetting some of them"
            )
        return rows

    def _seed(self, seed: int | list[int | None] | None, rows: Mask) -> Mask:
        """Set new keys for the environments that have a seed; the first call sets all keys.

        `rows` is the mask of environments that are reset. Returns the mask of environments with new
        keys.
        """
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None] * self.num_envs if seed is None else seed
        if not isinstance(seeds, (list, tuple)) or len(seeds) != self.num_envs:
            raise ValueError(
                f"reset: seed must be None, a number or a list of {self.num_envs} of them, one for "
                f"each environment, got {seed!r}"
            )
        seeded = rows & np.array([one is not None for one in seeds])
        if self._keys is not None and not seeded.any():
            return seeded
        if self._keys is None:
            words, changed = draw_words(self.np_random, self.num_envs), np.ones_like(seeded)
        else:
            words, changed = np.array(jax.random.key_data(self._keys)), seeded
        for i in np.flatnonzero(seeded):
            words[i] = draw_words(seeding.np_random(seeds[i])[0])
        self._keys = keys_of(words)
        return changed

    def _ready(self) -> None:
        """Raise `ResetNeeded` if an environment has no episode that a step can continue."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("step: no episode has begun; call reset() first")
        if self.mode is AutoresetMode.DISABLED and self._over.any():
            rows = np.flatnonzero(self._over).tolist()
            raise gymnasium.error.ResetNeeded(
                f"step: the episode of each environment in {rows} has ended; call "
                'reset(options={"reset_mask": terminated | truncated})'
            )

    def _final(self, done: Mask, final_obs: Any, info: dict[str, Any]) -> dict[str, Any]:
        """Return the entries `final_obs` and `final_info` of done episodes in Gymnasium's form."""
        if not done.any():
            return {}
        last = on_host(self.observation_space, jax.device_get(final_obs))
        ended = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(done).tolist():
            ended[i] = row_of(self.single_observation_space, last, i)
        return {
            "final_obs": ended,
            "_final_obs": done.copy(),
            "final_info": gathered(info, done),
            "_final_info": done.copy(),
        }


def to_gymnasium_vec(
    env: Env | str,
    num_envs: int,
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    params: Any = None,
    reset_source: str | None = None,
    render_mode: str | None = None,
    render_tile_size: int = 16,
    **fields: Any,
) -> GymnasiumVectorEnv:
    """Return `num_envs` copies of an environment as a `gymnasium.vector.VectorEnv`.

    `autoreset_mode` is one of Gymnasium's modes, NEXT_STEP by default. Leaves of `params` may have
    a leading axis of `num_envs`. `reset_source` is explained in `VectorEnv`; None is the
    environment's own default. `stock` is faster on an accelerator, but a seed of some of the
    environments then does not determine their episodes. If `env` is an id, `fields` are passed to
    `jaxenvs.make`. Raises the errors of `make_vec`.
    """
    return GymnasiumVectorEnv(
        env,
        num_envs,
        autoreset_mode=autoreset_mode,
        params=params,
        reset_source=reset_source,
        render_mode=render_mode,
        render_tile_size=render_tile_size,
        **fields,
    )


@functools.lru_cache(maxsize=64)
def compiled(venv: VectorEnv) -> tuple[Any, Any, Any]:
    """Return jitted `reset`, `reset_rows` and `step`, which all adapters of equal batches share."""
    folded = jax.vmap(jax.random.fold_in)  # folds each environment's step number into its key

    def mask(state: Any, params: Any) -> Array | None:
        if not has_illegal(venv.env):
            return None
        return venv.action_mask(state, params).astype(jnp.int8)

    def reset(keys: Keys, numbers: Array, params: Any, old: Any) -> tuple[Any, Any]:
        key = folded(keys, numbers)
        begun = venv.reset(key, params) if old is None else venv.reset_again(key, old, params)
        return begun.state, (begun.obs, mask(begun.state, params))

    def reset_rows(
        keys: Keys, numbers: Array, state: Any, rows: Array, params: Any
    ) -> tuple[Any, Any]:
        obs, state = venv.reset_rows(folded(keys, numbers), state, rows, params)
        return state, (obs, mask(state, params))

    def step(
        keys: Keys, numbers: Array, state: Any, action: Any, params: Any
    ) -> tuple[Any, Seen, Any]:
        stepped = venv.step(folded(keys, numbers), state, action, params)
        obs, state, reward, terminated, truncated, info = stepped
        final_obs = info.get("final_obs") if venv.autoreset == "same_step" else None
        info = {name: value for name, value in info.items() if name not in FINAL}
        seen = Seen(obs, reward, terminated, truncated, info, mask(state, params))
        return state, seen, final_obs

    return jax.jit(reset), jax.jit(reset_rows), jax.jit(step)


def gathered(info: dict[str, Any], rows: Mask) -> dict[str, Any]:
    """Return the info of a batch in the format of Gymnasium's vector environments.

    `rows` is the mask of environments whose values are valid. The values of all other environments
    become zero. For each entry `name`, the result also has an entry `_name`, a copy of `rows`.
    """
    found: dict[str, Any] = {}
    if not rows.any():
        return found

    def kept(leaf: np.ndarray) -> np.ndarray:
        return np.where(rows.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, np.zeros_like(leaf))

    for name, value in info.items():
        inside = isinstance(value, dict)
        found[name] = gathered(value, rows) if inside else jax.tree.map(kept, value)
        found[f"_{name}"] = rows.copy()
    return found


def _mode(mode: AutoresetMode | str, where: str) -> AutoresetMode:
    """Return `mode` as an `AutoresetMode`; `mode` may also be the string value of a member."""
    if isinstance(mode, AutoresetMode):
        return mode
    checks.one_of(where, "autoreset_mode", mode, [known.value for known in AutoresetMode])
    return AutoresetMode(mode)


def row_of(space: gymnasium.Space, batch: Any, i: int) -> Any:
    """Return the observation of environment `i` of a batch, as a single environment returns it."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: row_of(part, batch[name], i) for name, part in space.items()}
    return on_host(space, batch[i])
