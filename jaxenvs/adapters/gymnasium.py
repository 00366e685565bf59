"""`to_gymnasium`: one environment as a `gymnasium.Env`, and all ids in Gymnasium's registry.

Deliberate differences from a typical `gymnasium.Env`: a step after the end of an episode raises an
error, and so does an action outside the action space. `terminated` and `truncated` are never both
true.
"""

import functools
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt8, UInt32

from ..core import checks, drawing, registry
from ..core.env import Env
from ..core.masking import has_illegal
from ..core.random import Key
from ..core.starts import STEP
from . import common
from .spaces import gymnasium_space

NAMESPACE = "jaxenvs"
RENDER_MODES = ("rgb_array",)
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}
# Entry of `info` with the mask of legal actions, present if an action can be illegal. It is int8,
# as Gymnasium's `Discrete.sample` needs.
MASK = "action_mask"


class Seen(NamedTuple):
    """Results of a step that are copied from the device to the host."""

    obs: PyTree[Array]
    reward: Array
    terminated: Array
    truncated: Array
    info: dict[str, Any]
    mask: Array | None  # mask of legal actions after the step; None if all actions are always legal


class GymnasiumEnv(common.Adapter, gymnasium.Env):
    """A `gymnasium.Env`, made by `to_gymnasium` or `gymnasium.make("jaxenvs/ID")`."""

    metadata: dict[str, Any] = METADATA

    def __init__(
        self,
        env: Env | str,
        *,
        params: Any = None,
        render_mode: str | None = None,
        render_tile_size: int = 16,
        **fields: Any,
    ) -> None:
        """Make the environment from the arguments of `to_gymnasium`."""
        self.jaxenv = common.environment(env, fields, "to_gymnasium")
        self.render_mode = checked_render_mode(
            self.jaxenv, render_mode, render_tile_size, "to_gymnasium"
        )
        self.metadata = metadata_of(self.jaxenv)
        self.params = common.host_params(self.jaxenv, params, "to_gymnasium")
        self.observation_space = gymnasium_space(self.jaxenv.observation_space)
        self.action_space = gymnasium_space(self.jaxenv.action_space)
        self._tile_size = render_tile_size
        self._compile()
        self._key: Array | None = None
        # Number that is folded into the key of each step and reset. Each step adds 1. A reset adds
        # 1 only if it directly follows another reset; the two resets then start different episodes.
        self._number = 0
        # True until the first step after a reset. While it is True, a reset increases `_number`.
        self._fresh = True
        self._state: Any = None
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return its first observation and info, as in Gymnasium.

        A `seed` (0 or above) also restarts the sequence of random numbers.
        """
        super().reset(seed=seed)
        refuse_options(options, ())
        if seed is not None or self._key is None:
            self._key = keys_of(draw_words(self.np_random))
            self._number = 0
        elif self._fresh:
            self._number += 1
        self._fresh, self._over = True, False
        self.params = jax.device_put(self.params)
        ended = self._state if self.jaxenv.carries_over else None
        number = np.uint32(self._number)
        self._state, seen = self._reset(self._key, number, self.params, ended)
        obs, mask = jax.device_get(seen)
        return on_host(self.observation_space, obs), {} if mask is None else {MASK: mask.copy()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance by an action; return the results of the step, as in Gymnasium.

        Raises `InvalidAction` if the action lies outside the action space.
        """
        if self._state is None or self._over:
            when = "the episode has ended" if self._over else "no episode has begun"
            raise gymnasium.error.ResetNeeded(f"step: {when}; call reset() first")
        invalid = gymnasium.error.InvalidAction
        action = common.taken(self.jaxenv.action_space, action, None, invalid)
        self._number += 1
        self._fresh = False
        number = np.uint32(self._number)
        self._state, seen = self._step(self._key, number, self._state, action, self.params)
        seen = jax.device_get(seen)
        terminated, truncated = bool(seen.terminated), bool(seen.truncated)
        self._over = terminated or truncated
        info = plain(seen.info)
        if seen.mask is not None and not self._over:
            info[MASK] = seen.mask.copy()
        obs = on_host(self.observation_space, seen.obs)
        return obs, float(seen.reward), terminated, truncated, info

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:  # type: ignore[override]
        """Return a picture of the state if `render_mode` is "rgb_array".

        Otherwise warn and return None.
        """
        if not can_render(self.render_mode, self._state):
            return None
        paint = drawing.painter(self.jaxenv, self._tile_size)
        return np.array(paint(self._state, self.params))

    def _compile(self) -> None:
        self._reset, self._step = compiled(self.jaxenv)


