"""Shared code of the classic control problems.

This module has the environments' base class, random initial states, and the wrapping of angles.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, UInt8

from ..core.env import Env
from ..core.pixels import compose
from ..core.random import Key, words
from . import picture
from .picture import Pixels, Place

Number = Float[Any, "..."] | float  # type of a field of params: a float or a float array
TURN = np.float32(2 * np.pi)


class ClassicEnv(Env):
    """Base class of the classic control problems; it draws the state over a fixed background."""

    package: ClassVar[str] = "gymnasium"
    # How a batch makes levels for resets. `auto` suits levels that are cheap to generate: on a GPU,
    # a small batch generates a level for every environment in every step.
    reset_source: ClassVar[str] = "auto"
    fully_observed: ClassVar[bool] = True
    place: ClassVar[Place]  # background over which the state is drawn

    @abstractmethod
    def draw(self, background: Pixels, state: Any, tile_size: int, params: Any) -> Pixels:
        """Draw the state over the background; a tile has `tile_size` x `tile_size` pixels."""
        raise NotImplementedError

    def tiles(self, state: Any) -> Int32[Array, "rows columns"]:
        """Return the tiles of the background: 0 is sky, 1 is ground."""
        return picture.ground(self.place)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the images of both tiles, sky and ground, uint8 (2, tile_size, tile_size, 3)."""
        return picture.sprites(tile_size)

    def picture(
        self, state: Any, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the background and, over it, the state."""
        background = compose(self.tiles(state), self.atlas(tile_size))
        return self.draw(background, state, tile_size, params or self.default_params)


def uniform(key: Key, *most: float) -> Float32[Array, " numbers"]:
    """Return one random number for each bound in `most`, uniform in [-bound, bound)."""
    signed = (words(key, len(most)) >> np.uint32(8)).astype(jnp.int32) - np.int32(2**23)
    return signed.astype(jnp.float32) * np.float32(np.array(most) / 2**23)


def wrapped(angle: Float32[Array, ""]) -> Float32[Array, ""]:
    """Wrap an angle (rad) to [-pi, pi]; an angle in this range is returned unchanged."""
    return angle - TURN * jnp.round(angle / TURN)
