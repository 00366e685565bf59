"""Arguments of tools: their JSON schema, and checks whose messages a language model can follow."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..commands.parser import UsageError
from ..core.checks import suggestion

REQUIRED = object()  # marks an argument that has no default, so the caller must give a value
TEXT, FLAG, OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}


class Argument(NamedTuple):
    """An argument of a tool."""

    name: str
    schema: Mapping[str, Any]  # JSON schema without its description
    doc: str
    default: Any = REQUIRED


def schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the JSON schema of an object that has the arguments as properties."""
    return {
        "type": "object",
        "properties": {a.name: {**a.schema, "description": a.doc} for a in arguments},
        "required": [a.name for a in arguments if a.default is REQUIRED],
        "additionalProperties": False,
    }


def checked(arguments: Sequence[Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all arguments, with defaults for missing ones.

    Raises `UsageError` for an unknown name, a wrong value, or a missing value without a default.
    """
    known = [argument.name for argument in arguments]
    for name in given:
        if name not in known:
            allowed = ", ".join(known) or "none"
            near = suggestion(name, known)
            raise UsageError(f"there is no argument {name!r}; the arguments are {allowed}{near}")
    return {argument.name: _value(argument, given) for argument in arguments}


def _value(argument: Argument, given: Mapping[str, Any]) -> Any:
    name, schema = argument.name, argument.schema
    value = given.get(name)
    if value is None:
        if argument.default is REQUIRED:
            raise UsageError(f"the argument {name!r} is missing: {argument.doc}")
        return argument.default
    if schema["type"] == "array":
        value = _listed(value)
    if not _fits(value, schema):
        raise UsageError(f"{name} must be {_allowed(schema)}, got {_shown(value)}")
    return value


def _listed(value: Any) -> Any:
    """Convert a value to a list of names.

    A language model may give one name instead of a list, or numbers instead of names.
    """
    parts = [value] if isinstance(value, (str, int)) else value
    if not isinstance(parts, list):
        return value
    return [_shown(part) if isinstance(part, int) else part for part in parts]


def _shown(value: Any) -> str:
    """Return a JSON value as text."""
    try:
        return repr(value)
    except (RecursionError, ValueError):  # deep nesting, or an integer of more than 4300 digits
        return f"a {type(value).__name__} that is too long to show"


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    if schema["type"] == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and schema["minimum"] <= value <= schema["maximum"]
    if schema["type"] == "array":
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    kinds = {"string": str, "object": dict, "boolean": bool}
    return isinstance(value, kinds[schema["type"]]) and value in schema.get("enum", [value])


def _allowed(schema: Mapping[str, Any]) -> str:
    if schema["type"] == "integer":
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    words = {"array": "a list of names of actions", "object": "an object of names and values"}
    return words.get(schema["type"], f"a {schema['type']}")


def whole(low: int, high: int) -> dict[str, Any]:
    """Return the JSON schema of a whole number from `low` to `high`."""
    return {"type": "integer", "minimum": low, "maximum": high}
