"""Facts of a state for panels and text, and the input features of networks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, PyTree

from .checks import counted
from .spaces import Space

MOST_NUMBERS = 400  # size above which only an observation's shape is described
RGB = tuple[int, int, int]
# How a panel draws a fact; text shows its label and value.
Kind = Literal["text", "sentence", "bar", "count", "clock", "icon"]


class Fact(NamedTuple):
    """One fact about a state: something that the agent has or knows.

    A `sentence` needs no label; a `bar` is filled to `amount` of `most`; a `count` is an icon with
    a number; a `clock` is a dial, `amount` the fraction of the day that has passed since noon; an
    `icon` is a picture of the thing that the value names.
    """

    label: str
    value: str  # value in words
    kind: Kind = "text"
    amount: float = 0
    most: int = 0
    icon: str = ""  # name that `Env.icon` takes; "" for none
    colour: RGB | None = None  # colour of a bar


class Effects(NamedTuple):
    """Side effects of an action, for players to highlight."""

    facts: tuple[int, ...] = ()  # indices into the facts of the state after the action
    cells: tuple[tuple[int, int], ...] = ()  # (row, column) in `Env.tiles`


class Features(NamedTuple):
    """Network inputs computed from an observation."""

    space: Space
    of: Callable[[Any], PyTree[Array]]  # traceable function: one observation to its features


def identity(obs: PyTree[Array]) -> PyTree[Array]:
    """Return the observation itself."""
    return obs


def bar(label: str, amount: int, most: int, icon: str = "", colour: RGB | None = None) -> Fact:
    """Return a bar, such as health."""
    return Fact(label, f"{amount} of {most}", "bar", amount, most, icon, colour)


def count(label: str, amount: int, icon: str = "") -> Fact:
    """Return a count, such as an item of an inventory."""
    return Fact(label, f"{amount}", "count", amount, icon=icon)


def listed(parts: Iterable[str]) -> str:
    """Join words as in `a`, `a and b`, `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def sentences(facts: Iterable[Fact]) -> list[str]:
    """Return facts as sentences.

    Facts of kind `sentence` come first, then one sentence for all bars, one for all counts, and
    one for each other fact.
    """
    facts = list(facts)
    found = [f"{_begun(_labelled(f))}." for f in facts if f.kind == "sentence"]
    bars = [f"{f.label} {f.value}" for f in facts if f.kind == "bar"]
    found += [f"{_begun(', '.join(bars))}."] if bars else []
    counts = [f for f in facts if f.kind == "count"]
    some = [f"{f.value} {f.label}" for f in counts if f.amount]
    found += [f"You have {listed(some or ['nothing'])}."] if counts else []
    rest = [f for f in facts if f.kind in ("text", "clock", "icon")]
    return found + [f"{_begun(_labelled(f))}." for f in rest]


def _labelled(fact: Fact) -> str:
    return f"{fact.label}: {fact.value}" if fact.label else fact.value


def _begun(words: str) -> str:
    return words[:1].upper() + words[1:]


def a(noun: str) -> str:
    """Put the indefinite article before a noun: `a key`, `an open door`."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def away(ahead: int, right: int, names: tuple[str, str] = ("ahead", "behind")) -> str:
    """Describe a relative position: `2 steps ahead and 1 to the left`.

    Negative numbers are behind or to the left.
    """
    parts = []
    if ahead:
        parts.append(f"{counted(abs(ahead), 'step')} {names[ahead < 0]}")
    if right:
        number = f"{abs(right)}" if parts else counted(abs(right), "step")
        parts.append(f"{number} to the {'left' if right < 0 else 'right'}")
    return listed(parts or ["here"])


def drawn(rows: Iterable[Iterable[str]]) -> str:
    """Draw a map: cells separated by spaces, all as wide as the widest."""
    cells = [list(row) for row in rows]
    width = max(len(cell) for row in cells for cell in row)
    return "\n".join(" ".join(f"{cell:<{width}}" for cell in row).rstrip() for row in cells)


def observed(obs: PyTree[Array], name: str = "Observation") -> list[str]:
    """Return an observation as text: its numbers row by row, or only its shape if it is large."""
    if isinstance(obs, Mapping):
        return [line for part, value in obs.items() for line in observed(value, _begun(part))]
    array = np.asarray(obs)
    if array.size > MOST_NUMBERS:
        return [f"{name}: {array.dtype} {array.shape}, too many numbers to write."]
    text = np.array2string(array, precision=4, suppress_small=True, threshold=MOST_NUMBERS + 1)
    return [f"{name}: {text}" if array.ndim < 2 else f"{name}:\n{text}"]
