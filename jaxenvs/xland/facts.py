"""Rule worlds for people: keys, facts for the panel, and a state in words."""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.controls import ActionKeys, keyed
from ..core.facts import Effects, Fact, a, away, drawn, listed
from . import tiles, words
from .engine import advance
from .rulesets import PackedRuleset
from .state import XLandState
from .tiles import Colour, Kind

if TYPE_CHECKING:
    from .env import XLand

KEYS: tuple[ActionKeys, ...] = keyed(  # in the order of `Action`
    ("forward", "up, w"),
    ("right", "right, d"),
    ("left", "left, a"),
    ("pick up", "tab"),
    ("put down", "q, left shift"),
    ("toggle", "space, e"),
)
HEADINGS = ("up", "right", "down", "left")
AGENT = "^>v<"
HIDDEN = "Your task is not part of this observation; obs='dict' states it."
# A cell in a drawing: the letter of its kind, then that of its colour.
LETTERS = {
    Kind.FLOOR: "f",  # of another colour than black, as in a level by hand
    Kind.WALL: "w",
    Kind.BALL: "o",
    Kind.SQUARE: "s",
    Kind.PYRAMID: "p",
    Kind.GOAL: "G",
    Kind.KEY: "k",
    Kind.LOCKED_DOOR: "L",
    Kind.CLOSED_DOOR: "C",
    Kind.OPEN_DOOR: "D",
    Kind.HEX: "h",
    Kind.STAR: "t",
}
PLAIN_SIGNS = {tiles.NOTHING: "?", tiles.FLOOR: ".", tiles.WALL: "#"}
COLOUR_SIGNS = {
    **{colour: colour.name[0].lower() for colour in Colour},
    Colour.GREY: "e",
    Colour.BLACK: "k",
    Colour.BROWN: "n",
    Colour.PINK: "i",
}


def observation_layout(size: int) -> tuple[tuple[str, str], ...]:
    """(index, meaning) of the entries of the observations, for a view of this size."""
    kinds = ", ".join(f"{kind.value} {tiles.KIND_NAMES[kind]}" for kind in Kind)
    colours = ", ".join(f"{colour.value} {colour.name.lower()}" for colour in Colour)
    return (
        ("`image[row, column]`", f"the agent at [{size - 1}, {size // 2}], looking to row 0"),
        ("`image[..., 0]`", kinds),
        ("`image[..., 1]`", colours),
        ("`direction`", "0 up, 1 right, 2 down, 3 left"),
        ("`pocket`", "tile and colour, as in `image`"),
        ("`goal`", "kind, see `jaxenvs.xland.Goal`, then the tiles or the place that it names"),
        ("`rules[number]`", "kind, see `jaxenvs.xland.Rule`, then its tiles, the product last"),
    )


def facts(env: "XLand", state: XLandState, params: Any) -> tuple[Fact, ...]:
    """Goal and rules, and what is in the pocket."""
    pocket, *_ = _read(env, state)
    task = [Fact("", sentence, "sentence") for sentence in _task(env, params)]
    held = tiles.name(pocket) if pocket else ""
    return (*task, Fact("holds", _thing(pocket) or "nothing", "icon", icon=held))


def effects(
    env: "XLand", before: XLandState, action: int, after: XLandState, params: Any
) -> Effects:
    """Sentences of the rules that changed something and of a goal that was reached, and the cells.

    Nothing where another action was played, or where `after` belongs to the next episode.
    """
    ruleset = (env.default_params if params is None else params).ruleset
    states, reached = jax.device_get(_rule_by_rule(before, np.int32(action), ruleset))
    last = (states.grid[-1] == after.grid).all() & (states.agent[-1] == after.agent)
    if not last:
        return Effects()
    changed = np.diff(states.grid, axis=0) != 0
    fired = changed.any(axis=(1, 2)) | (np.diff(states.agent) != 0)
    stated = np.flatnonzero(ruleset.rules)  # those with a sentence, after that of the goal
    rules = (1 + np.flatnonzero(fired[stated])).tolist()
    cells = tuple((row, column) for row, column in np.argwhere(changed.any(axis=0)).tolist())
    return Effects((0, *rules) if reached[-1] else tuple(rules), cells)


