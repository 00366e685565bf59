"""Parser of the options `--set NAME=VALUE` and `--param NAME=VALUE`.

`--set` gives constructor fields of an environment, `--param` gives params. All commands accept the
same kinds of values:

    true false none null   in any case        5  -1  2.5  1e-3      numbers
    (1, 2)  [full, rgb]    tuples             full  'a, b'  "5"     strings, quotes if needed
    {"a": 1}               dicts, as JSON

Lists become tuples, because environments must be hashable. The output of `repr` is accepted too.
"""

import ast
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..core import registry
from ..core.param_values import constructor_fields, names

FLAG, PARAM = "--set", "--param"
LEVELS, SETUP = "--levels", "--setup"
SHORT = {LEVELS: "levels", SETUP: "setup"}  # flag -> the constructor field that it sets
EXAMPLES = {FLAG: "view_size=5", PARAM: "max_steps_in_episode=50"}
WORDS = {"true": True, "false": False, "none": None, "null": None}
CLOSING = {"(": ")", "[": "]", "{": "}"}
MAX_DEPTH = 16  # maximum depth of nested tuples
# Matches a quoted string or any single character. A quote that is not closed is a single character.
_PIECE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL)


def parse(pairs: Iterable[str], flag: str = FLAG) -> dict[str, Any]:
    """Parse `NAME=VALUE` pairs and return a dict; raise `ValueError` if one is malformed.

    Values are None, bool, int, float, str, tuples of values, or dicts. If a name occurs twice, the
    last value counts. Error messages begin with `flag`.
    """
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise ValueError(f"{flag} {pair}: write NAME=VALUE, such as {EXAMPLES[flag]}")
        try:
            found[name] = _value(text.strip(), MAX_DEPTH)
        except ValueError as error:
            raise ValueError(f"{flag} {pair}: {error}") from error
    return found


def check_kinds(id: str, fields: Iterable[str], params: Iterable[str]) -> None:
    """Raise `ValueError` for a param that was given by `--set` or a field given by `--param`."""
    spec = registry.spec(id)
    own = {field.name for field in constructor_fields(spec.env_class)}
    for name in params:
        if name in own:
            raise ValueError(_swapped(PARAM, name, f"a constructor field of {id}", FLAG))
    if "setup" in fields and not spec.make().setups:
        raise ValueError(f"setup: {id} has no setups; omit {SETUP}, or choose a Craft environment")
    for name in fields:
        if name not in own and name in names(spec.make()):
            raise ValueError(_swapped(FLAG, name, f"a param of {id}", PARAM))


def _swapped(given: str, name: str, kind: str, right: str) -> str:
    return f"{given} {name}: {name} is {kind}; give it by {right}"


def written(name: str, value: Any) -> str:
    """Return the `NAME=VALUE` pair that `parse` turns back into this name and value."""
    is_plain = isinstance(value, str) and value == value.strip() and _read_alike(value)
    return f"{name}={value}" if is_plain else f"{name}={value!r}"


def gathered(argv: Iterable[str], levels: bool = False) -> list[str]:
    """Move all pairs `NAME=VALUE` to the end of the arguments; return the new arguments.

    levels: whether the command has the option `--levels FILE`, which becomes `--set levels=FILE`.

    The new arguments end with `--param` and all its pairs, then `--set` and all its pairs. The
    arguments `--set a=1 b=2`, `--set a=1 --set b=2` and `--set=a=1 --set=b=2` therefore become
    equal.
    """
    return _gathered(_gathered(_with_short(argv) if levels else argv, PARAM), FLAG)


def _with_short(argv: Iterable[str]) -> Iterator[str]:
    """Yield the arguments with `--set levels=FILE` instead of `--levels FILE`, and so on."""
    arguments = iter(argv)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in SHORT:
            yield argument
            continue
        value = value if equals else next(arguments, "")
        if value and (equals or not value.startswith("-")):
            yield from (FLAG, written(SHORT[name], value))
        else:  # nothing follows the flag; the command's parser reports this mistake
            yield from filter(None, (name, value))


def _gathered(argv: Iterable[str], flag: str) -> list[str]:
    rest: list[str] = []
    pairs: list[str] = []
    needed = allowed = False  # `needed`: the next argument must be a pair; `allowed`: it may be one
    for argument in argv:
        if argument == flag:
            needed = allowed = True
        elif argument.startswith(f"{flag}="):
            pairs.append(argument.partition("=")[2])
            needed = allowed = False
        elif (needed or (allowed and "=" in argument)) and not argument.startswith("-"):
            pairs.append(argument)
            needed = False
        else:
            rest += [flag, argument] if needed else [argument]
            needed = allowed = False
    return [*rest, flag, *pairs] if pairs or needed else rest


def _read_alike(text: str) -> bool:
    """Return whether the parser turns the text, without quotes, into the same string."""
    try:
        return _value(text, MAX_DEPTH) == text
    except ValueError:
        return False


def _value(text: str, depth: int) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if text[:1] in ("'", '"'):
        return _string(text)
    if text[:1] == "{":
        return _dict(text)
    if text[:1] in CLOSING:
        if not depth:
            raise ValueError(f"tuples may be nested {MAX_DEPTH} deep; remove some brackets")
        return tuple(_value(part, depth - 1) for part in _parts(text))
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _string(text: str) -> str:
    whole = _PIECE.fullmatch(text)
    try:
        value = ast.literal_eval(text) if whole and len(text) > 1 else None
    except (ValueError, SyntaxError):  # raised, for example, for an incomplete escape such as `\x`
        value = None
    if not isinstance(value, str):
        raise ValueError(
            f"{text} is not a complete string; close it with {text[0]}, or quote the whole value"
        )
    return value


def _dict(text: str) -> dict[Any, Any]:
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            if isinstance(value := read(text), dict):
                return value
    raise ValueError(f"{text} is not a dict; write JSON, or quote it if it is a string")


def _parts(text: str) -> Iterator[str]:
    """Yield the text of each value of a tuple: `text` is split at commas outside nested tuples."""
    open_brackets: list[str] = []
    part, parts = "", []
    for piece in _PIECE.findall(text):
        if piece in CLOSING:
            open_brackets.append(CLOSING[piece])
            part += piece if len(open_brackets) > 1 else ""
        elif open_brackets and piece == open_brackets[-1]:
            open_brackets.pop()
            part += piece if open_brackets else ""
        elif not open_brackets:
            raise ValueError(
                f"{text} continues after its closing bracket; quote it if it is a string"
            )
        elif piece == "," and len(open_brackets) == 1:
            parts.append(part.strip())
            part = ""
        else:
            part += piece
    if open_brackets:
        raise ValueError(f"{text} lacks a {open_brackets[-1]!r}; quote it if it is a string")
    last = part.strip()
    yield from [*parts, last] if last else parts
