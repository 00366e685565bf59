"""Crossing: cross rivers of lava or wall (MiniGrid 3.2 `crossing.py`).

A river runs across the whole room and has a single opening.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..core import checks
from ..core.random import Key, below, permutation, words
from . import tiles
from .env import SquareGridEnv, register_level
from .placement import lines, put, room
from .state import Level

OBSTACLES = {"lava": tiles.LAVA, "wall": tiles.WALL}


@register_level("LavaCrossingS9N1-v0", size=9, crossings=1)
@register_level("LavaCrossingS9N2-v0", size=9, crossings=2)
@register_level("LavaCrossingS9N3-v0", size=9, crossings=3)
@register_level("LavaCrossingS11N5-v0", size=11, crossings=5, representative=True)
@register_level("SimpleCrossingS9N1-v0", size=9, crossings=1, obstacle="wall")
@register_level("SimpleCrossingS9N2-v0", size=9, crossings=2, obstacle="wall")
@register_level("SimpleCrossingS9N3-v0", size=9, crossings=3, obstacle="wall")
@register_level("SimpleCrossingS11N5-v0", size=11, crossings=5, obstacle="wall")
class Crossing(SquareGridEnv):
    """Cross rivers of lava (deadly) or wall from the top left to the goal at the bottom right.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, on lava, or after
    4 * size**2 steps.
    """

    size: int = 9  # number of cells per side of the grid, walls included; must be odd
    crossings: int = 1  # number of rivers
    obstacle: str = "lava"  # what rivers consist of: "lava" or "wall"

    min_size: ClassVar[int] = 5
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        if self.size % 2 == 0:
            raise ValueError(f"Crossing: size={self.size} must be odd, such as 9")
        checks.integer_field("Crossing", "crossings", self.crossings, 1, self.size - 3)
        checks.one_of("Crossing", "obstacle", self.obstacle, OBSTACLES)

    @property
    def mission(self) -> str:  # type: ignore[override]  # the mission depends on `obstacle`
        """Text of the mission, in MiniGrid's words."""
        way = {"lava": "avoid the lava", "wall": "find the opening"}[self.obstacle]
        return f"{way} and get to the green goal square"

    def generate(self, key: Key) -> Level:
        """Draw the rivers, and a staircase-shaped path that crosses each river once.

        The path leads from the start to the goal. Each river has its opening where the path crosses
        it.
        """
        size, count = self.size, self.crossings
        places = np.arange(2, size - 2, 2, dtype=np.int32)  # possible rows and columns of rivers
        word = words(key, 2 * len(places) + 2 * count)
        of_rivers, of_path, of_openings = jnp.split(word, np.cumsum([2 * len(places), count]))
        chosen = permutation(of_rivers) < count
        vertical, horizontal = chosen[: len(places)], chosen[len(places) :]
        goes_right = permutation(of_path) < vertical.sum(dtype=jnp.int32)
        bands_passed = jnp.cumsum(goes_right, dtype=jnp.int32) - goes_right.astype(jnp.int32)
        bands_down = jnp.arange(count, dtype=jnp.int32) - bands_passed
        left, right = _band(vertical, places, bands_passed, size)
        top, bottom = _band(horizontal, places, bands_down, size)
        column = jnp.where(goes_right, right, left + 1 + below(of_openings, right - left - 1))
        row = jnp.where(goes_right, top + 1 + below(of_openings, bottom - top - 1), bottom)
        return Level.of(self._grid(vertical, horizontal, row, column), 1, 1, 0)

    def _grid(
        self,
        vertical: Bool[Array, " places"],
        horizontal: Bool[Array, " places"],
        row: Int32[Array, " openings"],
        column: Int32[Array, " openings"],
    ) -> Array:
        size = self.size
        rows, columns = lines(size, size)
        bare = room(size, size)
        on_line = np.arange(2, size - 2, 2, dtype=np.int32)
        flooded = ((rows[..., None] == on_line) & horizontal).any(axis=-1)
        flooded = flooded | ((columns[..., None] == on_line) & vertical).any(axis=-1)
        opened = ((rows[..., None] == row) & (columns[..., None] == column)).any(axis=-1)
        obstacle = flooded & ~opened & (bare == tiles.EMPTY)
        grid = jnp.where(obstacle, jnp.uint8(OBSTACLES[self.obstacle]), bare)
        return put(grid, size - 2, size - 2, tiles.GOAL)


def _band(
    chosen: Bool[Array, " places"], places: np.ndarray, number: Int32[Array, " steps"], size: int
) -> tuple[Int32[Array, " steps"], Int32[Array, " steps"]]:
    """Return for each band in `number` the positions of the rivers before and after the band.

    A band is the strip between two successive rivers, or between a river and the border. `number`
    has indices of bands, counted from 0. The borders count as rivers at 0 and `size` - 1.
    """
    # Rank (1, 2, ...) of the river at each chosen position.
    order = jnp.cumsum(chosen, dtype=jnp.int32)

    def river(wanted: Array, missing: int) -> Array:
        hit = chosen & (order == wanted[:, None])
        return jnp.where(hit.any(axis=1), jnp.where(hit, places, 0).sum(axis=1), missing)

    before = jnp.where(number == 0, 0, river(number, 0)).astype(jnp.int32)
    return before, river(number + 1, size - 1).astype(jnp.int32)
