"""DistShift: a room with two strips of lava (MiniGrid 3.2 `distshift.py`).

The two registered levels have the second strip in different rows, to train on one level and test on
the other.
"""

from typing import ClassVar

from ..core.random import Key
from . import tiles
from .env import FixedGridEnv, register_level
from .placement import room
from .state import Level

HEIGHT, WIDTH = 7, 9


@register_level("DistShift1-v0", second_strip=2)
@register_level("DistShift2-v0", second_strip=5)
class DistShift(FixedGridEnv):
    """Walk around two strips of deadly lava to the goal in the top right corner; nothing is random.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, on lava, or after
    252 steps.
    """

    second_strip: int = 2  # row of the second strip of lava; the first is in row 1
    see_through_walls: bool = True

    bounds: ClassVar[dict[str, tuple[int, int]]] = {"second_strip": (1, HEIGHT - 2)}
    shape: ClassVar[tuple[int, int]] = (HEIGHT, WIDTH)
    limit: ClassVar[int] = 4 * HEIGHT * WIDTH
    mission: ClassVar[str] = "get to the green goal square"
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Return the level, which is always the same."""
        grid = room(HEIGHT, WIDTH)
        grid[[1, self.second_strip], 3 : WIDTH - 3] = tiles.LAVA
        grid[1, WIDTH - 2] = tiles.GOAL
        return Level.of(grid, 1, 1, 0)
