"""Parse the sections `objects`, `legend` and `collisionlayers`, which define a game's names."""

import dataclasses
import re
from typing import NamedTuple

from ..core.checks import counted
from .colors import NAMES, OTHER_SPELLINGS
from .text import SECTIONS, Line, Problems

# Words that have a fixed meaning in rules, sounds or section headings, as in PuzzleScript's engine.
# A game should not use them as names; if it does, it gets a warning.
KEYWORDS = frozenset(
    f"{' '.join(SECTIONS)} ... | [ ] up down left right late rigid ^ v > < no randomdir random "
    "horizontal vertical any all some moving stationary parallel perpendicular action message "
    "move create destroy cantmove sfx0 sfx1 sfx2 sfx3 sfx4 sfx5 sfx6 sfx7 sfx8 sfx9 sfx10 cancel "
    "restart win again undo titlescreen startgame endgame startlevel endlevel showmessage "
    "closemessage".split()
)


class Sprite(NamedTuple):
    """Picture of an object, 5 x 5 pixels, as written in the game's source."""

    line: int
    colors: tuple[str, ...]  # colour names, #rgb or #rrggbb
    # Digits (index in `colors`) and dots (transparent); (): all pixels have colour 0.
    rows: tuple[str, ...]


@dataclasses.dataclass
class Names:
    """Meaning of the names in a game's source.

    A name stands for an object, or it is a synonym of another name, an aggregate (`A and B`: all of
    these objects) or a property (`A or B`: any of these objects). In a mask of objects, bit i is
    for the object with id i.
    """

    problems: Problems
    sprites: dict[str, Sprite] = dataclasses.field(default_factory=dict)  # object -> its sprite
    synonyms: dict[str, str] = dataclasses.field(default_factory=dict)  # synonym -> name
    # Name of an aggregate or of a property -> names of its objects.
    aggregates: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    properties: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # Synonym, aggregate or property -> line that defines it.
    lines: dict[str, int] = dataclasses.field(default_factory=dict)
    layers: list[list[str]] = dataclasses.field(default_factory=list)  # objects of each layer
    ids: dict[str, int] = dataclasses.field(default_factory=dict)  # object -> index in `order`
    layer_of: dict[str, int] = dataclasses.field(default_factory=dict)  # object -> its layer
    order: list[str] = dataclasses.field(default_factory=list)  # objects, layer by layer
    sounds: set[str] = dataclasses.field(default_factory=set)  # sound events that have a seed

    def __contains__(self, name: str) -> bool:
        return name in self.sprites or name in self.lines

    def target(self, name: str) -> str:
        """Return the name at the end of a chain of synonyms that starts with `name`."""
        seen = set()
        while name in self.synonyms and name not in self.sprites and name not in seen:
            seen.add(name)
            name = self.synonyms[name]
        return name

    def members(self, name: str) -> tuple[str, ...]:
        """Return the objects of a name: an aggregate means all of them, a property any of them."""
        name = self.target(name)
        if name in self.sprites:
            return (name,)
        return self.aggregates.get(name) or self.properties.get(name) or ()

    def is_aggregate(self, name: str) -> bool:
        """Return whether a name stands for all of its members in one cell."""
        return self.target(name) in self.aggregates

    def is_property(self, name: str) -> bool:
        """Return whether a name stands for one of its members."""
        return self.target(name) in self.properties

    def mask(self, name: str) -> int:
        """Return the mask of the objects that a name stands for."""
        return sum({1 << self.ids[member] for member in self.members(name) if member in self.ids})

    def layer_mask(self, layer: int) -> int:
        """Return the mask of the objects on collision layer `layer`."""
        return sum(1 << self.ids[name] for name, each in self.layer_of.items() if each == layer)

    def single_layer(self, name: str) -> int | None:
        """Return the layer of an object or property; None if its members are on several layers."""
        layers = {self.layer_of.get(member) for member in self.members(name)}
        return layers.pop() if len(layers) == 1 else None

    def number(self) -> None:
        """Assign ids to objects in the order of the collision layers, and check the definitions.

        An object that is listed twice gets its last id.
        """
        for layer, names in enumerate(self.layers):
            for name in names:
                self.ids[name], self.layer_of[name] = len(self.order), layer
                self.order.append(name)
        for name, sprite in self.sprites.items():
            if name not in self.ids:
                self.problems.error(
                    sprite.line,
                    f"{name.upper()} is in no collision layer; add it to COLLISIONLAYERS",
                )
            if not sprite.colors:
                self.problems.error(sprite.line, f"{name.upper()} has no colours; give 1 to 10")
        for name, members in self.aggregates.items():
            self._check_aggregate(name, members)
        self._check_background()

    def _check_aggregate(self, name: str, members: tuple[str, ...]) -> None:
        taken: dict[int, str] = {}
        for member in members:
            layer = self.layer_of.get(member)
            if layer is not None and layer not in taken:
                taken[layer] = member
            elif layer is not None:
                self.problems.error(
                    self.lines.get(name, 0),
                    f"{name.upper()} needs {taken[layer].upper()} and {member.upper()} in one "
                    f"cell, and both are on layer {layer + 1}",
                )

    def _check_background(self) -> None:
        for name in ("player", "background"):
            if name not in self:
                self.problems.error(0, f"no object is called {name}; define it or a synonym")
        if "background" not in self:
            return
        if self.is_aggregate("background"):
            line = self.lines.get("background", 0)
            self.problems.error(line, "BACKGROUND is an object or a property, not an aggregate")
        elif self.single_layer("background") is None:
            line = self.lines.get("background", 0)
            self.problems.error(line, "all members of BACKGROUND must be on one layer")

    @property
    def background(self) -> str:
        """Name of the default background object.

        In the cells for which a level names no background object, the first background object that
        the level names is used. This default is used if the level names none.
        """
        members = [name for name in self.members("background") if name in self.ids]
        if self.is_aggregate("background") or not members:
            return self.order[0]
        return members[0]

    # Parsing of definitions.

    @staticmethod
    def undefined(name: str) -> str:
        """Return the error message for a name that is not defined."""
        return f"{name.upper()} is not defined in OBJECTS or LEGEND"

    @staticmethod
    def taken(name: str, line: int) -> str:
        """Return the error message for a name that line `line` has already defined."""
        return f"{name.upper()} is already defined in line {line}; choose another name"

    def declare(self, name: str, line: int) -> bool:
        """Record the line that defines a name.

        If the name is taken, record an error and return False.
        """
        if name in self:
            where = self.lines.get(name) or self.sprites[name].line
            self.problems.error(line, self.taken(name, where))
            return False
        if name in KEYWORDS:
            self.problems.warn(line, f"{name.upper()} is a keyword; choose another name")
        self.lines[name] = line
        return True

    def read_legend(self, line: Line) -> None:
        """Parse a line of the section `legend`: `a = b`, `a = b and c` or `a = b or c`."""
        found = re.match(r"([^=\s]*)\s*=\s*(.*)", line.text)
        words = found[2].split() if found else []
        if not found or not words or len(words) % 2 == 0:
            form = "A = B, A = B and C, or A = B or C"
            self.problems.error(line.number, f"a line of the legend is {form}: {line.text!r}")
            return
        name, joins, given = found[1], words[1::2], words[::2]
        if len({*joins}) > 1 or not {*joins} <= {"and", "or"}:
            self.problems.error(
                line.number, f"join names by `and` alone or by `or` alone: {line.text!r}"
            )
            return
        for each in given:
            if each == name:
                self.problems.error(line.number, f"{name.upper()} is defined by itself")
            elif not re.fullmatch(r"\w+", each):
                self.problems.error(
                    line.number, f"{each!r} in a definition; write names of letters, digits and _"
                )
            elif each not in self:
                self.problems.error(line.number, self.undefined(each))
            if given.count(each) > 1:
                self.problems.warn(line.number, f"{each.upper()} occurs twice in a definition")
        self._define(
            name, joins, [each for each in given if each != name and each in self], line.number
        )

    def _define(self, name: str, joins: list[str], given: list[str], line: int) -> None:
        """Define `name` as a synonym, an aggregate or a property of the names in `given`.

        `joins` has the words between the names: "and" for an aggregate, "or" for a property, none
        for a synonym.
        """
        if not given or not self.declare(name, line):
            return
        if not joins:
            self.synonyms[name] = given[0]
            return
        of_all = joins[0] == "and"
        wrong = self.is_property if of_all else self.is_aggregate
        kinds = "an aggregate", "a property"
        kind, other = kinds if of_all else kinds[::-1]
        for each in filter(wrong, given):
            self.problems.error(
                line,
                f"{name.upper()} is {kind}, and {each.upper()} {other}: they do not mix; "
                "write objects instead",
            )
        members = tuple(member for each in given for member in self.members(each))
        (self.aggregates if of_all else self.properties)[name] = members

    def read_layer(self, line: Line) -> None:
        """Parse a line of the section `collisionlayers`: the objects of one layer."""
        layer: list[str] = []
        given = [word for word in re.split(r"[\s,]+", line.text) if word]
        for name in given:
            layer += self._on_layer(name, line.number)
            if given.count(name) > 1:
                self.problems.warn(line.number, f"{name.upper()} occurs twice in a layer")
        if "background" in given and len(given) > 1:
            self.problems.error(line.number, "BACKGROUND must be alone on its layer")
        for name in layer:
            if any(name in other for other in self.layers):
                self.problems.warn(
                    line.number, f"{name.upper()} is on several layers; the last one is used"
                )
        self.layers.append(layer)

    def _on_layer(self, name: str, line: int) -> tuple[str, ...]:
        """Return the objects that `name` puts on a layer; if `name` is invalid, record an error."""
        if name not in self:
            message = self.undefined(name)
        elif not re.fullmatch(r"\w+", name):
            message = f"{name!r} in a layer; write names of letters, digits and _"
        elif self.is_aggregate(name):
            message = f"{name.upper()} is an aggregate and spans layers; write its objects"
        else:
            return self.members(name)
        self.problems.error(line, message)
        return ()


