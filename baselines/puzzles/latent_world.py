"""Discrete model of a puzzle, learned from observations before and after an action.

It follows Agostinelli and Soltani (2024), "Learning discrete world models for heuristic search": an
encoder maps an observation to bits, a decoder maps the bits back, and a transition model predicts
the bits after an action. Bits are rounded logits with a straight-through gradient. A search
recognises a visited state by its bits.

Deliberate differences: each cell of the observation has separate bits, and all cells use the same
encoder. The transition model predicts a cell's next bits from the cell's bits and from `views`
weighted sums of the bits of all cells. The weights are learned for each action and cell, and may
select a single cell. The transition loss trains only the transition model and not the
encoder: otherwise different states would get the same bits, because equal bits are easier to
predict.
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

# Standard deviation to which the encoder's logits of a cell are scaled. There is one logit for each
# bit of the cell.
FIRM = 2.0
# Factor by which the pixels of a picture's tile are multiplied, after their mean is subtracted.
CONTRAST = 5.0
# In training, Gaussian noise with this standard deviation is added to each logit of the encoder,
# before the logit is rounded to a bit.
CODE_NOISE = 1.0
# Coefficient of the loss that pushes the encoder's logits away from 0, so that small changes of an
# input do not flip bits.
UNDECIDED = 0.1


@dataclasses.dataclass(frozen=True)
class Sight:
    """Preprocessing that splits a puzzle's observation, or a noisy picture of it, into cells."""

    env: Puzzle
    # Side length in pixels of the square tiles of a picture; the picture has one tile for each cell
    # of the puzzle. 0: use the puzzle's observations instead of pictures.
    tile_size: int = 0
    noise: float = 0.0  # standard deviation of noise on a picture's pixels, which are 0 to 1

    def __post_init__(self) -> None:
        """Raise `ValueError` if observations are used but are not categories.

        Observations are used if `tile_size` is 0. Categories are integers with fewer than `PIXELS`
        different values.
        """
        space = self.env.observation_space
        whole = isinstance(space, Box) and np.issubdtype(space.dtype, np.integer)
        if not self.tile_size and not (whole and self._categories < PIXELS):
            raise ValueError(
                f"{self.env.name} has the observation space {space}; a world is learned from "
                f"categories, whole numbers below {PIXELS}, or from pictures: give tile_size=8"
            )

    @property
    def _categories(self) -> int:
        """Number of different values that a cell of the puzzle's observation can have."""
        space: Any = self.env.observation_space
        return int(space.high.max()) - int(space.low.min()) + 1

    @functools.cached_property
    def _tiles(self) -> tuple[int, int]:
        """Number of rows and of columns of tiles in a picture."""
        return jax.eval_shape(self.env.tiles, self.env.state_shape).shape

    @property
    def cells(self) -> int:
        """Number of cells into which `split` divides an input.

        With observations, a cell is one entry of the observation; with pictures, one tile of the
        picture.
        """
        space: Any = self.env.observation_space
        return int(np.prod(self._tiles if self.tile_size else space.shape))

    @property
    def features(self) -> int:
        """Number of features of each cell, as returned by `split`.

        With observations, this is the length of a one-hot vector; with pictures, 3 colours times
        the number of pixels in a tile.
        """
        return 3 * self.tile_size**2 if self.tile_size else self._categories

    def look(self, state: PuzzleState) -> Array:
        """Return the data of a state that `split` converts to cells.

        With observations, return the observation. With pictures, return the sprite index of each
        tile (rows, columns), which takes less memory than the picture; `split` then draws the
        picture.
        """
        return self.env.tiles(state) if self.tile_size else self.env.observe(state)

    def split(self, seen: Array, key: Array) -> Float32[Array, "cells features"]:
        """Convert `seen`, which `look` returned for a state, to the features of each cell.

        A cell of an observation becomes a one-hot vector. If pictures are used, this method draws
        the picture, adds noise to it with `key`, and returns the pixels of each tile.
        """
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
    """Learned model of a puzzle: encoder, decoder, transition model, classifier of solved states.

    Its methods take a single state, not a batch. A state of the model is called a code. A code has
    `bits` bits for each cell of the observation.
    """

    cells: int
    features: int
    actions: int
    bits: int  # number of bits that encode one cell
    hidden: int  # width of the hidden layers
    # Number of weighted sums of all cells' bits from which a cell's bits after an action are
    # predicted, in addition to the cell's own bits.
    views: int

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
        """Encode the features of each cell; return the logits that are rounded to the cell's bits.

        The logits of a cell are shifted to mean 0 and scaled to standard deviation `FIRM`. Without
        the shift, some bits could become constant and would then receive no gradient.
        """
        logits = self.encoder(seen)
        centred = logits - logits.mean(axis=-1, keepdims=True)
        return FIRM * centred / (1e-3 + centred.std(axis=-1, keepdims=True))

    def decode(
        self, code: Float32[Array, "*pair cells bits"]
    ) -> Float32[Array, "*pair cells features"]:
        """Reconstruct the input of `encode`, the features of each cell, from the cell's bits."""
        return self.decoder(code)

    def move(
        self, code: Float32[Array, "cells bits"], action: Int32[Array, ""]
    ) -> Float32[Array, "cells bits"]:
        """Predict the state after `action`: return the logits of each cell's bits."""
        chosen = jax.nn.one_hot(action, self.actions)
        views = jnp.einsum("a,aikb->ikb", chosen, self._views(code))
        return self._after(code, views, jnp.einsum("a,aih->ih", chosen, self.place))

    def moves(self, code: Float32[Array, "cells bits"]) -> Float32[Array, "actions cells bits"]:
        """Predict the state after each possible action: return the logits of each cell's bits."""
        after = jax.vmap(self._after, in_axes=(None, 0, 0))
        return after(code, self._views(code), self.place)

    def _views(self, code: Array) -> Float32[Array, "actions cells views bits"]:
        """Return the inputs from other cells that help to predict each cell's bits after an action.

        For each action, a cell has `views` inputs. An input is a weighted sum of the bits of all
        cells. The weights are learned, and may select a single cell. One matrix product computes
        the sums for all actions.
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
        """Return four losses of a transition, which train different parts of the model.

        1. The decoder's reconstruction error. The decoder reads bits that are rounded from noisy
           logits. The noise flips bits whose logits are near 0, so training moves logits away from
           0.
        2. The squared distance of the encoder's logits from the nearer of `FIRM` and -`FIRM`, in
           units of `FIRM`.
        3. The cross-entropy of the predicted bits after the action.
        4. The cross-entropy of the classifier of solved states.
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
