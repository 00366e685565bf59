"""Facts about a state, for panels and text, and the input features of networks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, PyTree

from .checks import counted
from .spaces import Space

# Largest number of array entries that a text lists; a larger array is shown as dtype and shape.
MOST_NUMBERS = 400
RGB = tuple[int, int, int]
# How a viewer shows a fact in the panel next to the picture. Plain text, such as a description for
# a language model, has no bars or icons; there, `sentences` writes label and value as words.
Kind = Literal["text", "sentence", "bar", "count", "clock", "icon"]


class Fact(NamedTuple):
    """One fact about a state: something that the agent has or knows.

    `kind` sets how a panel shows the fact:

    - text: the label and the value.
    - sentence: text that needs no label.
    - bar: a bar filled to `amount` of `most`.
    - count: an icon with the number `amount`.
    - clock: a dial; `amount` is the fraction of the day that has passed since noon.
    - icon: a picture of the object that `value` names.
    """

    label: str
    value: str  # text of the value, in words
    kind: Kind = "text"
    amount: float = 0
    most: int = 0
    icon: str = ""  # name of the icon, for `Env.icon`; "" if there is none
    colour: RGB | None = None  # colour of a bar


class Effects(NamedTuple):
    """Side effects of an action: the facts and cells that a viewer highlights after it."""

    # Indices of the facts to highlight, in `Env.facts` of the state after the action.
    facts: tuple[int, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()  # cells to highlight: (row, column) in `Env.tiles`


class Features(NamedTuple):
    """Network inputs: their space, and the function that computes them."""

    space: Space
    # Traceable function from one observation to its network inputs.
    of: Callable[[Any], PyTree[Array]]


def identity(obs: PyTree[Array]) -> PyTree[Array]:
    """Return the observation unchanged: the default network inputs."""
    return obs


def bar(label: str, amount: int, most: int, icon: str = "", colour: RGB | None = None) -> Fact:
    """Return a fact that a panel shows as a bar, such as health: `amount` of `most`."""
    return Fact(label, f"{amount} of {most}", "bar", amount, most, icon, colour)


def count(label: str, amount: int, icon: str = "") -> Fact:
    """Return a fact that a panel shows as an icon with a number, such as the wood in an inventory.

    `amount` is the number, and `icon` the name of the icon for `Env.icon`.
    """
    return Fact(label, f"{amount}", "count", amount, icon=icon)


def listed(parts: Iterable[str]) -> str:
    """Join words into an English list: `a`, `a and b`, `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def sentences(facts: Iterable[Fact]) -> list[str]:
    """Return facts as a list of sentences.

    The facts of kind `sentence` come first, one sentence each. They are followed by one sentence
    about all bars, one sentence about all counts, and one sentence for each remaining fact.
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
    """Describe a position relative to the agent in words: `2 steps ahead and 1 to the left`.

    `ahead` and `right` are numbers of steps; negative numbers mean backwards and to the left.
    `names` are the words for ahead and backwards.
    """
    parts = []
    if ahead:
        parts.append(f"{counted(abs(ahead), 'step')} {names[ahead < 0]}")
    if right:
        number = f"{abs(right)}" if parts else counted(abs(right), "step")
        parts.append(f"{number} to the {'left' if right < 0 else 'right'}")
    return listed(parts or ["here"])


def drawn(rows: Iterable[Iterable[str]]) -> str:
    """Return a map as text: one line per row, and cells of equal width separated by spaces."""
    cells = [list(row) for row in rows]
    width = max(len(cell) for row in cells for cell in row)
    return "\n".join(" ".join(f"{cell:<{width}}" for cell in row).rstrip() for row in cells)


def observed(obs: PyTree[Array], name: str = "Observation") -> list[str]:
    """Return an observation as lines of text.

    An array with more than `MOST_NUMBERS` entries is replaced by its dtype and shape.
    """
    if isinstance(obs, Mapping):
        return [line for part, value in obs.items() for line in observed(value, _begun(part))]
    array = np.asarray(obs)
    if array.size > MOST_NUMBERS:
        return [f"{name}: {array.dtype} {array.shape}, too many numbers to write."]
    text = np.array2string(array, precision=4, suppress_small=True, threshold=MOST_NUMBERS + 1)
    return [f"{name}: {text}" if array.ndim < 2 else f"{name}:\n{text}"]
