"""Tests of the functions that draw states as pictures of tiles, and of the sizes of pictures."""

import functools

import defaults
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.core import drawing
from jaxenvs.core.pixels import compose
from jaxenvs.grid.sprites import SPRITES
from jaxenvs.render import frames
from jaxenvs.testing import contract


def composed_by_hand(tiles: np.ndarray, atlas: np.ndarray) -> np.ndarray:
    last = len(atlas) - 1
    rows = [np.concatenate([atlas[min(max(t, 0), last)] for t in row], axis=1) for row in tiles]
    return np.concatenate(rows, axis=0)


@pytest.mark.parametrize(("rows", "columns", "size"), [(1, 1, 4), (3, 5, 8), (7, 2, 16)])
def test_compose_equals_the_loop_over_tiles(rows, columns, size):
    atlas = SPRITES.atlas(size)
    tiles = np.random.default_rng(rows).integers(0, len(atlas) + 9, (rows, columns))
    made = jax.jit(compose)(jnp.asarray(tiles, jnp.int32), atlas)
    assert made.dtype == jnp.uint8
    np.testing.assert_array_equal(np.asarray(made), composed_by_hand(tiles, atlas))


@functools.cache
def valid_sprites() -> np.ndarray:
    """Return the indices of all sprites but the one of invalid tiles."""
    atlas = SPRITES.atlas(8)
    unknown = atlas[int(SPRITES.sprite(0x0F, 0, 0))]
    return np.flatnonzero((atlas != unknown).any(axis=(1, 2, 3)))


GRIDS = [id for id in defaults.FIRST if id.startswith("Grid-")]
GRIDS = sorted({*GRIDS, *defaults.DRAWN, "BabyAI-BossLevel-v0"})


@pytest.mark.parametrize("id", defaults.params(defaults.DRAWN, full=GRIDS, of=GRIDS))
def test_random_play_of_every_class_draws_only_tiles_that_exist(id, compiled):
    env = compiled(id).env
    draw = jax.jit(jax.vmap(lambda state: (env.tiles(state), env.view_tiles(state))))
    # The rollouts have the shapes of those in the golden-trace tests, so both use one compiled
    # program.
    for seed in range(4):
        steps = compiled(id).rollout(*contract.plan(env, seed), env.default_params)[1]
        done = np.asarray(steps.done)
        # Mask of the steps of the first episode, including its last step.
        played = np.cumsum(done) - done == 0
        board, view = (np.asarray(tiles)[played] for tiles in draw(steps.state))
        assert np.isin(board, valid_sprites()).all() and np.isin(view, valid_sprites()).all()


def test_painters_draw_every_state_of_a_batch():
    env = jaxenvs.make("Grid-DoorKey-5x5-v0")
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 3)).state
    pictures = frames.board_painter(env, 8)(states)
    assert pictures.shape == (3, 40, 40, 3)
    for picture, tiles in zip(pictures, jax.jit(jax.vmap(env.tiles))(states), strict=True):
        np.testing.assert_array_equal(picture, composed_by_hand(tiles, env.atlas(8)))


def test_the_view_is_the_rgb_observation():
    env = jaxenvs.make("Grid-DoorKey-5x5-v0", obs="rgb")
    obs, state = jax.jit(env.reset)(jax.random.key(4))
    batch = jax.tree.map(lambda leaf: leaf[None], state)
    np.testing.assert_array_equal(frames.view_painter(env, env.tile_size)(batch)[0], obs)


def test_a_wall_has_gaps_and_fills_empty_places_with_the_background():
    pictures = np.stack([np.full((2, 3, 3), 100 + i, np.uint8) for i in range(3)])
    wall = frames.mosaic(pictures, 2)
    assert wall.shape == (4 + frames.GAP, 6 + frames.GAP, 3)
    assert (wall[:2, :3] == 100).all() and (wall[:2, -3:] == 101).all()
    assert (wall[-2:, :3] == 102).all() and (wall[-2:, -3:] == frames.BACKGROUND).all()


@pytest.mark.parametrize(("boards", "columns"), [(1, 1), (2, 1), (4, 2), (9, 3), (16, 4), (64, 8)])
def test_walls_are_nearly_square(boards, columns):
    assert frames.wall_columns(boards) == columns


@pytest.mark.parametrize(("pixels", "tile_size"), [(5, 4), (47, 8), (69, 12), (81, 16), (900, 64)])
def test_tile_sizes_are_multiples_of_four(pixels, tile_size):
    assert drawing.fitting_tile_size((5, 5), pixels, pixels) == tile_size
