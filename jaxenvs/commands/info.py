"""`jaxenvs info ID`: print the page of an environment as plain text, fitted to the terminal."""

import itertools
import shutil
import textwrap
from collections.abc import Iterator

from ..core.typed import program
from .page import Page, Section, page
from .parser import Parser, guarded

SUMMARY = "Print the page of an id: rules, arrays, settings and reference returns."
EXAMPLES = ("info Grid-DoorKey-8x8-v0", "info MiniGrid-Empty-8x8-v0", "info CartPole-v1")
# Maximum width of a page in characters; a narrower terminal reduces it, but not below LEAST.
WIDTH = 100
LEAST = 60
# Widths of table columns, in characters. COLUMN is the maximum width of every column except the
# last; only a longer word makes a column wider. LAST is the minimum width of the last column, or
# less if all its cells are shorter. If the last column does not fit, its cells are printed below
# their rows.
COLUMN, LAST = 36, 32


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("info", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs info", SUMMARY, EXAMPLES)
    made.add_argument("id", metavar="ID", help=f"an id listed by `{program()} list`, or an alias")
    print("\n".join(plain(page(made.read(argv).id))))
    return 0


def plain(content: Page, width: int | None = None) -> list[str]:
    """Format a page as lines of at most `width` characters.

    The default `width` is the width of the terminal, limited to the range from `LEAST` to `WIDTH`.
    """
    if width is None:
        width = max(LEAST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    lines = [content.id]
    for section in content.sections:
        lines += ["", section.title.upper()]
        for text in section.text:
            lines += [f"  {line}" for line in _wrapped(text.replace("`", ""), width - 2)]
        lines += _table(section, width)
    return lines


def _table(section: Section, width: int) -> Iterator[str]:
    """Yield the lines of a section's table, with long cells wrapped.

    The heading is left out if it is empty. If too little width remains for the last column, its
    cells are printed below their rows.
    """
    shown = [section.head, *section.rows] if any(section.head) else section.rows
    if not section.rows:
        return
    cells = [[cell.replace("`", "") for cell in row] for row in shown]
    widths, last = _widths(list(zip(*cells, strict=True)), width)
    for row in cells:
        columns = [
            (w, _wrapped(cell, w)) for cell, w in zip(row, [*widths, last], strict=True) if w
        ]
        for parts in itertools.zip_longest(*(lines for _, lines in columns), fillvalue=""):
            line = "  ".join(f"{part:<{w}}" for part, (w, _) in zip(parts, columns, strict=True))
            yield f"  {line}".rstrip()
        if not last:
            yield from (f"    {line}" for line in _wrapped(row[-1], width - 4))


def _widths(columns: list[tuple[str, ...]], width: int) -> tuple[list[int], int]:
    """Return the widths of all columns but the last, and the width of the last column.

    The width of the last column is 0 if that column does not fit. Every other column is at least as
    wide as its longest word, so that names are never broken and can be searched for and copied.
    """
    words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
    cells = [max(map(len, column)) for column in columns]
    room = width - 2 * len(columns)  # two spaces are printed before each column
    for last in (max(words[-1], min(LAST, cells[-1])), 0):
        widths = [max(w, min(COLUMN, c)) for w, c in zip(words[:-1], cells[:-1], strict=True)]
        while sum(widths) > room - last:
            spare = [i for i, w in enumerate(widths) if w > words[i]]
            if not spare:
                break
            widths[max(spare, key=widths.__getitem__)] -= 1
        else:
            return widths, last and room - sum(widths)
    return widths, 0


def _wrapped(text: str, width: int) -> list[str]:
    """Return text as lines of at most `width` characters; a longer word stays whole on its line."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
