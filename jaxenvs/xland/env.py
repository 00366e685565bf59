"""The environment class `XLand`, after XLand-MiniGrid 0.9.3, and its registered ids.

Differences from xminigrid:

- `truncated` and `terminated` are never both true, and `truncated` stays true after the time limit.
- An action out of range is clipped to the nearest valid action.
- The default task has a goal.
- Levels come from other random numbers, but have the same distribution.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt8

from ..core import checks
from ..core.env import Ending, Env, Step, Transition
from ..core.facts import Effects, Fact
from ..core.gridworld import GridWorld
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Dict, Discrete, Space
from . import facts, layouts, sets, tiles, validation
from .engine import advance
from .language import parse_ruleset
from .layouts import LAYOUTS
from .rulesets import GOALS, RULES, Goal, Rule, Ruleset
from .sprites import SPRITES
from .state import Action, Level, XLandParams, XLandState
from .tiles import Colour, Kind
from .trials import Trials

World = TypeVar("World", bound=type[Env])

# The default task: put the ball next to the square, so that a rule turns both into a pyramid, and
# pick up the pyramid.
EXAMPLE = Ruleset.of(
    goal=(Goal.HOLD, Kind.PYRAMID, Colour.GREEN),
    rules=[
        (Rule.NEAR, Kind.BALL, Colour.RED, Kind.SQUARE, Colour.BLUE, Kind.PYRAMID, Colour.GREEN)
    ],
    init_tiles=[(Kind.BALL, Colour.RED), (Kind.SQUARE, Colour.BLUE)],
)


def _register_all(env_class: World) -> World:
    """Register an id for each layout and size of xminigrid, with xminigrid's id as an alias."""
    for layout, sizes in layouts.SIZES.items():
        for size in sizes:
            name = f"{layout}-{size}x{size}"
            register(
                f"XLand-{name}-v0",
                aliases=(f"XLand-MiniGrid-{name}",),
                # Benchmarks and pictures of XLand use only this id, because papers train on it.
                representative=name == "R4-13x13",
                layout=layout,
                size=size,
            )(env_class)
    return env_class


