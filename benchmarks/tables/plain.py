"""Format tables for terminals: columns are aligned, and long cells wrap instead of being cut."""

import itertools
import shutil
import textwrap
from collections.abc import Iterator, Sequence

GAP = "  "  # text between two columns


def plain(lines: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return a table as text with aligned columns, in which numbers are right-aligned.

    The first of `lines` has the headings. `width` is by default the width of the terminal (or the
    variable `COLUMNS`), and unlimited in a pipe. Cells wrap at spaces. A table that is still too
    wide becomes a list of blocks, one for each row.
    """
    room = width or shutil.get_terminal_size((0, 0)).columns
    columns = list(zip(*lines, strict=True))
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    widths = _widths(columns, numeric, room)
    if widths is None:
        return "\n".join(_blocks(lines, room))
    shown = []
    for line in lines:
        cells = [_wrapped(cell, most) for cell, most in zip(line, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            aligned = (
                part.rjust(most) if right else part.ljust(most)
                for part, most, right in zip(parts, widths, numeric, strict=True)
            )
            shown.append(GAP.join(aligned).rstrip())
    return "\n".join(shown)


def _is_number(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell == "-"


def _widths(
    columns: Sequence[Sequence[str]], numeric: Sequence[bool], room: int
) -> list[int] | None:
    """Return the width of each column, or None if the table does not fit into `room` characters.

    `room` 0 means that the width is unlimited.
    """
    widths = [max(map(len, column)) for column in columns]
    least = [  # smallest width of each column: numbers do not wrap, text wraps at spaces
        max(_longest_word(head), *map(len if number else _longest_word, cells), 0)
        for (head, *cells), number in zip(columns, numeric, strict=True)
    ]
    while room and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        spare = [i for i, most in enumerate(widths) if most > least[i]]
        if not spare:
            return None
        widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _blocks(lines: Sequence[Sequence[str]], room: int) -> Iterator[str]:
    """Yield a line `heading: cell` for each cell, and an empty line after each row."""
    head, *rows = lines
    for row in rows:
        for name, cell in zip(head, row, strict=True):
            yield from textwrap.wrap(
                f"{name}: {cell}", room, subsequent_indent=GAP, break_long_words=False
            )
        yield ""
