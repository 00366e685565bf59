"""Text descriptions of Craft's states, a batch at a time.

`facts` and `full_facts` have the names of blocks, mobs and items, and their signs: the characters
that stand for them in a drawing of the view. Sentences and rows of the view are cached, because
many states share them.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..core.facts import Fact, listed, sentences
from ..core.surroundings import Frame, Palette, Thing, Writer, frame_of, tiles_of
from ..core.texts import Memo, changes_of, kept, pairs, row_bytes
from .facts import SIGNS, Body, hour
from .tables import Block

if TYPE_CHECKING:
    from .env import CraftEnv
    from .state import CraftState

FACING = {1: "left", 2: "right", 3: "up", 4: "down"}
# Cell offset (rows down, columns right) for each value of `World.facing`.
WAYS = {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}
YOU = "@"  # character of the player in drawings


class Inputs(NamedTuple):
    """Arrays from which the text descriptions of states are written."""

    cells: Any  # byte of each cell of the view, see `facts.cells`, uint8 (rows, columns)
    body: Body
    facing: Any
    light: Any  # daylight, 0 to 1
    time: Any
    day_length: Any


class Description(NamedTuple):
    """Text that describes one state, in parts."""

    bars: list[Fact]
    counts: list[Fact]
    known: tuple[str, ...]  # a sentence about vitals, one about items, then one per other fact
    front: str  # sentence about the direction and the cell in front of the player
    creatures: str
    nearest: str  # sentence about the nearest things; "" if there are none
    drawing: str

    def lines(self) -> list[str]:
        """Return the lines of the full text."""
        near = [self.nearest] if self.nearest else []
        return [*self.known, self.front, self.creatures, *near, self.drawing]

    def short(self) -> list[str]:
        """Return a line on vitals, one on items and the cell ahead, and one on things in view."""
        vitals, items, *_ = self.known
        seen = " ".join(filter(None, (self.creatures, self.nearest)))
        return [vitals, f"{items} {self.front}", seen]


def text_inputs(env: "CraftEnv", state: "CraftState", params: Any) -> Inputs:
    """Return the arrays that the text description of a state needs; traceable by JAX."""
    params, world = env.default_params if params is None else params, env.world(state)
    return Inputs(
        cells=env.people.cells(env.rules, env.view(state)),
        body=env.people.body_of(env.rules, world),
        facing=world.facing,
        light=env.light(state, params),
        time=state.time,
        day_length=params.day_length,
    )


def texts(env: "CraftEnv", inputs: Inputs, detail: str) -> list[str]:
    """Describe states: vitals, inventory, the cell ahead and things in view.

    With `detail` "full", also describe all other facts, such as the time, and draw the view.
    """
    if detail == "full":
        return ["\n".join(one.lines()) for one in descriptions(env, inputs)]
    return ["\n".join(one.short()) for one in descriptions(env, inputs, is_drawn=False)]


def known(env: "CraftEnv", inputs: Inputs) -> tuple[Fact, ...]:
    """Return the facts about one state that a viewer shows next to the picture.

    `inputs` is a batch of one state.
    """
    body, (days,) = _row(inputs.body, 0), _days(inputs)
    people, rules = env.people, env.rules
    last = people.others(rules, body, float(inputs.light[0]), days)
    return (*people.bars(rules, body), *people.counts(rules, body), *last)


def descriptions(env: "CraftEnv", inputs: Inputs, is_drawn: bool = True) -> list[Description]:
    """Return a description of each state; its drawing is "" unless `is_drawn`."""
    return _writer(type(env)).descriptions(inputs, is_drawn)


def changes(env: "CraftEnv", old: Inputs, new: Inputs) -> list[str]:
    """Describe what changed between two batches of states."""
    return [_changes(*pair) for pair in pairs(descriptions(env, old), descriptions(env, new))]


def _changes(old: Description, new: Description) -> str:
    before = {fact.label: fact.value for fact in old.bars}
    lines = [
        f"{fact.label.capitalize()} is now {fact.value}, it was {before[fact.label]}."
        for fact in new.bars
        if before[fact.label] != fact.value
    ]
    lines += _gains("gained", old.counts, new.counts)
    lines += _gains("lost", new.counts, old.counts)
    lines += [line for line in new.known[2:] if line not in old.known]
    for part in ("front", "creatures", "nearest"):
        if getattr(new, part) != getattr(old, part):
            lines.append(getattr(new, part) or "You see no things.")
    return changes_of(lines, old.drawing != new.drawing, "Other cells in view changed.")


def _gains(verb: str, less: Sequence[Fact], more: Sequence[Fact]) -> Iterator[str]:
    """Yield a sentence about the items with a higher count in `more` than in `less`, if any."""
    before = {fact.label: int(fact.amount) for fact in less}
    found = [(fact.label, int(fact.amount) - before.get(fact.label, 0)) for fact in more]
    if gained := [f"{number} {label}" for label, number in found if number > 0]:
        yield f"You {verb} {listed(gained)}."


@functools.cache
def _writer(edition: type) -> "_Writer":
    return _Writer(edition.rules, edition.people)  # type: ignore[attr-defined]


class _Writer:
    """Writer of the texts of an edition of the game; it caches sentences, which often repeat."""

    def __init__(self, rules: Any, people: Any) -> None:
        self.rules, self.people = rules, people
        sights = self.sights = people.sights(rules)
        self.is_creature, self.is_thing = (
            np.array([byte in sights and sights[byte].kind == kind for byte in range(256)])
            for kind in ("creature", "thing")
        )
        palette = Palette(lambda b: sights[b].sign, str, lambda b: sights[b].said, self.is_creature)
        self.writer = Writer(palette)
        height, width = rules.view
        self.frame: Frame = frame_of((height, width), height // 2, width // 2, 3, ("up", "down"))
        self.legends = Memo(self._legend)
        self.front = Memo(self._front)
        self.bars, self.counts, self.others = {}, {}, {}

    def descriptions(self, inputs: Inputs, is_drawn: bool) -> list[Description]:
        """Return a description of each state of a batch."""
        cells = inputs.cells.reshape(len(inputs.cells), -1).copy()
        # No text mentions the player's cell. With a fixed block in this cell, rows of the view that
        # differ only there share a cached text.
        cells[:, self.frame.agent] = Block.GRASS
        seen = map(_creatures, self.writer.things(cells, self.frame))
        drawings = self._drawings(cells) if is_drawn else [""] * len(cells)
        around = zip(self._fronts(inputs, cells), seen, self._nearest(cells), drawings, strict=True)
        return [
            Description(bars, counts, (vitals, items, *others), *places)
            for (bars, vitals), (counts, items), others, places in zip(
                *self._known(inputs), around, strict=True
            )
        ]

    def _known(self, inputs: Inputs) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the facts of a batch of states in three lists: on vitals, on items, on all else.

        Each list has one entry per state. An entry on vitals or items is a pair (facts, one
        sentence that states all of them). An entry of the third list is a list of sentences.
        """
        body, rules, people = inputs.body, self.rules, self.people

        def of(write: Callable[..., list[Fact]], *more: Any) -> Callable[[int], Any]:
            def written(i: int) -> tuple[list[Fact], list[str]]:
                found = write(rules, _row(body, i), *(column[i] for column in more))
                return found, sentences(found)

            return written

        def one(written: tuple[list[Fact], list[str]]) -> tuple[list[Fact], str]:
            return written[0], written[1][0]

        days, light = _days(inputs), inputs.light.tolist()
        bars = kept(self.bars, _keys(body.vitals, body.traits), of(people.bars))
        counts = kept(self.counts, _keys(body.items, body.traits), of(people.counts))
        times = [(int(d), hour(d % 1, x), f"{x:.0%}") for d, x in zip(days, light, strict=True)]
        keys = [*zip(_keys(body.sleeping, body.rest), times, strict=True)]
        others = kept(self.others, keys, of(people.others, light, days))
        return [*map(one, bars)], [*map(one, counts)], [lines for _, lines in others]

    def _nearest(self, cells: np.ndarray) -> list[str]:
        """Return, for each state, a sentence on the things in view: the nearest thing of each name.

        The sentence is "" if no thing is in view.
        """
        # All cells but the player's, which is the first in `order`.
        near = cells[:, self.frame.order[1:]]
        names: dict[str, list[int]] = {}
        for byte in np.flatnonzero(np.bincount(near.reshape(-1), minlength=256)).tolist():
            if self.is_thing[byte]:
                names.setdefault(self.sights[byte].name, []).append(byte)
        first = np.full((len(cells), len(names)), near.shape[1], np.intp)
        for column, found in enumerate(names.values()):
            is_one = np.isin(near, found) if len(found) > 1 else near == found[0]
            first[:, column] = np.where(is_one.any(axis=1), is_one.argmax(axis=1), near.shape[1])
        first.sort(axis=1)
        padded = np.concatenate([near, np.zeros((len(cells), 1), np.uint8)], axis=1)
        bytes_of = np.take_along_axis(padded, first, axis=1).tolist()
        places, last, thing = self.frame.places[1:], near.shape[1], self.writer.thing
        return [
            _nearest_things([thing[byte, places[i]] for byte, i in pairs(*row) if i < last])
            for row in pairs(bytes_of, first.tolist())
        ]

    def _fronts(self, inputs: Inputs, cells: np.ndarray) -> list[str]:
        """Return, for each state, the sentence about the player's direction and the cell ahead."""
        height, width = self.rules.view
        offset = np.zeros(5, np.intp)
        for way, (down, right) in WAYS.items():
            offset[way] = (height // 2 + down) * width + width // 2 + right
        ahead = cells[np.arange(len(cells)), offset[inputs.facing]]
        return [self.front[pair] for pair in pairs(inputs.facing.tolist(), ahead.tolist())]

    def _front(self, pair: tuple[int, int]) -> str:
        facing, byte = pair
        return f"You face {FACING[facing]}; in front of you: {self.sights[byte].said}."

    def _drawings(self, cells: np.ndarray) -> list[str]:
        legends = [self.legends[key] for key in self.writer.present(cells, self.frame)]
        return [
            f"{legend}\n{picture}"
            for legend, picture in pairs(legends, self.writer.pictures(cells, self.frame, YOU))
        ]

    def _legend(self, present: bytes) -> str:
        """Return the text that explains the drawing's characters, in the order of `SIGNS`.

        Characters that are not in `SIGNS`, such as mobs, come last.
        """
        order = [*SIGNS.values()]
        names: dict[str, set[str]] = {}
        for byte in tiles_of(present):
            names.setdefault(self.sights[byte].sign, set()).add(self.sights[byte].name)
        shown = sorted(names, key=lambda s: (order.index(s) if s in order else len(order), s))
        explained = ", ".join(f"{s} {listed(sorted(names[s]))}" for s in shown)
        return f"Your view; {YOU} is you, {explained}:"


def _creatures(things: Sequence[Thing]) -> str:
    return f"You see {listed([t.phrase for t in things]) if things else 'no creatures'}."


def _nearest_things(things: Sequence[Thing]) -> str:
    return f"The nearest things: {listed([t.phrase for t in things])}." if things else ""


def _days(inputs: Inputs) -> list[float]:
    """Return, for each state, the days (with fraction) since the start of the episode."""
    both = pairs(inputs.time.tolist(), inputs.day_length.tolist())
    return [time / max(1, int(day)) for time, day in both]


def _keys(*parts: Any) -> list[bytes]:
    """Return one cache key per state: the bytes of all numbers that `parts` have for this state."""
    return row_bytes(np.stack(jax.tree.leaves(parts), axis=1))


def _row(body: Body, number: int) -> Body:
    return jax.tree.map(lambda leaf: leaf[number], body)
