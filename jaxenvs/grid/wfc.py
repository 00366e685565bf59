"""WFC: levels made by wave function collapse (MiniGrid 3.2 `wfc.py`, Garcin et al. 2024).

A level is a mosaic of the small patterns that occur in an image (see `collapse`).

The drawings of `PRESETS` show the pixels of the images in `minigrid/envs/wfc/patterns` of
https://github.com/Farama-Foundation/Minigrid, commit 9092872, copyright the Farama Foundation: MIT
License by its `pyproject.toml`, Apache License 2.0 by its `LICENSE`. The wheel of MiniGrid 3.2.0
lacks these images.

Quirks of MiniGrid, reproduced on purpose:
- The image wraps around at its edges in every preset.
- Patterns come from four of the image's eight orientations, each used twice.
- The weight of a pattern is the number of orientations in which it occurs, not its frequency.
- A random order of the cells decides between cells with equally few possible patterns. It is drawn
  once per level, and kept when a contradiction (a cell without a possible pattern) ends an attempt.

Difference from MiniGrid: `info["level_rejected"]` is true where MiniGrid raises an error. The error
means that 1,000 attempts ended in a contradiction, or that no two free cells are neighbours.
"""

import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core import checks
from ..core.random import Key, below, permutation, words
from . import missions, tiles
from .collapse import NOWHERE, Catalogue, collapsed, meets, rules
from .env import SquareGridEnv, register_level
from .placement import other, put
from .state import Level


class Preset(NamedTuple):
    """Parameters and image of a style of levels of MiniGrid."""

    width: int  # cells per side of a pattern
    wraps: bool  # whether patterns at an edge of the level must fit those at the opposite edge
    image: str  # rows of pixels: `#` black, a wall; `.` white and `,` almost white, both free


PRESETS = {
    "MazeSimple": Preset(2, False, """
        ....
        .###
        .#.#
        .###
    """),
    "DungeonMazeScaled": Preset(2, True, """
        ........
        ........
        ..######
        ..######
        ..##..##
        ..##..##
        ..######
        ..######
    """),
    "RoomsFabric": Preset(3, False, """
        ..#..
        ..,..
        #####
        ..,..
        ..#..
    """),
    "ObstaclesBlackdots": Preset(2, False, """
        ...
        .#.
        ...
    """),
    "ObstaclesAngular": Preset(3, True, """
        ...........
        .....#####.
        .....#####.
        .....#####.
        .....#####.
        .#########.
        .#########.
        .#########.
        .#########.
        .#########.
        ...........
    """),
    "ObstaclesHogs3": Preset(3, True, """
        .................
        .......#....#....
        ..#...###..###...
        .###...#....#....
        ..#..............
        .........#.......
        ....#...###...#..
        ...###...#...###.
        ....#.........#..
        .................
        .......#....#....
        ..#...###..###...
        .###...#....#....
        ..#..#...#....#..
        ....###.###..###.
        .....#...#....#..
        .................
    """),
}  # fmt: skip


@functools.cache
def catalogue(preset: str) -> Catalogue:
    """Return the patterns of a preset's image, their weights, and which of them may be adjacent."""
    width, wraps, image = PRESETS[preset]
    pixels = np.array([["#.,".index(pixel) for pixel in row] for row in image.split()], np.uint8)
    turned = np.rot90(np.fliplr(pixels), axes=(1, 0))
    found = [
        np.unique(_windows(view, width), axis=0)
        for view in (pixels, np.fliplr(pixels), turned, np.fliplr(turned))
    ]
    flat, weights = np.unique(np.concatenate(found), axis=0, return_counts=True)
    cells = flat.reshape(-1, width, width)
    upper, lower, left, right = cells[:, :-1], cells[:, 1:], cells[:, :, :-1], cells[:, :, 1:]
    sides = (
        (0, 1, rules(lower, upper)),
        (0, -1, rules(upper, lower)),
        (1, 1, rules(right, left)),
        (1, -1, rules(left, right)),
    )
    return Catalogue(cells, weights.astype(np.int32), sides, wraps)


def _windows(pixels: np.ndarray, width: int) -> np.ndarray:
    """Return all squares of `width` x `width` pixels, each flattened; edges wrap around."""
    padded = np.pad(pixels, (0, width - 1), mode="wrap")
    squares = np.lib.stride_tricks.sliding_window_view(padded, (width, width))
    return squares.reshape(-1, width * width)


