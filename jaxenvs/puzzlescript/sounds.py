"""Check the section `sounds`: its errors make a game invalid, although sounds are not played."""

import re

from .names import Names
from .rules import DIRECTIONS, SOUNDS
from .text import Line

EVENTS = (
    "undo",
    "restart",
    "titlescreen",
    "startgame",
    "cancel",
    "endgame",
    "startlevel",
    "endlevel",
    "showmessage",
    "closemessage",
    *SOUNDS,
)
DIRECTED = ("move", "cantmove")  # verbs after which a line may name directions
VERBS = (*DIRECTED, "action", "create", "destroy")


def check(line: Line, names: Names) -> None:
    """Record an error unless a line is `EVENT SEED` or `OBJECT VERB [DIRECTION ...] SEED`."""
    first, *rest = line.text.split()
    if first not in EVENTS and not re.match(r"\w", first):
        names.problems.warn(
            line.number, f"{first!r} is neither a sound event nor an object; ignored"
        )
        return
    wrong = _event(first, rest) if first in EVENTS else _object(first, rest, names)
    is_known = first in EVENTS or first in names
    if first in names.sounds:
        names.problems.warn(line.number, f"{first} has a seed already; the last one counts")
    if first in EVENTS and not wrong:
        names.sounds.add(first)
    if wrong and not rest and is_known:  # a missing seed is no error in PuzzleScript
        names.problems.warn(line.number, wrong)
    elif wrong:
        names.problems.error(line.number, wrong)


def _event(event: str, rest: list[str]) -> str:
    """Return a message about the error in a line `EVENT SEED`; "" if the line is correct."""
    if not rest or not rest[0].isdigit():
        return f"{event} needs a seed, a number such as 36772507"
    return f"nothing may follow the seed: {' '.join(rest[1:])!r}" if rest[1:] else ""


def _object(name: str, rest: list[str], names: Names) -> str:
    """Return a message about the error in `OBJECT VERB [DIRECTION ...] SEED`; "" if correct."""
    if name not in names:
        events = f"{', '.join(EVENTS[: -len(SOUNDS)])}, sfx0 to sfx10"
        return f"{name.upper()} is neither an object nor a sound event ({events})"
    if names.is_aggregate(name):
        return f"{name.upper()} is an aggregate; sounds belong to objects and properties"
    verb = rest[0] if rest else ""
    if verb not in VERBS:
        return f"{name.upper()} needs a verb: {', '.join(VERBS)}; got {verb!r}"
    for place, word in enumerate(rest[1:], 2):
        if word.isdigit():
            return (
                f"nothing may follow the seed: {' '.join(rest[place:])!r}" if rest[place:] else ""
            )
        if verb not in DIRECTED or word not in DIRECTIONS:
            allowed = " or a direction" if verb in DIRECTED else ""
            return f"{verb} needs a seed, a number{allowed}; got {word!r}"
    return f"{verb} needs a seed, a number such as 36772507"
