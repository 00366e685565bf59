"""Keyboard keys, facts for the side panel and text descriptions of the XLand environments."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core import surroundings
from ..core.controls import ActionKeys, keyed
from ..core.facts import Effects, Fact, a
from ..core.surroundings import Palette, Thing, Writer
from ..core.texts import Memo, changes_of, pairs, row_bytes
from . import tiles, words
from .engine import advance
from .rulesets import PackedRuleset
from .state import XLandState
from .tiles import Colour, Kind

if TYPE_CHECKING:
    from .env import XLand

KEYS: tuple[ActionKeys, ...] = keyed(  # keys that perform each action, in the order of `Action`
    ("forward", "up, w"),
    ("right", "right, d"),
    ("left", "left, a"),
    ("pick up", "tab"),
    ("put down", "q, left shift"),
    ("toggle", "space, e"),
)
HEADINGS = ("up", "right", "down", "left")
HIDDEN = "Your task is not part of this observation; obs='dict' states it."
# Letter of each kind of tile in a text drawing; the letter of the tile's colour comes after it.
LETTERS = {
    Kind.FLOOR: "f",  # coloured floor; only handmade levels have it
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
    """Return pairs (index, meaning) that explain the arrays of an observation.

    size: number of rows and of columns of the agent's view.
    """
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
    """Return the effects of a step to highlight: fired rules, a reached goal and changed cells.

    `Effects.facts` has indices into the result of `facts`: 0 is the goal, and 1, 2, ... are the
    non-empty rules. The result is empty if `action` does not lead from `before` to `after`, for
    example if `after` is from the next episode.
    """
    ruleset = (env.default_params if params is None else params).ruleset
    states, reached = jax.device_get(_rule_by_rule(before, np.int32(action), ruleset))
    last = (states.grid[-1] == after.grid).all() & (states.agent[-1] == after.agent)
    if not last:
        return Effects()
    changed = np.diff(states.grid, axis=0) != 0
    fired = changed.any(axis=(1, 2)) | (np.diff(states.agent) != 0)
    # Indices of the non-empty rules. `facts` has the goal at index 0 and these rules from index 1.
    stated = np.flatnonzero(ruleset.rules)
    rules = (1 + np.flatnonzero(fired[stated])).tolist()
    cells = tuple((row, column) for row, column in np.argwhere(changed.any(axis=0)).tolist())
    return Effects((0, *rules) if reached[-1] else tuple(rules), cells)


@jax.jit
def _rule_by_rule(
    state: XLandState, action: Array, ruleset: PackedRuleset
) -> tuple[XLandState, Bool[Array, " stages"]]:
    """Return the state after each stage of a step, and whether the goal is reached at that stage.

    Stage n, the index on the leading axis, is the action followed by rules 0 to n - 1.
    """
    count = ruleset.rules.shape[0]
    stages = np.arange(count + 1)[:, None] > np.arange(count)

    def stage(kept: Array) -> tuple[XLandState, Array]:
        rules = jnp.where(kept, ruleset.rules, np.uint32(0))
        return advance(state, action, ruleset.replace(rules=rules))

    return jax.vmap(stage)(stages)


def text_inputs(env: "XLand", state: XLandState, params: Any) -> dict[str, Array]:
    """Return the arrays that `texts` turns into words: cells in sight, agent, pocket and task.

    The task is included only if the observation contains it.
    """
    inputs = surroundings.inputs_of(env, state, _is_whole(env))
    if env.obs in ("dict", "heading", "rgb_full"):  # only these observations show the direction
        inputs["direction"] = state.direction
    if env.obs == "dict":
        packed = (env.default_params if params is None else params).ruleset
        inputs |= {"goal": jnp.asarray(packed.goal), "rules": jnp.asarray(packed.rules)}
    return inputs


def texts(env: "XLand", inputs: dict[str, np.ndarray], detail: str) -> list[str]:
    """Describe observations in words; add a drawing made of characters if `detail` is "full".

    A text has the task, the pocket, the direction and the objects in sight.
    """
    if detail == "full":
        return ["\n".join(one.lines()) for one in descriptions(env, inputs)]
    return ["\n".join(one.short()) for one in descriptions(env, inputs, is_drawn=False)]


class Description(NamedTuple):
    """The sentences and the drawing that make up the text about one state."""

    task: tuple[str, ...]  # sentences about goal and rules; or one that says the task is hidden
    holds: str
    faces: str  # sentence about the agent's direction; "" if it is not observed
    things: list[Thing]  # objects in sight
    stands: str  # sentence about the floor below the agent
    drawing: str

    def lines(self) -> list[str]:
        """Return the lines of the full text."""
        head = [*self.task, self.holds, *([self.faces] if self.faces else [])]
        return [*head, surroundings.sighted(self.things), self.stands, self.drawing]

    def short(self) -> list[str]:
        """Return the three lines of the short text, which has no drawing."""
        have = " ".join(filter(None, (self.holds, self.faces, self.stands)))
        return [" ".join(self.task), have, surroundings.sighted(self.things)]


def descriptions(
    env: "XLand", inputs: dict[str, np.ndarray], is_drawn: bool = True
) -> list[Description]:
    """Return a description of each state of a batch; its drawing is "" unless `is_drawn`."""
    count = len(inputs["cells"])
    found: list[Any] = [None] * count
    cells, writer = inputs["cells"].reshape(count, -1), _writer(env.see_through_walls)
    tasks, held = _tasks(inputs, count), inputs["carried"].tolist()
    ways = inputs["direction"].tolist() if "direction" in inputs else [-1] * count
    where = "The whole grid" if _is_whole(env) else "Your view, ahead is up"
    for pose, rows in surroundings.groups(inputs["agent"]):
        frame, some = surroundings.frame_of(inputs["cells"].shape[1:], *pose), cells[rows]
        drawings = writer.drawings(some, frame, pose[2], where) if is_drawn else [""] * len(rows)
        below = some[:, frame.agent].tolist()
        some[:, frame.agent] = tiles.FLOOR
        parts = zip(rows.tolist(), writer.things(some, frame), below, drawings, strict=True)
        for i, things, tile, drawing in parts:
            faces = f"You face {HEADINGS[ways[i]]}." if ways[i] >= 0 else ""
            found[i] = Description(tasks[i], _HOLDS[held[i]], faces, things, _STANDS[tile], drawing)
    return found


def changes(env: "XLand", old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
    """Describe for each state what differs between its observations in `old` and in `new`."""
    return [_changes(*pair) for pair in pairs(descriptions(env, old), descriptions(env, new))]


def _changes(old: Description, new: Description) -> str:
    sentences = [] if old.task == new.task else [*new.task]
    if new.holds != old.holds:
        sentences.append(new.holds.replace("You hold", "You now hold"))
    if new.faces != old.faces:
        sentences.append(new.faces.replace("You face", "You now face"))
    sentences += surroundings.sighting_changes(old.things, new.things)
    if new.stands != old.stands:
        sentences.append(new.stands.replace("You stand", "You now stand"))
    return changes_of(sentences, old.drawing != new.drawing, surroundings.CELLS_CHANGED)


def _tasks(inputs: dict[str, np.ndarray], count: int) -> list[tuple[str, ...]]:
    """Return the sentences about the task of each state of a batch."""
    if "goal" not in inputs:
        return [(HIDDEN,)] * count
    packed = np.concatenate([inputs["goal"].reshape(count, 1), inputs["rules"]], axis=1)
    return [_TASKS[task] for task in row_bytes(packed.astype(np.uint32))]


def _task_in_words(task: bytes) -> tuple[str, ...]:
    """Return the sentences about a task, given the packed goal and rules as bytes."""
    goal, *rules = np.frombuffer(task, np.uint32)
    packed = PackedRuleset(goal=goal, rules=np.array(rules), init_tiles=np.zeros(1, np.uint8))
    return tuple(f"{sentence}." for sentence in _sentences(packed))


def _is_whole(env: "XLand") -> bool:
    return env.obs == "rgb_full"


@functools.cache
def _writer(see_through_walls: bool) -> Writer:
    """Return the `Writer` of texts, with names and signs for all tiles.

    The name of tile 0 is "not seen", or "outside the grid" if the agent sees through walls.
    """
    unseen = "outside the grid" if see_through_walls else "not seen"
    is_object = np.array([tile not in PLAIN_SIGNS for tile in range(256)])
    return Writer(
        Palette(sign, lambda tile: tiles.name(tile) if tile else unseen, _thing, is_object)
    )


def sign(tile: int) -> str:
    """Return the sign of a tile in a text drawing.

    The sign is `?`, `.` or `#`, or else two letters: one for the kind and one for the colour.
    """
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    return LETTERS[Kind(tile & 15)] + COLOUR_SIGNS[Colour(tile >> 4)]


def _task(env: "XLand", params: Any) -> Iterator[str]:
    """Yield the goal and each non-empty rule as a sentence without a full stop."""
    yield from _sentences(
        jax.device_get((env.default_params if params is None else params).ruleset)
    )


def _sentences(packed: PackedRuleset) -> Iterator[str]:
    task = packed.unpacked()
    yield words.goal_sentence(task.goal.tolist()).removesuffix(".")
    for rule in task.rules.tolist():
        if rule[0]:
            yield words.rule_sentence(rule).removesuffix(".")


def _thing(tile: int) -> str:
    """Return the tile's name with an article, such as `a red ball`; "" for tile byte 0."""
    return a(tiles.name(tile)) if tile else ""


_TASKS = Memo(_task_in_words)
_HOLDS = Memo(lambda tile: f"You hold {_thing(tile) or 'nothing'}.")
_STANDS = Memo(lambda tile: f"You stand on {_ground(tiles.name(tile))}.")


def _ground(name: str) -> str:
    return name if name == "floor" else a(name)