@_register_all
class XLand(GridWorld):
    """Act in a grid world whose goal and rules are data; rules turn objects into other objects.

    A rule applies when the agent picks up an object, steps next to an object, or puts one object
    next to another. The task (goal, rules, initial objects) is part of the params, so the
    environments of a batch can have different tasks. Doors and positions are drawn anew in every
    episode.

    Actions: 0 forward, 1 turn right, 2 turn left, 3 pick up, 4 put down (on a floor), 5 toggle a
        door. After the action the rules apply in order. An action triggers rules even if the action
        itself had no effect, such as a step into a wall.
    Observation (field `obs`): `image` uint8 (view_size, view_size, 2), pairs (kind, colour) of the
        cells ahead, (0, 0) outside the grid; `heading` a dict of the image and `direction` int32;
        `dict` a dict of both, `pocket` uint8 (2,) and the task: `goal` uint8 (5,), `rules` uint8
        (num_rules, 7); `rgb` uint8 (view_size * tile_size, view_size * tile_size, 3) the view as
        pixels; `rgb_full` uint8 (size * tile_size, size * tile_size, 3) the whole grid as pixels.
    Reward: 1 - 0.9 * steps / max_steps_in_episode when the goal is reached, else 0.
    Episode ends: when the goal is reached or at the time limit.
    """

    layout: str = "R1"  # "R1", "R2", "R4", "R6" or "R9", by the number of rooms
    size: int = 9  # number of cells per side of the grid, walls included
    num_rules: int = 18  # largest number of rules of a task; a lower limit speeds up CPU steps
    num_tiles: int = 23  # largest number of tiles on the map at the start
    # Default task, in the syntax of `parse_ruleset`. `;` also ends a line. "" selects the task
    # `EXAMPLE`.
    task: str = ""
    view_size: int = 5
    see_through_walls: bool = True

    observations: ClassVar[tuple[str, ...]] = ("image", "heading", "dict", "rgb", "rgb_full")
    package: ClassVar[str] = "xminigrid"
    level_format: ClassVar[str] = "jaxenvs.xland.leveltext"
    level_solver: ClassVar[str] = "jaxenvs.xland.shortest"
    keys = facts.KEYS
    sprites = SPRITES
    outside: ClassVar[int] = tiles.NOTHING
    task_sets: ClassVar[tuple[str, ...]] = tuple(sets.SETS)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        owner = type(self).__name__
        checks.one_of(owner, "layout", self.layout, LAYOUTS)
        layout = LAYOUTS[self.layout]
        checks.integer_field(owner, "size", self.size, layout.smallest, layouts.LARGEST)
        if layout.odd and self.size % 2 == 0:
            raise ValueError(f"{owner}: size={self.size} must be odd with layout={self.layout!r}")
        checks.integer_field(owner, "num_rules", self.num_rules, 1, 255)
        free = layouts.drawn(self.layout, self.size).free.size
        checks.integer_field(owner, "num_tiles", self.num_tiles, 2, free - 1)
        if not isinstance(self.task, str):
            raise TypeError(
                f"{owner}: task must be text, such as 'goal: hold(red key); map: red key', got "
                f"{type(self.task).__name__}; `params_for` takes rulesets"
            )
        _default_params(self.size, self.num_rules, self.num_tiles, self.task)

    def params_for(self, ruleset: Ruleset, params: XLandParams | None = None) -> XLandParams:
        """Return `params` (default: `default_params`) with `ruleset` as their task.

        The ruleset is padded to `num_rules` rules and `num_tiles` tiles.

        A ruleset with a leading axis gives params with that axis, for a batch of environments.
        Raises `ValueError` for a ruleset that is too large or that `validation.check` refuses;
        `validation.check` accepts all traced rulesets.
        """
        validation.check(ruleset, self.size)
        sized = ruleset.sized(self.num_rules, self.num_tiles)
        start = self.default_params if params is None else params
        return start.replace(ruleset=sized.packed())

    # Members of the interface `Env`.

    @property
    def default_params(self) -> XLandParams:
        """Params with xminigrid's time limit, and with the task that the field `task` describes.

        If `task` is empty, the task is `EXAMPLE`.
        """
        return _default_params(self.size, self.num_rules, self.num_tiles, self.task)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Number of rows and of columns of the grid, walls included."""
        return self.size, self.size

    @property
    def tile_space(self) -> Space:
        """Space of the symbolic observation that `obs` selects.

        For observations made of pixels, see `observation_space`.
        """
        kind, colour, last = max(Kind), max(Colour), self.size - 1
        pair = [kind, colour]
        image = Box(0, pair, (self.view_size, self.view_size, 2), np.uint8)
        heading = {"image": image, "direction": Discrete(4)}
        # Upper bounds of two bytes of a goal, which are a tile (kind, colour) or a cell (row,
        # column).
        place = [max(number, last) for number in pair]
        task = {
            "pocket": Box(0, pair, (2,), np.uint8),
            "goal": Box(0, [len(GOALS) - 1, *place, *place], (5,), np.uint8),
            "rules": Box(0, [len(RULES) - 1, *pair, *pair, *pair], (self.num_rules, 7), np.uint8),
        }
        return {"image": image, "heading": Dict(heading), "dict": Dict({**heading, **task})}[
            self.obs
        ]

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning) that document the entries of each observation."""
        return facts.observation_layout(self.view_size)

    def draw_level(self, key: Key, params: XLandParams) -> Level:
        """Draw the doors, the positions of the task's objects, and the agent's pose."""
        return layouts.generate(key, self.layout, self.size, params.ruleset.init_tiles)

    def reset_state(self, key: Key, level: Level, params: XLandParams) -> XLandState:
        """Return the initial state of the level; the agent's pocket is empty."""
        return XLandState.of(level)

    def step_state(
        self, key: Key, state: XLandState, action: Array, params: XLandParams
    ) -> Transition:
        """Apply the action and the rules, then check the goal."""
        after, reached = advance(state, action, params.ruleset)
        reward = jnp.where(reached, self.prize(after, params), 0.0)
        return Transition(after, reward, reached)

    def observe_tiles(self, state: XLandState, params: Any) -> PyTree[Array]:
        """Return the symbolic observation that `obs` selects.

        `observe` returns the observations made of pixels.
        """
        return _OBSERVE[self.obs](self, state, params)

    def trials(self, tasks: str, part: tuple[float, float] = (0.0, 1.0), **lengths: Any) -> Trials:
        """Return this environment, wrapped in RL² trials with tasks from a task set.

        tasks: name of the task set.
        part: start and end, as fractions, of the part of the set from which tasks are drawn; see
            `sets.part`.
        lengths: values for the fields `episodes` and `steps` of `Trials`.
        """
        count = len(sets.part(tasks, *part))
        return Trials(env=self, num_tasks=count, task_set=tasks, part=part, **lengths)

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether the episode terminated; only reaching the goal terminates it."""
        return step.terminated

    def ending(self, level: Level) -> Ending | None:
        """Return a level in which one action reaches the goal, and this action.

        The agent picks up the pyramid in front of it. Return None if the environment has another
        task than `EXAMPLE`.
        """
        if self.task:
            return None
        grid = (
            jnp.asarray(level.grid)
            .at[1, 1:3]
            .set(jnp.array([tiles.FLOOR, Kind.PYRAMID | Colour.GREEN << 4], jnp.uint8))
        )
        return Ending(Level.of(grid, 1, 1, 1), (Action.PICKUP,))

    def view(self, state: XLandState) -> UInt8[Array, "view_size view_size"]:
        """Return the tile bytes (kind and colour) of the view, farthest row first.

        Cells that are unseen or outside the map are 0.
        """
        return self.seen_tiles(state).T

    def seen_tiles(self, state: XLandState) -> UInt8[Array, "view_size view_size"]:
        """Return the view with axes (column, row): the transpose of `view(state)`."""
        cells = self._window(state)
        return self._occluded(cells, tiles.is_any(cells, tiles.OPAQUE))

    def facts(self, state: XLandState, params: Any = None) -> tuple[Fact, ...]:
        """Return the goal, the rules and the object in the pocket, for the side panel."""
        return facts.facts(self, state, params)

    def effects(
        self, before: XLandState, action: int, after: XLandState, params: Any = None
    ) -> Effects:
        """Return the effects of a step: rules that fired, a reached goal and changed cells."""
        return facts.effects(self, before, action, after, params)

    def text_inputs(self, state: XLandState, params: Any = None) -> dict[str, Array]:
        """Return the arrays that `texts` turns into words; see `facts.text_inputs`."""
        return facts.text_inputs(self, state, params)

    def texts(self, inputs: dict[str, np.ndarray], detail: str = "full") -> list[str]:
        """Describe the agent's observations in text; see `facts.texts`."""
        return facts.texts(self, inputs, detail)

    def text_changes(self, old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
        """Describe changes of the task, the pocket and the objects in sight."""
        return facts.changes(self, old, new)


@functools.lru_cache(maxsize=64)
def _default_params(size: int, num_rules: int, num_tiles: int, task: str) -> XLandParams:
    """Return the default params; raise `ValueError` if the task is invalid or too large."""
    limit = np.int32(3 * size * size)
    ruleset = parse_ruleset(task.replace(";", "\n")) if task else EXAMPLE
    validation.check(ruleset, size)
    packed = ruleset.sized(num_rules, num_tiles).packed()
    return XLandParams(max_steps_in_episode=limit, ruleset=packed)


def _image(env: XLand, state: XLandState, params: Any) -> UInt8[Array, "size size 2"]:
    return tiles.encode(env.view(state))


def _heading(env: XLand, state: XLandState, params: Any) -> dict[str, Array]:
    return {"image": _image(env, state, params), "direction": state.direction}


def _dict(env: XLand, state: XLandState, params: Any) -> dict[str, Array]:
    task = (env.default_params if params is None else params).ruleset.unpacked()
    return {
        **_heading(env, state, params),
        "pocket": tiles.encode(state.pocket),
        "goal": jnp.asarray(task.goal),
        "rules": jnp.asarray(task.rules),
    }


_OBSERVE: dict[str, Callable[[Any, XLandState, Any], PyTree[Array]]] = {
    "image": _image,
    "heading": _heading,
    "dict": _dict,
}
