"""`jaxenvs list` and `jaxenvs info ID`: what is registered, and the page of an environment."""

import argparse
import itertools
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import NoReturn

from .core import registry
from .core.checks import suggestion
from .core.registry import UnknownIdError
from .page import Page, Section, page

WIDTH = 100  # columns, where the terminal is not narrower
LEAST = 60
COLUMN, LAST = 36, 32  # widths: of a column of a table at most, of a long last one at least
EXAMPLES = {
    "list": ("list", "list Puzzle", "list lava", "list BabyAI open"),
    "info": ("info Grid-DoorKey-8x8-v0", "info MiniGrid-Empty-8x8-v0", "info CartPole-v1"),
}
SUMMARIES = {
    "list": "List the ids that are registered, or those with all of some words, with summaries.",
    "info": "Print the page of an id: rules, arrays, settings and reference returns.",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say how to go on; exit code 2."""
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists the arguments\n")


def parser(command: str, summary: str, examples: tuple[str, ...]) -> Parser:
    """Return the parser of a command, with examples below its options."""
    lines = "".join(f"\n  jaxenvs {example}" for example in examples)
    return Parser(
        prog=f"jaxenvs {command}",
        description=summary,
        epilog=f"examples:{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def number(low: int, high: int) -> Callable[[str], int]:
    """Return the parser of a whole number in a range."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, {low} to {high}")
        return value

    return parse


def main(argv: list[str]) -> int:
    """Run `list` or `info` (the first word of `argv`); return the exit code."""
    command, *rest = argv
    arguments = parser(command, SUMMARIES[command], EXAMPLES[command])
    if command == "list":
        arguments.add_argument(
            "words",
            nargs="*",
            metavar="WORD",
            help="a family such as Grid, or part of an id, an alias or a summary, in any case",
        )
    else:
        arguments.add_argument(
            "id", metavar="ID", help="as `jaxenvs list` prints them, or an alias"
        )
    options = arguments.parse_args(rest)
    try:
        lines = _list(options.words) if command == "list" else plain(page(options.id))
    except (UnknownIdError, ValueError) as error:
        print(f"jaxenvs {command}: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def _list(words: list[str]) -> list[str]:
    """A line for each id that has all of the words; `ValueError` with near ones if none has."""
    specs = [registry.spec(id) for id in registry.list()]
    families = {spec.family.lower() for spec in specs}
    found = specs
    for word in map(str.lower, words):
        if word in families:
            found = [spec for spec in found if spec.family.lower() == word]
        else:
            found = [spec for spec in found if word in _searched(spec).lower()]
    if not found:
        raise ValueError(_nothing_found(words, " ".join(map(_searched, specs))))
    width = max(len(spec.id) for spec in found)
    return [f"{spec.id:<{width}}  {spec.summary}" for spec in found]


def _searched(spec: registry.EnvSpec) -> str:
    """What a word is looked for in."""
    return " ".join((spec.id, *spec.aliases, spec.summary))


def _nothing_found(words: list[str], text: str) -> str:
    """Say so, with what an upstream id lacks here, or words that look alike."""
    asked = " ".join(words)
    for id, reason in registry.absences().items():
        if asked.lower() in id.lower():
            return f"no id has {asked!r}: {reason}"
    known = sorted(set(re.findall(r"[A-Za-z]{3,}|[A-Za-z0-9]{4,}", text)))
    unknown = [word for word in words if word.lower() not in text.lower()]
    near = "".join(suggestion(word, known) for word in unknown)
    return f"no id, alias or summary has {asked!r}{near} (`jaxenvs list` prints all ids)"


def plain(content: Page, width: int | None = None) -> list[str]:
    """Return a page as lines of at most `width` columns: by default those of the terminal."""
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
    """Columns side by side, long cells wrapped; a heading of empty words is left out.

    Where that leaves too little for the last column, its cells stand below their rows.
    """
    shown = [section.head, *section.rows] if any(section.head) else section.rows
    if not section.rows:
        return
    cells = [[cell.replace("`", "") for cell in row] for row in shown]
    widths, last = _widths(list(zip(*cells, strict=True)), width)
    for row in cells:
        beside = [(w, _wrapped(cell, w)) for cell, w in zip(row, [*widths, last], strict=True) if w]
        for parts in itertools.zip_longest(*(lines for _, lines in beside), fillvalue=""):
            line = "  ".join(f"{part:<{w}}" for part, (w, _) in zip(parts, beside, strict=True))
            yield f"  {line}".rstrip()
        if not last:
            yield from (f"    {line}" for line in _wrapped(row[-1], width - 4))


def _widths(columns: list[tuple[str, ...]], width: int) -> tuple[list[int], int]:
    """Widths of all columns but the last, and that of the last, 0 where it does not fit.

    No column is narrower than its longest word: names can be searched for and copied.
    """
    words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
    cells = [max(map(len, column)) for column in columns]
    room = width - 2 * len(columns)  # two columns of space before each
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
    """Lines of at most `width` columns; a longer word has a line of its own."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
