"""Encoders from compact observations (integers, maps, missions) to float features for networks.

Convolutions are computed as matrix products, which XLA runs several times faster than its
convolutions inside a scan on a CPU.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt8

from jaxenvs import spaces
from jaxenvs.core.platforms import by_platform

from .layers import dense

PIXELS = 255  # largest value of a pixel; integers with a smaller range are treated as categories
MISSION = "mission"  # key of the mission text in a Dict observation: word ids, padded with 0
WORD, SENTENCE = 8, 32  # number of features of each word, and of the whole mission


class Encoder(nn.Module):
    """Encoder from one observation of a Box, or a Dict of Boxes, to float features.

    If a Dict contains a mission, the encoded mission is part of the features. It also conditions
    the encoding of a map: the features of all cells are scaled and shifted by functions of the
    mission (FiLM; Perez et al., 2018).

    Each layer of `conv` is a convolution whose stride equals its kernel size, so it encodes
    disjoint squares of a map. The map is padded with zeros at the bottom and at the right. With
    `lines`, each row and each column of a square board is encoded, all with the same weights.
    """

    space: spaces.Space
    embed: int  # embedding size of each cell of a map; 0: cells are one-hot vectors
    dtype: Any = jnp.float32  # dtype of the features
    conv: tuple[int, ...] = ()  # kernel size and features of each layer; (): embed single cells
    # number of features of each row and column of a square board; 0: cells are one-hot vectors
    lines: int = 0

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], mission: Float[Array, " sentence"] | None = None
    ) -> Float[Array, " features"]:
        if isinstance(self.space, spaces.Dict):
            rest = dict(sorted(self.space.spaces.items()))
            words = rest.get(MISSION)
            if isinstance(words, spaces.Box):
                del rest[MISSION]
                count = int(words.high.max()) + 1
                mission = Sentence(count, self.dtype, name=MISSION)(obs[MISSION])
            parts = [
                Encoder(space, self.embed, self.dtype, self.conv, self.lines, name=name)(
                    obs[name], mission
                )
                for name, space in rest.items()
            ]
            return jnp.concatenate(parts if mission is None else [*parts, mission])
        features = expand(self.space, obs, self.dtype)
        if is_map(self.space, self.embed or len(self.conv)):
            for side, width in zip(self.conv[::2], self.conv[1::2], strict=True):
                features = nn.relu(dense(width, np.sqrt(2), self.dtype)(squares(features, side)))
            if not self.conv:  # embed every cell with the same weights
                features = nn.Dense(self.embed, use_bias=False, dtype=self.dtype)(features)
            if mission is not None:
                tuned = nn.Dense(2 * features.shape[-1], dtype=self.dtype)(mission)
                scale, shift = jnp.split(tuned, 2)
                features = nn.relu(features * (1.0 + scale) + shift)
        if self.lines and is_board(self.space):
            features = nn.relu(dense(self.lines, np.sqrt(2), self.dtype)(lines(features)))
        return features.reshape(-1)


def squares(
    cells: Float[Array, "height width features"], side: int
) -> Float[Array, "rows columns all"]:
    """Divide a map into squares of `side` x `side` cells; concatenate each square's features.

    The map is padded with zeros at the bottom and at the right.
    """
    height, width, count = cells.shape
    rows, columns = -(-height // side), -(-width // side)
    room = (0, rows * side - height), (0, columns * side - width), (0, 0)
    parts = jnp.pad(cells, room).reshape(rows, side, columns, side, count)
    return parts.swapaxes(1, 2).reshape(rows, columns, side * side * count)


def lines(cells: Float[Array, "side side *features"]) -> Float[Array, "lines all"]:
    """Return all rows of a square board, then all its columns, as vectors.

    Cells of a row are in order from the left, and cells of a column from the top.
    """
    both = jnp.concatenate([cells, cells.swapaxes(0, 1)])
    return both.reshape(len(both), -1)


class Sentence(nn.Module):
    """Encoder of a mission: a dense layer whose input is the concatenated word embeddings."""

    words: int  # size of the vocabulary
    dtype: Any = jnp.float32  # dtype of the features

    @nn.compact
    def __call__(self, ids: UInt8[Array, " words"]) -> Float[Array, " sentence"]:
        vectors = nn.Embed(self.words, WORD, dtype=self.dtype)(ids.astype(jnp.int32))
        vectors = jnp.where(ids[:, None] == 0, 0.0, vectors)
        return nn.tanh(nn.Dense(SENTENCE, dtype=self.dtype)(vectors.reshape(-1)))


def is_map(space: spaces.Space, embed: int) -> bool:
    """Return whether `embed` is not 0 and a space is a map, which is a Box with 3 axes."""
    return bool(embed) and isinstance(space, spaces.Box) and len(space.shape) == 3


def is_board(space: spaces.Space) -> bool:
    """Return whether a space is a square board: a Box with 2 equal axes, of small integers."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 2:
        return False
    rows, columns = space.shape
    codes = int(space.high.max()) - int(space.low.min())
    return rows == columns > 1 and np.issubdtype(space.dtype, np.integer) and codes < PIXELS


