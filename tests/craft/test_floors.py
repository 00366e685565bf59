"""Tests of the nine floors against craftax 1.6.1: from equal draws, and in distribution."""

import functools

import floors_peer
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.craft import dungeons, floors
from jaxenvs.craft.dungeons import DUNGEONS, SIZE
from jaxenvs.craft.tables import Block, Item
from jaxenvs.craft.terrain import lattices

BUILD = jax.jit(floors.build)
DRAW = jax.jit(floors.draw)
LAST = floors.FLOORS - 1
BETWEEN = range(1, LAST)  # floors that have both a ladder up and a ladder down
EXACT = ("map", "items", "down_ladders", "up_ladders", "potion_mapping")
# Floor -> block -> number of the floor's cells with this block, over 512 worlds of craftax: mean,
# and standard deviation if it is known.
COUNTS = {
    0: {
        "GRASS": (1062, 160),
        "WATER": (296, 111),
        "STONE": (368, 98),
        "TREE": (119, 28),
        "PATH": (164, 63),
        "COAL": (11.5, 4.4),
        "IRON": (7.5, 3.4),
        "DIAMOND": (0.4, 0.6),
        "SAND": (246, 63),
        "LAVA": (30, 15),
    },
    1: {
        "PATH": (532, 49),
        "WALL": (382, 46),
        "DARKNESS": (1336, 88),
        "WALL_MOSS": (42, 7),
        "CHEST": (7.8, 0.5),
        "FOUNTAIN": (3.8, 1.4),
    },
    2: {
        "WATER": (231, 89),
        "STONE": (889, 106),
        "PATH": (905, 116),
        "COAL": (38, 8),
        "IRON": (18.6, 4.7),
        "DIAMOND": (4.6, 2.1),
        "LAVA": (112, 39),
        "STALAGMITE": (102, 23),
        "SAPPHIRE": (2.2, None),
        "RUBY": (2.1, None),
    },
    3: {
        "PATH": (480, 41),
        "WATER": (54.5, 8.6),
        "WALL": (381, None),
        "DARKNESS": (1337, None),
        "WALL_MOSS": (42, None),
        "CHEST": (7.7, None),
        "ENCHANTMENT_TABLE_ICE": (1, None),
    },
    4: {
        "PATH": (526, None),
        "WALL": (378, None),
        "DARKNESS": (1344, None),
        "WALL_MOSS": (43, None),
        "CHEST": (7.7, None),
        "FOUNTAIN": (3.9, None),
        "ENCHANTMENT_TABLE_FIRE": (1, None),
    },
    5: {
        "WATER": (233, None),
        "STONE": (868, None),
        "PATH": (897, None),
        "COAL": (38, None),
        "IRON": (27.6, None),
        "DIAMOND": (8.6, None),
        "LAVA": (114, None),
        "STALAGMITE": (100, None),
        "SAPPHIRE": (8.6, None),
        "RUBY": (8.8, None),
    },
    6: {
        "FIRE_GRASS": (797, 156),
        "LAVA": (865, 162),
        "STONE": (512, 126),
        "FIRE_TREE": (89, None),
        "COAL": (27, None),
        "RUBY": (13, None),
    },
    7: {
        "STONE": (943, None),
        "WATER": (700, None),
        "ICE_GRASS": (443, None),
        "ICE_SHRUB": (193, None),
        "SAPPHIRE": (19.5, None),
        "DIAMOND": (4.9, None),
    },
    8: {
        "WALL": (1706, None),
        "PATH": (414, 33),
        "WALL_MOSS": (160, None),
        "GRAVE": (7.3, None),
        "GRAVE2": (7.3, None),
        "GRAVE3": (7.2, None),
        "NECROMANCER": (1, None),
        "STONE": (1, None),
    },
}
LIT = {0: 1.0, 1: 1.0, 2: 0.187, 3: 1.0, 4: 1.0, 5: 0.19, 6: 1.0, 7: 0.03, 8: 0.03}
TORCHES = 30.8  # mean number of torches on floor 1


