"""Blocks of text. A block is the text of one level, and a line `---` ends a block.

A block has header lines `name: value`, then the line `grid:` and a picture. A block without the
line `grid:` is only a picture.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from ..core.checks import suggestion
from .errors import LevelError

MOST_BYTES = 64 * 1024  # largest size of the text of one level, in bytes
SEPARATOR, GRID = "---", "grid:"
# Names of header lines that every level may have. They are stored, but have no effect.
NOTES = ("seed", "source", "author", "title", "optimal")


@dataclasses.dataclass(frozen=True)
class Header:
    """One line `name: value` of a block."""

    name: str
    value: str
    line: int  # line number in the text, counted from 1

    @property
    def column(self) -> int:
        """Column where the value begins, counted from 1."""
        return len(self.name) + 3

    def error(self, message: str) -> LevelError:
        """Return a `LevelError` about this line; the caller raises it."""
        return LevelError(f"`{self.name}: {short(self.value)}`: {message}", self.line, self.column)


@dataclasses.dataclass(frozen=True)
class Block:
    """The text of one level: headers and a picture."""

    headers: tuple[Header, ...]
    picture: tuple[str, ...]  # rows of the picture
    line: int = 1  # line number of the first row of the picture, counted from 1

    def get(self, name: str) -> Header | None:
        """Return the header with this name, or None."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> tuple[Header, ...]:
        """Return all headers with this name."""
        return tuple(header for header in self.headers if header.name == name)

    def check_names(self, allowed: Iterable[str], repeated: Iterable[str] = ()) -> None:
        """Raise `LevelError` for a header whose name is not allowed, or occurs twice.

        `repeated` are further allowed names, which may occur twice.
        """
        allowed, seen = [*allowed, *repeated], set()
        for header in self.headers:
            if header.name not in allowed:
                near = suggestion(header.name, allowed)
                known = ", ".join(sorted(allowed))
                raise LevelError(
                    f"unknown name `{short(header.name)}`; allowed are {known}{near}", header.line
                )
            if header.name in seen and header.name not in repeated:
                raise LevelError(
                    f"`{header.name}:` is given twice; remove one of the lines", header.line
                )
            seen.add(header.name)


def short(value: str) -> str:
    """Return a text for a message, cut to 60 characters."""
    return value if len(value) <= 60 else f"{value[:57]}..."


def split(text: str) -> Iterator[tuple[str, int]]:
    """Yield the text and the first line number of each block; empty blocks are left out."""
    first, lines = 1, []
    for number, line in enumerate([*_lines(text), SEPARATOR], 1):
        if line.rstrip() != SEPARATOR:
            lines.append(line)
            continue
        if any(line.strip() for line in lines):
            yield "\n".join(lines), first
        first, lines = number + 1, []


def one(text: str) -> tuple[str, int]:
    """Return the text and the first line number of the only block.

    Raises `LevelError` if there is no block, or more than one.
    """
    found = list(split(text))
    if not found:
        raise LevelError("the text is empty; a level is at least a picture")
    if len(found) > 1:
        raise LevelError(
            f"`{SEPARATOR}` begins another level; read several with jaxenvs.levels.load",
            found[1][1] - 1,
        )
    return found[0]


def check_plain(text: str, first: int) -> None:
    """Raise `LevelError` for a text that is too large or has a NUL byte."""
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MOST_BYTES:
        raise LevelError(
            f"the level has {size:,} bytes, more than {MOST_BYTES:,}; put `{SEPARATOR}` between "
            "levels",
            first,
        )
    for number, line in enumerate(text.split("\n"), first):
        if "\0" in line:
            column = line.index("\0") + 1
            raise LevelError("a NUL byte; a level is plain text", number, column)


def parse(text: str, first: int = 1) -> Block:
    """Parse the text of one block; raise `LevelError` if it is malformed.

    first: line number of the block's first line.
    """
    lines = _lines(text)
    numbered = list(enumerate(lines, first))
    start = next((i for i, line in enumerate(lines) if line.rstrip() == GRID), None)
    if start is None and any(":" in line for line in lines):
        raise LevelError(f"there is no line `{GRID}` before the picture", first)
    headers = () if start is None else tuple(_headers(numbered[:start]))
    begin = 0 if start is None else start + 1
    picture, line = trimmed(lines[begin:], first + begin)
    if not picture:
        raise LevelError(
            "there is no picture; draw one row per line, two characters per cell", first
        )
    return Block(headers, tuple(picture), line)


def trimmed(lines: Sequence[str], first: int) -> tuple[Sequence[str], int]:
    """Return `lines` without leading and trailing empty lines, and the first kept line's number.

    first: line number of `lines[0]` in the text.
    """
    filled = [i for i, line in enumerate(lines) if line]
    if not filled:
        return [], first
    return lines[filled[0] : filled[-1] + 1], first + filled[0]


def _headers(numbered: Iterable[tuple[int, str]]) -> Iterator[Header]:
    for number, line in numbered:
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip().replace("_", "").isalnum():
            raise LevelError(f"`{short(line)}` is not a line `name: value`", number)
        yield Header(name.strip(), value.strip(), number)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def format(headers: Iterable[tuple[str, str]], picture: Iterable[str]) -> str:
    """Return the text of a block, without a newline at its end.

    Without headers, the text is the picture alone.
    """
    lines = [f"{name}: {value}".rstrip() for name, value in headers]
    return "\n".join([*lines, *([GRID] if lines else []), *picture])
