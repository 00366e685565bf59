"""Keyboard keys, facts for the side panel and text descriptions of the XLand environments."""

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

KEYS: tuple[ActionKeys, ...] = keyed(  # (action, keys) in the order of `Action`
    ("forward", "up, w"),
    ("right", "right, d"),
    ("left", "left, a"),
    ("pick up", "tab"),
    ("put down", "q, left shift"),
    ("toggle", "space, e"),
)
HEADINGS = ("up", "right", "down", "left")
HIDDEN = "Your task is not part of this observation; obs='dict' states it."
# First letter of a cell in a text drawing, by kind; the letter of the colour follows.
LETTERS = {
    Kind.FLOOR: "f",  # floor in a colour other than black, which only handmade levels have
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
    """Return pairs (index, meaning) that document the observations of a `size` x `size` view."""
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
    """Return facts for the side panel: the goal, the rules and the object in the pocket."""
    pocket = int(state.pocket)
    task = [Fact("", sentence, "sentence") for sentence in _task(env, params)]
    held = tiles.name(pocket) if pocket else ""
    return (*task, Fact("holds", _thing(pocket) or "nothing", "icon", icon=held))


def effects(
    env: "XLand", before: XLandState, action: int, after: XLandState, params: Any
) -> Effects:
    """Return the effects of a step, to highlight: fired rules, a reached goal and changed cells.

    Rules and goal are given as indices into `facts`: 0 is the goal, the non-empty rules follow.
    The result is empty if `action` does not lead from `before` to `after`, because another action
    was played or `after` belongs to the next episode.
    """
    ruleset = (env.default_params if params is None else params).ruleset
    states, reached = jax.device_get(_rule_by_rule(before, np.int32(action), ruleset))
    last = (states.grid[-1] == after.grid).all() & (states.agent[-1] == after.agent)
    if not last:
        return Effects()
    changed = np.diff(states.grid, axis=0) != 0
    fired = changed.any(axis=(1, 2)) | (np.diff(states.agent) != 0)
    stated = np.flatnonzero(ruleset.rules)  # indices of non-empty rules; the i-th is fact 1 + i
    rules = (1 + np.flatnonzero(fired[stated])).tolist()
    cells = tuple((row, column) for row, column in np.argwhere(changed.any(axis=0)).tolist())
    return Effects((0, *rules) if reached[-1] else tuple(rules), cells)


@jax.jit
def _rule_by_rule(
    state: XLandState, action: Array, ruleset: PackedRuleset
) -> tuple[XLandState, Bool[Array, " stages"]]:
    """Return the states during a step, and whether the goal is reached in each of them.

    Index n of the leading axis is the state after the action and the first n rules only.
    """
    count = ruleset.rules.shape[0]
    stages = np.arange(count + 1)[:, None] > np.arange(count)

    def stage(kept: Array) -> tuple[XLandState, Array]:
        rules = jnp.where(kept, ruleset.rules, np.uint32(0))
        return advance(state, action, ruleset.replace(rules=rules))

    return jax.vmap(stage)(stages)


def describe(env: "XLand", state: XLandState, params: Any) -> str:
    """Describe the agent's observation in text: task, pocket, direction and objects in sight."""
    scene, whole, task_seen = scene_of(env, state), env.obs == "rgb_full", env.obs == "dict"
    sentences = [f"{sentence}." for sentence in _task(env, params)] if task_seen else [HIDDEN]
    sentences.append(f"You hold {_thing(scene.carried) or 'nothing'}.")
    if whole or task_seen or env.obs == "heading":  # only these observations contain the direction
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
    """Return the letters that stand for a tile in a text drawing: one for kind, one for colour."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    return LETTERS[Kind(tile & 15)] + COLOUR_SIGNS[Colour(tile >> 4)]


def _task(env: "XLand", params: Any) -> Iterator[str]:
    """Yield the goal and each non-empty rule as a sentence without a full stop."""
    packed = (env.default_params if params is None else params).ruleset
    task = jax.device_get(packed).unpacked()
    yield words.goal_sentence(task.goal.tolist()).removesuffix(".")
    for rule in task.rules.tolist():
        if rule[0]:
            yield words.rule_sentence(rule).removesuffix(".")


def _thing(tile: int) -> str:
    """Return the tile's name with an article, such as `a red ball`; "" for tile byte 0."""
    return a(tiles.name(tile)) if tile else ""