@functools.cache
def package():
    """Return a function that makes craftax's worlds for a seed.

    It returns four values: the world without and the world with a guaranteed diamond, the draws
    from which our code builds the same worlds, and whether a ladder contradicts its draw.
    """
    make = jax.jit(floors_peer.world)
    draws = jax.jit(floors_peer.draws)

    def worlds(seed):
        key = jax.random.PRNGKey(seed)
        plain, sparkling = make(key, np.bool_(False)), make(key, np.bool_(True))
        return plain, sparkling, *draws(key, plain)

    return worlds


def same_worlds(seeds):
    for seed in seeds:
        *theirs, draws, wrong = package()(seed)
        assert not wrong, "a ladder is not on the cell that its draw selects"
        for always, world in zip((False, True), theirs, strict=True):
            ours = BUILD(draws, np.bool_(always))
            for name in EXACT:
                what = f"seed {seed}, {name}, always_diamond={always}"
                np.testing.assert_array_equal(
                    getattr(ours, name), getattr(world, name), err_msg=what
                )
            np.testing.assert_allclose(ours.light, world.light, atol=1e-5, err_msg=f"seed {seed}")


@pytest.mark.full
def test_worlds_are_the_packages_cell_for_cell():
    same_worlds(range(2))


@pytest.mark.slow
def test_many_worlds_are_the_packages_cell_for_cell():
    same_worlds(range(100, 132))


@functools.cache
def our_worlds(count):
    """Generate `count` of our worlds, as NumPy arrays."""
    keys = jax.random.split(jax.random.key(7), count)
    worlds = [BUILD(DRAW(key), np.bool_(False)) for key in keys]
    return jax.tree.map(lambda *x: np.stack(x), *worlds)


def check_counts(worlds):
    """Check that counts of blocks, torches and lit cells equal craftax's, within sampling error."""
    error = np.sqrt(1 / len(worlds.map) + 1 / 512)
    table = []

    def compare(name, count, mean, deviation):
        own = count.std(ddof=1)
        rounded = 0.06 if mean < 10 else 0.6  # a little more than the rounding error of the mean
        off = max(abs(count.mean() - mean) - rounded, 0) / ((deviation or own or 1) * error)
        # If counts were normally distributed, the standard error of the standard deviation would be
        # 0.71 times the mean's standard error. They are not, so use the mean's error for both.
        slack = rounded / deviation if deviation else 0
        wide = max(abs(own / deviation - 1) - slack, 0) / error if deviation else 0.0
        table.append((name, round(count.mean(), 2), mean, round(own, 2), deviation, off, wide))

    for floor, counts in COUNTS.items():
        assert set(np.unique(worlds.map[:, floor])) <= {Block[name] for name in counts}
        for name, (mean, deviation) in counts.items():
            count = (worlds.map[:, floor] == Block[name]).sum(axis=(1, 2))
            compare(f"{floor} {name}", count, mean, deviation)
        share = 100 * (worlds.light[:, floor] > 0.05).mean(axis=(1, 2))
        compare(f"{floor} % lit", share, 100 * LIT[floor], None)
    torches = (worlds.items[:, 1] == Item.TORCH).sum(axis=(1, 2))
    compare("1 torches", torches, TORCHES, None)
    for name, mean, theirs, own, deviation, off, wide in table:
        print(f"{name:26} {mean:8} ({theirs}) +- {own:6} ({deviation}) {off:5.2f} {wide:5.2f}")
    assert all(row[-2] < 4.5 and row[-1] < 4.5 for row in table)


def test_blocks_items_and_light_are_as_many_as_in_the_packages_worlds():
    check_counts(our_worlds(96))


@pytest.mark.slow
def test_blocks_items_and_light_are_as_many_as_in_the_packages_worlds_for_long():
    check_counts(our_worlds(1024))