def to_gymnasium(
    env: Env | str,
    *,
    params: Any = None,
    render_mode: str | None = None,
    render_tile_size: int = 16,
    **fields: Any,
) -> GymnasiumEnv:
    """Return an environment (or the environment of an id) as a `gymnasium.Env`.

    If `env` is an id, `fields` are passed to `jaxenvs.make`. `params` apply to all episodes.
    `render_mode` is None or "rgb_array", which draws tiles of `render_tile_size` pixels. If an
    action can be illegal, `info["action_mask"]` is 1 for legal actions. Raises the errors of
    `jaxenvs.make`, and `ValueError` for an unknown render mode.

    JAX starts at the first reset, so Gymnasium's `AsyncVectorEnv` can fork before JAX starts. If
    the process has already used JAX, `AsyncVectorEnv` needs `context="spawn"`. Do not combine
    Gymnasium's `RecordEpisodeStatistics` with jaxenvs' `EpisodeStatistics`: both write
    `info["episode"]`.
    """
    return GymnasiumEnv(
        env, params=params, render_mode=render_mode, render_tile_size=render_tile_size, **fields
    )


def register_in_gymnasium() -> list[str]:
    """Register every id as `jaxenvs/ID`, for `gymnasium.make` and `gymnasium.make_vec`.

    Returns these names. To add ids that are registered in jaxenvs later, call this function again.
    """
    names = {id: f"{NAMESPACE}/{id}" for id in registry.list()}
    home = __name__.rpartition(".")[0]
    for id, name in names.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"{home}.gymnasium:GymnasiumEnv",
                vector_entry_point=f"{home}.gymnasium_vec:GymnasiumVectorEnv",
                kwargs={"env": id},
            )
    return list(names.values())


@functools.lru_cache(maxsize=64)
def compiled(env: Env) -> tuple[Any, Any]:
    """Return jitted `reset` and `step` functions, which all adapters of an environment share."""

    def mask(state: Any, params: Any) -> Array | None:
        return env.action_mask(state, params).astype(jnp.int8) if has_illegal(env) else None

    def reset(key: Key, number: Any, params: Any, ended: Any) -> tuple[Any, Any]:
        obs, state = common.begin(env, jax.random.fold_in(key, number), params, ended)
        return state, (obs, mask(state, params))

    def step(key: Key, number: Any, state: Any, action: Any, params: Any) -> tuple[Any, Seen]:
        key = jax.random.fold_in(jax.random.fold_in(key, number), STEP)
        obs, state, reward, terminated, truncated, info = env.step(key, state, action, params)
        return state, Seen(obs, reward, terminated, truncated, info, mask(state, params))

    return jax.jit(reset), jax.jit(step)


def checked_render_mode(
    env: Env, mode: str | None, render_tile_size: int, where: str
) -> str | None:
    """Return the render mode; raises `ValueError` if it is unknown or `env` cannot be drawn."""
    checks.integer_field(where, "render_tile_size", render_tile_size, 1)
    checks.one_of(where, "render_mode", mode, (None, *RENDER_MODES))
    if mode and not drawing.is_drawn(env):
        raise ValueError(f"{where}: {env.name} {drawing.UNDRAWN}; omit render_mode")
    return mode


def can_render(mode: str | None, state: Any) -> bool:
    """Return whether `render` can draw; warn if there is no render mode.

    Raises `ResetNeeded` if no episode has begun.
    """
    if mode is None:
        gymnasium.logger.warn('render: make the environment with render_mode="rgb_array"')
        return False
    if state is None:
        raise gymnasium.error.ResetNeeded("render: no episode has begun; call reset() first")
    return True


def metadata_of(env: Env) -> dict[str, Any]:
    """Return Gymnasium's `metadata` for `env`: its render modes and frames per second."""
    modes = METADATA["render_modes"] if drawing.is_drawn(env) else []
    return {**METADATA, "render_modes": list(modes)}


def refuse_options(options: dict[str, Any] | None, known: tuple[str, ...]) -> None:
    """Raise `ValueError` if `options`, an argument of `reset`, has names that are not `known`."""
    for name in options or {}:
        if name not in known:
            allowed = " and ".join(map(repr, known)) or "none"
            raise ValueError(f"reset: unknown option {name!r}; options here: {allowed}")


def draw_words(generator: np.random.Generator, *rows: int) -> UInt32[np.ndarray, "..."]:
    """Draw the data of a PRNG key (two uint32) from Gymnasium's generator.

    `rows` is the number of keys; without it, draw one key.
    """
    return generator.integers(2**32, size=(*rows, 2), dtype=np.uint32)


def keys_of(words: np.ndarray) -> Array:
    """Return threefry keys with the data `words`, even if JAX's default generator differs."""
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def on_host(space: gymnasium.Space, value: Any) -> Any:
    """Copy an observation to writable NumPy arrays with the dtypes of Gymnasium's space.

    `value` may also be a batch of observations; `space` is then the space of the batch.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: on_host(part, value[name]) for name, part in space.items()}
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.int64(value)
    return np.array(value, space.dtype)


def plain(info: Any) -> Any:
    """Return a copy of an info dict without JAX arrays.

    Scalars become Python bools or NumPy scalars, other arrays NumPy arrays.
    """
    if isinstance(info, dict):
        return {name: plain(value) for name, value in info.items()}

    def copied(leaf: np.ndarray) -> Any:
        if leaf.ndim:
            return leaf.copy()
        return bool(leaf) if leaf.dtype == np.bool_ else leaf[()]

    return jax.tree.map(copied, info)
