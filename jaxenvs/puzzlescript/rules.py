"""Rules as written: a line of the source becomes rows of cells, flags and commands."""

import re
from typing import NamedTuple

from .names import Names
from .text import Line, Problems

ABSOLUTE = ("up", "down", "left", "right")
RELATIVE = ("^", "v", "<", ">", "parallel", "perpendicular")
MOVEMENTS = {
    "horizontal": ("left", "right"),
    "vertical": ("up", "down"),
    "orthogonal": ABSOLUTE,
    "moving": (*ABSOLUTE, "action"),
}  # modifiers that stand for several movements
MODIFIERS = (*ABSOLUTE, *RELATIVE, *MOVEMENTS, "action", "stationary", "no", "random", "randomdir")
SOUNDS = tuple(f"sfx{i}" for i in range(11))
COMMANDS = ("cancel", "restart", "checkpoint", "win", "again", "message", *SOUNDS)
ELLIPSIS = (("...", "..."),)

Cell = tuple[tuple[str, str], ...]  # of (modifier, name)
Row = tuple[Cell, ...]


class Rule(NamedTuple):
    """One rule; `right` is () if it only has commands."""

    line: int
    group: int  # rules of one group run together
    directions: tuple[str, ...]
    left: tuple[Row, ...]
    right: tuple[Row, ...]
    commands: tuple[tuple[str, ...], ...] = ()
    late: bool = False
    rigid: bool = False
    random: bool = False


def tokens(text: str) -> list[str]:
    """Split a rule into brackets, bars, arrows and words."""
    spaced = re.sub(r"(\[|\]|\||->)", r" \1 ", text).strip()
    return re.sub(r"^\+", "+ ", spaced).split()