def test_ladders_stand_on_the_ground_of_their_floor():
    worlds = our_worlds(96)
    ground = {row.floor: row.ladder for row in (*floors.HILLS, *DUNGEONS)}
    for floor in range(floors.FLOORS):
        for places in (worlds.down_ladders, worlds.up_ladders):
            blocks = worlds.map[np.arange(96), floor, *places[:, floor].T]
            assert (blocks == ground[floor]).all()
        items = worlds.items[:, floor]
        assert (items == Item.LADDER_UP).any() == (floor in BETWEEN)
        assert (items == Item.LADDER_DOWN).any() == (floor < LAST)


def test_potions_are_permuted():
    mappings = our_worlds(96).potion_mapping
    assert (np.sort(mappings, axis=1) == np.arange(len(floors.COLOURS))).all()
    assert len(np.unique(mappings, axis=0)) > 50


def test_a_later_room_covers_the_chest_of_an_earlier_one():
    draws = DRAW(jax.random.key(0))
    rooms = jax.tree.map(np.array, draws.rooms)
    # Room i is in chunk i, so the second room is below the first and overlaps it.
    rooms.chunk[:] = np.arange(dungeons.ROOMS)
    rooms.has_fountain[:], rooms.size[:] = False, 9
    rooms.offset[:, :2], rooms.chest[:, :2] = ((10, 0), (0, 0)), ((7, 3), (1, 5))
    map = np.asarray(BUILD(draws._replace(rooms=rooms), np.bool_(False)).map)[[1, 3, 4]]
    assert (map[:, 17, 5] == Block.CHEST).all() and not (map[:, 17, 3] == Block.CHEST).any()


# The following tests check quirks of craftax.


def chosen(down, up, key=0):
    """Return a world in which the draws `down` and `up` choose the ladders' cells on all floors."""
    draws = DRAW(jax.random.key(key))
    choices = draws.choices.at[:, 1].set(down).at[:, 2].set(up)
    return jax.device_get(BUILD(draws._replace(choices=choices), np.bool_(False)))


def test_quirk_a_ladder_up_on_the_ladder_down_leaves_no_way_down():
    world = chosen(0.5, 0.5)
    np.testing.assert_array_equal(world.down_ladders, world.up_ladders)
    for floor in BETWEEN:
        place = (floor, *world.up_ladders[floor])
        assert world.items[place] == Item.LADDER_UP
        assert not (world.items[floor] == Item.LADDER_DOWN).any()


@pytest.mark.parametrize(("number", "row"), [(0.9999999, 0), (0.0, 47)])
def test_quirk_the_light_of_a_ladder_near_the_border_lies_elsewhere(number, row):
    # On floor 7, the only light belongs to the ladder up. `number` draws the floor's first or last
    # cell of ice grass for this ladder.
    world = chosen(0.5, np.float32(number), key=10)
    assert world.up_ladders[7, 0] == row
    column = world.up_ladders[7, 1]
    column = 43 if column < 4 or column > 43 else column
    light = world.light[7]
    assert light[43, column] == 1
    rows, columns = np.nonzero(light)
    assert abs(rows - 43).max() <= 4 and abs(columns - column).max() <= 4
    if row == 0:
        assert light[tuple(world.up_ladders[7])] == 0, "an arriving player stands in the dark"


def test_quirk_the_graveyard_has_one_stone_in_its_corner():
    graveyards = our_worlds(96).map[:, 8] == Block.STONE
    assert graveyards[:, 0, 0].all() and (graveyards.sum(axis=(1, 2)) == 1).all()


# The following tests check params.


def test_always_diamond_makes_one_stone_of_the_first_floor_a_diamond():
    draws = DRAW(jax.random.key(5))
    plain, sparkling = (jax.device_get(BUILD(draws, np.bool_(x)).map) for x in (False, True))
    changed = np.argwhere(plain != sparkling)
    assert len(changed) == 1 and changed[0][0] == 0
    assert plain[tuple(changed[0])] == Block.STONE
    assert sparkling[tuple(changed[0])] == Block.DIAMOND


