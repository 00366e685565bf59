"""Keys, panel facts and text descriptions of rule worlds, for players and pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.controls import ActionKeys, keyed
from ..core.facts import Effects, Fact, a
from ..core.surroundings import cells_of, drawing, scene_of, sighted
from . import tiles, words
from .engine import advance
from .rulesets import PackedRuleset
from .state import XLandState
from .tiles import Colour, Kind

if TYPE_CHECKING:
    from .env import XLand

KEYS: tuple[ActionKeys, ...] = keyed(  # keys in the order of `Action`
    ("forward", "up, w"),
    ("right", "right, d"),
    ("left", "left, a"),
    ("pick up", "tab"),
    ("put down", "q, left shift"),
    ("toggle", "space, e"),
)
HEADINGS = ("up", "right", "down", "left")
HIDDEN = "Your task is not part of this observation; obs='dict' states it."
# Letter of each kind in a drawing; the colour's letter follows.
LETTERS = {
    Kind.FLOOR: "f",  # a floor that is not black, as in handmade levels
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
    """Return (index, meaning) of the entries of the observations, for a view of this size."""
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
    """Return goal, rules and the object in the pocket."""
    pocket = int(state.pocket)
    task = [Fact("", sentence, "sentence") for sentence in _task(env, params)]
    held = tiles.name(pocket) if pocket else ""
    return (*task, Fact("holds", _thing(pocket) or "nothing", "icon", icon=held))


def effects(
    env: "XLand", before: XLandState, action: int, after: XLandState, params: Any
) -> Effects:
    """Return the sentences of a reached goal and of rules that fired, and the changed cells.

    Sentences are given by their indices in `facts`: 0 is the goal, then the non-empty rules.
    Empty if `action` does not lead from `before` to `after`: another action was played, or `after`
    belongs to the next episode.
    """
    ruleset = (env.default_params if params is None else params).ruleset
    states, reached = jax.device_get(_rule_by_rule(before, np.int32(action), ruleset))
    last = (states.grid[-1] == after.grid).all() & (states.agent[-1] == after.agent)
    if not last:
        return Effects()
    changed = np.diff(states.grid, axis=0) != 0
    fired = changed.any(axis=(1, 2)) | (np.diff(states.agent) != 0)
    stated = np.flatnonzero(ruleset.rules)  # non-empty rules; the i-th has sentence 1 + i
    rules = (1 + np.flatnonzero(fired[stated])).tolist()
    cells = tuple((row, column) for row, column in np.argwhere(changed.any(axis=0)).tolist())
    return Effects((0, *rules) if reached[-1] else tuple(rules), cells)


@jax.jit
def _rule_by_rule(
    state: XLandState, action: Array, ruleset: PackedRuleset
) -> tuple[XLandState, Bool[Array, " stages"]]:
    """Return the states after the action and the first 0, 1, ... rules, and whether each wins.

    The leading axis is the number of rules that were applied.
    """
    count = ruleset.rules.shape[0]
    stages = np.arange(count + 1)[:, None] > np.arange(count)

    def stage(kept: Array) -> tuple[XLandState, Array]:
        rules = jnp.where(kept, ruleset.rules, np.uint32(0))
        return advance(state, action, ruleset.replace(rules=rules))

    return jax.vmap(stage)(stages)


def describe(env: "XLand", state: XLandState, params: Any) -> str:
    """Describe the observed task, the object in the pocket and the objects in sight."""
    scene, whole, task_seen = scene_of(env, state), env.obs == "rgb_full", env.obs == "dict"
    sentences = [f"{sentence}." for sentence in _task(env, params)] if task_seen else [HIDDEN]
    sentences.append(f"You hold {_thing(scene.carried) or 'nothing'}.")
    if whole or task_seen or env.obs == "heading":  # other observations lack the direction
        sentences.append(f"You face {HEADINGS[scene.direction]}.")
    objects = cells_of(scene, whole)
    below = tiles.name(objects.pop((0, 0)))
    objects = {at: tile for at, tile in objects.items() if tile not in PLAIN_SIGNS}
    sentences.append(sighted(objects, _thing))
    sentences.append(f"You stand on {below if below == 'floor' else a(below)}.")
    unseen = "outside the grid" if env.see_through_walls else "not seen"

    def meaning(tile: int) -> str:
        return tiles.name(tile) if tile else unseen

    return "\n".join([*sentences, drawing(scene, whole, sign, meaning)])


def sign(tile: int) -> str:
    """Return the letters of a cell in a drawing."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    return LETTERS[Kind(tile & 15)] + COLOUR_SIGNS[Colour(tile >> 4)]


def _task(env: "XLand", params: Any) -> Iterator[str]:
    """Yield goal and rules as sentences without a full stop."""
    packed = (env.default_params if params is None else params).ruleset
    task = jax.device_get(packed).unpacked()
    yield words.goal_sentence(task.goal.tolist()).removesuffix(".")
    for rule in task.rules.tolist():
        if rule[0]:
            yield words.rule_sentence(rule).removesuffix(".")


def _thing(tile: int) -> str:
    """Name a tile with its article; "" for none."""
    return a(tiles.name(tile)) if tile else ""
