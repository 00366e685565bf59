"""Parse rules: convert a line of the source to rows of cells, flags and commands.

A row is the list of cells in one pair of brackets.
"""

import re
from typing import NamedTuple

from ..core.checks import counted
from .names import Names
from .text import Line, Problems

ABSOLUTE = ("up", "down", "left", "right")
RELATIVE = ("^", "v", "<", ">", "parallel", "perpendicular")
MOVEMENTS = {
    "horizontal": ("left", "right"),
    "vertical": ("up", "down"),
    "orthogonal": ABSOLUTE,
    "moving": (*ABSOLUTE, "action"),
}  # modifier that stands for several movements -> these movements
DIRECTIONS = {
    **{name: (name,) for name in ABSOLUTE},
    **{name: MOVEMENTS[name] for name in ("horizontal", "vertical", "orthogonal")},
}  # direction flag of a rule -> the directions that it stands for
MODIFIERS = (*ABSOLUTE, *RELATIVE, *MOVEMENTS, "action", "stationary", "no", "random", "randomdir")
SOUNDS = tuple(f"sfx{i}" for i in range(11))
COMMANDS = ("cancel", "restart", "checkpoint", "win", "again", "message", *SOUNDS)
ELLIPSIS = (("...", "..."),)

Cell = tuple[tuple[str, str], ...]  # (modifier, name) pairs
Row = tuple[Cell, ...]