def test_given_angles_make_the_same_terrain_of_every_key_on_every_floor():
    rng = np.random.default_rng(0)
    angles = tuple(rng.random(shape, np.float32) for shape in lattices(SIZE))
    draw = jax.jit(floors.draw)
    a, b = (BUILD(draw(jax.random.key(i), angles), np.bool_(False)).map for i in range(2))
    water = np.asarray(a[2] == Block.WATER)
    np.testing.assert_array_equal(water, b[2] == Block.WATER)
    np.testing.assert_array_equal(water, a[5] == Block.WATER)
    assert (np.asarray(a) != np.asarray(b)).any(), "trees and ores are drawn"


@pytest.mark.slow
def test_given_angles_make_the_packages_terrain():
    rng = np.random.default_rng(1)
    angles = tuple(rng.random(shape, np.float32) for shape in lattices(SIZE))
    make = jax.jit(lambda key: floors_peer.world(key, False, angles))
    for seed in range(2):
        key = jax.random.PRNGKey(seed)
        theirs = make(key)
        draws, _ = jax.jit(floors_peer.draws)(key, theirs)
        given = tuple(jnp.broadcast_to(a, (6, *a.shape)) for a in angles)
        ours = BUILD(draws._replace(angles=given), np.bool_(False))
        for name in EXACT:
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


# The following tests check paths from floor to floor.

_STOPS = (
    "WATER STONE TREE COAL IRON DIAMOND LAVA WALL WALL_MOSS STALAGMITE SAPPHIRE RUBY CHEST "
    "FOUNTAIN FIRE_TREE ENCHANTMENT_TABLE_FIRE ENCHANTMENT_TABLE_ICE NECROMANCER GRAVE GRAVE2 "
    "GRAVE3"
)


@jax.jit
@jax.vmap
def walked(map, start, goal):
    """Return whether the player can walk from start to goal without digging."""
    free = ~jnp.isin(map, jnp.array([Block[name] for name in _STOPS.split()], map.dtype))

    def grown(cells):
        padded = jnp.pad(cells, 1)
        sides = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        return (cells | sides) & free

    first = jnp.zeros(map.shape, jnp.bool_).at[start[0], start[1]].set(True)
    once = lambda pair: (pair[1], grown(pair[1]))  # noqa: E731
    return jax.lax.while_loop(lambda p: (p[0] != p[1]).any(), once, (~first, first))[1][*goal]


def ways_down(worlds, floors=range(LAST)):
    """Return a mask (worlds, floors) of the ladders down that the player can reach on foot."""
    found = []
    for floor in floors:
        start = worlds.up_ladders[:, floor] if floor else np.full_like(worlds.up_ladders[:, 0], 24)
        is_there = (worlds.items[:, floor] == Item.LADDER_DOWN).any(axis=(1, 2))
        reached = walked(worlds.map[:, floor], start, worlds.down_ladders[:, floor])
        found.append(is_there & np.asarray(reached))
    return np.stack(found, axis=1)


def test_ladders_of_dungeons_can_be_walked_to():
    worlds = jax.tree.map(lambda x: x[:24], our_worlds(96))
    # The dungeons are floors 1, 3 and 4. Floor 3 is omitted: water may be in the way in its sewers.
    assert ways_down(worlds, (1, 4)).mean() > 0.9


@pytest.mark.slow
def test_ladders_can_be_walked_to_as_often_as_in_the_packages_worlds():
    make = jax.jit(floors_peer.world)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(512))
    theirs = jax.tree.map(lambda *x: np.stack(x), *(make(key) for key in keys))
    theirs, ours = ways_down(theirs).mean(axis=0), ways_down(our_worlds(1024)).mean(axis=0)
    print("share of worlds by floor, theirs:", theirs.round(4), "ours:", ours.round(4))
    share = (512 * theirs + 1024 * ours) / 1536
    error = np.sqrt(share * (1 - share) * (1 / 512 + 1 / 1024))
    assert (abs(ours - theirs) <= 4 * error + 1e-9).all()
