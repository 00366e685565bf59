"""Tests of grid sprites: all tiles look different, also in grey and at 8 pixels."""

import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest
from defaults import with_full

from jaxenvs.core import looks
from jaxenvs.grid.sprites import SPRITES
from jaxenvs.grid.tiles import EMPTY, GOAL, LAVA, NUM_CODES, WALL, Colour, Kind

VALID_CODES = tuple(SPRITES.names)

UNKNOWN = 0x0F  # a tile byte of kind 15, which does not exist


@functools.cache
def picture(code: int, agent: int = 0, lit: int = 0, size: int = 8) -> np.ndarray:
    return SPRITES.atlas(size)[int(SPRITES.sprite(code, agent, lit))].astype(int)


def grey(code: int, **where: int) -> np.ndarray:
    return picture(code, **where).mean(axis=-1)


def test_valid_codes_are_all_that_the_engine_writes_into_a_grid():
    coloured = (
        Kind.FLOOR,
        Kind.DOOR,
        Kind.CLOSED_DOOR,
        Kind.LOCKED_DOOR,
        Kind.KEY,
        Kind.BALL,
        Kind.BOX,
        Kind.KEY_BOX,
    )
    wanted = {k | c << 4 for k in coloured for c in Colour} | {0, EMPTY, WALL, GOAL, LAVA}
    assert set(VALID_CODES) == wanted


def test_invalid_codes_have_a_magenta_sprite_and_valid_ones_do_not():
    unknown = picture(UNKNOWN)
    assert tuple(unknown[0, -1]) == (255, 0, 255)
    for code in range(NUM_CODES):
        for lit in (0, 1):
            is_unknown = np.array_equal(picture(code, lit=lit), unknown)
            assert is_unknown == (code not in VALID_CODES), (code, lit)


@pytest.mark.parametrize("lit", [0, 1])
def test_every_tile_looks_different_at_8_pixels(lit):
    seen = [code for code in VALID_CODES if code & 15 != Kind.KEY_BOX]
    for a, b in itertools.combinations(seen, 2):
        assert np.abs(picture(a, lit=lit) - picture(b, lit=lit)).max() > 20, (a, b)


def test_a_box_does_not_show_the_key_in_it():
    box = Kind.BOX | Colour.GREY << 4
    for colour, agent, lit in itertools.product(Colour, (0, 4), (0, 1)):
        shown = picture(Kind.KEY_BOX | colour << 4, agent=agent, lit=lit)
        assert np.array_equal(shown, picture(box, agent=agent, lit=lit))


@pytest.mark.parametrize("colour", Colour)
def test_doors_and_objects_of_one_colour_differ_by_shape(colour):
    kinds = (
        Kind.DOOR,
        Kind.CLOSED_DOOR,
        Kind.LOCKED_DOOR,
        Kind.KEY,
        Kind.BALL,
        Kind.BOX,
        Kind.FLOOR,
    )
    for a, b in itertools.combinations(kinds, 2):
        differs = np.abs(grey(a | colour << 4) - grey(b | colour << 4)) > 20
        assert differs.sum() >= 8, (a, b)


@pytest.mark.parametrize("code", VALID_CODES)
def test_a_visible_cell_is_lighter(code):
    assert picture(code, lit=1).mean() > picture(code, lit=0).mean() + 2


@pytest.mark.parametrize("code", [EMPTY, GOAL, LAVA, Kind.FLOOR, Kind.DOOR, Kind.KEY, Kind.BOX])
def test_the_four_directions_differ(code):
    pictures = [picture(code, agent=agent) for agent in range(5)]
    for a, b in itertools.combinations(pictures, 2):
        assert np.abs(a - b).max() > 60


def test_the_agent_shows_the_object_that_it_carries():
    carried = [k | c << 4 for k in (Kind.KEY, Kind.BALL, Kind.BOX) for c in Colour]
    pictures = [picture(code, agent=4) for code in (EMPTY, *carried)]
    for a, b in itertools.combinations(pictures, 2):
        assert np.abs(a - b).max() > 20


@pytest.mark.parametrize("code", [WALL, UNKNOWN, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR, Kind.UNSEEN])
def test_no_agent_stands_where_none_can(code):
    assert np.array_equal(picture(code, agent=1), picture(UNKNOWN))


def test_the_agent_points_where_it_faces():
    white = np.array(looks.WHITE)
    rows, columns = np.mgrid[:32, :32]
    for direction, (across, down) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        body = np.abs(picture(EMPTY, agent=1 + direction, size=32) - white).max(axis=-1) < 30
        # An arrowhead is widest at its tail. Its centre of mass is therefore closer to its tail
        # than to its tip.
        along = (columns * across + rows * down)[body]
        assert along.mean() < (along.min() + along.max()) / 2


DRAW = """
import sys, time, jaxenvs
atlas = jaxenvs.make(sys.argv[1]).atlas
start = time.process_time()
atlas(32)
print(time.process_time() - start)
"""


@pytest.mark.parametrize("id", ["Grid-v0", *with_full("Craft-Classic-Ids-v0")])
def test_an_atlas_is_drawn_in_two_seconds(id):
    """Measure `atlas` in a process without type checks, which would make it 4 times slower."""
    command = [sys.executable, "-c", DRAW, id]
    assert float(subprocess.check_output(command, timeout=300)) < 2.0  # drawing takes about 0.5 s


def test_the_atlas_is_read_only_and_cached():
    atlas = SPRITES.atlas(32)
    assert atlas.shape == (2 * looks.NUM_AGENTS * NUM_CODES, 32, 32, 3) and atlas.dtype == np.uint8
    assert SPRITES.atlas(32) is SPRITES.atlas(32)
    with pytest.raises(ValueError, match="read-only"):
        atlas[0] = 0
