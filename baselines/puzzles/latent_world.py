"""Discrete model of a puzzle, learned from observations before and after an action.

It follows Agostinelli and Soltani (2024), "Learning discrete world models for heuristic search": an
encoder maps an observation to bits, a decoder maps the bits back, and a transition model predicts
the bits after an action. Bits are rounded logits with a straight-through gradient. A search
recognises a visited state by its bits.

Deliberate differences: each cell of the observation has separate bits, and all cells use the same
encoder. The transition model predicts a cell's next bits from the cell's bits and from `views`
other cells; which cells these are is learned for each action. Only the decoder's loss trains the
codes, which are the bits of all cells. If the transition loss trained the codes too, different
states would get the same code, because such codes are easier to predict.
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

FIRM = 2.0  # standard deviation to which the logits of each cell's bits are scaled
CONTRAST = 5.0  # factor by which pixels are multiplied, after the cell's mean is subtracted
CODE_NOISE = 1.0  # standard deviation of the noise on a bit's logit in training
UNDECIDED = 0.1  # coefficient of the loss that pushes the logits of bits away from 0


@dataclasses.dataclass(frozen=True)
class Sight:
    """Preprocessing that splits a puzzle's observation, or a noisy picture of it, into cells."""

    env: Puzzle
    tile_size: int = 0  # side of a picture's tiles in pixels; 0: use observations, not pictures
    noise: float = 0.0  # standard deviation of noise on a picture's pixels, which are 0 to 1

    def __post_init__(self) -> None:
        """Raise `ValueError` if `tile_size` is 0 but observations are not categories."""
        space = self.env.observation_space
        whole = isinstance(space, Box) and np.issubdtype(space.dtype, np.integer)
        if not self.tile_size and not (whole and self._categories < PIXELS):
            raise ValueError(
                f"{self.env.name} has the observation space {space}; a world is learned from "
                f"categories, whole numbers below {PIXELS}, or from pictures: give tile_size=8"
            )

    @property
    def _categories(self) -> int:
        """Number of categories: possible values of each cell of the observation."""
        space: Any = self.env.observation_space
        return int(space.high.max()) - int(space.low.min()) + 1

    @functools.cached_property
    def _tiles(self) -> tuple[int, int]:
        """Number of rows and of columns of tiles in a picture."""
        return jax.eval_shape(self.env.tiles, self.env.state_shape).shape

    @property
    def cells(self) -> int:
        """Number of cells of an observation, or of tiles of a picture."""
        space: Any = self.env.observation_space
        return int(np.prod(self._tiles if self.tile_size else space.shape))

    @property
    def features(self) -> int:
        """Number of features of a cell: its one-hot vector's length, or its pixels times 3."""
        return 3 * self.tile_size**2 if self.tile_size else self._categories

    def look(self, state: PuzzleState) -> Array:
        """Return a state's observation, or the tiles that its picture is drawn from."""
        return self.env.tiles(state) if self.tile_size else self.env.observe(state)

    def split(self, seen: Array, key: Array) -> Float32[Array, "cells features"]:
        """Split the result of `look` into cells: one-hot vectors, or the noisy pixels of tiles."""
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
    hidden: int  # width of the hidden layers
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

        The mean is 0 to keep bits from being constant: a constant bit would receive no gradient.
        """
        logits = self.encoder(seen)
        centred = logits - logits.mean(axis=-1, keepdims=True)
        return FIRM * centred / (1e-3 + centred.std(axis=-1, keepdims=True))

    def decode(
        self, code: Float32[Array, "*pair cells bits"]
    ) -> Float32[Array, "*pair cells features"]:
        """Return the features of each cell, reconstructed from its bits."""
        return self.decoder(code)

    def move(
        self, code: Float32[Array, "cells bits"], action: Int32[Array, ""]
    ) -> Float32[Array, "cells bits"]:
        """Return the logits of each cell's bits after `action`."""
        chosen = jax.nn.one_hot(action, self.actions)
        views = jnp.einsum("a,aikb->ikb", chosen, self._views(code))
        return self._after(code, views, jnp.einsum("a,aih->ih", chosen, self.place))

    def moves(self, code: Float32[Array, "cells bits"]) -> Float32[Array, "actions cells bits"]:
        """Return the logits of each cell's bits after every possible action."""
        after = jax.vmap(self._after, in_axes=(None, 0, 0))
        return after(code, self._views(code), self.place)

    def _views(self, code: Array) -> Float32[Array, "actions cells views bits"]:
        """Return the bits that each cell reads from other cells.

        One matrix product computes them for all actions.
        """
        return jnp.einsum("aikj,jb->aikb", self.sources, code)

    def _after(self, code: Array, views: Array, place: Array) -> Array:
        around = jnp.concatenate([code, views.reshape(self.cells, -1)], axis=-1)
        return self.rest(nn.relu(self.first(around) + place))

    def solved(self, code: Float32[Array, "cells bits"]) -> Float32[Array, ""]:
        """Return the logit of the probability that the puzzle is solved in this state."""
        parts = nn.relu(self.part(code)).sum(axis=0)
        return self.whole(parts)[0]

    def __call__(
        self, before: Array, action: Array, after: Array, is_solved: Array, key: Array
    ) -> tuple[Float32[Array, ""], ...]:
        """Return four losses of a transition: decoding, undecided bits, next bits, classifier.

        Noise is added to the logits before rounding. The noise flips bits whose logits are near 0,
        so training moves logits away from 0.
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
    """Round logits to bits, 0.0 or 1.0; the gradient is the sigmoid's (straight-through)."""
    probability = jax.nn.sigmoid(logits)
    return probability + jax.lax.stop_gradient((logits > 0).astype(jnp.float32) - probability)
