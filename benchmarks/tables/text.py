"""Numbers as every table prints them, and Markdown tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .plain import plain

Column = Callable[[Any], str]  # the cell of a row

UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, ""))


class Table(NamedTuple):
    """A heading for each column, and rows of as many cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # a paragraph below

    def __str__(self) -> str:
        """Markdown, without a newline at the end."""
        lines = (self.head, ["---"] * len(self.head), *self.rows)
        note = ["", self.note] if self.note else []
        return "\n".join([*(line(cells) for cells in lines), *note])

    def plain(self) -> str:
        """The same for a terminal or a pipe."""
        return plain([self.head, *self.rows])


def line(cells: Sequence[str]) -> str:
    """One line of a Markdown table; an empty cell is two blanks wide."""
    return "| " + " | ".join(cells) + " |"


def tabulated(rows: Iterable[Any], columns: Mapping[str, Column]) -> Table:
    """Fill one column after the other: heading to function of a row."""
    return Table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def of(name: str, shown: Callable[[Any], str] = str) -> Column:
    """A column of one value."""
    return lambda row: "" if row.get(name) is None else shown(row[name])


def filled(table: Table) -> Table:
    """Leave out the columns in which every cell is empty; without rows there is nothing to see."""
    every = range(len(table.head))
    kept = [i for i in every if not table.rows or any(cells[i] for cells in table.rows)]
    rows = [[cells[i] for i in kept] for cells in table.rows]
    return table._replace(head=[table.head[i] for i in kept], rows=rows)


def short(number: float | None) -> str:
    """Three significant digits with a unit: `62.7 M`, `876 k`, `8.25 k`, `136`."""
    if number is None:
        return ""
    size, unit = next((u for u in UNITS if float(f"{number:.3g}") >= u[0]), UNITS[-1])
    scaled = float(f"{number / size:.3g}")
    decimals = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:.{decimals}f}{unit}"


def ratio(number: float | None) -> str:
    """A factor: `0.97`, `8.8`, `226`, `1,628`."""
    if number is None:
        return ""
    return f"{number:,.{2 if number < 3 else 1 if number < 100 else 0}f}"


def whole(number: float | None) -> str:
    """An integer with commas."""
    return "" if number is None else f"{number:,.0f}"


def fixed(decimals: int) -> Callable[[float | None], str]:
    """Return a function that prints a fixed number of decimals."""
    return lambda number: "" if number is None else f"{number:,.{decimals}f}"


def seconds(number: float | None) -> str:
    """A duration: `8.4 s`."""
    return "" if number is None else f"{number:,.1f} s"


def percent(share: float | None) -> str:
    """A share of 1: `99.5 %`."""
    return "" if share is None else f"{100 * share:.1f} %"


def listed(numbers: Iterable[float | None], decimals: int = 3) -> str:
    """Numbers with commas between them; what was not recorded is left out."""
    return ", ".join(f"{number:.{decimals}f}" for number in numbers if number is not None)