def largest_area(free: Bool[Array, "rows columns"]) -> Bool[Array, "rows columns"]:
    """Return a mask of the largest area: free cells that are connected through their four sides.

    If several areas are the largest, return the area whose first cell comes first, column by
    column.
    """
    cells = np.arange(free.size, dtype=np.int32).reshape(free.shape[::-1]).T

    def spread(labels: Array) -> Array:
        padded = jnp.pad(labels, 1, constant_values=NOWHERE)
        near = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        least = functools.reduce(jnp.minimum, near, labels)
        # A cell's label is the index of a cell in the same area. If that cell has a smaller label,
        # take over its label, so that small labels spread in fewer iterations.
        far = least.T.reshape(-1).at[least].get(mode="clip")
        return jnp.where(free, jnp.minimum(least, far), NOWHERE)

    def unfinished(at: tuple[Array, Array]) -> Array:
        return (at[0] != at[1]).any()

    first = jnp.where(free, cells, NOWHERE)
    labels, _ = jax.lax.while_loop(
        unfinished, lambda at: (spread(at[0]), at[0]), (spread(first), first)
    )
    sizes = jnp.zeros(free.size, jnp.int32).at[labels].add(1, mode="drop")
    return labels == sizes.argmax().astype(jnp.int32)


@register_level("WFC-MazeSimple-v0", preset="MazeSimple")
@register_level("WFC-DungeonMazeScaled-v0", preset="DungeonMazeScaled")
@register_level("WFC-RoomsFabric-v0", preset="RoomsFabric")
@register_level("WFC-ObstaclesBlackdots-v0", preset="ObstaclesBlackdots")
@register_level("WFC-ObstaclesAngular-v0", preset="ObstaclesAngular")
@register_level("WFC-ObstaclesHogs3-v0", preset="ObstaclesHogs3")
class WFC(SquareGridEnv):
    """Walk to the goal of a level made by wave function collapse.

    The free cells are the largest connected area of the drawn mosaic; agent and goal are two
    different cells of it.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after 20 * size
        steps.

    Resets: making a level took from 3 ms (`ObstaclesBlackdots`) to 27 ms (`ObstaclesAngular`) on a
        CPU core. On a CPU, the default reset source is `exact`, which makes one level per episode.
        On a GPU, it is `stock`, which makes many levels at a time. `pool` is cheaper, but repeats
        levels.
    """

    preset: str = "MazeSimple"  # style of the level, one of `PRESETS`
    size: int = 25  # number of cells per side of the grid, walls included

    min_size: ClassVar[int] = 6
    # 64 x 64 inner cells. Their ranks in a random order fit into the 12 bits of `RANK_BITS`.
    max_size: ClassVar[int] = 66
    reset_source: ClassVar[str] = "exact"
    # On a CPU, the reset source `exact` generates levels for the finished episodes only:
    # num_envs / rows_per_lane levels at a time, and at least one. With more levels at a time, some
    # of the generated levels would not be needed.
    rows_per_lane: ClassVar[int] = 4096
    levels_at_once: ClassVar[int] = 512  # size of batches of levels; larger ones are not faster
    mission: ClassVar[str] = "traverse the maze to get to the goal"
    word_count: ClassVar[int] = len(missions.WORDS)
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.one_of(type(self).__name__, "preset", self.preset, PRESETS)

    @property
    def max_steps(self) -> int:
        """MiniGrid's `max_steps` for this level."""
        return 20 * self.size

    def mosaic(self, key: Key) -> tuple[Bool[Array, "rows columns"], Bool[Array, ""]]:
        """Draw a mosaic; return a mask of its free cells, and whether every cell got a pattern.

        The mask has only the cells inside the outer wall.
        """
        book, side = catalogue(self.preset), self.size - 2
        rank = permutation(words(key, side**2)).reshape(side, side)
        made = collapsed(book, rank, jax.random.fold_in(key, 1))
        return ~meets(made.wave, book.walls), made.complete

    def generate(self, key: Key) -> Level:
        """Draw a mosaic, keep its largest area, and place agent and goal in it."""
        free, complete = self.mosaic(key)
        word = words(jax.random.fold_in(key, 2), 3)
        area = largest_area(free)
        size = area.sum(dtype=jnp.int32)
        agent = below(word[0], size)
        goal = other(word[1], size, agent)
        grid = jnp.where(area, jnp.uint8(tiles.EMPTY), jnp.uint8(tiles.WALL))
        grid = jnp.pad(grid, 1, constant_values=tiles.WALL)
        grid = put(grid, *_cell(area, goal), tiles.GOAL)
        accepted = complete & (size > 1)
        return Level.of(grid, *_cell(area, agent), below(word[2], 4), accepted=accepted)

    @property
    def marks_rejected(self) -> bool:
        """True: a level for which MiniGrid would raise an error is rejected, but not replaced."""
        return True


def _cell(area: Bool[Array, "rows columns"], number: Array) -> tuple[Array, Array]:
    """Return the row and the column in the grid of the area's cell `number`.

    The cells of the area are counted from 0, row by row.
    """
    place = (area.reshape(-1).cumsum(dtype=jnp.int32) <= number).sum(dtype=jnp.int32)
    return 1 + place // area.shape[1], 1 + place % area.shape[1]
