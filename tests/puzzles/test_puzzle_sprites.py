"""Tests of the puzzles' sprites: there is one for each tile number, and all are different."""

import numpy as np
import pytest

from jaxenvs.puzzles import digits, sprites

ATLASES = {  # Name of an atlas -> (function that draws the atlas, number of its sprites).
    "numbered_tiles": (lambda size: sprites.numbered_tiles(4, size), 16),
    "stickers": (sprites.stickers, 7),
    "game2048": (sprites.game2048, 18),
    "minesweeper": (sprites.minesweeper, 11),
    "sudoku": (sprites.sudoku, 38),
    "lights": (sprites.lights, 2),
    "hanoi": (lambda size: sprites.hanoi(size, 5), 23),
    "pancakes": (lambda size: sprites.pancakes(size, 10), 32),
    "tokens": (lambda size: sprites.tokens(size, 10), 21),
    "pegs": (sprites.pegs, 3),
    "sokoban": (sprites.sokoban, 7),
    "maze": (sprites.maze, 5),
    "tsp": (sprites.tsp, 6),
}


@pytest.mark.parametrize("name", ATLASES)
def test_every_sprite_looks_different(name):
    make, count = ATLASES[name]
    for size in (12, 32):
        atlas = make(size)
        assert atlas.shape == (count, size, size, 3) and atlas.dtype == np.uint8
        assert len(np.unique(atlas.reshape(count, -1), axis=0)) == count


@pytest.mark.parametrize("name", ATLASES)
def test_sprites_have_the_smallest_size_too(name):
    make, count = ATLASES[name]
    assert make(4).shape == (count, 4, 4, 3)


def test_a_disk_has_no_seams_between_tiles():
    # Left end, middle and right end meet without a seam.
    for first in (3 + 4 * 3, 3 + 4 * 4):
        left, middle, right = sprites.hanoi(16, 5)[first : first + 3]
        np.testing.assert_array_equal(left[:, -1], middle[:, 0])
        np.testing.assert_array_equal(right[:, 0], middle[:, -1])
        np.testing.assert_array_equal(left, right[:, ::-1])


def test_each_disk_is_half_a_tile_wider_on_each_side_than_the_next_smaller():
    atlas = sprites.hanoi(16, 5)
    covered = [(tile != sprites.INK).any(axis=(0, 2)).sum() for tile in atlas[[7, 11]]]
    assert covered == [7, 15]


@pytest.mark.parametrize("value", [1, 25, 131072])
def test_a_number_is_centred_and_inside_its_tile(value):
    shape = digits.number(value, 0.5)
    at = (np.arange(200) + 0.5) / 200
    inside = shape(at[None, :], at[:, None])
    rows, columns = np.nonzero(inside.any(axis=1))[0], np.nonzero(inside.any(axis=0))[0]
    assert abs((rows[0] + rows[-1]) / 2 - 99.5) < 3
    assert columns[0] >= 20 and columns[-1] < 180 and abs(columns.mean() - 99.5) < 12


def test_no_two_digits_share_their_strokes():
    at = (np.arange(32) + 0.5) / 32
    drawn = [digits.number(i, 0.8)(at[None, :], at[:, None]) for i in range(10)]
    apart = [(a != b).sum() for i, a in enumerate(drawn) for b in drawn[:i]]
    assert min(apart) > 25
