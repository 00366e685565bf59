"""Base classes of MiniGrid 3.2's levels: rules, time limit, missions and observations.

Differences from MiniGrid: `truncated` and `terminated` are never both true. The mission is an array
of word ids. Levels are drawn from the same distribution, but with other random numbers.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt8

from ..core import checks
from ..core.env import Ending, Params, Step, Transition
from ..core.facts import Fact
from ..core.gridworld import GridWorld, packed
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Dict, Discrete, Space
from . import facts, missions, tiles
from .aims import Aim
from .floodfill import steps_to_goal
from .rules import EMPTY, act
from .sprites import SPRITES
from .state import REJECTED, Action, GridState, Level
from .tiles import Colour, Kind

ONEHOT_SIZE = 20  # length of a cell's one-hot vector: 11 objects, 6 colours, 3 door states

# Result of `judge`: whether the step completes the mission, and whether it fails the mission.
Verdict = tuple[Bool[Array, ""], Bool[Array, ""]]


class GridEnv(GridWorld):
    """Base class of MiniGrid's levels; a subclass adds `generate`, a size and perhaps `judge`.

    Only the observation `dict` contains the mission. `dict` is the default if only the mission
    names the target, such as the door to go to: an agent could not know the target otherwise.

    Actions: 0 turn left, 1 turn right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done (no effect).
    Observation (field `obs`): `image` uint8 (view_size, view_size, 3), MiniGrid's triples (object,
        colour, door state) of the cells ahead, unseen cells 0; `dict` the image with `direction`
        int32 and `mission` uint8 (mission_length,) word ids; `full` uint8 (width, height, 3) the
        whole grid with the agent as (10, 0, direction); `onehot` uint8 (view_size, view_size, 20);
        `rgb` uint8 (view_size * tile_size, view_size * tile_size, 3) the view as pixels; `rgb_full`
        uint8 (height * tile_size, width * tile_size, 3) the whole grid as pixels.
    Reward: 1 - 0.9 * steps / max_steps_in_episode on success, else 0.
    Episode ends: on success, on failure (lava), at the time limit.
    """

    observations: ClassVar[tuple[str, ...]] = (
        *("image", "dict", "full", "onehot", "rgb", "rgb_full"),
    )
    package: ClassVar[str] = "minigrid"
    keys = facts.KEYS
    sprites = SPRITES
    outside: ClassVar[int] = tiles.WALL
    # Mission of all episodes; a class with several missions overrides `mission_words`.
    mission: ClassVar[str] = ""
    mission_length: ClassVar[int] = 16  # length of the array of word ids in the observation
    word_count: ClassVar[int] = missions.FIRST_WORDS  # number of word ids in the observation space
    # Whether the observation `full` determines the state. `full` does not contain the carried
    # object, the tile below the agent, the contents of boxes or the mission, so all four must
    # follow from the grid.
    full_shows_all: ClassVar[bool] = False
    # Whether levels have only walls, lava and goals, and the agent must walk onto a goal. A flood
    # fill then finds the shortest plan.
    has_static_map: ClassVar[bool] = False
    level_format: ClassVar[str] = "jaxenvs.grid.leveltext.form"
    level_solver: ClassVar[str] = "jaxenvs.grid.oracle"
    # Whether the agent carries an object at the start of an episode. In `Level.grid`, this object
    # lies in a cell, from which the reset removes it.
    starts_carrying: ClassVar[bool] = False

    # Methods that subclasses define or override.

    @property
    @abstractmethod
    def height(self) -> int:
        """Number of rows of the grid, walls included."""
        raise NotImplementedError

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of columns of the grid, walls included."""
        raise NotImplementedError

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        raise NotImplementedError

    @abstractmethod
    def generate(self, key: Key) -> Level:
        """Draw a level once, from MiniGrid's distribution; do not loop until a level is accepted.

        A class that has to reject some levels sets `Level.accepted` to False for them; the caller
        then draws again.
        """
        raise NotImplementedError

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step.

        `front` is the tile that was in front of the agent before the action. By default, walking
        onto the goal is success, and walking into lava is failure.
        """
        forward = action == Action.FORWARD
        return forward & (front == tiles.GOAL), forward & (front == tiles.LAVA)

    def aims(self, state: GridState) -> tuple[Aim, ...] | None:
        """Return the necessary conditions of success; None if no episode can succeed.

        By default, the agent must walk onto a goal. A subclass that overrides `judge` overrides
        this method too.
        """
        return (Aim(state.grid == tiles.GOAL, 1),)

    def contents(self, state: GridState) -> UInt8[ArrayLike, ""]:
        """Return the tile that replaces a box of kind `BOX` when the agent opens the box.

        A box of kind `KEY_BOX` is replaced by its key instead.
        """
        return EMPTY

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids (see `missions`), padded with 0 to `mission_length`."""
        return jnp.asarray(missions.ids(self.mission, self.mission_length))

    # Methods of the interface of `Env`.

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]  # depends on the field `obs`
        """True if the observation shows the whole grid, and the grid determines the state."""
        return self.full_shows_all and self.obs in ("full", "rgb_full")

    @property
    def default_params(self) -> Params:
        """Parameters with MiniGrid's time limit for this level."""
        return Params(max_steps_in_episode=np.int32(self.max_steps))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """(index, meaning) pairs that explain the arrays of all observations."""
        return facts.observation_layout(self.view_size)

    def draw_level(self, key: Key, params: Params) -> Level:
        """Draw a level; the params have no influence on it."""
        return self.generate(key)

    def reset_state(self, key: Key, level: Level, params: Params) -> GridState:
        """Return the initial state, in which the agent carries nothing."""
        agent = packed(level.pose[0], level.pose[1], level.pose[2], jnp.uint8(0))
        if level.accepted is not None:
            agent = agent | jnp.where(level.accepted, jnp.int32(0), jnp.int32(REJECTED))
        return GridState(time=jnp.int32(0), grid=level.grid, agent=agent, task=level.task)

    def accepts(self, level: Level) -> Bool[Array, ""]:
        """Return whether the level is valid; True for classes that never reject a level."""
        return jnp.ones((), jnp.bool_) if level.accepted is None else level.accepted

    def step_state(self, key: Key, state: GridState, action: Array, params: Params) -> Transition:
        """Apply the action, then decide success, failure and reward."""
        after, front = act(state, action, self.contents(state))
        success, failure = self.judge(state, after, action, front)
        reward = jnp.where(success, self.prize(after, params), 0.0)
        return Transition(after, reward, success | failure, self.info(after))

    def info(self, state: GridState) -> dict[str, Array]:
        """Return a dict with the flag `level_rejected`; empty if the class never rejects levels.

        The flag is True if `level_budget` drawn levels were all rejected.
        """
        return {"level_rejected": state.rejected} if self.marks_rejected else {}

    @property
    def marks_rejected(self) -> bool:
        """True if levels have the field `accepted`, which is False for a level to reject."""
        return self.level_budget > 1

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(number of rows, number of columns) of the grid, walls included."""
        return self.height, self.width

    @property
    def tile_space(self) -> Space:
        """Space of the symbolic observation that `obs` selects.

        For observations made of pixels, see `observation_space`.
        """
        size = self.view_size
        image = Box(0, [Kind.AGENT, max(Colour), 2], (size, size, 3), np.uint8)
        words = Box(0, self.word_count - 1, (self.mission_length,), np.uint8)
        return {
            "image": image,
            "dict": Dict({"image": image, "direction": Discrete(4), "mission": words}),
            "full": Box(0, [Kind.AGENT, max(Colour), 3], (self.width, self.height, 3), np.uint8),
            "onehot": Box(0, 1, (size, size, ONEHOT_SIZE), np.uint8),
        }[self.obs]

    def observe_tiles(self, state: GridState, params: Any) -> PyTree[Array]:
        """Return the symbolic observation that `obs` selects.

        `observe` returns the observations made of pixels.
        """
        return _OBSERVE[self.obs](self, state)

    def upstream_obs(self, shown: dict[str, Any]) -> PyTree[Any]:
        """Convert MiniGrid's observation `shown` to the format of this environment's observation.

        Raises `ValueError` unless this environment has the observation `image` or `dict`, and
        `KeyError` if the mission has an unknown word.
        """
        if self.obs == "image":
            return np.asarray(shown["image"], np.uint8)
        if self.obs != "dict":
            raise ValueError(f"minigrid shows image and dict, not obs={self.obs!r}")
        return {
            "image": np.asarray(shown["image"], np.uint8),
            "direction": np.int32(shown["direction"]),
            "mission": missions.ids(shown["mission"], self.mission_length),
        }

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return whether the episode terminated with a positive reward."""
        return step.terminated & (step.reward > 0)

    def optimal_steps(self, level: Level) -> Int32[Array, ""] | None:
        """Return the length of the shortest plan; None unless `has_static_map` is True."""
        return steps_to_goal(level.grid, level.pose) if self.has_static_map else None

    def optimal_return(self, level: Level, params: Params) -> Float32[Array, ""] | None:
        """Return the episode return of the shortest plan; None unless `has_static_map` is True.

        The result is 0 if the plan exceeds the time limit, or if no plan exists.
        """
        steps = self.optimal_steps(level)
        if steps is None:
            return None
        limit = jnp.maximum(jnp.asarray(params.max_steps_in_episode), 1)
        best = 1.0 - 0.9 * steps.astype(jnp.float32) / limit.astype(jnp.float32)
        return jnp.where(steps <= limit, best, 0.0)

    def ending(self, level: Level) -> Ending | None:
        """Return a level and an action that ends its episode in success.

        The goal is in front of the agent, and the action walks onto it. Environments with another
        task, such as picking up an object, override this method.
        """
        return Ending(level.facing(tiles.GOAL), (Action.FORWARD,))

    def seen_tiles(self, state: GridState) -> UInt8[Array, "view_size view_size"]:
        """Return the tiles in sight as an array `[across, ahead]`.

        The agent's cell shows the tile that the agent carries.
        """
        size, cells = self.view_size, self._window(state)
        hands = jnp.where(state.carried == 0, jnp.uint8(tiles.EMPTY), state.carried)
        is_agent = np.zeros((size, size), bool)
        is_agent[size // 2, size - 1] = True
        return self._occluded(jnp.where(is_agent, hands, cells), tiles.is_opaque(cells))

    def mission_text(self, state: GridState) -> str:
        """Return the mission as text, in MiniGrid's words."""
        return missions.text(jax.device_get(_mission_words(self)(state)))

    def facts(self, state: GridState, params: Any = None) -> tuple[Fact, ...]:
        """Return the facts shown to a player: the mission and the carried object."""
        return facts.facts(self, state)

    def text_inputs(self, state: GridState, params: Any = None) -> dict[str, Array]:
        """Return the arrays that `texts` turns into words; see `facts.text_inputs`."""
        return facts.text_inputs(self, state)

    def texts(self, inputs: dict[str, np.ndarray], detail: str = "full") -> list[str]:
        """Describe in words the mission, the carried object and the objects in sight."""
        return facts.texts(self, inputs, detail)

    def text_changes(self, old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
        """Describe changes of the mission, the carried object and the objects in sight."""
        return facts.changes(self, old, new)


class SquareGridEnv(GridEnv):
    """Base class of square grid worlds."""

    size: int = 8  # number of cells per side of the grid, walls included

    min_size: ClassVar[int] = 4
    max_size: ClassVar[int] = 127  # limit so that every row and column fits into int8
    # Number of steps of the time limit per cell: the limit divided by size**2.
    steps_per_cell: ClassVar[int] = 4

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        owner = type(self).__name__
        checks.integer_field(owner, "size", self.size, self.min_size, self.max_size)

    @property
    def height(self) -> int:
        """Number of rows of the grid, which is `size`."""
        return self.size

    @property
    def width(self) -> int:
        """Number of columns of the grid, which is `size`."""
        return self.size

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return self.steps_per_cell * self.size**2


class FixedGridEnv(GridEnv):
    """Base class of grid worlds whose size cannot be chosen."""

    shape: ClassVar[tuple[int, int]]  # number of rows and columns of the grid, walls included
    limit: ClassVar[int]  # time limit, in steps

    @property
    def height(self) -> int:
        """Number of rows of the grid, walls included."""
        return self.shape[0]

    @property
    def width(self) -> int:
        """Number of columns of the grid, walls included."""
        return self.shape[1]

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return self.limit


def _image(env: GridEnv, state: GridState) -> UInt8[Array, "size size 3"]:
    return tiles.encode(env.view(state))


def _dict(env: GridEnv, state: GridState) -> dict[str, Array]:
    words = env.mission_words(state)
    return {"image": _image(env, state), "direction": state.direction, "mission": words}


def _full(env: GridEnv, state: GridState) -> UInt8[Array, "width height 3"]:
    here = (jnp.arange(env.width, dtype=np.int32)[:, None] == state.column) & (
        jnp.arange(env.height, dtype=np.int32)[None, :] == state.row
    )
    direction = state.direction.astype(jnp.uint8)
    agent = jnp.stack([jnp.uint8(Kind.AGENT), jnp.uint8(Colour.RED), direction])
    return jnp.where(here[..., None], agent, tiles.encode(state.grid.T))


def _onehot(env: GridEnv, state: GridState) -> UInt8[Array, "size size 20"]:
    image = _image(env, state).astype(jnp.int32) + np.array([0, 11, 17], np.int32)
    return (
        (image[..., None] == jnp.arange(ONEHOT_SIZE, dtype=np.int32)).any(axis=-2).astype(jnp.uint8)
    )


_OBSERVE: dict[str, Callable[[Any, GridState], PyTree[Array]]] = {
    "image": _image,
    "dict": _dict,
    "full": _full,
    "onehot": _onehot,
}


@functools.lru_cache(maxsize=64)
def _mission_words(env: GridEnv) -> Callable[[GridState], UInt8[Array, " words"]]:
    return jax.jit(env.mission_words)


def register_level(name: str, **fields: Any):  # type: ignore[no-untyped-def]
    """Register a MiniGrid level as `Grid-<name>`, with MiniGrid's id as its alias."""
    return register(f"Grid-{name}", aliases=(f"MiniGrid-{name}",), **fields)
