"""Markdown pages: find the markers of tables, and write the tables between them.

    <!-- table: craft-cpu -->
    | envs | ... |
    <!-- end -->

A table that was typed by hand has no markers. If it has figures, it needs `<!-- typed: WHY -->` on
the line above it, with the reason why it was typed.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDERS = ("docs", "benchmarks", "baselines")  # folders that have pages, in addition to the root
_BLOCK = re.compile(
    r"^<!-- table: (?P<name>\S+) -->\n(?P<body>(?:(?!<!-- (?:table:|end)).*\n)*?)<!-- end -->$",
    re.MULTILINE,
)
_OPEN = re.compile(r"^<!-- table: (\S+) -->$", re.MULTILINE)
_TYPED = re.compile(r"^(?P<why><!-- typed: .+ -->\n)?(?P<lines>(?:\|.*\n)+)", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]*`")


class PageError(ValueError):
    """Raised for a page on which a table's start marker has no end marker."""


def pages(root: Path) -> list[Path]:
    """Return every page that may have a table, sorted by name."""
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*.md")]
    return sorted([*root.glob("*.md"), *found])


def marked(text: str) -> list[str]:
    """Return the names of the tables on a page.

    Raises `PageError` if a marker has no end.
    """
    names = [match["name"] for match in _BLOCK.finditer(text)]
    opened = _OPEN.findall(text)
    if names != opened:
        lacking = next(name for name in opened if names.count(name) < opened.count(name))
        raise PageError(f"<!-- table: {lacking} --> has no <!-- end --> before the next marker")
    return names


def filled(text: str, render: Callable[[str], str]) -> str:
    """Return the page with every table replaced by `render(name)`, the table's Markdown."""
    marked(text)

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- table: {name} -->\n{render(name)}\n<!-- end -->"

    return _BLOCK.sub(block, text)


def typed(text: str) -> Iterator[str]:
    """Yield the first line of each table that was typed by hand without giving a reason.

    These are tables with figures outside of markers, without `typed: WHY` on the line above.
    """
    for match in _TYPED.finditer(_FENCE.sub("", _BLOCK.sub("", text))):
        lines = match["lines"].splitlines()
        if not match["why"] and any(map(_has_figure, lines[2:])):
            yield lines[0]


def _has_figure(line: str) -> bool:
    """Return whether any cell of this table line begins with a digit."""
    return any(re.match(r"\s*\d", cell) for cell in _CODE.sub("", line).split("|"))
