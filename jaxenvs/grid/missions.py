"""Missions as word ids: text stays on the host, the observation carries small integers."""

import numpy as np

LENGTH = 16  # words; the longest mission here has 13
# 0 pads. Append only: the ids are part of the observation.
WORDS = (
    "", "get", "to", "the", "green", "goal", "square", "use", "key", "open", "door", "and", "then",
    "avoid", "lava", "find", "opening", "reach",
)  # fmt: skip
_IDS = {word: i for i, word in enumerate(WORDS)}


def ids(text: str) -> np.ndarray:
    """Word ids of a mission, uint8 (LENGTH,), padded with 0.

    Raises `KeyError` for a word that is not in `WORDS` and `ValueError` for too many of them.
    """
    words = [_IDS[word] for word in text.split()]
    if len(words) > LENGTH:
        raise ValueError(f"the mission {text!r} has {len(words)} words; raise LENGTH={LENGTH}")
    return np.array(words + [0] * (LENGTH - len(words)), np.uint8)


def text(word_ids: np.ndarray) -> str:
    """Sentence of the word ids; the inverse of `ids`."""
    return " ".join(WORDS[i] for i in np.asarray(word_ids) if i)
