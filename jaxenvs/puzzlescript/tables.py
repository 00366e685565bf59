"""Convert the rules, groups, loops, win conditions and levels of a parsed game to bit masks.

A mask is an int with one bit for each object, or for each movement of each collision layer.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from .expand import expanded, places
from .names import Names
from .rules import ELLIPSIS, Cell, Reader, Row, Rule

MOVEMENT = {"up": 1, "down": 2, "left": 4, "right": 8, "action": 16}
BITS = 5  # number of movement bits per layer
ANY = (1 << BITS) - 1  # mask of all movements of a layer
KINDS = ("all", "some", "any", "no")  # first word of a win condition
MOST_RIGID = 30  # maximum number of rigid groups


class Replacement(NamedTuple):
    """Effect of a rule on a cell.

    The fields `oc`, `os` and `re` are masks of objects, and all other fields are masks of
    movements.
    """

    oc: int = 0  # mask of the objects that are removed
    os: int = 0  # mask of the objects that are added
    mc: int = 0  # mask of the movements that are cleared
    ms: int = 0  # mask of the movements that are set
    ml: int = 0  # mask of all movements of some layers; they are cleared before `ms` is set
    re: int = 0  # mask of the objects from which one is drawn at random and added
    rd: int = 0  # mask of all movements of the layers that get a random direction


class Pattern(NamedTuple):
    """Condition and effect of a rule for one cell. If all masks are 0, every cell matches."""

    op: int = 0  # mask of the objects that must be present
    om: int = 0  # mask of the objects that must be absent
    any: tuple[int, ...] = ()  # object masks; of each mask, at least one object must be present
    mp: int = 0  # mask of the movements that must be present
    mm: int = 0  # mask of the movements that must be absent
    replacement: Replacement | None = None  # effect on the cell; None: no effect
    rigid: int = 0  # number of the rule's rigid group, from 1; 0: the rule is not rigid


class TableRule(NamedTuple):
    """A rule with bit masks of objects and movements instead of names.

    Each row is a tuple with a pattern for each cell, and None for an ellipsis (`...`).
    """

    line: int
    direction: str
    rows: tuple[tuple[Pattern | None, ...], ...]
    commands: tuple[str, ...]
    replaces: bool  # whether the right side has cells, not only commands
    rigid: bool
    random: bool


class Win(NamedTuple):
    """Win condition `KIND X on Y`: all, some or none of the cells with X also have Y.

    `x` and `y` are masks of objects. Without `on Y`, `y` is -1: any object.
    """

    kind: str  # type of the condition: all, some or no
    x: int
    y: int
    all_of_x: bool  # whether a cell needs all objects of `x`, not just one
    all_of_y: bool  # whether a cell needs all objects of `y`, not just one


class Level(NamedTuple):
    """A level; `cells` has the object mask of each cell, column by column from the top left."""

    line: int
    width: int
    height: int
    cells: tuple[int, ...]


class Groups(NamedTuple):
    """Groups of rules in execution order; the rules of a group are joined by `+` in the source."""

    rules: tuple[tuple[TableRule, ...], ...]
    loops: tuple[tuple[int, int], ...]  # (index of last group, index of first group) per loop

    @property
    def rigid(self) -> tuple[int, ...]:
        """Indices of the rigid groups, those with at least one rigid rule."""
        return tuple(i for i, group in enumerate(self.rules) if any(rule.rigid for rule in group))


def groups(reader: Reader, names: Names) -> tuple[Groups, Groups]:
    """Return (groups of the rules that are not marked `late`, groups of the late rules)."""
    main: dict[int, list[TableRule]] = {}
    late: dict[int, list[TableRule]] = {}
    impossible: dict[int, str] = {}
    lines = set()
    for rule in expanded(reader.rules, names):
        made = _Masks(rule, names).rule(impossible)
        if made is not None:
            (late if rule.late else main).setdefault(rule.group, []).append(made)
            lines.add(rule.line)
    for line, message in impossible.items():
        if line not in lines:
            names.problems.error(line, message)
    _check_rigid(main, names)
    spans = loops(reader, names)
    for group in (*main.values(), *late.values()):
        for start, end in spans:
            if any(group[0].line <= edge <= group[-1].line for edge in (start, end)):
                names.problems.error(start, "a loop starts or ends inside a group of rules")
    return _in_loops(main, spans), _in_loops(late, spans)


def _check_rigid(main: dict[int, list[TableRule]], names: Names) -> None:
    """Record an error if there are more rigid groups than the engine supports."""
    rigid = [number for number in sorted(main) if any(rule.rigid for rule in main[number])]
    if len(rigid) > MOST_RIGID:
        line = main[rigid[MOST_RIGID]][0].line
        names.problems.error(line, f"{len(rigid)} groups are rigid; use at most {MOST_RIGID}")


def loops(reader: Reader, names: Names) -> list[tuple[int, int]]:
    """Return a pair of line numbers for each loop: of its `startloop` and of its `endloop`."""
    spans, start = [], None
    for line, word in reader.loops:
        if (word == "startloop") == (start is not None):
            state = "inside a loop" if start is not None else "outside of a loop"
            names.problems.error(line, f"{word.upper()} {state}; loops do not nest")
        if word == "startloop":
            start = line
        elif start is not None:
            spans.append((start, line))
            start = None
    if start is not None:
        names.problems.error(start, "STARTLOOP without ENDLOOP")
    return spans


def _in_loops(rules: dict[int, list[TableRule]], spans: list[tuple[int, int]]) -> Groups:
    """Return the `Groups` of the rules, ordered by group number, and find the groups of each loop.

    `spans` has the line numbers of each loop's `startloop` and `endloop`.
    """
    ordered = tuple(tuple(rules[number]) for number in sorted(rules))
    inside = []
    for start, end in spans:
        found = [i for i, group in enumerate(ordered) if start <= group[0].line <= end]
        if found:
            inside.append((found[-1], found[0]))
    return Groups(ordered, tuple(inside))


class _Masks:
    """Computes the masks of objects and movements of a rule that `expanded` returned."""

    def __init__(self, rule: Rule, names: Names) -> None:
        self.expanded, self.names = rule, names
        self.clash = ""  # error message if a cell requires two objects of one layer

    def rule(self, impossible: dict[int, str]) -> TableRule | None:
        """Return the rule with masks instead of names; None if it has an error or never matches."""
        rule = self.expanded
        rows: list[list[Pattern | None]] = []
        if not self._check_ellipsis():
            return None
        for r, row in enumerate(rule.left):
            rows.append([])
            for c, cell in enumerate(row):
                made = self._pattern(cell, rule.right[r][c] if rule.right else None)
                if made is not None and made.op & made.om:
                    self.names.problems.warn(
                        rule.line, "a cell asks for an object and for none of it: ignored"
                    )
                    return None
                rows[-1].append(made)
        if self.clash:
            impossible.setdefault(rule.line, self.clash)
            return None
        return TableRule(
            rule.line,
            rule.directions[0],
            tuple(map(tuple, rows)),
            tuple(command[0] for command in rule.commands),
            bool(rule.right),
            rule.rigid,
            rule.random,
        )

    def _check_ellipsis(self) -> bool:
        """Return whether every ellipsis is alone between bars and has cells before and after it.

        Record an error for each ellipsis for which this is not true. Also record an error if the
        two sides of the rule have ellipses in different cells, and for a row with more than two
        ellipses.
        """
        rule, error = self.expanded, self.names.problems.error
        fine = True
        for (r, c), cell in places(rule.left):
            other = rule.right[r][c] if rule.right else cell
            if (cell == ELLIPSIS) != (other == ELLIPSIS):
                error(rule.line, "`...` must be at the same places on both sides")
            if mistake := _mistake(rule.left[r], c, other):
                error(rule.line, mistake)
                fine = False
        for row in rule.left:
            if row.count(ELLIPSIS) > 2:
                error(rule.line, "a row has at most two `...`")
        return fine

    def _layer(self, name: str) -> int | None:
        layer = self.names.single_layer(name)
        if layer is None:
            self.names.problems.error(self.expanded.line, f"{name.upper()} needs a single layer")
        return layer

    def _pattern(self, cell: Cell, after: Cell | None) -> Pattern | None:
        """Return the pattern of a cell; None for an ellipsis."""
        if cell == ELLIPSIS:
            return None
        made, used = self._asked(cell)
        if after is not None and not made.op & made.om:
            made = made._replace(replacement=self._replacement(made, used, after))
        return made

    def _asked(self, cell: Cell) -> tuple[Pattern, dict[int, str]]:
        """Return the pattern of a left-side cell, and a dict: layer -> name required on the layer.

        If the cell requires two names on one layer, store an error message in `self.clash`.
        """
        made, used = Pattern(), dict[int, str]()
        for modifier, name in cell:
            layer, mask = self._layer(name), self.names.mask(name)
            if modifier == "random":
                self.names.problems.error(
                    self.expanded.line, "`random` is allowed only on the right"
                )
            elif modifier == "no" and layer is not None:
                made = made._replace(om=made.om | mask)
            elif layer is not None:
                if layer in used:
                    both = f"{used[layer].upper()} and {name.upper()}"
                    self.clash = self.clash or f"{both} are on one layer: no cell has both"
                used[layer] = name
                made = _required(made, modifier, mask, layer, self.names.is_property(name))
        return made, used

    def _replacement(self, made: Pattern, used: dict[int, str], after: Cell) -> Replacement | None:
        """Return the effect of `after`, a cell of the right side; None if it changes nothing.

        `made` and `used` are the results of `_asked` for the same cell on the left side.
        """
        names = self.names
        new, seen, placed, drawn = Replacement(), {}, set(), dict[int, str]()
        for modifier, name in after:
            if modifier == "...":
                break
            if modifier == "random":
                new = new._replace(re=new.re | self._chosen(name))
                drawn |= {names.layer_of[m]: m for m in names.members(name) if m in names.layer_of}
                continue
            layer = self._layer(name)
            if layer is None:
                continue
            if modifier == "no":
                new = new._replace(oc=new.oc | names.mask(name))
                continue
            other = seen.get(layer) or drawn.get(layer)
            if other and not self.clash:
                names.problems.error(
                    self.expanded.line,
                    f"{other.upper()} and {name.upper()} are on one layer: no cell has both",
                )
            seen[layer] = name
            if not names.is_property(name):
                placed.add(layer)
            new = self._placed(new, modifier, name, layer)
        return self._cleared(made, new, used, seen, placed)

    def _chosen(self, name: str) -> int:
        """Return the mask of the objects of which `random NAME` draws one.

        Record an error if there are none.
        """
        mask = self.names.mask(name)
        if not mask:
            self.names.problems.error(
                self.expanded.line, f"`random {name}` needs an object or a property"
            )
        return mask

    def _placed(self, new: Replacement, modifier: str, name: str, layer: int) -> Replacement:
        """Add an object or a property of the right side, with its movement, to the effect `new`."""
        names, whole = self.names, ANY << BITS * layer
        if modifier:
            new = new._replace(ml=new.ml | whole)
        if not names.is_property(name):
            new = new._replace(os=new.os | names.mask(name), oc=new.oc | names.layer_mask(layer))
        if modifier == "stationary":
            return new._replace(mc=new.mc | whole)
        if modifier == "randomdir":
            return new._replace(rd=new.rd | whole)
        return new._replace(ms=new.ms | MOVEMENT.get(modifier, 0) << BITS * layer)

    def _cleared(
        self,
        made: Pattern,
        new: Replacement,
        used: dict[int, str],
        seen: dict[int, str],
        placed: set[int],
    ) -> Replacement | None:
        """Extend the effect `new`: clear the objects and movements that only the left side has.

        Return None if the rule then changes nothing in the cell. `used` and `seen` are dicts: layer
        -> its name on the left side and on the right side. `placed` has the layers on which the
        right side names an object, not a property.
        """
        if made.op & ~new.os:
            new = new._replace(oc=new.oc | made.op)
        if made.mp & ~new.ms:
            new = new._replace(mc=new.mc | made.mp)
        for layer, name in used.items():
            if layer not in seen:
                gone = new.oc | self.names.layer_mask(layer)
                new = new._replace(oc=gone, ml=new.ml | ANY << BITS * layer)
            if layer not in placed and not self.names.is_property(name):
                new = new._replace(ml=new.ml | ANY << BITS * layer)
        return new if any(new) else None


def _mistake(row: Row, c: int, other: Cell) -> str:
    """Return an error message if cell `c` of `row` has a misplaced ellipsis; otherwise "".

    `row` is on the left side of a rule, and `other` is the same cell on the right side.
    """
    if ELLIPSIS[0] not in (*row[c], *other):
        return ""
    if any(ELLIPSIS[0] in each and each != ELLIPSIS for each in (row[c], other)):
        return "`...` must be alone between bars"
    if c in (0, len(row) - 1):
        return "`...` must be between two cells, not at the end of a row"
    if row[c - 1] == ELLIPSIS:
        return "two `...` need a cell between them; one `...` means the same"
    return ""


def _required(made: Pattern, modifier: str, mask: int, layer: int, is_property: bool) -> Pattern:
    """Add to a pattern an object or a property that a cell must have, with its movement."""
    made = made._replace(any=(*made.any, mask)) if is_property else made._replace(op=made.op | mask)
    if modifier == "stationary":
        return made._replace(mm=made.mm | ANY << BITS * layer)
    # As in PuzzleScript's engine, `randomdir` on the left requires both movements up and left.
    bit = {**MOVEMENT, "randomdir": MOVEMENT["up"] | MOVEMENT["left"]}.get(modifier, 0)
    return made._replace(mp=made.mp | bit << BITS * layer)


def wins(lines: list[tuple[int, list[str]]], names: Names) -> tuple[Win, ...]:
    """Parse the lines of the section `winconditions`."""
    found = []
    for line, words in lines:
        made = _win(line, words, names)
        if made is not None:
            found.append(made)
    return tuple(found)


def _win(line: int, words: list[str], names: Names) -> Win | None:
    """Parse the win condition `all|some|any|no X [on Y]`; if invalid, record an error."""
    form = "a win condition is `all X on Y`, `some X [on Y]` or `no X [on Y]`"
    kind, *rest = words
    if kind.rpartition(")")[2] in KINDS and ")" in kind:
        names.problems.warn(line, f"{kind!r} has a comment in front, and means `some`")
        kind = "some"
    if kind in KINDS and len(rest) == 2 and rest[1] == "on":  # like the engine, read `X on` as `X`
        names.problems.warn(line, f"`on` without an object is ignored: {' '.join(words)!r}")
        rest = rest[:1]
    is_form = kind in KINDS and len(rest) in (1, 3) and rest[1:2] in ([], ["on"])
    if not is_form or not all(re.fullmatch(r"\w+", word) for word in rest):
        names.problems.error(line, f"{form}: {' '.join(words)!r}")
        return None
    for name in rest[::2]:
        if name not in names:
            names.problems.error(line, names.undefined(name))
            return None
    masks: list[Any] = [(names.mask(name), names.is_aggregate(name)) for name in rest[::2]]
    (x, all_of_x), (y, all_of_y) = [*masks, (-1, False)][:2]
    return Win("some" if kind == "any" else kind, x, y, all_of_x, all_of_y)


def glyphs(names: Names) -> dict[str, int]:
    """Return the object mask of each character that a level may contain.

    A character that stands for a property (one of several objects) is left out, because a level
    must name definite objects.
    """
    singles = (name for name in (*names.sprites, *names.lines) if len(name) == 1)
    return {name: names.mask(name) for name in singles if not names.is_property(name)}


def level(rows: list[tuple[int, str]], names: Names) -> Level | None:
    """Build a level from rows of (line number, glyphs).

    Returns None, and records an error, if a glyph is invalid.
    """
    glyphs = {name: names.mask(name) for name in (*names.sprites, *names.lines) if len(name) == 1}
    width = len(rows[0][1])
    cells = []
    for x in range(width):
        for line, row in rows:
            glyph = row[x] if x < len(row) else row[-1]
            mask = _glyph(glyph, line, names, glyphs)
            if mask is None:
                return None
            cells.append(mask)
    for line, row in rows:  # like the engine, also check the glyphs beyond the level's width
        for glyph in "".join(row[width:].split()):
            _glyph(glyph, line, names, glyphs)
    layer = names.layer_mask(names.layer_of[names.background])
    default = fill_of(cells, layer, names.mask(names.background))
    filled = tuple(cell if cell & layer else cell | default for cell in cells)
    return Level(rows[0][0], width, len(rows), filled)


def fill_of(cells: Iterable[int], layer: int, default: int) -> int:
    """Return the background that cells without a background get, as an object mask.

    It is the first background object of the level, column by column, or else `default`. `layer` is
    the mask of all objects in the background's collision layer.
    """
    return next((cell & layer for cell in cells if cell & layer), default)


def check_glyphs(line: int, text: str, names: Names) -> None:
    """Record an error for each glyph in `text` that is not defined."""
    for glyph in dict.fromkeys("".join(text.split())):
        if glyph not in names:
            names.problems.error(line, f"`{glyph}` is not defined; add it to the legend")


def _glyph(glyph: str, line: int, names: Names, glyphs: dict[str, int]) -> int | None:
    """Return the object mask of a glyph.

    If the glyph is undefined or stands for a property, record an error and return None.
    """
    if glyph not in glyphs:
        names.problems.error(line, f"`{glyph}` is not defined; add it to the legend")
    elif names.is_property(glyph):
        some = ", ".join(names.members(glyph))
        names.problems.error(line, f"`{glyph}` is one of {some}; a level needs a definite object")
    else:
        return glyphs[glyph]
    return None
