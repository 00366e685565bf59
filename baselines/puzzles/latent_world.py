"""Discrete model of a puzzle, learned from observations before and after an action.

After Agostinelli and Soltani (2024), "Learning discrete world models for heuristic search": an
encoder maps an observation to bits, a decoder maps the bits back, and a transition model predicts
the bits after an action. Bits are rounded logits with a straight-through gradient. A search
recognises a visited state by its bits.

Deliberate differences: each cell of the observation has separate bits, from an encoder that all
cells share. The transition model predicts the bits of a cell from the cell's bits and its `views`:
other cells, learned for each action, that the cell's next bits depend on. Only the decoder's loss
trains the codes (the bits of all cells); trained to be predictable as well, they would lose the
differences between states.
"""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, Int32

from jaxenvs.core.pixels import compose
from jaxenvs.core.spaces import Box
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleState

from ..networks.encoders import PIXELS

FIRM = 2.0  # standard deviation that each cell's logits are scaled to
CONTRAST = 5.0  # factor that multiplies the pixels of a cell, after their mean is subtracted
CODE_NOISE = 1.0  # standard deviation of the noise on a bit's logit in training
UNDECIDED = 0.1  # coefficient of the loss that moves logits away from 0


@dataclasses.dataclass(frozen=True)
class Sight:
    """Preprocessing of a puzzle's observations, or of noisy pictures of it, into cells."""

    env: Puzzle
    tile_size: int = 0  # pixels per side of a picture's tiles; 0: observations, not pictures
    noise: float = 0.0  # standard deviation of the noise on a pixel, whose range is 0 to 1

    def __post_init__(self) -> None:
        """Raise `ValueError` if observations are used and are not categories."""
        space = self.env.observation_space
        whole = isinstance(space, Box) and np.issubdtype(space.dtype, np.integer)
        if not self.tile_size and not (whole and self._categories < PIXELS):
            raise ValueError(
                f"{self.env.name} has the observation space {space}; a world is learned from "
                f"categories, whole numbers below {PIXELS}, or from pictures: give tile_size=8"
            )

    @property
    def _categories(self) -> int:
        """Number of possible values of a cell of the observation."""
        space: Any = self.env.observation_space
        return int(space.high.max()) - int(space.low.min()) + 1

    @functools.cached_property
    def _tiles(self) -> tuple[int, int]:
        """Rows and columns of a picture's tiles."""
        return jax.eval_shape(self.env.tiles, self.env.state_shape).shape

    @property
    def cells(self) -> int:
        """Number of cells."""
        space: Any = self.env.observation_space
        return int(np.prod(self._tiles if self.tile_size else space.shape))

    @property
    def features(self) -> int:
        """Number of features of a cell."""
        return 3 * self.tile_size**2 if self.tile_size else self._categories

    def look(self, state: PuzzleState) -> Array:
        """Return a state's observation, or the tiles that its picture is drawn from."""
        return self.env.tiles(state) if self.tile_size else self.env.observe(state)

    def split(self, seen: Array, key: Array) -> Float32[Array, "cells features"]:
        """Split the result of `look` into cells: one-hot vectors, or tiles of noisy pixels."""
        if not self.tile_size:
            space: Any = self.env.observation_space
            values = seen.reshape(-1).astype(jnp.int32) - int(space.low.min())
            return jax.nn.one_hot(values, self._categories, dtype=jnp.float32)
        (rows, columns), side = self._tiles, self.tile_size
        picture = compose(seen.astype(jnp.int32), self.env.atlas(side)).astype(jnp.float32) / 255.0
        picture = picture + self.noise * jax.random.normal(key, picture.shape)
        tiles = picture.reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
        tiles = tiles.reshape(rows * columns, -1)
        # Subtract each tile's mean brightness, which carries little information.
        return CONTRAST * (tiles - tiles.mean(axis=1, keepdims=True))


