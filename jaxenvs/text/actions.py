"""Read actions from text: names, beginnings of names, numbers, and answers of language models."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.checks import closest, counted, suggestion
from ..core.env import Env
from ..core.spaces import Box, Discrete

MOST_LISTED = 40  # maximum number of legal actions that a message lists
MOST_DIGITS = 9  # maximum number of digits of a number that is taken as an action's index
MOST_LETTERS = 60  # largest number of characters of an answer that a message quotes in full
# Matches a mark in an answer, such as `Action:` or `<action>`. The text after the last mark is the
# action. Examples are `Action: pick up`, `<action>pick up</action>`, `{"action": "pick up"}` and
# `\\boxed{pick up}`.
_MARK = re.compile(
    r"(?:\b(?:action|answer|choice|decision|move)\b[\"'*_`>|)\]]*\s*(?::|=|->|\bis\b|(?<=>))"
    r"|\\boxed\{)[\s\"*_`]*(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\.\s|\.$|;|\(|<|\}|\s[-\u2013\u2014]\s|,\s|\bbecause\b|\bsince\b", re.IGNORECASE
)
# `_JOINT` matches words and signs between two actions. `_DOUBT` matches text, such as `is`, that
# turns the action before it into a question or a statement.
_JOINT = re.compile(
    r"(?:[^\w.!?']|\b(?:or|and|then|next|vs|versus|x|followed by)\b)+", re.IGNORECASE
)
_DOUBT = re.compile(
    r"[\"'*_`)]*\s*(?:\?|(?:is|isn't|was|would|wouldn't|will|won't|can|cannot|can't|does|doesn't"
    r"|not)\b)",
    re.IGNORECASE,
)
_INDEX = re.compile(r"\d+(?!\w|\s+(?!because|since)\w)", re.IGNORECASE)
_QUOTED = re.compile(r"^'(.+?)'(?![\w'])")
_APOSTROPHES = str.maketrans("\u2018\u2019\u2032", "'''")
_NUMBERED = re.compile(r"#?(\d+)\s*[.:)]?\s+(.+)")
_WRAPPING = ' #\t\r\n"`*_.,;:!?()[]{}<>\u201c\u201d\u2018\u2019\u00ab\u00bb'


class ActionError(ValueError):
    """Raised for a text that names no legal action; the message lists the legal actions."""

    def __init__(self, message: str, given: str, near: Sequence[str], legal: Sequence[int]) -> None:
        super().__init__(message)
        self.given = given  # the text that was refused
        self.near = tuple(near)  # names of actions that resemble the text
        self.legal = tuple(legal)  # indices of the legal actions


def parse_action(env: Env, text: str, legal: Any = None) -> Any:
    """Return the action that a text names: an int, or an array if the actions are not discrete.

    The text is one of the following, tried in this order: an action's name (`pick up`), its number
    (`3`), both (`3 pick up`) or the beginning of exactly one name (`pick`). Upper or lower case,
    quotes and punctuation around the text do not matter. A longer text, such as the answer of a
    language model, must end in a line of this format, or mark the action: `Action: pick up`,
    `"action": "pick up"` or `<action>pick up</action>`. If there are several marks, the last one
    counts. A mark with two actions, such as `Action: left or right`, names no action.

    `legal` are the legal actions: a mask such as `env.action_mask(state)` or the int8 mask in
    Gymnasium's info, or indices. None allows all. An action of a `Box` or `MultiDiscrete` space is
    one number for each component, such as `0.5, -1`, or a name of `env.controls`. Raises
    `ActionError` if the text names no action, several actions, or an action that is not legal.
    """
    space, names = env.action_space, action_names(env)
    if isinstance(space, Discrete):
        return choose(text, names, legal_indices(legal, len(names)), env.action_names)
    if numbers := _numbers(text, env.action_names):
        return _element(env, text, numbers)
    for candidate in candidates(text, names):
        found = _found(candidate, names, [*range(len(names))], ())
        if len(found) == 1:
            return np.asarray(env.controls.values[found[0]], space.dtype)
    raise _refused(env, text)


def action_names(env: Env) -> tuple[str, ...]:
    """Return the names of all actions, in order of their indices, as prompts and messages use them.

    For a space that is not discrete, the result names some elements of the space, and may be empty.
    """
    return env.controls.names or (
        env.action_names if isinstance(env.action_space, Discrete) else ()
    )


def legal_indices(legal: Any, count: int) -> list[int]:
    """Return the indices of legal actions, given a mask, indices, or None for all `count` actions.

    A mask is an array of bool or, as in Gymnasium, int8 values. Raises `ValueError` for a mask of
    another length, an index out of range, and an index that occurs twice.
    """
    if legal is None:
        return [*range(count)]
    given = np.asarray(legal)
    if given.shape == (count,) and given.dtype in (np.bool_, np.int8):
        return np.flatnonzero(given).tolist()
    indices = given.tolist() if given.ndim == 1 and given.dtype.kind in "iuf" else [-1]
    if not all(0 <= index < count for index in indices) or len({*indices}) < len(indices):
        raise ValueError(
            f"parse_action: legal must be a mask of bool or int8 values, shape ({count},), or "
            f"different indices below {count}; got {given.dtype} {given.tolist()}"
        )
    return [int(index) for index in indices]


def labels(names: Sequence[str], actions: Iterable[int]) -> Iterator[str]:
    """Yield the index and name of each action; only the name if the name is a number."""
    return (names[i] if names[i].isdigit() else f"{i} {names[i]}" for i in actions)


def named(text: str, names: Sequence[str]) -> list[int]:
    """Return the indices of the actions with this name.

    An exact match has priority, because U' and u' are different actions of a cube puzzle. If there
    is no exact match, case is ignored.
    """
    exact = [i for i, name in enumerate(names) if name == text]
    folded = _folded(text)
    return exact or [i for i, name in enumerate(names) if _folded(name) == folded]


def choose(
    text: str,
    names: Sequence[str],
    allowed: Sequence[int],
    other_names: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> int:
    """Return the index of the legal action that a text names; see `parse_action`.

    `allowed` are the indices of the legal actions, and `other_names` alternative names of the
    actions. `commands` are other words that the caller accepts; the message of an `ActionError`
    lists them.
    """
    first: list[int] = []
    for candidate in candidates(text, names):
        found = _found(candidate, names, allowed, other_names)
        if len(found) == 1 and found[0] in allowed:
            return found[0]
        first = first or found
    raise _error(text.strip(), first, names, allowed, commands)


def candidates(text: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the parts of an answer that may be the action, the likeliest first."""
    text = text.translate(_APOSTROPHES)
    yield from _bare(text)
    marks = [*_MARK.finditer(text)]
    if marks:
        rest = marks[-1]["rest"]
        yield from _bare(rest)
        yield from _begun(rest, names)
    elif lines := text.strip().splitlines():
        yield from _bare(lines[-1])


