"""Tests of pictures of Craft-Classic: distinct sprites, places of mobs, night and sleep."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.core.pixels import compose
from jaxenvs.craft import CLASSIC, Block, Slots, World
from jaxenvs.craft.look import pictures, sprites, tiles
from jaxenvs.craft.state import new_world
from jaxenvs.craft.tables import ROLES, VITALS

ROWS, COLUMNS = CLASSIC.view
NUMBERS = sprites.numbers(CLASSIC)
MIDDLE = (ROWS // 2, COLUMNS // 2)
PLAYER_AT = (32, 32)


def world(**changes: object) -> World:
    """Return the first world of an episode, with changes; the player is in the middle."""
    plain = new_world(CLASSIC, Slots(), 64, dict.fromkeys(ROLES, 1))
    return plain._replace(**changes)


def placed(slot, at: tuple[int, int], **more: int):
    """Return the mob or projectile `slot`, made alive and moved to the cell `at` of the view."""
    row, column = at[0] - MIDDLE[0] + PLAYER_AT[0], at[1] - MIDDLE[1] + PLAYER_AT[1]
    numbers = {name: jnp.int32(n) for name, n in {**more, "row": row, "column": column}.items()}
    return slot._replace(**numbers, alive=jnp.ones((), jnp.bool_))


_NAMES = {"zombie": "melee", "cow": "passive", "skeleton": "ranged"}


def with_mob(name: str, at: tuple[int, int], **more: object) -> World:
    plain = world(**more)
    role = _NAMES[name]
    first, *rest = plain.mobs[role]
    return plain._replace(mobs={**plain.mobs, role: (placed(first, at), *rest)})


def with_arrow(at: tuple[int, int], direction: tuple[int, int]) -> World:
    first, *rest = world().projectiles
    return world(projectiles=(placed(first, at, d_row=direction[0], d_column=direction[1]), *rest))


def all_of(block: Block) -> jax.Array:
    return jnp.full((ROWS, COLUMNS), int(block), jnp.uint8)


@jax.jit
def draw(world: World, blocks: jax.Array, light: jax.Array, time: jax.Array) -> jax.Array:
    return pictures.picture(CLASSIC, world, blocks, light, time)


def picture(
    world: World, blocks: jax.Array | None = None, light: float = 1.0, time: int = 0
) -> np.ndarray:
    """Return the picture of a world, as integers; by default, the view shows only grass."""
    blocks = all_of(Block.GRASS) if blocks is None else blocks
    return np.asarray(draw(world, blocks, jnp.float32(light), jnp.int32(time))).astype(int)


def tile(picture: np.ndarray, at: tuple[int, int]) -> np.ndarray:
    return picture[at[0] * 7 : at[0] * 7 + 7, at[1] * 7 : at[1] * 7 + 7]


def everybody(rng: np.random.Generator) -> World:
    """Return a world with mobs and arrows in view, and a full inventory."""
    made = world(items={name: jnp.int32(rng.integers(0, 10)) for name in CLASSIC.items})
    mobs = {
        kind: tuple(placed(slot, tuple(rng.integers(0, 7, 2))) for slot in slots)
        for kind, slots in made.mobs.items()
    }
    arrows = tuple(
        placed(slot, tuple(rng.integers(0, 7, 2)), d_row=0, d_column=1) for slot in made.projectiles
    )
    return made._replace(mobs=mobs, projectiles=arrows)


# The following tests check sprites.


@pytest.mark.parametrize("size", [7, 16])
def test_every_sprite_looks_different(size):
    icons = [first + count for first in NUMBERS.icons.values() for count in range(1, 10)]
    drawn = [*range(NUMBERS.blank), *icons]
    atlas = sprites.atlas(CLASSIC, size).astype(np.int16)[drawn].reshape(len(drawn), -1)
    for i, one in enumerate(atlas):
        differs = np.abs(atlas[:i] - one).max(axis=1, initial=0) > 20
        assert differs.all(), (drawn[i], [drawn[j] for j in np.flatnonzero(~differs)])


def test_overlays_show_the_ground_below():
    atlas, who = sprites.atlas(CLASSIC, 7).astype(int), NUMBERS.placed
    for block, overlay in NUMBERS.pairs:
        seen, below = atlas[who[block, overlay]], atlas[int(block)]
        same = (np.abs(seen - below).max(axis=-1) == 0).mean()
        assert 0.08 < same < 0.9, (block, overlay)


def test_impossible_overlays_are_still_shown():
    who = NUMBERS.placed
    assert who[Block.STONE, NUMBERS.overlays["cow"]] == who[Block.PATH, NUMBERS.overlays["cow"]]
    assert (who[:, 0] == np.arange(len(CLASSIC.blocks))).all()
    assert len(np.unique(who[Block.GRASS])) == 13


def test_the_atlas_is_read_only_and_cached():
    atlas = sprites.atlas(CLASSIC, 32)
    assert atlas.shape == (NUMBERS.total, 32, 32, 3) and atlas.dtype == np.uint8
    assert sprites.atlas(CLASSIC, 32) is sprites.atlas(CLASSIC, 32)
    with pytest.raises(ValueError, match="read-only"):
        atlas[0] = 0


# The following tests check the places and the order of layers.


def test_by_day_a_picture_is_its_tiles():
    rng = np.random.default_rng(0)
    for _ in range(3):
        made, blocks = everybody(rng), jnp.asarray(rng.integers(0, 17, (ROWS, COLUMNS)), jnp.uint8)
        numbers = tiles.tiles(CLASSIC, made, blocks)
        assert numbers.shape == (ROWS + 2, COLUMNS)
        assert int(numbers.min()) >= 0 and int(numbers.max()) < NUMBERS.total
        np.testing.assert_array_equal(
            picture(made, blocks), np.asarray(compose(numbers, sprites.atlas(CLASSIC, 7)))
        )


@pytest.mark.parametrize("facing", [1, 2, 3, 4])
def test_the_player_faces_four_ways_and_sleeps_in_one(facing):
    sheet, who = sprites.atlas(CLASSIC, 7), NUMBERS.placed[Block.GRASS]
    seen = tile(picture(world(facing=jnp.int32(facing))), MIDDLE)
    np.testing.assert_array_equal(seen, sheet[who[facing]])
    asleep = world(facing=jnp.int32(facing), sleeping=jnp.ones((), jnp.bool_))
    assert tiles.overlays(CLASSIC, asleep)[MIDDLE] == sprites.ASLEEP


@pytest.mark.parametrize("kind", ["zombie", "cow", "skeleton"])
@pytest.mark.parametrize("at", [(0, 0), (6, 8), (2, 5)])
def test_mobs_are_where_they_are(kind, at):
    shown = np.asarray(tiles.overlays(CLASSIC, with_mob(kind, at)))
    assert shown[at] == NUMBERS.overlays[kind] and (shown != 0).sum() == 2


@pytest.mark.parametrize("at", [(-1, 3), (7, 3), (2, -1), (2, 9), (-1, -1)])
def test_distant_and_dead_slots_are_not_drawn(at):
    assert (np.asarray(tiles.overlays(CLASSIC, with_mob("zombie", at))) != 0).sum() == 1
    dead = with_mob("cow", (1, 1))
    slots = dead.mobs["passive"]
    dead.mobs["passive"] = tuple(m._replace(alive=jnp.zeros((), jnp.bool_)) for m in slots)
    assert (np.asarray(tiles.overlays(CLASSIC, dead)) != 0).sum() == 1


@pytest.mark.parametrize(
    ("direction", "number"), [((0, -1), 9), ((0, 1), 10), ((-1, 0), 11), ((1, 0), 12)]
)
def test_arrows_point_where_they_fly(direction, number):
    assert tiles.overlays(CLASSIC, with_arrow((1, 2), direction))[1, 2] == number
    sprite = sprites.atlas(CLASSIC, 32)[NUMBERS.placed[Block.WATER, number]].astype(int)
    steel = np.argwhere(np.abs(sprite - (216, 222, 232)).max(axis=-1) < 12).mean(axis=0) - 15.5
    assert steel @ np.array(direction) > 5


def test_an_arrow_is_drawn_over_a_mob_and_later_kinds_over_earlier_ones():
    both = with_mob("skeleton", (1, 1))._replace(projectiles=with_arrow((1, 1), (1, 0)).projectiles)
    assert tiles.overlays(CLASSIC, both)[1, 1] == NUMBERS.overlays["arrow"] + 3
    both = with_mob("skeleton", (1, 1))
    both.mobs["melee"] = with_mob("zombie", (1, 1)).mobs["melee"]
    assert tiles.overlays(CLASSIC, both)[1, 1] == NUMBERS.overlays["skeleton"]


def test_the_inventory_is_in_upstreams_order_and_hides_what_is_not_there():
    order = (*VITALS, "sapling", "wood", "stone", "coal", "iron", "diamond")
    tools = [
        f"{material}_{tool}"
        for tool in ("pickaxe", "sword")
        for material in ("wood", "stone", "iron")
    ]
    for place, name in enumerate((*order, *tools)):
        for count in (0, 1, 9):
            nothing = world(
                items=dict.fromkeys(CLASSIC.items, jnp.int32(0)),
                vitals=dict.fromkeys(VITALS, jnp.int32(0)),
            )
            part = nothing.vitals if name in VITALS else nothing.items
            part[name] = jnp.int32(count)
            shown = np.asarray(
                sprites.atlas(CLASSIC, 7)[np.asarray(tiles.inventory(CLASSIC, nothing))]
            )
            lit = shown.reshape(18, -1).any(axis=1)
            assert lit.sum() == (count > 0) and (count == 0 or lit[place]), (name, count)


# The following tests check night and sleep.


def test_a_small_picture_is_what_the_arithmetic_of_a_large_one_gives(monkeypatch):
    rng = np.random.default_rng(1)
    blocks = jnp.asarray(rng.integers(1, 17, (ROWS, COLUMNS)), jnp.uint8)
    made = [everybody(rng), everybody(rng)._replace(sleeping=jnp.ones((), jnp.bool_))]
    cases = list(itertools.product(made, (0.0, 0.3, 0.6, 1.0), (5, 77)))
    kept = [picture(one, blocks, light, at) for one, light, at in cases]
    monkeypatch.setattr(pictures, "SMALL", 0)
    again = jax.jit(lambda *where: pictures.picture(CLASSIC, *where))
    for (one, light, at), small in zip(cases, kept, strict=True):
        large = again(one, blocks, jnp.float32(light), jnp.int32(at))
        np.testing.assert_array_equal(small, np.asarray(large))


def test_night_falls_step_by_step_and_first_at_the_edge():
    means = []
    for light in np.linspace(1, 0, 12):
        seen = picture(world(), light=light)[: ROWS * 7]
        middle, corner = tile(seen, (3, 3)), tile(seen, (0, 0))
        assert light > 0.8 or corner.mean() < middle.mean()
        means.append(middle.mean())
    assert all(a >= b for a, b in itertools.pairwise(means)) and means[-1] < 0.9 * means[0]
    assert corner.mean() < 0.7 * middle.mean()


def test_the_inventory_is_not_darkened_at_night():
    day, night = picture(world()), picture(world(), light=0.0)
    assert (day[ROWS * 7 :] == night[ROWS * 7 :]).all() and day[ROWS * 7 :].any()


def test_noise_moves_with_time_in_the_dark_only():
    day = [picture(world(), light=0.8, time=t) for t in range(3)]
    night = [picture(world(), light=0.1, time=t) for t in range(3)]
    assert (day[0] == day[1]).all() and (day[1] == day[2]).all()
    for a, b in itertools.combinations(night, 2):
        assert (tile(a, MIDDLE) == tile(b, MIDDLE)).all()
        assert (a != b).any(axis=-1)[: ROWS * 7].mean() > 0.2
    assert (night[0] == picture(world(), light=0.1, time=0)).all()


def test_a_sleeper_sees_grey():
    seen = picture(world(sleeping=jnp.ones((), jnp.bool_)))[: ROWS * 7]
    assert (seen[..., 0] == seen[..., 1]).all() and (seen[..., 2] == seen[..., 0] + 8).all()
    assert seen.mean() < 0.7 * picture(world())[: ROWS * 7].mean()


# The following tests check the environment's observation.


@pytest.fixture(scope="module")
def states():
    env = jaxenvs.make("Craft-Classic-Pixels-v0")
    obs, states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 3))
    return env, obs, states


def test_the_observation_is_the_picture(states):
    env, obs, batch = states
    assert jax.jit(jax.vmap(env.observation_space.contains))(obs).all()
    pictures = jax.jit(jax.vmap(lambda state: (env.picture(state, 7), env.picture(state, 16))))
    small, large = pictures(batch)
    np.testing.assert_array_equal(obs, small)
    assert large.shape == (3, (ROWS + 2) * 16, COLUMNS * 16, 3)
    assert jax.eval_shape(jax.vmap(env.tiles), batch).shape == (3, ROWS + 2, COLUMNS)