class Rule(NamedTuple):
    """A rule as written in the source.

    `left` and `right` have a row of cells for each pair of brackets. `right` is () if the right
    side has only commands.
    """

    line: int
    group: int  # number of the rule's group; `+` joins rules to a group
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
    """Parser of the section `rules`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.problems: Problems = names.problems
        self.rules: list[Rule] = []
        self.loops: list[tuple[int, str]] = []  # (line number, "startloop" or "endloop")

    def read(self, line: Line) -> None:
        """Parse a line of the section `rules`; record an error or a warning if it is invalid."""
        words = tokens(line.first)
        if "(" in line.raw and "->" not in words:
            self.problems.error(line.number, "`(` starts a comment that hides the rest of the rule")
            return
        if words in (["startloop"], ["endloop"]):
            self.loops.append((line.number, words[0]))
            return
        if "->" not in words:
            self.problems.error(line.number, "a rule needs an arrow: [ left ] -> [ right ]")
            return
        self._check_spaces(line)
        self._check_rest(line)
        rule, rest = self._flags(words, line.number)
        sides = Sides(self.names, rule, line)
        if sides.read(rest) and (made := self._checked(rule, sides)):
            self.rules.append(made)

    def _check_spaces(self, line: Line) -> None:
        """Record an error for a word that ends with an arrow or a comment."""
        before, *_ = re.split(r"\bmessage\b", line.raw.lower())
        text, comment, _ = before.partition("(")
        words = [re.sub(r"^(->)+", "", word) for word in re.findall(r"[^\s\[|\]+]+", text)]
        for word in words:
            if "->" in word:
                self.problems.error(line.number, f"write a space before `->`: {word!r}")
        if comment and words and words[-1] and text.endswith(words[-1]):
            self.problems.error(line.number, f"write a space before `(`: {words[-1] + comment!r}")

    def _check_rest(self, line: Line) -> None:
        """Record an error for each unknown word after the comment that ends a rule.

        PuzzleScript's engine ignores all other words there.
        """
        for word in tokens(line.rest):
            if word == "message":  # the rest of the line is its text
                return
            is_known = word in self.names or word in MODIFIERS or word in COMMANDS
            if not is_known and word not in ("[", "]", "|", "->", "+", "...", "rigid", "random"):
                self.problems.error(line.number, self.names.undefined(word))

    def _flags(self, words: list[str], line: int) -> tuple[Rule, list[str]]:
        """Parse the flags before the first bracket; return the rule and the remaining words."""
        start = words.index("[") if "[" in words else words.index("->")
        flags = {name: name in words[:start] for name in ("late", "rigid", "random")}
        group = self._joined(words[:start], line) if "+" in words[:start] else line
        directions: tuple[str, ...] = ()
        for word in (word for word in words[:start] if word != "+" and word not in flags):
            if word in DIRECTIONS:
                directions += DIRECTIONS[word]
            else:
                self._wrong_flag(word, line)
        if flags["late"] and flags["rigid"]:
            self.problems.error(line, "a late rule cannot be rigid: it has no movements")
        if flags["random"] and words[0] == "+":
            self.problems.error(
                line, "`random` belongs to the first rule of a group, not after `+`"
            )
        rule = Rule(line, group, directions or ABSOLUTE, (), (), (), **flags)
        return rule, words[start:]

    def _joined(self, words: list[str], line: int) -> int:
        """Return the group of the previous rule, which a rule that begins with `+` joins."""
        if words[0] != "+" or words.count("+") > 1:
            self.problems.error(line, "write `+` once, at the start of a rule")
        if not self.rules:
            self.problems.error(line, "`+` joins a rule to the previous one, but there is none")
            return line
        return self.rules[-1].group

    def _wrong_flag(self, word: str, line: int) -> None:
        if word in RELATIVE:
            allowed = ", ".join((*ABSOLUTE, "horizontal", "vertical"))
            self.problems.error(line, f"the direction of a rule is {allowed}, not `{word}`")
        else:
            self.problems.error(
                line,
                f"`{word}` before the first bracket; allowed are directions, late, rigid, random",
            )

    def _checked(self, rule: Rule, sides: "Sides") -> Rule | None:
        """Return the rule with both sides; if the sides do not match, report it and return None."""
        line, left, right, commands = rule.line, *sides.rows, sides.commands
        if not left:
            self.problems.error(line, "a rule needs at least one pair of brackets on the left")
        if len(left) != len(right) and (right or not commands):
            self.problems.warn(
                line,
                f"{len(left)} pairs of brackets on the left, {len(right)} on the right: the "
                f"rule is ignored",
            )
            return None
        for before, after in zip(left, right, strict=False):
            if len(before) != len(after):
                self.problems.error(
                    line,
                    f"{counted(len(before), 'cell')} on the left, {len(after)} on the right: "
                    "brackets on both sides need the same number of cells",
                    is_fatal=True,
                )
                return None
        return rule._replace(left=tuple(left), right=tuple(right), commands=tuple(commands))


class Sides:
    """Parser of both sides of a rule and its commands, word by word."""

    def __init__(self, names: Names, rule: Rule, line: Line) -> None:
        self.names, self.rule, self.line = names, rule, line
        self.rows: tuple[list[Row], list[Row]] = ([], [])  # rows of the left and right sides
        self.commands: list[tuple[str, ...]] = []
        self.is_right = False  # whether the arrow has been read
        self.row: list[Cell] | None = None  # current row; None outside of brackets
        self.depth = 0  # number of `[` without `]` so far
        self.cell: list[str] = []  # modifiers and names of the current cell

    def read(self, words: list[str]) -> bool:
        """Parse the words of a rule; if they are not a rule, record the reason and return False."""
        for place, word in enumerate(words):
            if word in COMMANDS and word not in self.names:
                self._command(word, words[place + 1 :])
                if word == "message":
                    break
            elif not self._read_word(word):
                return False
        if self.row is not None:
            self._warn("`[` without `]` is ignored")
        return True

    def _read_word(self, word: str) -> bool:
        """Parse a word that is not a command, and return whether parsing can continue.

        After a second arrow, or a `]` without `[`, the rest of the rule cannot be parsed.
        """
        if word in ("[", "->"):
            return self._opened(word)
        if word == "]":
            self.depth -= 1
            if self.depth < 0:
                self._warn("`]` closes no `[`; the rule is ignored")
                return False
            # As in PuzzleScript's engine, a second `]` makes a row with an empty cell.
            self.row = [] if self.row is None else self.row
        if self.row is None:
            self._outside(word)
            return True
        if word in ("|", "]"):
            self._close(word)
        else:
            self._add(word)
        return True

    def _error(self, message: str, is_fatal: bool = False) -> None:
        self.names.problems.error(self.line.number, message, is_fatal)

    def _warn(self, message: str) -> None:
        self.names.problems.warn(self.line.number, message)

    def _command(self, word: str, rest: list[str]) -> None:
        """Add a command to the rule; `rest` are the words after it.

        The text of the command `message` is the rest of the line, verbatim.
        """
        if not self.is_right:
            self._error(f"`{word}` must be at the end of a rule")
        elif self.row is not None or "]" in rest:
            self._warn(f"`{word}` must be at the end of a rule")
        if word == "message":
            found = re.search(r".*\bmessage\b", self.line.raw, re.IGNORECASE)
            self.commands.append((word, self.line.raw[found.end() :].strip() if found else ""))
        else:
            self.commands.append((word,))

    def _opened(self, word: str) -> bool:
        """Parse `[`, which starts a row of cells, or `->`, which starts the right side of the rule.

        For a second arrow, record an error and return False; otherwise return True.
        """
        if word == "[":
            self.depth += 1
            if self.cell:
                self._error("`[` inside of brackets; close these with `]` first")
            elif self.depth > 1:
                self._warn("`[` inside of brackets: close each `[` by `]` before the next one")
            self.row = [] if self.row is None else self.row
            self.cell = []
        elif self.row is not None:
            self._warn("`->` inside of brackets is ignored")
        elif self.is_right:
            self._error("a rule has only one arrow")
            return False
        else:
            self.is_right = True
        return True

    def _outside(self, word: str) -> None:
        """Record an error or a warning for a word outside of brackets."""
        if word in DIRECTIONS or word == "random":
            self._warn(f"`{word}` is allowed only before the first bracket or inside of brackets")
        elif word in self.names or word in MODIFIERS or word in ("|", "..."):
            self._warn(f"`{word}` is allowed only inside of brackets")
        else:
            self._error(f"`{word}` is not a command; use {', '.join(COMMANDS)}")

    def _close(self, word: str) -> None:
        """End the current cell at `|` or `]`; at `]`, also end the current row of cells."""
        assert self.row is not None
        if len(self.cell) % 2:
            self._error(f"`{self.cell.pop()}` needs an object after it", is_fatal=True)
        self.row.append(tuple(zip(self.cell[::2], self.cell[1::2], strict=True)))
        self.cell = []
        if word == "]":
            self.rows[self.is_right].append(tuple(self.row))
            self.row = None

    def _add(self, word: str) -> None:
        """Add a modifier, the name of an object or an ellipsis to the current cell."""
        is_modified = len(self.cell) % 2 == 1
        if word in MODIFIERS:
            self._modify(word, is_modified)
        elif word in self.names:
            modifiers = [self.cell[-1] if is_modified else ""]
            pairs = zip(self.cell[::2], self.cell[1::2], strict=False)
            modifiers += [modifier for modifier, name in pairs if name == word]
            if len(modifiers) > 1 and {*modifiers} != {"no"}:
                self._error(f"{word.upper()} occurs twice in a cell")
            self.cell += [word] if is_modified else ["", word]
        elif word == "...":
            self.cell += [word, word]
        else:
            self._error(self.names.undefined(word))

    def _modify(self, word: str, is_modified: bool) -> None:
        """Add a modifier, such as `>` or `no`, to the current cell.

        `is_modified` is whether the previous word is also a modifier, which is an error.
        """
        if is_modified:
            self._error(f"`{self.cell[-1]} {word}`: an object has one modifier at a time")
        elif self.rule.late and word not in ("no", "random", "randomdir"):
            self._error(f"a late rule has no movements: `{word}`")
        else:
            self.cell.append(word)