@jax.jit
def _rule_by_rule(
    state: XLandState, action: Array, ruleset: PackedRuleset
) -> tuple[XLandState, Bool[Array, " stages"]]:
    """States after the action and the first 0, 1, ... rules; whether the goal is reached then."""
    count = ruleset.rules.shape[0]
    stages = np.arange(count + 1)[:, None] > np.arange(count)

    def stage(kept: Array) -> tuple[XLandState, Array]:
        rules = jnp.where(kept, ruleset.rules, np.uint32(0))
        return advance(state, action, ruleset.replace(rules=rules))

    return jax.vmap(stage)(stages)


def describe(env: "XLand", state: XLandState, params: Any) -> str:
    """Describe the task if it is observed, what the agent holds and what it sees."""
    pocket, direction, view, grid, row, column = _read(env, state)
    whole = env.obs == "rgb_full"
    told = env.obs == "dict"
    cells = _around(grid, row, column, direction) if whole else _in_view(view)
    sentences = [f"{sentence}." for sentence in _task(env, params)] if told else [HIDDEN]
    sentences.append(f"You hold {_thing(pocket) or 'nothing'}.")
    if whole or told or env.obs == "heading":  # otherwise not in the observation
        sentences.append(f"You face {HEADINGS[direction]}.")
    sentences.append(_sighted(cells))
    at, shown = ((row, column), grid) if whole else ((-1, len(view) // 2), view)
    picture = [[sign(tile) for tile in line] for line in shown.tolist()]
    below = tiles.name(int(shown[at]))
    sentences.append(f"You stand on {below if below == 'floor' else _thing(int(shown[at]))}.")
    picture[at[0]][at[1]] = you = AGENT[direction] if whole else AGENT[0]
    where = "The whole grid" if whole else "Your view, ahead is up"
    signs = {sign(int(tile)): tiles.name(int(tile)) for tile in np.unique(shown)}
    others = sorted(signs.keys() & {sign for line in picture for sign in line})
    dark = "outside the grid" if env.see_through_walls else "not seen"
    meanings = ", ".join(f"{sign} {dark if sign == '?' else signs[sign]}" for sign in others)
    return "\n".join([*sentences, f"{where}; {you} is you, {meanings}:", drawn(picture)])


def sign(tile: int) -> str:
    """The letters of a cell in a drawing."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    return LETTERS[Kind(tile & 15)] + COLOUR_SIGNS[Colour(tile >> 4)]


def _task(env: "XLand", params: Any) -> Iterator[str]:
    """Goal and rules as sentences without a full stop."""
    packed = (env.default_params if params is None else params).ruleset
    task = jax.device_get(packed).unpacked()
    yield words.goal_sentence(task.goal.tolist()).removesuffix(".")
    for rule in task.rules.tolist():
        if rule[0]:
            yield words.rule_sentence(rule).removesuffix(".")


def _read(env: "XLand", state: XLandState) -> tuple[Any, ...]:
    """Tile in the pocket, direction, view, grid, row and column, on the host."""
    pocket, direction, view, grid, row, column = jax.device_get(_reader(env)(state))
    return int(pocket), int(direction), view, grid, int(row), int(column)


@functools.lru_cache(maxsize=64)
def _reader(env: "XLand") -> Callable[[XLandState], tuple[Any, ...]]:
    def reader(state: XLandState) -> tuple[Any, ...]:
        view = env.view(state)
        return state.pocket, state.direction, view, state.grid, state.row, state.column

    return jax.jit(reader)


Cells = dict[tuple[int, int], int]  # (steps ahead, steps to the right) of the agent -> tile


def _in_view(view: np.ndarray) -> Cells:
    size = len(view)
    return {(size - 1 - row, col - size // 2): int(t) for (row, col), t in np.ndenumerate(view)}


def _around(grid: np.ndarray, row: int, column: int, direction: int) -> Cells:
    down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[direction]
    cells = {}
    for (r, c), tile in np.ndenumerate(grid):
        d_row, d_column = r - row, c - column
        cells[d_row * down + d_column * right, d_column * -down + d_row * right] = int(tile)
    return cells


def _thing(tile: int) -> str:
    """A tile with its article."""
    return a(tiles.name(tile)) if tile else ""


def _sighted(cells: Cells) -> str:
    """Objects in sight, the nearest first."""
    found = [
        (abs(ahead) + abs(right), -ahead, right, tile)
        for (ahead, right), tile in cells.items()
        if tile not in PLAIN_SIGNS and (ahead, right) != (0, 0)
    ]
    places = (f"{_thing(t)} {away(-behind, right)}" for _, behind, right, t in sorted(found))
    return f"You see {listed(places)}." if found else "You see no objects."
