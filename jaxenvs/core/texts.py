"""Descriptions of states in words, one or many at a time, in several levels of detail.

A description is made in two steps. First `Env.text_inputs`, which JAX compiles, extracts arrays
from a state, without anything that is hidden from the agent. Then `Env.texts` or `Env.text_changes`
writes the arrays as words, on the host. The words therefore cannot reveal hidden information.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree, UInt8

from . import checks, eager

DETAILS = ("full", "short")
SHORT_LINES = 3  # maximum number of lines of a short description
NO_CHANGE = "Nothing changed."
MOST_MEMOS = 100_000  # maximum number of texts that a memo keeps


class Memo(dict[Any, Any]):
    """Dictionary that computes missing values with a function of the key, and stores them.

    The dictionary is emptied when it has `MOST_MEMOS` entries.
    """

    def __init__(self, write: Callable[[Any], Any]) -> None:
        super().__init__()
        self.write = write

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MOST_MEMOS:
            self.clear()
        value = self[key] = self.write(key)
        return value


def kept(memo: dict[Any, Any], keys: Sequence[Any], write: Callable[[int], Any]) -> list[Any]:
    """Return the value of each key in `memo`; compute missing values as `write(index of the key)`.

    Missing values are also stored in `memo`, which is emptied when it has `MOST_MEMOS` entries.
    """
    found = []
    for index, key in enumerate(keys):
        value = memo.get(key)
        if value is None:
            if len(memo) >= MOST_MEMOS:
                memo.clear()
            value = memo[key] = write(index)
        found.append(value)
    return found


def check_detail(owner: str, detail: str) -> None:
    """Raise `ValueError` unless `detail` is one of `DETAILS`."""
    checks.one_of(owner, "detail", detail, DETAILS)


def one_input(env: Any, state: Any, params: Any) -> PyTree[np.ndarray]:
    """Return `env.text_inputs` of one state on the host, as a batch of one."""
    inputs = jax.device_get(env.text_inputs(state, params))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], inputs)


def many_inputs(env: Any, states: Any, params: Any) -> PyTree[np.ndarray]:
    """Return `env.text_inputs` of a batch of states on the host; one transfer for the batch."""
    return jax.device_get(_reader(env, eager.kinds(env))(states, params))


@functools.lru_cache(maxsize=64)
def _reader(env: Any, kinds: Any) -> Callable[..., Any]:
    """Return `text_inputs`, compiled for a batch of states.

    `kinds`, the types of the env's fields, is only a key of the cache. It distinguishes
    environments that compare equal but differ in a type, such as 1 and 1.0.
    """
    return jax.jit(jax.vmap(env.text_inputs, in_axes=(0, None)))


def rows_of(states: PyTree[Any]) -> list[Any]:
    """Split a batch of states into a list of states on the host."""
    host = jax.tree.map(_on_host, states)

    def row(number: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[number], host)

    return [*map(row, range(batch_size(states)))]


def _on_host(leaf: Any) -> Any:
    is_key = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else np.asarray(leaf)


def batch_size(states: PyTree[Any]) -> int:
    """Return the number of states in a batch: the length of the first axis of every array.

    Raises `ValueError` if the lengths differ, or if an array has no axis.
    """
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(states)}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            "the states must be one batch: arrays with the same leading axis, as `jax.vmap` "
            f"returns them; got the leading axes {sorted(sizes)}; for one state call env.describe"
        )
    return sizes.pop()[0]


def shortened(text: str) -> str:
    """Return the first `SHORT_LINES` lines of a text."""
    return "\n".join(text.splitlines()[:SHORT_LINES])


def changed_lines(old: str, new: str) -> str:
    """Return the lines of `new` that `old` does not have.

    If there are none, return the lines of `old` that `new` does not have, each after `No longer:`.
    If only the order of the lines changed, return a sentence that says so. If the texts are equal,
    return `NO_CHANGE`.
    """
    before, after = old.splitlines(), new.splitlines()
    lines = [line for line in after if line not in before]
    gone = [f"No longer: {line}" for line in before if line not in after]
    return changes_of(lines or gone, old != new, "The order of the lines changed.")


def changes_of(sentences: Sequence[str], is_changed: bool, otherwise: str) -> str:
    """Join sentences about changes, one sentence per line.

    Without sentences, the result is `otherwise` if something changed, else `NO_CHANGE`.
    """
    return "\n".join(sentences) or (otherwise if is_changed else NO_CHANGE)


def changed_rows(old: str, new: str) -> list[str]:
    """Return a sentence for each row of a board that differs between the texts `old` and `new`.

    If the number of rows changed, return one text with the whole new board.
    """
    before, after = old.splitlines(), new.splitlines()
    if len(before) != len(after):
        return [f"The board is now:\n{new}"]
    pairs = enumerate(zip(before, after, strict=True), 1)
    return [f"Row {i}: `{one}` became `{other}`." for i, (one, other) in pairs if one != other]


def board_text(sentences: Sequence[str], legend: str, board: str, detail: str) -> str:
    """Return a text about a board: sentences, then the board below its legend.

    If `detail` is "short", one line has all sentences, and a second line has all rows of the board,
    separated by slashes. There is no legend.
    """
    if detail == "full":
        return "\n".join([*sentences, f"{legend}:", board])
    rows = f"Board: {' / '.join(board.splitlines())}"
    return "\n".join([" ".join(sentences), rows]) if sentences else rows


def board_changes(old: str, new: str) -> str:
    """Return the sentences of `changed_rows`, one per line, or `NO_CHANGE` if there are none."""
    return changes_of(changed_rows(old, new), False, NO_CHANGE)


def written_by_row(
    boards: UInt8[np.ndarray, "batch rows columns"], row: Mapping[bytes, str]
) -> list[str]:
    """Return the text of each board; `row` maps the bytes of a board's row to the row's text."""
    rows = [row_bytes(boards[:, i]) for i in range(boards.shape[1])]
    return ["\n".join([row[line] for line in lines]) for lines in zip(*rows, strict=True)]


def row_bytes(rows: np.ndarray) -> list[bytes]:
    """Return each row of a matrix as `bytes`, which can be a dictionary key."""
    blob, length = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [blob[i * length : (i + 1) * length] for i in range(len(rows))]


def pairs(old: Iterable[Any], new: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """Return an iterator over pairs (old, new) of two batches, which must be equally long."""
    return zip(old, new, strict=True)
