"""Tests of the agent's view: occlusion against the rule in plain Python and against MiniGrid."""

import functools

import drawing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import upstream
from minigrid.core.grid import Grid
from minigrid.core.world_object import Wall

import jaxenvs
from jaxenvs.core import sight
from jaxenvs.grid import Kind, tiles

SIZES = (3, 5, 7, 9, 11)
GRIDS = 300


def lit_by_the_rule(opaque):
    """Return a mask of the visible (lit) cells, by MiniGrid's rule in plain Python.

    Light starts in the agent's cell, [size // 2, size - 1] of `opaque` [across, ahead]. Light
    spreads from each lit cell that is not opaque: to its left and right neighbours, and to three
    cells in the next row ahead.
    """
    size = len(opaque)
    lit = np.zeros((size, size), bool)
    lit[size // 2, size - 1] = True
    for ahead in range(size - 1, -1, -1):
        while spread := [x for x in range(size) if lit[x, ahead] and not opaque[x, ahead]]:
            reached = {y for x in spread for y in (x - 1, x + 1) if 0 <= y < size}
            if all(lit[y, ahead] for y in reached):
                break
            lit[list(reached), ahead] = True
        for x in spread if ahead else []:
            lit[max(x - 1, 0) : x + 2, ahead - 1] = True
    return lit


def lit_by_the_package(opaque):
    size = len(opaque)
    grid = Grid(size, size)
    for across, ahead in zip(*np.nonzero(opaque), strict=True):
        grid.set(int(across), int(ahead), Wall())
    return grid.process_vis(agent_pos=(size // 2, size - 1))


def random_views(size, count):
    """Return random masks of opaque cells, sparse to dense; the agent's cell is never opaque."""
    rng = np.random.default_rng(size)
    opaque = rng.random((count, size, size)) < rng.uniform(0, 0.8, (count, 1, 1))
    opaque[:, size // 2, size - 1] = False
    return opaque


@pytest.mark.parametrize("size", SIZES)
def test_occlusion_is_the_rule_and_the_packages(size):
    check_occlusion(size, GRIDS)


@pytest.mark.slow
@pytest.mark.parametrize("size", [*SIZES, 13, 15])
def test_occlusion_is_the_rule_and_the_packages_for_many_views(size):
    check_occlusion(size, 2_000)


def check_occlusion(size, count):
    opaque = random_views(size, count)
    ours = np.asarray(jax.jit(jax.vmap(sight.visible))(jnp.asarray(opaque)))
    for mine, blocked in zip(ours, opaque, strict=True):
        np.testing.assert_array_equal(mine, lit_by_the_rule(blocked))
        np.testing.assert_array_equal(mine, lit_by_the_package(blocked))


ROOM = """
    kr .  og .  .
    #  #  #  Cb #
    .  xg .  .  .
    .  .  ^  .  .
"""
SEEN = """
    ?  ?  ?  ?  ?
    #  #  #  Cb #
    .  xg .  .  .
    .  .  .  .  .
"""


def test_walls_and_closed_doors_hide_what_is_behind_them():
    assert seen_rows(ROOM) == drawing.tidy(SEEN).splitlines()


def test_through_an_open_door_light_spreads():
    picture = ROOM.replace("Cb", "Db")
    lit = (
        SEEN.replace("Cb", "Db")
        .replace("?  ?  ?  ?  ?", ".  .  og .  .")
        .replace(".  .  og", "kr .  og")
    )
    assert seen_rows(picture) == drawing.tidy(lit).splitlines()


def view_of(picture, **fields):
    """Return the tiles that the agent of a drawing sees, the farthest row first."""
    level = drawing.parse(picture)
    rows, columns = level.grid.shape
    env = upstream.DrawnGrid(rows=rows, columns=columns, **fields)
    look = jax.jit(lambda level: env.view(env.reset_to(jax.random.key(0), level).state))
    return np.asarray(look(level)).T


def seen_rows(picture):
    """Return, as words, the view of a drawing's agent that looks up; `?` is an unseen cell."""
    seen = view_of(picture)
    words = [
        ["?" if code == 0 else drawing.word(int(code)) for code in row] for row in seen[3:, 1:-1]
    ]
    return [" ".join(row) for row in words]


@functools.cache
def four_rooms():
    """Return an environment, a level, and the compiled `view` and `lit`."""
    env = jaxenvs.make("Grid-FourRooms-v0", view_size=5)
    level = jax.jit(env.sample_level)(jax.random.key(1))
    return env, level, jax.jit(lambda state: (env.view(state), env.lit(state)))


@pytest.mark.parametrize("direction", range(4))
def test_the_lit_cells_of_the_map_are_those_of_the_view(direction):
    """Check that the cells of the map that `lit` marks are those that the view shows."""
    env, level, look = four_rooms()
    level = level.replace(pose=jnp.array([8, 7, direction], jnp.int8))
    state = env.reset_to(jax.random.key(0), level).state
    view, lit = jax.device_get(look(state))
    seen, size = view != Kind.UNSEEN, 5
    (d_row, d_column), wanted = ((0, 1), (1, 0), (0, -1), (-1, 0))[direction], set()
    for across, ahead in zip(*np.nonzero(seen), strict=True):
        forward, right = size - 1 - ahead, across - size // 2
        wanted.add((8 + forward * d_row + right * d_column, 7 + forward * d_column - right * d_row))
    inside = {cell for cell in wanted if min(cell) >= 0 and max(cell) < 19}
    assert set(zip(*(x.tolist() for x in np.nonzero(lit)), strict=True)) == inside


def test_outside_the_grid_there_is_wall():
    seen = view_of("^ .", see_through_walls=True)
    outside = np.ones((7, 7), bool)
    # Exclude the cells of the map, which are in the last two rows and in columns 2 to 5 of the
    # view.
    outside[5:, 2:6] = False
    assert (seen[outside] == tiles.WALL).all()
