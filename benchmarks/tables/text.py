"""Format numbers, and build tables as Markdown or for the terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .plain import plain

Column = Callable[[Any], str]  # function from a row of data to the text of its cell

UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, ""))


class Table(NamedTuple):
    """A table as text: headings, and rows with one cell for each heading."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # paragraph that follows the table

    def __str__(self) -> str:
        """Return the table as Markdown, without a newline at the end."""
        lines = (self.head, ["---"] * len(self.head), *self.rows)
        note = ["", self.note] if self.note else []
        return "\n".join([*(line(cells) for cells in lines), *note])

    def plain(self) -> str:
        """Return the table for a terminal or a pipe."""
        return plain([self.head, *self.rows])


def line(cells: Sequence[str]) -> str:
    """Return the cells as one line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def tabulated(rows: Iterable[Any], columns: Mapping[str, Column]) -> Table:
    """Build a table; `columns` map headings to functions from a row to its cell."""
    return Table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def of(name: str, shown: Callable[[Any], str] = str) -> Column:
    """Return a column that shows entry `name` of a row, or an empty cell if it is missing."""
    return lambda row: "" if row.get(name) is None else shown(row[name])


def filled(table: Table) -> Table:
    """Return the table without those columns whose cells are all empty.

    A table without rows keeps all columns.
    """
    every = range(len(table.head))
    kept = [i for i in every if not table.rows or any(cells[i] for cells in table.rows)]
    rows = [[cells[i] for i in kept] for cells in table.rows]
    return table._replace(head=[table.head[i] for i in kept], rows=rows)


def short(number: float | None) -> str:
    """Format three significant digits with a unit: `62.7 M`, `876 k`, `8.25 k`, `136`."""
    if number is None:
        return ""
    size, unit = next((u for u in UNITS if float(f"{number:.3g}") >= u[0]), UNITS[-1])
    scaled = float(f"{number / size:.3g}")
    decimals = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:.{decimals}f}{unit}"


def ratio(number: float | None) -> str:
    """Format a factor: `0.97`, `8.8`, `226`, `1,628`."""
    if number is None:
        return ""
    return f"{number:,.{2 if number < 3 else 1 if number < 100 else 0}f}"


def whole(number: float | None) -> str:
    """Format an integer with commas."""
    return "" if number is None else f"{number:,.0f}"


def fixed(decimals: int) -> Callable[[float | None], str]:
    """Return a function that formats a number with this many decimals."""
    return lambda number: "" if number is None else f"{number:,.{decimals}f}"


def seconds(number: float | None) -> str:
    """Format a duration: `8.4 s`."""
    return "" if number is None else f"{number:,.1f} s"


def percent(share: float | None) -> str:
    """Format a fraction as a percentage: `99.5 %`."""
    return "" if share is None else f"{100 * share:.1f} %"


def listed(numbers: Iterable[float | None], decimals: int = 3) -> str:
    """Format numbers with `decimals` decimals, separated by commas; None is left out."""
    return ", ".join(f"{number:.{decimals}f}" for number in numbers if number is not None)