def leaves(space: spaces.Space, obs: Any = None, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield (path, leaf) for each Box in nested Dicts.

    The leaf is the Box itself or, if `obs` is not None, the array of this Box in the observation
    `obs`.
    """
    if isinstance(space, spaces.Dict):
        for name, part in sorted(space.spaces.items()):
            yield from leaves(part, None if obs is None else obs[name], (*path, name))
    else:
        yield path, space if obs is None else obs


def embedded(
    space: spaces.Box, obs: Array, embedding: Array, layer: Mapping[str, Array], dtype: Any
) -> Float[Array, " width"]:
    """Embed all cells of a map linearly, and apply a linear layer to the embeddings.

    On accelerators, the two weight matrices are multiplied first. This takes more arithmetic, but
    neither the embeddings nor their gradients are stored.

    If cells are categories, accelerators also add the layer's bias to this product of matrices, in
    the rows for the categories of the first channel of the first cell. An observation selects
    exactly one of these rows, so the result contains the bias once.
    """
    cells = expand(space, obs, dtype)
    present = np.zeros((cells.shape[0] * cells.shape[1], cells.shape[2], 1), np.float32)
    first = cell_categories(space)
    present[0, :first] = 1.0

    def in_turn(cells: Array, embedding: Array, kernel: Array, bias: Array) -> Array:
        features = (cells @ embedding.astype(dtype)).reshape(-1)
        return features @ kernel.astype(dtype) + bias.astype(dtype)

    def at_once(cells: Array, embedding: Array, kernel: Array, bias: Array) -> Array:
        by_cell = kernel.reshape(-1, 1, embedding.shape[1], kernel.shape[1])
        table = (embedding[:, :, None] * by_cell).sum(axis=2) + present * bias
        sums = cells.reshape(-1) @ table.astype(dtype).reshape(-1, kernel.shape[1])
        return sums if first else sums + bias.astype(dtype)

    factors = (cells, embedding, layer["kernel"], layer["bias"])
    return by_platform(*factors, cpu=in_turn, default=at_once)


def cell_categories(space: spaces.Box) -> int:
    """Return the number of categories of a map's first channel.

    Return 0 for a map of floats, pixels or flags (0 and 1), which has no categories.
    """
    low, high = int(space.low.min()), int(space.high.max())
    if not np.issubdtype(space.dtype, np.integer) or high - low >= PIXELS or (low, high) == (0, 1):
        return 0
    return int(space.high[..., 0].max()) - low + 1


def expand(
    space: spaces.Space, obs: Array, dtype: Any = jnp.float32
) -> Float[Array, "*cells features"]:
    """Convert an observation of a Box to floats.

    Categories become one-hot vectors, which are concatenated over the channels of a map. Pixels are
    scaled to [0, 1]. Raises `ValueError` for a space other than a Box.
    """
    if not isinstance(space, spaces.Box):
        raise ValueError(f"no encoding for observations of {space}")
    if not np.issubdtype(space.dtype, np.integer):
        return jnp.atleast_1d(obs.astype(dtype))
    low, high = int(space.low.min()), int(space.high.max())
    if high - low >= PIXELS:
        return ((obs.astype(jnp.float32) - low) / (high - low)).astype(dtype)
    if (low, high) == (0, 1):
        return obs.astype(dtype)
    if len(space.shape) < 3:
        return jax.nn.one_hot(obs.astype(jnp.int32) - low, high - low + 1, dtype=dtype)
    # The one-hot vectors of each channel have a separate length: the number of values of the
    # channel. With a common length, some entries would be 0 in every observation.
    tops = space.high.max(axis=(0, 1))
    values = [np.arange(low, top + 1).astype(space.dtype) for top in tops]
    channels = [obs[..., c, None] == codes for c, codes in enumerate(values)]
    return jnp.concatenate(channels, axis=-1).astype(dtype)