def _begun(text: str, names: Sequence[str]) -> Iterator[str]:
    """Yield candidates for the action at the beginning of a text.

    Yield nothing if the text goes on with another action, as in `3 or 4`, or turns the action into
    a question or statement, as in `left is blocked`.
    """
    if any("," in name for name in names):  # names that contain commas, such as `3,4`
        text = re.sub(r"\s*,\s*", ",", text)
    start = _QUOTED.sub(r"\1 ", text.lstrip(_WRAPPING), count=1)
    first = _leading(start, names)
    # Skip the number in front of an action's name, as in "3 pick up, because".
    after = start if first else re.sub(r"^#?\d+\s+", "", start)
    word = first or _leading(after, names)
    if word and _goes_on(word, after[len(word) :], names):
        return
    yield from _bare(_ENDS.split(text)[0])
    if first and first in names:
        yield first


def _leading(text: str, names: Sequence[str]) -> str:
    """Return the longest action name at the start of a text, else a number there, else ""."""
    folded, index = text.lower(), _INDEX.match(text)
    begun = [n for n in names if folded.startswith(n.lower())]
    whole = [n for n in begun if not re.match(r"[\w\\]", text[len(n) :])]
    return max(whole, key=len, default=index[0] if index else "")


def _goes_on(first: str, rest: str, names: Sequence[str]) -> bool:
    """Return whether the text `rest` after the action `first` shows that the action is not chosen.

    The result is True if `rest` names another action, as in `3 or 4`, or if it turns the action
    into a question or a statement, as in `left is blocked`.
    """
    rest = rest.lstrip(".:") if first.isdigit() else rest
    joint = _JOINT.match(rest.lstrip("'"))
    joined = _QUOTED.sub(r"\1 ", joint.string[joint.end() :]) if joint else ""
    second = _leading(joined, names)
    number = re.match(r"\d+(?!\w)", joined)
    if number and first.isdigit():  # the text names two numbers, as in "3, 4 to be sure"
        second = second or number[0]
    actions = [_found(word, names, range(len(names)), ()) for word in (first, second) if word]
    return actions[0] != actions[-1] or _DOUBT.match(rest) is not None


def _bare(text: str) -> Iterator[str]:
    """Yield a text without surrounding spaces, then without surrounding quotes and punctuation."""
    for part in (text.strip(), text.strip(_WRAPPING)):
        yield part
        if len(part) > 2 and part[0] == part[-1] and part[0] in "'\"`":
            yield part[1:-1].strip()
    if part.startswith("'"):
        yield part.strip(f"{_WRAPPING}'")


