"""Convert missions between text and arrays of word ids.

Observations contain word ids, because JAX arrays cannot contain strings.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, UInt8

from .tiles import Colour, Kind

# Word ids are the indices of this tuple, and id 0 is padding.
# New words may only be appended, because the ids are part of the observation.
WORDS = (
    "", "get", "to", "the", "green", "goal", "square", "use", "key", "open", "door", "and", "then",
    "avoid", "lava", "find", "opening", "reach", "red", "blue", "purple", "yellow", "grey", "ball",
    "box", "a", "go", "fetch", "you", "must", "put", "near", "pick", "up", "matching", "object",
    "at", "end", "of", "hallway", "from", "room", ",", "unlock", "traverse", "rooms", "next",
    "after", "in", "front", "behind", "on", "your", "left", "right", "maze",
)  # fmt: skip
# Number of words in the first version of `WORDS`. Classes whose missions need no later word have an
# observation space of this size, so that trained word embeddings keep their shape.
FIRST_WORDS = 55
_IDS = {word: i for i, word in enumerate(WORDS)}
# Word ids of the colours and of the kinds of objects.
# The index is MiniGrid's number of the colour or the kind.
COLOUR_WORDS = np.array([_IDS[colour.name.lower()] for colour in Colour], np.uint8)
KIND_WORDS = np.zeros(16, np.uint8)
for _kind in (Kind.DOOR, Kind.KEY, Kind.BALL, Kind.BOX):
    KIND_WORDS[_kind] = _IDS[_kind.name.lower()]


def ids(text: str, length: int | None = None) -> np.ndarray:
    """Return the word ids of a mission, uint8 (length,), padded with 0.

    A comma counts as a word. Raises `KeyError` for a word that is not in `WORDS`, and `ValueError`
    if the mission has more than `length` words.
    """
    words = [_IDS[word] for word in text.replace(",", " ,").split()]
    return np.array(_padded(words, len(words) if length is None else length), np.uint8)


def sentence(length: int, *parts: str | ArrayLike) -> UInt8[Array, " {length}"]:
    """Return the word ids of a sentence, uint8 (length,), padded with 0.

    Each part is a text, or a single word id, which may be a traced value.
    """
    found: list[ArrayLike] = []
    for part in parts:
        found.extend(ids(part) if isinstance(part, str) else [part])
    return jnp.stack([jnp.asarray(word).astype(jnp.uint8) for word in _padded(found, length)])


def _padded(words: list[Any], length: int) -> list[Any]:
    if len(words) > length:
        raise ValueError(f"a mission of {len(words)} words is longer than {length}")
    return [*words, *[0] * (length - len(words))]


def colour_word(tile: UInt8[Array, ""]) -> UInt8[Array, ""]:
    """Return the word id of a tile's colour."""
    return jnp.asarray(COLOUR_WORDS)[(tile >> 4).astype(jnp.int32)]


def kind_word(tile: UInt8[Array, ""]) -> UInt8[Array, ""]:
    """Return the word id of a tile's kind: door, key, ball or box."""
    return jnp.asarray(KIND_WORDS)[(tile & 15).astype(jnp.int32)]


def text(word_ids: np.ndarray) -> str:
    """Return the text of a mission, given its word ids; the inverse of `ids`."""
    return " ".join(WORDS[i] for i in np.asarray(word_ids) if i).replace(" ,", ",")
