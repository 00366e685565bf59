"""`to_sb3_vec`: a batch of one environment as a `VecEnv` for Stable-Baselines3.

Environment i of a batch with seed s behaves as `to_gymnasium` with seed s + i, as in SB3's
`DummyVecEnv`. The batch is one compiled program without separate environment objects. There are
therefore two deliberate differences from `DummyVecEnv`: `set_attr` sets only params, and
`env_is_wrapped` returns False.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, UInt8
from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.vec_env.base_vec_env import (  # pyright: ignore[reportMissingImports]
    VecEnvIndices,
    VecEnvStepReturn,
)

from ..core.env import Env
from ..core.starts import param_axes
from .gymnasium import MASK, on_host, refuse_options
from .gymnasium_vec import GymnasiumVectorEnv, row_of

MASKS = "action_masks"  # name of the method that sb3-contrib's MaskablePPO calls with `env_method`


class _Batch(GymnasiumVectorEnv):
    """The batch inside an `SB3VecEnv`; its error messages name `to_sb3_vec`."""

    MADE_BY = "to_sb3_vec"

    def states(self) -> Any:
        """Return the states of all environments, copied to the host."""
        return jax.device_get(self._state.env)

    def action_masks(self) -> Bool[np.ndarray, "num_envs actions"]:
        """Return the mask of legal actions of each environment; true: legal."""
        return np.asarray(self.venv.action_mask(self._state, self.params))


class SB3VecEnv(VecEnv):
    """Stable-Baselines3's `VecEnv`, made by `to_sb3_vec`."""

    def __init__(self, env: Env | str, num_envs: int, **settings: Any) -> None:
        """Make the batch from the arguments of `to_sb3_vec`."""
        self.batch = _Batch(env, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        self.jaxenv = self.batch.jaxenv
        spaces = (self.batch.single_observation_space, self.batch.single_action_space)
        super().__init__(num_envs, *spaces)
        self.metadata = self.batch.metadata
        self._actions: Any = None

    def reset(self) -> Any:
        """Start an episode in every environment; return the first observations.

        Each environment continues its sequence of random numbers, unless `seed()` was called since
        the previous reset; then it gets its seed from that call.
        """
        for options in self._options:
            refuse_options(options, ())
        obs, info = self.batch.reset(seed=list(self._seeds))
        self._reset_seeds()
        masks = info.get(MASK)
        self.reset_infos = [
            {} if masks is None else {MASK: masks[i].copy()} for i in range(self.num_envs)
        ]
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions, which the next call of `step_wait` takes."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Advance every environment by its stored action; return the results, as SB3 expects.

        Done episodes restart in this step.
        """
        seen, done, final_obs = self.batch.advance(self._actions)
        infos = _rows(seen.info, self.num_envs)
        truncated = (seen.truncated & ~seen.terminated).tolist()
        for i, info in enumerate(infos):
            info["TimeLimit.truncated"] = truncated[i]
            if seen.mask is not None and not done[i]:
                info[MASK] = seen.mask[i].copy()
        last = (
            on_host(self.batch.observation_space, jax.device_get(final_obs)) if done.any() else None
        )
        for i in np.flatnonzero(done).tolist():
            infos[i]["terminal_observation"] = row_of(self.observation_space, last, i)
            self.reset_infos[i] = {} if seen.mask is None else {MASK: seen.mask[i].copy()}
        obs = on_host(self.batch.observation_space, seen.obs)
        return obs, seen.reward.astype(np.float32), done.copy(), infos

    def close(self) -> None:
        """Close the batch of environments."""
        self.batch.close()

    def get_images(self) -> Sequence[UInt8[np.ndarray, "height width 3"] | None]:
        """Return a picture of every environment.

        Returns a list of None if `render_mode` is not "rgb_array".
        """
        return self.batch.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the value of an attribute for each environment.

        `attr_name` names a param, or an attribute that all environments share, such as `metadata`.
        """
        rows = list(self._get_indices(indices))
        if attr_name == MASKS:
            return [lambda row=row: self.batch.action_masks()[row] for row in rows]
        if attr_name in ("render_mode", "metadata"):
            return [getattr(self.batch, attr_name) for _ in rows]
        if attr_name not in vars(self.jaxenv.default_params):
            return [getattr(self.jaxenv, attr_name) for _ in rows]
        values = [getattr(self._params(row), attr_name) for row in rows]
        return jax.tree.map(lambda leaf: np.asarray(leaf)[()], values)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set a param of some or all environments, with effect from the next step on.

        Only params can be set; other settings are arguments of `to_sb3_vec`. Raises
        `AttributeError` for a name that is not a param, and the errors of `make_vec` for a bad
        value.
        """
        params, defaults = self.batch.params, self.jaxenv.default_params
        if attr_name not in vars(defaults):
            names = ", ".join(vars(defaults))
            raise AttributeError(
                f"set_attr: {attr_name!r} is not a param of {self.jaxenv.name}; its params are "
                f"{names}; give other settings to to_sb3_vec"
            )
        default = getattr(defaults, attr_name)
        if not jax.tree_util.all_leaves([default]):
            raise AttributeError(
                f"set_attr: {attr_name!r} consists of several arrays; give params with it to "
                "to_sb3_vec(..., params=...)"
            )
        default = np.asarray(default)
        for one in [value] if np.ndim(value) == default.ndim else value:
            self.jaxenv.checked_params(defaults.replace(**{attr_name: one}), "set_attr")
        rows = np.array(self.get_attr(attr_name))
        rows[list(self._get_indices(indices))] = np.asarray(value, default.dtype)
        is_shared = (rows == rows[0]).all()
        params = params.replace(**{attr_name: rows[0] if is_shared else rows})
        self.batch.params = jax.device_put(params)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of the environment once per selected environment; return the results.

        If the method has a parameter `state`, the call passes the state of the selected
        environment. If the method also has a parameter `params`, the call passes the params of this
        environment. If the caller gives `state` or `params` by keyword, the caller's value is used.
        """
        rows = list(self._get_indices(indices))
        if method_name == MASKS:
            return list(self.batch.action_masks()[rows])
        method = getattr(self.jaxenv, method_name)
        takes = inspect.signature(method).parameters
        if "state" not in takes:
            return [method(*method_args, **method_kwargs) for _ in rows]
        states, found = self.batch.states(), []
        for row in rows:
            arguments = {"state": jax.tree.map(lambda leaf, row=row: leaf[row], states)}
            if "params" in takes:
                arguments["params"] = self._params(row)
            found.append(method(*method_args, **arguments | method_kwargs))
        return found

    def _params(self, row: int) -> Any:
        """Return the params of the environment with index `row`."""
        params = self.batch.params
        axes = param_axes(self.jaxenv, params)
        return jax.tree.map(lambda leaf, axis: leaf if axis is None else leaf[row], params, axes)

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """Return False for each environment: none has a Gymnasium wrapper.

        Wrap the whole batch in `VecMonitor` instead.
        """
        return [False for _ in self._get_indices(indices)]


def to_sb3_vec(
    env: Env | str,
    num_envs: int,
    *,
    params: Any = None,
    reset_source: str | None = None,
    render_mode: str | None = None,
    render_tile_size: int = 16,
    **fields: Any,
) -> SB3VecEnv:
    """Return `num_envs` copies of an environment as a `VecEnv` for Stable-Baselines3's learners.

    Done episodes restart in the same step; `terminal_observation` and `TimeLimit.truncated` are in
    the infos. If an action can be illegal, `env_method("action_masks")` returns the masks of legal
    actions, as sb3-contrib's `MaskablePPO` expects. Wrap the batch in `VecMonitor` for episode
    statistics. Leaves of `params` may have a leading axis of `num_envs`. `reset_source` is
    explained in `to_gymnasium_vec`. If `env` is an id, `fields` are passed to `jaxenvs.make`.
    Raises the errors of `make_vec`.
    """
    return SB3VecEnv(
        env,
        num_envs,
        params=params,
        reset_source=reset_source,
        render_mode=render_mode,
        render_tile_size=render_tile_size,
        **fields,
    )


def _rows(info: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the info of a batch as a list of dicts, one per environment, with copied values."""
    columns = [_cells(value, count) for value in info.values()]
    if not columns:
        return [{} for _ in range(count)]
    return [dict(zip(info, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _cells(value: Any, count: int) -> list[Any]:
    if isinstance(value, dict):
        return _rows(value, count)
    if not isinstance(value, np.ndarray):  # `value` is a pytree of arrays other than a dict
        return [jax.tree.map(lambda leaf, i=i: leaf[i], value) for i in range(count)]
    if value.ndim == 1 and value.dtype == np.bool_:
        return value.tolist()
    return list(value.copy())