class Reader:
    """Reader of the section `rules`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.problems: Problems = names.problems
        self.rules: list[Rule] = []
        self.loops: list[tuple[int, str]] = []  # line and "startloop" or "endloop"

    def read(self, line: Line) -> None:
        """Read a line; one that is no rule is recorded as an error and left out."""
        words = tokens(line.first)
        if "(" in line.raw and "->" not in words:
            self.problems.error(line.number, "`(` starts a comment, which hides the rest of the rule")
            return
        if words in (["startloop"], ["endloop"]):
            self.loops.append((line.number, words[0]))
            return
        if "->" not in words:
            self.problems.error(line.number, "a rule has an arrow: [ left ] -> [ right ]")
            return
        rule = self._flags(words, line.number)
        if rule is None:
            return
        rule, rest = rule
        sides = self._sides(rest, rule, line)
        if sides is not None and (made := self._checked(rule, *sides)):
            self.rules.append(made)

    def _flags(self, words: list[str], line: int) -> tuple[Rule, list[str]] | None:
        """Read what stands before the first bracket."""
        start = words.index("[") if "[" in words else words.index("->")
        flags, directions, group = {"late": False, "rigid": False, "random": False}, (), line
        if "+" in words[:start]:
            group = self._joined(words[:start], line)
        for word in words[:start]:
            if word == "+":
                continue
            if word in flags:
                flags[word] = True
            elif word in ABSOLUTE:
                directions += (word,)
            elif word in ("horizontal", "vertical", "orthogonal"):
                directions += MOVEMENTS[word]
            else:
                self._wrong_flag(word, line)
        if flags["late"] and flags["rigid"]:
            self.problems.error(line, "a late rule cannot be rigid: it has no movements")
        if flags["random"] and words[0] == "+":
            self.problems.error(
                line, "`random` belongs to the first rule of a group, not after `+`"
            )
        rule = Rule(line, group, directions or ABSOLUTE, (), (), **flags)
        return rule, words[start:]

    def _joined(self, words: list[str], line: int) -> int:
        """The group of a rule that begins with `+`."""
        if words[0] != "+" or words.count("+") > 1:
            self.problems.error(line, "`+` stands once, at the start of a rule")
        if not self.rules:
            self.problems.error(line, "`+` joins a rule to the one before, and there is none")
            return line
        return self.rules[-1].group

    def _wrong_flag(self, word: str, line: int) -> None:
        if word in RELATIVE:
            allowed = ", ".join((*ABSOLUTE, "horizontal", "vertical"))
            self.problems.error(line, f"a rule's own direction is {allowed}, not `{word}`")
        else:
            self.problems.error(
                line,
                f"`{word}` before the first bracket: directions, late, rigid, random stand there",
            )

    def _sides(
        self, words: list[str], rule: Rule, line: Line
    ) -> tuple[list[Row], list[Row], list[tuple[str, ...]]] | None:
        """Read both sides and the commands."""
        sides: tuple[list[Row], list[Row]] = ([], [])
        commands: list[tuple[str, ...]] = []
        row: list[Cell] | None = None  # the row under way
        cell: list[str] = []  # modifiers and names under way
        after = False
        for place, word in enumerate(words):
            is_command = word in COMMANDS and word not in self.names
            if is_command and word == "message":
                commands.append((word, self._message(line.raw)))
                break
            if is_command:
                if not after:
                    self.problems.error(line.number, f"`{word}` stands at the end of a rule")
                elif row is not None or "]" in words[place:]:
                    self.problems.warn(line.number, f"`{word}` stands at the end of a rule")
                commands.append((word,))
            elif word == "[":
                row = [] if row is None else row
                if cell:
                    self.problems.error(line.number, "`[` inside of brackets")
                    cell = []
            elif word == "->" and row is None:
                if after:
                    self.problems.error(line.number, "a rule has one arrow")
                    return None
                after = True
            elif word == "->":
                self.problems.warn(line.number, "`->` inside of brackets is ignored")
            elif row is None:
                self._outside(word, line.number)
                if word == "]":
                    return None
            elif word in ("|", "]"):
                row.append(self._closed(cell, line.number))
                cell = []
                if word == "]":
                    sides[after].append(tuple(row))
                    row = None
            else:
                self._in_cell(word, cell, rule, line.number)
        if row is not None:
            self.problems.warn(line.number, "`[` without `]` is ignored")
        return *sides, commands

    def _outside(self, word: str, line: int) -> None:
        known = word in self.names or word in MODIFIERS or word in ("]", "|", "...")
        if known:
            self.problems.warn(line, f"`{word}` stands inside of brackets only")
        else:
            self.problems.error(line, f"`{word}` is no command; there are {', '.join(COMMANDS)}")

    def _in_cell(self, word: str, cell: list[str], rule: Rule, line: int) -> None:
        """Add a modifier, a name or an ellipsis to a cell."""
        is_modified = len(cell) % 2 == 1
        if word in MODIFIERS:
            if is_modified:
                self.problems.error(
                    line, f"`{cell[-1]} {word}`: an object has one modifier at a time"
                )
            elif rule.late and word not in ("no", "random", "randomdir"):
                self.problems.error(line, f"a late rule has no movements: `{word}`")
            else:
                cell.append(word)
        elif word in self.names:
            modifiers = [cell[-1] if is_modified else ""]
            modifiers += [m for m, name in zip(cell[::2], cell[1::2], strict=False) if name == word]
            if len(modifiers) > 1 and {*modifiers} != {"no"}:
                self.problems.error(line, f"{word.upper()} stands twice in a cell")
            cell += [word] if is_modified else ["", word]
        elif word == "...":
            cell += [word, word]
        else:
            self.problems.error(line, f"{word.upper()} is not defined")

    def _closed(self, cell: list[str], line: int) -> Cell:
        """The pairs of a finished cell."""
        if len(cell) % 2:
            self.problems.error(line, f"`{cell.pop()}` needs an object behind it")
        return tuple(zip(cell[::2], cell[1::2], strict=True))

    def _message(self, raw: str) -> str:
        found = re.search(r".*\bmessage\b", raw, re.IGNORECASE)
        return raw[found.end() :].strip() if found else ""

    def _checked(
        self, rule: Rule, left: list[Row], right: list[Row], commands: list[tuple[str, ...]]
    ) -> Rule | None:
        """The rule, or None for sides that do not belong together."""
        line = rule.line
        if not left:
            self.problems.error(line, "a rule has at least one pair of brackets on the left")
        if len(left) != len(right) and (right or not commands):
            self.problems.warn(
                line,
                f"{len(left)} pairs of brackets on the left, {len(right)} on the right: the "
                f"rule is ignored",
            )
            return None
        for before, after in zip(left, right, strict=False):
            if len(before) != len(after):
                self.problems.error(line, "brackets on both sides have the same number of cells")
                return None
        return rule._replace(left=tuple(left), right=tuple(right), commands=tuple(commands))