def _found(
    text: str, names: Sequence[str], allowed: Sequence[int], other_names: Sequence[str]
) -> list[int]:
    """Return the indices of the actions that a text names, legal or not.

    A text that is neither a name nor a number may be the beginning of names. If some of the actions
    with these names are legal (in `allowed`), only the legal ones are returned.
    """
    word = _folded(text)
    found = named(text, names) or named(text, other_names)
    if not word or found:
        return found
    if word.isdecimal() and len(word) <= MOST_DIGITS and int(word) < len(names):
        return [int(word)]
    numbered = _NUMBERED.fullmatch(text)
    if numbered and len(numbered[1]) <= MOST_DIGITS:
        index = int(numbered[1])
        return [
            i for i in named(numbered[2], names) or named(numbered[2], other_names) if i == index
        ]
    begun = [i for i, name in enumerate(names) if name.lower().startswith(word)]
    return [i for i in begun if i in allowed] or begun


def _folded(text: str) -> str:
    """Return a text in lower case, with single spaces, but without spaces around commas."""
    return re.sub(r"\s*,\s*", ",", " ".join(text.lower().split()))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}...")


def _error(
    text: str,
    found: Sequence[int],
    names: Sequence[str],
    allowed: Sequence[int],
    commands: Sequence[str],
) -> ActionError:
    """Return the error for a text that names no legal action; its message gives the reason.

    `found` are the indices of the actions that the text matches, possibly none. The message lists
    the legal actions, unless the text matches several legal actions.
    """
    known = ", ".join(labels(names, allowed[:MOST_LISTED])) or "no action"
    given, near = _quoted(text), [names[i] for i in found[:MOST_LISTED]]
    if len(found) == 1:
        message = f"{near[0]!r} is not legal now; legal actions: {known}."
    elif found and found[0] not in allowed:
        kinds = counted(len(found), "action")
        message = f"{given} matches {kinds}, none of them legal now; legal actions: {known}."
    elif found:
        several = ", ".join(labels(names, found[:MOST_LISTED]))
        message = f"{given} matches {counted(len(found), 'action')}: {several}."
    else:
        known_names = [names[i] for i in allowed[:MOST_LISTED]]
        near = closest(text[:MOST_LETTERS], known_names)
        hint = suggestion(text[:MOST_LETTERS].lower(), [*known_names, *commands])
        legal_now = f"Legal now: {known}{'; or ' if commands else ''}{', '.join(commands)}."
        message = f"There is no action {given}{hint or '.'} {legal_now}"
    return ActionError(message, text, near, allowed)


def _numbers(text: str, components: Sequence[str]) -> list[float]:
    """Return the numbers of an action in a text; [] if there are none.

    The result comes from the first of `candidates(text)` that consists of numbers. Names of
    components, as in `torque: 0.5`, are ignored.
    """
    for candidate in candidates(text, ()):
        for name in components:
            candidate = re.sub(rf"\b{re.escape(name)}\b\s*[:=]?", " ", candidate, flags=re.I)
        try:
            numbers = [float(word) for word in re.sub(r"[\[\](){},]", " ", candidate).split()]
        except ValueError:
            continue
        if numbers:
            return numbers
    return []


def _element(env: Env, text: str, numbers: Sequence[float]) -> np.ndarray:
    """Return an element of a `Box` or `MultiDiscrete` space, given its components.

    Raises `ActionError` for another number of components and for a component out of range.
    """
    space: Any = env.action_space
    if isinstance(space, Box) and np.prod(space.shape, dtype=int) == len(numbers):
        value = np.asarray(numbers, np.float64).reshape(space.shape)
        element = value.astype(space.dtype)
        is_exact = np.issubdtype(space.dtype, np.floating) or (element == value).all()
        if is_exact and ((value >= space.low) & (value <= space.high)).all():
            return element
    raise _refused(env, text)


def _refused(env: Env, text: str) -> ActionError:
    """Return the error for a text that names no action, for a space that is not discrete."""
    near = closest(text.strip()[:MOST_LETTERS], action_names(env))
    message = f"{_quoted(text.strip())} is no action; {how_to_write(env)}"
    return ActionError(message, text, near, ())


def how_to_write(env: Env) -> str:
    """Return text that tells how to write an action of a space that is not discrete."""
    space, names = env.action_space, action_names(env)
    if not isinstance(space, Box):
        return f"actions of {space} cannot be written as text; pass them to env.step"
    count = counted(int(np.prod(space.shape, dtype=int)), "number")
    components = f" ({', '.join(env.action_names)})" if env.action_names else ""
    also = f", or one of {', '.join(names)}" if names else ""
    return f"write {count}{components} of {space}, separated by commas{also}"