class LatentWorld(nn.Module):
    """Encoder, decoder, transition model and classifier of solved states, for one state."""

    cells: int
    features: int
    actions: int
    bits: int  # number of bits of each cell
    hidden: int  # width of the layers
    views: int  # number of other cells, per action, that a cell's next bits depend on

    def setup(self) -> None:
        self.encoder = _layers(self.hidden, self.bits)
        self.decoder = _layers(self.hidden, self.features)
        mixing = (self.actions, self.cells, self.views, self.cells)
        self.sources = self.param("sources", nn.initializers.normal(0.02), mixing)
        place = (self.actions, self.cells, self.hidden)
        self.place = self.param("place", nn.initializers.normal(0.1), place)
        self.first, self.rest = nn.Dense(self.hidden), _layers(self.hidden, self.bits)
        self.part, self.whole = nn.Dense(self.hidden), _layers(self.hidden, 1)

    def encode(
        self, seen: Float32[Array, "*pair cells features"]
    ) -> Float32[Array, "*pair cells bits"]:
        """Return the logits of each cell's bits, with mean 0 and standard deviation `FIRM`.

        The mean of 0 keeps bits from being constant, as a constant bit would have no gradient.
        """
        logits = self.encoder(seen)
        centred = logits - logits.mean(axis=-1, keepdims=True)
        return FIRM * centred / (1e-3 + centred.std(axis=-1, keepdims=True))

    def decode(
        self, code: Float32[Array, "*pair cells bits"]
    ) -> Float32[Array, "*pair cells features"]:
        """Return the features of cells with these bits."""
        return self.decoder(code)

    def move(
        self, code: Float32[Array, "cells bits"], action: Int32[Array, ""]
    ) -> Float32[Array, "cells bits"]:
        """Return logits of the bits after an action."""
        chosen = jax.nn.one_hot(action, self.actions)
        views = jnp.einsum("a,aikb->ikb", chosen, self._views(code))
        return self._after(code, views, jnp.einsum("a,aih->ih", chosen, self.place))

    def moves(self, code: Float32[Array, "cells bits"]) -> Float32[Array, "actions cells bits"]:
        """Return logits of the bits after each action."""
        after = jax.vmap(self._after, in_axes=(None, 0, 0))
        return after(code, self._views(code), self.place)

    def _views(self, code: Array) -> Float32[Array, "actions cells views bits"]:
        """Return the bits that each cell reads from others, for all actions in one product."""
        return jnp.einsum("aikj,jb->aikb", self.sources, code)

    def _after(self, code: Array, views: Array, place: Array) -> Array:
        around = jnp.concatenate([code, views.reshape(self.cells, -1)], axis=-1)
        return self.rest(nn.relu(self.first(around) + place))

    def solved(self, code: Float32[Array, "cells bits"]) -> Float32[Array, ""]:
        """Return the logit of the probability that a state is solved."""
        parts = nn.relu(self.part(code)).sum(axis=0)
        return self.whole(parts)[0]

    def __call__(
        self, before: Array, action: Array, after: Array, is_solved: Array, key: Array
    ) -> tuple[Float32[Array, ""], ...]:
        """Return the losses of a transition: decoding, undecided bits, next bits, classifier.

        Noise on the logits drives them away from 0, as it would flip bits there.
        """
        seen = jnp.stack([before, after])
        logits = self.encode(seen)
        noisy = logits + CODE_NOISE * jax.random.normal(key, logits.shape)
        wrong = jnp.square(self.decode(rounded(noisy)) - seen).mean() / seen.var()
        undecided = jnp.square(jnp.abs(logits) / FIRM - 1.0).mean()
        code = jax.lax.stop_gradient(logits > 0).astype(jnp.float32)
        moved = optax.sigmoid_binary_cross_entropy(self.move(code[0], action), code[1])
        judged = optax.sigmoid_binary_cross_entropy(
            self.solved(code[1]), is_solved.astype(jnp.float32)
        )
        return wrong, undecided, moved.sum(), judged


def _layers(hidden: int, out: int) -> nn.Module:
    return nn.Sequential([nn.Dense(hidden), nn.relu, nn.Dense(out)])


def rounded(logits: Array) -> Float32[Array, "*cells bits"]:
    """Return bits as 0.0 or 1.0; the gradient is that of their probability (straight-through)."""
    probability = jax.nn.sigmoid(logits)
    return probability + jax.lax.stop_gradient((logits > 0).astype(jnp.float32) - probability)
