"""Tests of quirks of craftax's full game: each is checked in craftax and in this library."""

import functools

import jax
import jax.numpy as jnp
import lockstep_full as lockstep
import numpy as np
import peer_full as peer
import pytest
import starts_full as starts
from test_full_differential import ROWS

from jaxenvs.craft.tables import Achievement, Action, Block, Item

pytestmark = pytest.mark.full

GROUP = "lockstep_full"  # tests of this group share a worker, which compiles both games once
UP, RIGHT = 3, 2
ROUNDS = 4  # number of forbidden actions that the test of masks draws for each state
AHEAD, BELOW = np.array([0, 1]), np.array([1, 0])


def beyond(start, block):
    """Place the player at the upper border, and `block` at the lower border of the same column.

    The player faces row -1. In craftax, this index wraps to the last row, which has `block`.
    """
    start.position = np.array([0, 20])
    start.map[1, 20], start.map[47, 20] = Block.PATH, block
    start.change["player_direction"] = UP


def chest(start):
    beyond(start, Block.CHEST)


def table(start):
    beyond(start, Block.ENCHANTMENT_TABLE_FIRE)
    start.items |= {"ruby": 1, "sword": 1}
    start.change["player_mana"] = 9


def necromancer(start):
    beyond(start, Block.NECROMANCER)
    start.change["boss_timesteps_to_spawn_this_round"] = 0


def naked(start):
    """Place the player at an ice enchantment table, wearing only a helmet enchanted with ice."""
    start.change |= {"player_direction": RIGHT, "player_mana": 9}
    start.put(tuple(start.position + AHEAD), Block.ENCHANTMENT_TABLE_ICE)
    start.items |= {"sapphire": 1, "armour": np.array([1, 0, 0, 0])}
    start.change["armour_enchantments"] = np.array([2, 0, 0, 0])


def enchanted(start):
    """Place the player at an ice enchantment table, in enchanted armour.

    The chestplate is enchanted with fire, the other three pieces of armour with ice.
    """
    naked(start)
    start.change["armour_enchantments"] = np.array([2, 1, 2, 2])


def hoard(start):
    """Put a chest ahead of a player who has the best pickaxe and sword."""
    start.change["player_direction"] = RIGHT
    start.put(tuple(start.position + AHEAD), Block.CHEST)
    start.items |= {"pickaxe": 4, "sword": 4}


def beaten(start):
    """Put a zombie, which is about to strike, ahead of a player who has full health."""
    empty(start)
    cell = start.position + AHEAD
    start.put(tuple(cell), Block.PATH)
    start.mob("melee", 0, cell, type=0, cooldown=0)
    start.change["player_health"] = np.float32(9)


def wise(start):
    start.change |= {"player_intelligence": 3, "player_recover_mana": np.float32(10)}


def learned(start):
    start.change["learned_spells"] = np.ones(2, bool)
    start.items["books"] = 1


def twins(start):
    """Put a live and a dead snail on one cell, two cells above the player.

    The dead snail is in the later slot.
    """
    cell = start.position - 2 * BELOW
    start.put(tuple(cell), Block.PATH)
    start.mob("passive", 0, cell, type=2)
    for side in ([1, 0], [-1, 0], [0, 1], [0, -1]):
        start.put(tuple(cell + side), Block.WALL)
    start.kinds["passive"].position[start.floor, 1] = cell
    start.kinds["passive"].type_id[start.floor, 1] = 2


def empty(start):
    """Fill the floor with walls, except for the player's cell, so that no mob can appear."""
    start.map[:] = Block.WALL
    start.map[tuple(start.position)] = Block.PATH


def wet(start):
    """Put a torch on the water ahead."""
    cell = tuple(start.position + AHEAD)
    start.map[cell], start.item[cell] = Block.WATER, Item.TORCH
    start.change["player_direction"] = RIGHT
    start.items["stone"] = 1


