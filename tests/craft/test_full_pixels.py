"""Tests of pictures of the full game: sprites, layers, light, night on floor 0, sleep."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.craft import Block
from jaxenvs.craft.floors import FullLevel
from jaxenvs.craft.full import CraftFull
from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.look import layers, realms, scenes, sprites
from jaxenvs.craft.look.layers import KEY, PLACES
from jaxenvs.craft.tables import ROLES, Item

ENV = CraftFull(obs="ids")
ROWS, COLUMNS = FULL.view
SIZE, MIDDLE, PLAYER_AT = 10, (4, 5), (24, 24)
NUMBERS = layers.numbers(FULL)
ON = jnp.ones((), jnp.bool_)
NOTHING = ENV.new_world(jnp.zeros(2, jnp.int32), jnp.zeros(2, jnp.int32), jnp.arange(6))
NOTHING = NOTHING._replace(
    floor=jnp.int32(3), row=jnp.int32(PLAYER_AT[0]), column=jnp.int32(PLAYER_AT[1])
)


def placed(slot, at, **more):
    """Return the mob or projectile `slot`, made alive and moved to the cell `at` of the view."""
    row, column = (
        here - half + cell for here, half, cell in zip(PLAYER_AT, MIDDLE, at, strict=True)
    )
    numbers = {name: jnp.int32(n) for name, n in {**more, "row": row, "column": column}.items()}
    return slot._replace(**numbers, alive=ON)


def with_mob(role, at, type=0, world=NOTHING):
    first, *rest = world.mobs[role]
    return world._replace(mobs={**world.mobs, role: (placed(first, at, type=type), *rest)})


def with_flying(field, at, type, direction, world=NOTHING):
    first, *rest = getattr(world, field)
    slot = placed(first, at, type=type, d_row=direction[0], d_column=direction[1])
    return world._replace(**{field: (slot, *rest)})


def cells(block=Block.PATH, items=None, light=1.0):
    """Return a view in which all cells have the same block; `items` has the items by cell."""
    lying = np.zeros((ROWS, COLUMNS), np.int32)
    for at, item in (items or {}).items():
        lying[at] = item
    blocks = np.full((ROWS, COLUMNS), int(block), np.int32)
    shine = np.broadcast_to(np.float32(light), (ROWS, COLUMNS))
    return scenes.Cells(jnp.asarray(blocks), jnp.asarray(lying), jnp.asarray(shine))


@jax.jit
def draw(world, seen, day, time):
    return scenes.full_picture(FULL, world, seen, day, time, SIZE)


def picture(world=NOTHING, seen=None, day=1.0, time=0):
    seen = cells() if seen is None else seen
    return np.asarray(draw(world, seen, jnp.float32(day), jnp.int32(time))).astype(int)


def tile(drawn, at):
    return drawn[at[0] * SIZE : (at[0] + 1) * SIZE, at[1] * SIZE : (at[1] + 1) * SIZE]


def ground(block, item=Item.NONE):
    return layers.grounds(FULL, SIZE)[int(block) * len(Item) + int(item)].astype(int)


def over(below, standing=0, flying=0):
    """Return the ground `below` with the overlay of a creature and a projectile over it."""
    above = layers.overlays(FULL, SIZE)[standing * NUMBERS.flights + flying].astype(int)
    return np.where(above == KEY, below, above)


# The following tests check sprites.


def distinct(sheet, least=0.5):
    """Assert that every two sprites differ by more than `least` on average over their bytes.

    The values of bytes are 0 to 255.
    """
    flat = sheet.reshape(len(sheet), -1).astype(np.int16)
    for i, one in enumerate(flat[1:], 1):
        difference = np.abs(flat[:i] - one).mean(axis=1)
        assert difference.min() > least, (i, int(difference.argmin()), difference.min())


def test_every_ground_looks_different():
    distinct(layers.grounds(FULL, SIZE)[: NUMBERS.blank : len(Item)], 4)
    lying = [ground(Block.PATH, item) for item in Item]
    distinct(np.stack(lying), 10)
    for place, first in zip(PLACES, NUMBERS.icons, strict=True):
        if not place.icons:
            continue
        shown = first + np.arange(1, len(place.icons) + 1)
        kinds = np.concatenate([shown + kind * (len(place.icons) + 1) for kind in range(3)])
        distinct(layers.grounds(FULL, SIZE)[kinds if place.charm else shown], 2)
    icons = [first + 1 for first, row in zip(NUMBERS.icons, PLACES, strict=True) if row.icons]
    distinct(layers.grounds(FULL, SIZE)[icons], 4)


@pytest.mark.parametrize("block", [Block.PATH, Block.WATER, Block.FIRE_GRASS, Block.ICE_GRASS])
def test_overlays_look_different_on_every_ground(block):
    who = range(sprites.ASLEEP + 1 + len(FULL.mobs))
    distinct(np.stack([over(ground(block), one) for one in who]), 8)
    distinct(np.stack([over(ground(block), 0, one) for one in range(NUMBERS.flights)]), 1.5)


def test_digits_look_different():
    distinct(layers.overlays(FULL, SIZE)[NUMBERS.digits :], 1.5)


def test_overlays_show_the_ground_below():
    for above in range(1, NUMBERS.digits):
        seen = (layers.overlays(FULL, SIZE)[above] == KEY).all(axis=-1)
        assert 0.02 < seen.mean() < 0.9, above
    for item in (Item.TORCH, Item.LADDER_UP):
        for block in (Block.PATH, Block.FIRE_GRASS, Block.ICE_GRASS):
            same = (ground(block, item) == ground(block)).all(axis=-1).mean()
            assert 0.1 < same < 0.9, (item, block)


# The following tests check the places and the order of layers.


def test_blocks_and_items_are_seen_as_they_are_now():
    at, items = (1, 2), {(1, 2): Item.LADDER_DOWN, (2, 2): Item.LADDER_UP}
    for kills, item in ((7, Item.LADDER_DOWN_BLOCKED), (8, Item.LADDER_DOWN)):
        drawn = picture(NOTHING._replace(kills=jnp.int32(kills)), cells(items=items))
        np.testing.assert_array_equal(tile(drawn, at), ground(Block.PATH, item))
        np.testing.assert_array_equal(tile(drawn, (2, 2)), ground(Block.PATH, Item.LADDER_UP))
    for timer, mobs, block in (
        (0, False, Block.NECROMANCER_VULNERABLE),
        (1, False, Block.NECROMANCER),
        (0, True, Block.NECROMANCER),
    ):
        world = with_mob("melee", (0, 0)) if mobs else NOTHING
        world = world._replace(boss={**world.boss, "timer": jnp.int32(timer)})
        np.testing.assert_array_equal(
            tile(picture(world, cells(Block.NECROMANCER)), at), ground(block)
        )


def test_every_mob_is_where_it_is():
    for role in ROLES:
        for type, row in enumerate(FULL.types(role)):
            drawn = picture(with_mob(role, (2, 7), type))
            wanted = over(ground(Block.PATH), NUMBERS.standing[row.name])
            np.testing.assert_array_equal(tile(drawn, (2, 7)), wanted)


@pytest.mark.parametrize("field", ["projectiles", "missiles"])
def test_projectiles_point_where_they_fly(field):
    ways = {(0, -1): 0, (0, 1): 1, (-1, 0): 2, (1, 0): 3}
    for (direction, way), type in itertools.product(ways.items(), range(8)):
        drawn = picture(with_flying(field, (6, 1), type, direction))
        flying = NUMBERS.flying[FULL.projectiles[type].name] + way
        np.testing.assert_array_equal(tile(drawn, (6, 1)), over(ground(Block.PATH), flying=flying))


def test_later_layers_are_drawn_over_earlier_ones():
    below, at = ground(Block.GRASS, Item.TORCH), (3, 3)
    seen = cells(Block.GRASS, {at: Item.TORCH, MIDDLE: Item.TORCH})
    world = with_flying("projectiles", at, 2, (0, 1), with_mob("melee", at, 1))
    zombie = NUMBERS.standing["gnome_warrior"]
    wanted = over(below, zombie, NUMBERS.flying["fireball"] + 1)
    np.testing.assert_array_equal(tile(picture(world, seen), at), wanted)
    fired = NUMBERS.flying["arrow2"] + 2
    both = with_flying("missiles", at, 4, (-1, 0), world)
    np.testing.assert_array_equal(tile(picture(both, seen), at), over(below, zombie, fired))
    ranged = NUMBERS.standing["knight_archer"]
    np.testing.assert_array_equal(
        tile(picture(with_mob("ranged", at, 4, both), seen), at), over(below, ranged, fired)
    )
    for facing in range(1, 5):
        drawn = picture(NOTHING._replace(facing=jnp.int32(facing)), seen)
        np.testing.assert_array_equal(tile(drawn, MIDDLE), over(below, facing))


def test_distant_and_dead_slots_are_not_drawn():
    empty = picture()
    for at in ((-1, 3), (9, 3), (2, -1), (2, 11)):
        world = with_flying("missiles", at, 1, (0, 1), with_mob("melee", at))
        np.testing.assert_array_equal(picture(world), empty)


def test_the_inventory_lies_as_upstreams_does():
    icons = layers.grounds(FULL, SIZE).astype(int)
    zero = jax.tree.map(jnp.zeros_like, NOTHING)._replace(facing=jnp.int32(1))
    parts = ("items", "vitals", "traits", "spells")
    for place, first in zip(PLACES, NUMBERS.icons, strict=True):
        at, most = (ROWS + place.row, place.column), len(place.icons)
        for count in {0, 1, most, 8} if place.name == "floor" else {0, 1, most}:
            world = zero._replace(floor=jnp.int32(count)) if place.name == "floor" else zero
            for part in parts:
                held = getattr(world, part)
                if place.name in held:
                    given = jnp.asarray(count, held[place.name].dtype)
                    world = world._replace(**{part: {**held, place.name: given}})
            shown = max(count, 1) if place.name == "health" else count
            wanted = icons[first + min(shown, most)]
            if place.numbered and (shown or not most):
                number = layers.overlays(FULL, SIZE)[NUMBERS.digits + shown].astype(int)
                wanted = np.where(number == KEY, wanted, number)
            np.testing.assert_array_equal(tile(picture(world), at), wanted, err_msg=place.name)


def test_enchantments_are_drawn_on_their_items():
    icons = layers.grounds(FULL, SIZE)
    for place, first in zip(PLACES, NUMBERS.icons, strict=True):
        if place.charm is None:
            continue
        span, at = len(place.icons) + 1, (ROWS + place.row, place.column)
        for kind, count in itertools.product(range(3), (0, 1)):
            world = NOTHING._replace(
                charms={**NOTHING.charms, place.charm: jnp.int32(kind)},
                items={**NOTHING.items, place.name: jnp.int32(count)},
            )
            # Upper left part of the tile, which the number does not cover.
            corner = tile(picture(world), at)[:6, :4]
            wanted = icons[first + kind * span + count][:6, :4]
            np.testing.assert_array_equal(corner, wanted, err_msg=place.name)
        seen = icons[first + span].any()
        assert seen == place.bare, place.name


# The following tests check light, night and sleep.


def test_a_cell_is_as_light_as_the_map_says_and_the_inventory_always():
    light = np.linspace(0, 1, ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    bright, drawn = picture(), picture(seen=cells(light=light))
    np.testing.assert_array_equal(drawn[ROWS * SIZE :], bright[ROWS * SIZE :])
    for at in np.ndindex(ROWS, COLUMNS):
        expected = tile(bright, at) * light[at]
        assert np.abs(tile(drawn, at) - expected).max() <= 2, at
    assert not tile(drawn, (0, 0)).any()
    np.testing.assert_array_equal(tile(drawn, (8, 10)), tile(bright, (8, 10)))


def test_night_falls_on_floor_0_alone():
    above = NOTHING._replace(floor=jnp.int32(0))
    day = picture(above)[: ROWS * SIZE]
    for light in (0.8, 0.5, 0.2, 0.0):
        np.testing.assert_array_equal(picture(day=light), picture())
        seen = picture(above, day=light)
        np.testing.assert_array_equal(seen[ROWS * SIZE :], picture(above)[ROWS * SIZE :])
        night = 0.5 * np.array([0, 16, 64]) + 0.5 * day
        expected = light * day + (1 - light) * night
        middle = np.abs(tile(seen, MIDDLE) - tile(expected, MIDDLE)).max()
        corner = np.abs(tile(seen, (0, 0)) - tile(expected, (0, 0))).max()
        assert middle <= 2 and (corner > 8) == (light < 0.5), light


def test_noise_moves_with_time_at_night_alone():
    above = NOTHING._replace(floor=jnp.int32(0))
    dusk = [picture(above, day=0.5, time=t) for t in range(3)]
    night = [picture(above, day=0.1, time=t) for t in range(3)]
    for (a, b), (c, d) in zip(
        itertools.combinations(dusk, 2), itertools.combinations(night, 2), strict=True
    ):
        np.testing.assert_array_equal(a, b)
        assert (c != d).any(axis=-1)[: ROWS * SIZE].mean() > 0.3
        np.testing.assert_array_equal(tile(c, MIDDLE), tile(d, MIDDLE))


def test_sleep_halves_brightness():
    awake, seen = cells(light=0.5), cells(light=0.25)
    asleep = NOTHING._replace(sleeping=ON)
    drawn, light = picture(asleep, awake), picture(NOTHING, seen)
    away = np.abs(drawn - light)[: ROWS * SIZE].reshape(ROWS, SIZE, COLUMNS, SIZE, 3)
    assert away.max(axis=(1, 3, 4))[np.arange(ROWS) != MIDDLE[0]].max() <= 1
    sleeper = over(ground(Block.PATH), sprites.ASLEEP)
    assert np.abs(tile(picture(asleep), MIDDLE) - sleeper // 2).max() <= 1


# The following tests check the environment's observation.


@pytest.mark.full
def test_the_observation_is_the_picture_in_the_light_of_the_map():
    rng, env = np.random.default_rng(0), CraftFull(obs="pixels")
    level = FullLevel(
        map=jnp.asarray(rng.integers(2, 36, (9, 48, 48)), jnp.uint8),
        items=jnp.zeros((9, 48, 48), jnp.uint8),
        light=jnp.asarray(rng.random((9, 48, 48)), jnp.float32),
        down_ladders=jnp.zeros((9, 2), jnp.int32),
        up_ladders=jnp.zeros((9, 2), jnp.int32),
        potion_mapping=jnp.arange(6),
    )

    @jax.jit
    def observed(level):
        state = env.reset_state(jax.random.key(0), level, env.default_params)
        return env.observe(state), env.world(state), env.light(state)

    obs, world, day = observed(level)
    assert obs.shape == env.observation_space.shape and obs.dtype == np.uint8
    view = (slice(20, 29), slice(19, 30))
    blocks = jnp.asarray(level.map[0][view], jnp.int32)
    light = jnp.asarray(np.round(level.light[0][view] * 255) / 255, jnp.float32)
    seen = scenes.Cells(blocks, jnp.zeros_like(blocks), light)
    np.testing.assert_array_equal(obs, draw(world, seen, day, jnp.int32(0)))


def test_everything_has_a_drawing():
    assert set(realms.BLOCKS) == set(Block) and set(realms.ITEMS) == set(Item) - {Item.NONE}
