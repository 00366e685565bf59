"""Parser and writer of the values in lines of a Craft text, such as `row 3, alive yes`.

A value must be in the range that the state can store, which its `Field` describes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...core.checks import suggestion
from ...levels import cells
from ...levels.blocks import Header, short
from ..packing import Field
from ..tables import Action, Rules

FACING = {name: int(Action[name.upper()]) for name in ("left", "right", "up", "down")}
NO_FLOOR = "begin the line with the floor, such as `floor 3,`"
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")  # such as 7, -2.5 or 1e-05

# A line of a text, and the comma-separated parts of the line that are not parsed yet.
Line = tuple[Header, list[str]]


def listed(header: Header) -> list[str]:
    """Return the parts of a line that commas separate, without empty parts and extra spaces."""
    parts = (" ".join(part.split()) for part in header.value.split(","))
    return [part for part in parts if part]


def by_floor(rules: Rules, headers: Iterable[Header]) -> dict[int | None, list[Line]]:
    """Group lines by the floor that their first part names, such as `floor 3`.

    The key None has the lines that name no floor. The returned parts of a line do not include the
    part that names the floor.
    """
    found: dict[int | None, list[Line]] = {}
    for header in headers:
        number, parts = None, listed(header)
        word, _, text = parts[0].partition(" ") if parts else ("", "", "")
        if word == "floor" and rules.is_full:
            number, parts = cells.integer(header, text, 0, rules.last_floor), parts[1:]
        found.setdefault(number, []).append((header, parts))
    return found


def each_floor(rules: Rules, headers: Iterable[Header]) -> dict[int | None, Line]:
    """Group lines as `by_floor` does; raise `LevelError` for a second line about a floor."""
    found = {}
    for number, lines in by_floor(rules, headers).items():
        if len(lines) > 1:
            raise lines[1][0].error("an earlier line is about the same floor; remove one")
        found[number] = lines[0]
    return found


def pairs(line: Line, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Parse the parts `name value` of a line into a dict.

    Raises `LevelError` for an unknown or repeated name, or for a value that its field cannot store.
    """
    header, parts = line
    found: dict[str, Any] = {}
    for part in parts:
        name, _, text = part.rpartition(" ")
        if name not in fields:
            near, known = suggestion(name, fields), ", ".join(fields)
            raise header.error(f"unknown value {short(name or text)!r}; known are {known}{near}")
        if name in found:
            raise header.error(f"{name} is given twice; remove one")
        found[name] = _parsed(header, fields[name], text)
    return found


def check_on_map(header: Header, found: Mapping[str, Any], size: int) -> None:
    """Raise `LevelError` for a row or column beyond the map, which has `size` rows and columns."""
    for name, value in found.items():
        if name.endswith(("row", "column")) and value >= size:
            raise header.error(f"{name} {value}: rows and columns are 0 to {size - 1}")


def _parsed(header: Header, field: Field, text: str) -> Any:
    """Parse the value of a field from a text; raise `LevelError` if the field cannot store it."""
    if field.flag:
        if text not in ("yes", "no"):
            raise header.error(f"{field.name} is {short(text)!r}; write yes or no")
        return np.bool_(text == "yes")
    if field.real:
        is_number = NUMBER.fullmatch(text)
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite
            value = np.float32(text if is_number else "nan")
        if not np.isfinite(value):
            raise header.error(f"{field.name} is {short(text)!r}; write a number, such as 7 or 2.5")
        return value
    if field.name == "facing":
        return np.int32(cells.named(header, text, FACING, "direction"))
    most = field.low + (1 << field.bits) - 1
    return np.int32(cells.integer(header, text, field.low, most))


def shown(name: str, field: Field, value: Any) -> str:
    """Return `name` and the text for the value of a field: yes or no, a direction, or a number."""
    if field.flag:
        return f"{name} {'yes' if value else 'no'}"
    if field.name == "facing":
        words = {code: word for word, code in FACING.items()}
        if int(value) not in words:
            raise ValueError(f"levels.write: facing is {int(value)}, which is no direction")
        return f"{name} {words[int(value)]}"
    if field.real and not np.isfinite(value):
        raise ValueError(f"levels.write: {name} is {value}, which no text can describe")
    return f"{name} {str(np.float32(value)) if field.real else int(value)}"


def same(a: Any, b: Any) -> bool:
    """Return whether two values have equal bits; 0.0 and -0.0 differ."""
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()
