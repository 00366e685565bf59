"""The base of all wrappers: what a wrapper does not change comes from the environment inside."""

from typing import Any

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, PyTree

from .controls import Controls
from .env import Env, Reset, Step
from .facts import RGB, Effects, Fact, Features
from .random import Key
from .spaces import Space
from .struct import Struct, struct
from .vocabulary import Vocabulary


@struct
class WrappedState(Struct):
    """State of the environment inside, and what the wrapper remembers."""

    env: Any
    memory: Any

    @property
    def time(self) -> Int32[Array, "*batch"]:
        """Steps since reset."""
        return self.env.time


class Wrapper(Env):
    """An environment that passes everything on to `env`; the base of all wrappers.

    A subclass overrides what it changes: `transform` for an observation that follows from the one
    inside; `inner`, `reset_to` and `step` if it remembers something, in a `WrappedState`;
    `default_params` and `inner_params` if it adds params; `fully_observed` if its observation
    leaves out something, such as what it remembers.
    """

    env: Env

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if not isinstance(self.env, Env):
            kind = type(self.env).__name__
            raise TypeError(f"{type(self).__name__}: env must come from jaxenvs.make, got {kind}")

    @property
    def unwrapped(self) -> Env:
        """The environment at the bottom."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    @property
    def reset_source(self) -> str:  # type: ignore[override]  # follows the environment inside
        """Reset source of the environment inside."""
        return self.env.reset_source

    @property
    def rows_per_lane(self) -> int:  # type: ignore[override]
        """`rows_per_lane` of the environment inside."""
        return self.env.rows_per_lane

    @property
    def levels_at_once(self) -> int:  # type: ignore[override]
        """Levels drawn together, of the environment inside."""
        return self.env.levels_at_once

    @property
    def level_budget(self) -> int:  # type: ignore[override]
        """Levels drawn for a reset, at most, of the environment inside."""
        return self.env.level_budget

    @property
    def achievements(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the achievements of the environment inside."""
        return self.env.achievements

    @property
    def idle_action(self) -> int | None:  # type: ignore[override]
        """What a masked action counts as in the environment inside."""
        return self.env.idle_action

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Reward range of the environment inside."""
        return self.env.reward_range

    @property
    def success_is(self) -> str:  # type: ignore[override]
        """What a success means in the environment inside."""
        return self.env.success_is

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]
        """Whether an observation of the environment inside determines its state."""
        return self.env.fully_observed

    @property
    def default_params(self) -> Any:
        """Params of the environment inside."""
        return self.env.default_params

    @property
    def action_space(self) -> Space:
        """Action space of the environment inside."""
        return self.env.action_space

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions of the environment inside."""
        return self.env.action_names

    @property
    def observation_space(self) -> Space:
        """Observation space of the environment inside."""
        return self.env.observation_space

    @property
    def status_rows(self) -> int:  # type: ignore[override]
        """Rows of the tiles that repeat the facts, of the environment inside."""
        return self.env.status_rows

    @property
    def controls(self) -> Controls:
        """Keys and mouse of the environment inside, unless the wrapper changes the actions."""
        if type(self).action_space is not Wrapper.action_space:
            return super().controls
        controls = self.env.controls
        pointing = controls.pointing
        if pointing is None:
            return controls

        def action(state: Any, *pointed: Any) -> int | None:
            return pointing.action(self.inner(state), *pointed)

        return controls._replace(pointing=pointing._replace(action=action))

    @property
    def features(self) -> Features:
        """Features of the environment inside, unless the wrapper changes the observation."""
        return super().features if self._shows_another() else self.env.features

    @property
    def map_features(self) -> Features:
        """Map features of the environment, or of a changed observation."""
        return super().map_features if self._shows_another() else self.env.map_features

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Categories of the environment's observation, or of a changed one."""
        return super().vocabulary if self._shows_another() else self.env.vocabulary

    def _shows_another(self) -> bool:
        """Whether the wrapper changes the observation."""
        changes = ("observation_space", "transform", "observe")
        return any(getattr(type(self), name) is not getattr(Wrapper, name) for name in changes)

    def facts(self, state: Any, params: Any = None) -> tuple[Fact, ...]:
        """Return the facts of the environment inside."""
        return self.env.facts(self.inner(state), self.inner_params(params))

    def effects(self, before: Any, action: int, after: Any, params: Any = None) -> Effects:
        """Return the effects in the environment inside."""
        states = self.inner(before), action, self.inner(after)
        return self.env.effects(*states, self.inner_params(params))

    def describe(self, state: Any, params: Any = None) -> str:
        """Describe the state of the environment inside."""
        return self.env.describe(self.inner(state), self.inner_params(params))

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return an icon of the environment inside."""
        return self.env.icon(name, size, background)

    def inner(self, state: Any) -> Any:
        """State of the environment inside."""
        return state

    def inner_params(self, params: Any) -> Any:
        """Params of the environment inside; None stands for the defaults."""
        return params

    def check_values(self, params: Any, where: str) -> None:
        """Also check the params of the environment inside."""
        super().check_values(params, where)
        self.env.check_values(self.inner_params(params), where)

    def transform(self, obs: PyTree[Array]) -> PyTree[Array]:
        """Turn an observation of the environment inside into the wrapper's."""
        return obs

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw a level of the environment inside."""
        return self.env.draw_level(key, self.inner_params(params))

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether a drawn level may be played, as the environment inside does."""
        return self.env.accepts(level)

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, self.inner_params(params))
        return Reset(self.transform(obs), state)

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action; never resets."""
        stepped = self.env.step(key, state, action, self.inner_params(params))
        return stepped._replace(obs=self.transform(stepped.obs))

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return what the agent sees of `state`."""
        return self.transform(self.env.observe(self.inner(state), self.inner_params(params)))

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the steps after which the episode inside is truncated."""
        return self.env.time_limit(self.inner(state), self.inner_params(params))

    def shortest_limit(self, params: Any) -> int:
        """Return the least time limit inside."""
        return self.env.shortest_limit(self.inner_params(params))

    def action_mask(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        """Tell which actions are legal."""
        return self.env.action_mask(self.inner(state), self.inner_params(params))

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether a step accomplished the task of the environment inside."""
        return self.env.succeeded(step._replace(state=self.inner(step.state)))

    def picture(self, state: Any, tile_size: int, params: Any = None) -> Array | None:
        """Return the picture that the environment inside draws of its state, if any."""
        return self.env.picture(self.inner(state), tile_size, self.inner_params(params))

    def view_tiles(self, state: Any) -> Array | None:
        """Return the tiles that the agent inside sees, if it sees any."""
        return self.env.view_tiles(self.inner(state))

    def tiles(self, state: Any) -> Array:
        """Return indices into `atlas` that draw the state."""
        return self.env.tiles(self.inner(state))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (tiles, tile_size, tile_size, 3)."""
        return self.env.atlas(tile_size)