class Objects:
    """Parser of the section `objects`: a name, colours, and optionally five rows of pixels."""

    COLOR = re.compile(
        rf"({'|'.join((*NAMES, *OTHER_SPELLINGS))}|transparent|#(?:[0-9a-f]{{3}}){{1,2}})\s*"
    )

    def __init__(self, names: Names) -> None:
        self.names = names
        self.name = ""  # name of the current object
        self.expects = "name"

    def read(self, line: Line) -> None:
        """Parse a line of the section `objects`; a blank line ends the definition of an object."""
        if not line.text:
            self.expects = "name"
        elif self.expects == "colors":
            self._read_colors(line)
        elif self.expects == "rows" and (self._rows or re.match(r"[.\d]", line.text)):
            self._read_row(line)
        else:
            self._read_name(line)

    @property
    def _rows(self) -> tuple[str, ...]:
        return self.names.sprites[self.name].rows

    def _read_name(self, line: Line) -> None:
        problems, (first, *others) = self.names.problems, line.text.split()
        found = re.match(r"\w+", first)
        if found is None:
            problems.warn(line.number, f"{line.text!r} is not an object name; ignored")
            return
        first, rest = found[0], first[found.end() :]
        if first in self.names.sprites:
            where = self.names.sprites[first].line
            problems.error(line.number, self.names.taken(first, where))
            return
        if first in KEYWORDS:
            problems.warn(line.number, f"{first.upper()} is a keyword; choose another name")
        if first in self.names.lines:
            problems.error(
                line.number,
                f"{first.upper()} is already a name of another object; choose another name",
            )
        self.name, self.expects = first, "colors"
        self.names.sprites[first] = Sprite(line.number, (), ())
        for other in [*([rest] if rest else []), *others]:
            if self.names.declare(other, line.number):
                self.names.synonyms[other] = first

    def _read_colors(self, line: Line) -> None:
        text, colors = line.text, []
        while text and (found := self.COLOR.match(text)):
            colors.append(found[1])
            text = text[found.end() :]
        problems, title = self.names.problems, self.name.upper()
        if text:
            problems.error(line.number, f"{title}: {text!r} is not a colour; give names or #rrggbb")
        if len(colors) > 10:
            problems.error(line.number, f"{title} has {len(colors)} colours; at most 10")
        sprite = self.names.sprites[self.name]
        self.names.sprites[self.name] = sprite._replace(colors=tuple(colors))
        self.expects = "rows"

    def _read_row(self, line: Line) -> None:
        sprite, problems = self.names.sprites[self.name], self.names.problems
        row = "".join(line.text.split())
        wrong = f"a row of {self.name.upper()} needs five of 0-9 and dots, got {line.text!r}"
        # A row has 5 characters. PuzzleScript's engine also checks the sixth character of each row
        # except the last.
        checked = row[:6] if len(sprite.rows) < 4 else row[:5]
        if not re.fullmatch(r"[.\d]*", checked):
            problems.error(line.number, wrong)
        elif len(row) != 5:
            problems.warn(line.number, wrong)
        for digit in sorted({*re.findall(r"\d", row[:5])}):
            if int(digit) >= len(sprite.colors):
                has = f"{self.name.upper()} has {counted(len(sprite.colors), 'colour')}"
                problems.error(line.number, f"colour {digit} does not exist: {has}, from 0 on")
        rows = (*sprite.rows, row[:5])
        self.names.sprites[self.name] = sprite._replace(rows=rows)
        if len(rows) == 5 and len(row) >= 5:
            self.expects = "name"
            self._read_synonyms(line)

    def _read_synonyms(self, line: Line) -> None:
        """Read text after a whole sprite: for PuzzleScript's engine, names of the same object.

        After such a name, the engine expects colours.
        """
        found = re.match(r"(?:\s*[.\d]){5}(.*)", line.text)
        for name in found[1].split() if found else []:
            self.expects = "colors"
            if self.names.declare(name, line.number):
                self.names.synonyms[name] = self.name
