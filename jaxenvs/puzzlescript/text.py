"""Split the source of a PuzzleScript game into lines without comments.

Errors and warnings are collected in `Problems`. Comments, headings and messages are recognised
as in PuzzleScript's engine (increpare/PuzzleScript, commit 4db08ebe).
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

SECTIONS = (
    "objects",
    "legend",
    "sounds",
    "collisionlayers",
    "rules",
    "winconditions",
    "levels",
)
# Pattern of a rule with the command `message`, from the start of the rule to this word. The parts
# of the pattern match a text in only one way, so the regular expression does not backtrack.
_MESSAGE = r"(?:(?!->)[^(])*->[^(]*?\bmessage\b"
MESSAGE = "message"  # first word of a line with a message in the section `levels`
MOST_ERRORS = 20  # maximum number of errors that the message of a `GameError` lists


class GameError(ValueError):
    """A game that cannot be loaded; the message lists the file, lines and causes."""


class Line(NamedTuple):
    """One line of the source."""

    number: int  # line number, from 1
    first: str  # text up to the first comment, in lower case
    text: str  # all text outside of comments, in lower case
    raw: str  # line as written; for a message in `levels`, without comments before it
    rest: str = ""  # text after the first comment that follows other text, in lower case


@dataclasses.dataclass
class Problems:
    """Errors and warnings of a source, in order of detection."""

    name: str  # name of the file
    errors: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    warnings: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    is_fatal: bool = False  # whether PuzzleScript's engine may refuse the game for an error

    def error(self, line: int, message: str, is_fatal: bool = False) -> None:
        """Record an error that makes the game invalid; line 0 stands for the whole file.

        `is_fatal` says that PuzzleScript's engine may refuse a game with this error.
        """
        self.is_fatal |= is_fatal
        if (line, message) not in self.errors:
            self.errors.append((line, message))

    def warn(self, line: int, message: str) -> None:
        """Record a warning about a line that is suspicious or partly ignored."""
        if (line, message) not in self.warnings:
            self.warnings.append((line, message))

    def described(self, entries: list[tuple[int, str]]) -> list[str]:
        """Return a text `file:line: message` for each (line number, message) pair."""
        return [
            f"{self.name}:{line}: {text}" if line else f"{self.name}: {text}"
            for line, text in entries
        ]

    def check(self) -> None:
        """Raise `GameError` if there are errors."""
        if not self.errors:
            return
        shown = self.described(self.errors[:MOST_ERRORS])
        rest = len(self.errors) - len(shown)
        raise GameError("\n".join([*shown, *([f"and {rest} more errors"] if rest else [])]))


def lines(source: str, problems: Problems) -> Iterator[tuple[str, Line]]:
    """Yield (section, line) for each line of a source that is not a heading.

    Before the first heading, the section is "". A blank line has an empty `text`. Rulers (lines of
    `=`) and lines that are only a comment are skipped.
    """
    section, seen, comments = "", [], _Comments(problems)
    source = source.replace("\ufeff", " ")  # JavaScript treats a byte order mark as a space
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", source), 1):
        pieces = [raw] if comments.ended(raw, section) else comments.removed(raw, number, section)
        if pieces is None:
            continue
        lowered = " ".join(pieces).strip().lower()
        heading = re.match(rf"({'|'.join(SECTIONS)})(?!\w)\s*", lowered)
        if _is_ruler(lowered, section, number, problems) and _ends_with_text(pieces, raw, section):
            continue
        if heading and section != "levels":
            section = heading[1]
            _check_heading(section, seen, lowered[heading.end() :], number, problems)
            seen.append(section)
            continue
        has_message = comments.ended(raw, section)
        yield section, _line(pieces, number, raw, "" if has_message else section)
    missing = [name for name in SECTIONS if name not in seen]
    if missing and comments.depth:
        problems.error(comments.opened, "`(` starts a comment that no `)` closes")
    for name in missing:
        problems.error(0, f"no section {name.upper()}; a game needs {', '.join(SECTIONS)}")


def _line(pieces: list[str], number: int, raw: str, section: str) -> Line:
    """Return a line with the parts `pieces` outside of comments; `section` is "" for a message."""
    first, *others = pieces or [""]
    if section in ("rules", "winconditions") and pieces:
        # PuzzleScript's engine does not remove a comment before a rule or win condition: the
        # comment's text becomes part of it, which is an error.
        first = re.findall(r"[^(]+", raw)[0]
    lowered = " ".join(pieces).strip().lower()
    if section == "levels" and lowered.startswith(MESSAGE):
        raw = first
    rest = " ".join(others).strip().lower()
    return Line(number, first.strip().lower(), lowered, raw, rest)


def _is_ruler(text: str, section: str, line: int, problems: Problems) -> bool:
    """Return whether a line is a ruler: a line of `=` that only decorates the source.

    In the section `levels`, a line is a ruler if it has only `=`. In other sections, a line that
    starts with `=` is a ruler; text after the `=` is recorded as an error.
    """
    is_plain = set(text) == {"="}
    if section == "levels" or not text.startswith("="):
        return is_plain
    if not is_plain:
        problems.error(line, f"nothing may follow a line of `=`: {text!r}")
    return True


def _ends_with_text(pieces: list[str], raw: str, section: str) -> bool:
    """Return whether no comment follows a ruler; in `levels`, such a ruler is a row of a level."""
    return section != "levels" or raw.endswith(pieces[-1])


def _check_heading(section: str, seen: list[str], rest: str, line: int, problems: Problems) -> None:
    """Record an error for a heading that is repeated, out of order, or followed by text.

    `seen` has the earlier headings, and `rest` is the text after this heading.
    """
    if rest:
        problems.error(line, f"nothing may follow the heading {section.upper()}: {rest!r}")
    if section in seen:
        problems.error(line, f"a second section {section.upper()}; a game has one of each")
    place = SECTIONS.index(section)
    if place and SECTIONS[place - 1] not in seen:
        before = SECTIONS[place - 1].upper()
        problems.error(line, f"section {section.upper()} must follow section {before}")
    if not place and seen:
        problems.error(line, "section OBJECTS must be the first")


class _Comments:
    """Removes comments, which nest and may span lines."""

    def __init__(self, problems: Problems) -> None:
        self.problems, self.depth = problems, 0
        self.opened = 0  # line on which the current comment starts

    def ended(self, raw: str, section: str) -> bool:
        """Return whether a line ends with a message; a `(` in a message does not start a comment.

        Only lines of the sections `levels` and `rules` can have messages, and only outside of
        comments.
        """
        pattern = {"levels": rf"\s*{MESSAGE}", "rules": _MESSAGE}.get(section)
        return not self.depth and bool(pattern) and bool(re.match(pattern, raw, re.IGNORECASE))

    def removed(self, raw: str, number: int, section: str) -> list[str] | None:
        """Return the parts of a line outside of comments; None if the whole line is a comment.

        Also return None for a line that has only `)` outside of a comment. As in PuzzleScript's
        engine, a comment with spaces after it counts as a blank line; for it, return []. In
        `levels`, the text of a message that follows a comment is the rest of the line, and text
        after a `)` at the start of a line is ignored.
        """
        pieces, had_comment, last = list[str](), self.depth > 0, ""
        in_levels, is_stray = section == "levels", False  # whether a `)` precedes all text
        parts = re.split(r"([()])", raw)
        for place, part in enumerate(parts):
            is_start = in_levels and not pieces and not is_stray
            if is_start and self.ended(after := "".join(parts[place:]), section):
                return [after.lower() if had_comment else after]
            if part == ")" and not self.depth:
                self._warn_of_stray(number, in_levels and bool(last.strip()))
                is_stray |= not pieces
                had_comment, last = True, ""
            elif part in ("(", ")"):
                self.opened = self.opened if self.depth else number
                self.depth += 1 if part == "(" else -1
                had_comment, last = True, ""
            elif not self.depth:
                last = part
                pieces += [part] if part.strip() else []
        if is_stray and pieces and section in ("objects", "collisionlayers"):
            self.problems.error(number, "write nothing after a `)` that closes no comment")
        if is_stray and in_levels:
            return None
        return None if had_comment and not pieces and (self.depth or not last) else pieces

    def _warn_of_stray(self, number: int, in_row: bool) -> None:
        """Record a `)` that closes no comment.

        After the text of a level's row, it belongs to the row, and no glyph has this name.
        """
        (self.problems.error if in_row else self.problems.warn)(number, "`)` closes no comment")
