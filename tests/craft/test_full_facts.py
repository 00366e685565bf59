"""Tests of `facts` (the rows of a panel) and text descriptions of states of the full game."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.craft import full_facts, full_sight
from jaxenvs.craft.kits import KITS
from jaxenvs.craft.tables import Block

ENV = jaxenvs.make("Craft-Ids-v0")
MIDDLE = 24
BLOCKS = {(-1, 0): Block.CHEST, (0, 2): Block.FIRE_TREE, (2, 0): Block.WATER, (3, 1): Block.WATER}


@pytest.fixture(scope="module")
def begin():
    level = jax.jit(ENV.sample_level)(jax.random.key(0))

    @jax.jit
    def begin(kit, lit):
        floor = jnp.full((48, 48), Block.PATH, level.map.dtype)
        for (down, right), block in BLOCKS.items():
            floor = floor.at[MIDDLE + down, MIDDLE + right].set(block)
        here = level.replace(
            map=level.map.at[kit].set(floor),
            items=level.items.at[kit].set(0).at[kit, MIDDLE, MIDDLE + 1].set(2),
            light=level.light.at[kit].set(jnp.where(lit, 1.0, 0.0).astype(level.light.dtype)),
            up_ladders=level.up_ladders.at[kit].set(MIDDLE),
            kit=kit,
        )
        return ENV.reset_to(jax.random.key(1), here).state

    return lambda kit, lit=True: begin(jnp.int32(kit), lit)


def test_description_of_a_state(begin):
    bag, *lines = ENV.describe(begin(5)).splitlines()[1:]
    assert bag.startswith("You have 9 wood, 20 stone, 5 coal, 3 iron, 1 sapling, 1 diamond pickaxe")
    assert lines == [
        "Enchanted: sword of fire.",
        "Spells: fireball.",
        "Floor: 5, the troll mines.",
        "Way down: blocked, 8 more to defeat.",
        "Time: day 1, morning.",
        "Light: 80%.",
        "You face up; in front of you: a chest.",
        "You see no creatures.",
        "The nearest things: a chest 1 step up, a torch 1 step to the right, a fire tree 2 steps "
        "to the right and water 2 steps down.",
        "Your view; @ is you, _ path, ~ water, f fire tree, C chest, * torch:",
        *["_ _ _ _ _ _ _ _ _ _ _"] * 3,
        "_ _ _ _ _ C _ _ _ _ _",
        "_ _ _ _ _ @ * f _ _ _",
        "_ _ _ _ _ _ _ _ _ _ _",
        "_ _ _ _ _ ~ _ _ _ _ _",
        "_ _ _ _ _ _ ~ _ _ _ _",
        "_ _ _ _ _ _ _ _ _ _ _",
    ]


def test_dark_cells_are_not_described(begin):
    shown = ENV.describe(begin(5, lit=False)).splitlines()
    assert shown[-12:-9] == [
        "You face up; in front of you: darkness.",
        "You see no creatures.",
        "Your view; @ is you, ? darkness:",
    ]
    assert set("".join(shown[-9:])) == {"?", "@", " "}


def test_every_item_of_every_kit_has_an_icon_and_a_name(begin):
    for kit in range(len(KITS)):
        for fact in ENV.facts(begin(kit)):
            if fact.kind in ("bar", "count"):
                assert ENV.icon(fact.icon, 12, (1, 2, 3)).shape == (12, 12, 3), fact
    shown = {fact.label: fact.value for fact in ENV.facts(begin(9))}
    assert shown["boss"] == "7 of 8 waves beaten, open to a blow" and "way down" not in shown
    assert shown["diamond pickaxe"] == "1" and shown["enchanted"].startswith("sword of fire, ")


def test_mobs_and_projectiles_are_described_by_name():
    """A `full_sight.View` encodes mobs and projectiles by numbers; texts have their names."""
    cells = np.zeros((3, 3), np.int32)
    view = full_sight.View(cells + Block.SAND, cells, cells == 0, *(cells.copy() for _ in range(3)))
    # Encoded as 1 + 8 * class + type, with class 2 (ranged mobs) and type 1 (their second type).
    view.mob[0, 1] = 1 + 2 * full_sight.TYPES + 1
    view.projectiles[1, 2], view.missiles[2, 1] = 1 << 4, 1 << 2
    cells = np.asarray(full_facts.cells(ENV.rules, view))
    sights = full_facts.sights(ENV.rules)
    assert [[sights[cell].said for cell in row] for row in cells.tolist()] == [
        ["sand", "a gnome archer", "sand"],
        ["sand", "sand", "an arrow"],
        ["sand", "a fireball of yours", "sand"],
    ]
    assert [sights[cell].sign for cell in cells[:, 1].tolist()] == ["GA", ",", "^"]