QUIRKS = {  # quirk -> edit of a start, floor, action, check of craftax's states before and after
    "a chest beyond the border counts as opened": (
        chest,
        1,
        Action.DO,
        lambda a, b: b.chests_opened[1] and not b.achievements[Achievement.OPEN_CHEST],
    ),
    "a table beyond the border enchants": (
        table,
        4,
        Action.ENCHANT_SWORD,
        lambda a, b: b.sword_enchantment == 1,
    ),
    "a blow beyond the border hits the boss and is no achievement": (
        necromancer,
        8,
        Action.DO,
        lambda a, b: b.boss_progress == 1 and not b.achievements[Achievement.DAMAGE_NECROMANCER],
    ),
    "a piece of armour that is not worn can be enchanted": (
        naked,
        3,
        Action.ENCHANT_ARMOUR,
        lambda a, b: (b.armour_enchantments[1:] == 2).sum() == 1,
    ),
    "intelligence multiplies all mana that was counted": (
        wise,
        0,
        Action.NOOP,
        lambda a, b: b.player_recover_mana == 16.5,
    ),
    "a book with nothing new to learn is lost": (
        learned,
        0,
        Action.READ_BOOK,
        lambda a, b: b.inventory.books == 0 and b.achievements[Achievement.LEARN_FIREBALL],
    ),
    "a dead mob hides a live one of its type": (
        twins,
        1,
        Action.NOOP,
        lambda a, b: b.passive_mobs.mask[1, 0],
    ),
    "a free slot changes its type where nobody appears": (
        empty,
        5,
        Action.NOOP,
        lambda a, b: b.melee_mobs.type_id[5, 0] == 5 and not b.melee_mobs.mask[5].any(),
    ),
    "stone goes on water under a torch, which stays": (
        wet,
        3,
        Action.PLACE_STONE,
        lambda a, b: (
            (b.map[3] == Block.STONE).sum() > (a.map[3] == Block.STONE).sum()
            and (b.item_map[3] == a.item_map[3]).all()
        ),
    ),
    "with all armour enchanted only a piece of the other kind changes": (
        enchanted,
        3,
        Action.ENCHANT_ARMOUR,
        lambda a, b: (b.armour_enchantments == 2).all(),
    ),
    "a healthy player who is hit in the same step rests": (
        beaten,
        0,
        Action.REST,
        lambda a, b: b.is_resting and a.player_health == 9 and b.player_health < 9,
    ),
    "a chest's worse pickaxe does not replace a better one": (
        hoard,
        3,
        Action.DO,
        lambda a, b: b.achievements[Achievement.OPEN_CHEST] and b.inventory.pickaxe == 4,
    ),
    "a chest's worse sword does not replace a better one": (
        hoard,
        3,
        Action.DO,
        lambda a, b: b.achievements[Achievement.OPEN_CHEST] and b.inventory.sword == 4,
    ),
}
# Tool -> seed with which the chest holds this tool, of level 1, 2 or 3.
LUCK = {"pickaxe": 41, "sword": 71}
SEEDS = [
    next((seed for tool, seed in LUCK.items() if tool in name), row)
    for row, name in enumerate(QUIRKS)
]


masks = jax.jit(jax.vmap(peer.ENV.action_mask))


@functools.cache
def played():
    """Step both games from the start state of each quirk.

    Return craftax's states before and after the step, craftax's observations, the differences from
    our game, and the contents of chests in our draws.
    """
    states, ways = [], []
    for number, (edit, floor, action, _) in enumerate(QUIRKS.values()):
        start = starts.Start(0, floor, np.random.default_rng(number))
        edit(start)
        states.append(start.state())
        ways.append(-1 - action)
    rows = ([*range(len(states))] * ROWS)[:ROWS]
    theirs = starts.stacked([states[row] for row in rows])
    run, params = lockstep.sides(), lockstep.numbers(ROWS, 0, share=0, gods=0)
    theirs, ours = run.begin(theirs, params)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.asarray([SEEDS[row] for row in rows], jnp.int32))
    ways = jnp.asarray([ways[row] for row in rows], jnp.int32)
    outputs, action, draws, *_ = run.theirs(theirs, keys, ways, params)
    found = run.compare(outputs, run.ours(ours, action, draws, params), params)
    return jax.device_get((theirs, outputs[1], outputs[0], found, draws.loot))


@pytest.mark.parametrize("name", QUIRKS)
def test_quirk(name):
    before, after, obs, found, loot = played()
    row = list(QUIRKS).index(name)
    pick = lambda tree: jax.tree.map(lambda leaf: leaf[row], tree)  # noqa: E731
    assert QUIRKS[name][-1](pick(before), pick(after))
    assert not [field for field, differs in found.items() if differs[row]]
    for tool in (tool for tool in LUCK if tool in name):
        assert 0 < getattr(loot, tool)[row] < 4
    if "hides" in name:  # two rows above the player, flag 52 (a snail) is 0
        assert obs[row, (2 * 11 + 5) * 83 + 52] == 0


def test_masked_actions_have_the_result_of_noop():
    """Check that an action that the mask forbids leads to the same state as NOOP.

    The same batch, with states of all kinds, is stepped ROUNDS times; each time, other forbidden
    actions are drawn.
    """
    run, params = lockstep.sides(), lockstep.numbers(ROWS, 0, share=0, gods=0)
    theirs, ours = run.begin(starts.batch(ROWS, seed=3)[0], params)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(ROWS, dtype=jnp.int32))
    noop = jnp.zeros(ROWS, jnp.int32)
    draws = run.theirs(theirs, keys, noop - 1, params)[2]
    forbidden = ~np.asarray(masks(ours))
    rng = np.random.default_rng(0)

    def after(actions):
        return jax.tree.leaves(
            jax.device_get(run.ours(ours, jnp.asarray(actions), draws, params)[1])
        )

    idle = after(noop)
    for _ in range(ROUNDS):
        actions = np.argmax(forbidden * rng.random(forbidden.shape), axis=1).astype(np.int32)
        for leaf, as_idle in zip(after(actions), idle, strict=True):
            differ = (leaf != as_idle).reshape(ROWS, -1).any(axis=1)
            assert not [Action(action).name for action in actions[differ]]


def test_a_healthy_player_may_rest_for_a_blow_in_the_same_step():
    row = list(QUIRKS).index("a healthy player who is hit in the same step rests")
    assert masks(jax.vmap(peer.from_craftax)(played()[0]))[row, Action.REST]
