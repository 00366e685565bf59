"""Tests of the player's actions in Craft-Classic, on states that are drawn as text (see scene.py).

Tests whose names contain `quirk` check odd behaviour of craftax that this library reproduces.
"""

import numpy as np
import pytest
import scene
from scene import SIGNS, becomes, plant, play, quiet

from jaxenvs.craft import CLASSIC, Action, Block

GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once

A = Action
OPEN = ".,_"  # signs of the blocks that the player can enter and survive


def gained(moment, *names):
    """Assert that a step earned exactly the achievements `names`, with a reward of 1 for each."""
    assert moment.earned == set(names)
    assert moment.reward == pytest.approx(len(names), abs=1e-6)


# Each row of crafting: the action, its cost, whether a furnace is needed, and the product.
RECIPES = [
    (A.MAKE_WOOD_PICKAXE, {"wood": 1}, False, "wood_pickaxe"),
    (A.MAKE_STONE_PICKAXE, {"wood": 1, "stone": 1}, False, "stone_pickaxe"),
    (A.MAKE_IRON_PICKAXE, {"wood": 1, "stone": 1, "iron": 1, "coal": 1}, True, "iron_pickaxe"),
    (A.MAKE_WOOD_SWORD, {"wood": 1}, False, "wood_sword"),
    (A.MAKE_STONE_SWORD, {"wood": 1, "stone": 1}, False, "stone_sword"),
    (A.MAKE_IRON_SWORD, {"wood": 1, "stone": 1, "iron": 1, "coal": 1}, True, "iron_sword"),
]
recipes = pytest.mark.parametrize(("action", "cost", "furnace", "tool"), RECIPES)


@recipes
def test_recipe(action, cost, furnace, tool):
    shop = "B . . \n . > . \n . . F" if furnace else "B . . \n . > . \n . . ."
    (moment,) = play(scene.scene(shop, items=cost), action)
    assert moment.items == {tool: 1}
    gained(moment, f"make_{tool}")
    for item in cost:
        lacking = {name: count for name, count in cost.items() if name != item}
        (moment,) = play(scene.scene(shop, items=lacking), action)
        assert moment.items == lacking and not moment.earned


@recipes
def test_recipe_needs_its_blocks_near(action, cost, furnace, tool):
    far = [". . . B \n . > . . \n . . F .", ". . . . \n . > F .\n . . . ."]
    far += ["B . . . \n . > . F"] if furnace else []
    for drawing in far:
        (moment,) = play(scene.scene(drawing, items=cost), action)
        assert moment.items == cost and not moment.earned


@pytest.mark.parametrize("cell", [0, 1, 2, 3, 5, 6, 7, 8])
def test_near_is_one_of_the_eight_cells_around(cell):
    cells = [". "] * 9
    cells[4], cells[cell] = "> ", "B "
    drawing = "\n".join("".join(cells[i : i + 3]) for i in (0, 3, 6))
    assert play(scene.scene(drawing, items={"wood": 1}), A.MAKE_WOOD_SWORD)[0].items == {
        "wood_sword": 1
    }


def test_a_table_or_furnace_under_the_player_is_not_near():
    (moment,) = play(scene.scene(">B", items={"wood": 1}), A.MAKE_WOOD_PICKAXE)
    assert moment.items == {"wood": 1} and not moment.earned
    iron = {"wood": 1, "stone": 1, "iron": 1, "coal": 1}
    (moment,) = play(scene.scene("B >F", items=iron), A.MAKE_IRON_PICKAXE)
    assert moment.items == iron and not moment.earned


def test_a_table_across_the_border_is_not_near():
    for at, drawing in (((0, 4), "^"), ((4, 0), "<"), ((15, 4), "v"), ((4, 15), ">")):
        state = scene.scene(drawing, at, items={"wood": 1})
        opposite = (15 - at[0], at[1]) if at[0] in (0, 15) else (at[0], 15 - at[1])
        state = state.replace(map=state.map.at[opposite].set(Block.CRAFTING_TABLE))
        assert play(state, A.MAKE_WOOD_SWORD)[0].items == {"wood": 1}


def test_quirk_tools_are_counts_and_a_tenth_one_is_lost():
    items = {"wood": 3, "wood_sword": 8}
    first, second = play(scene.scene("B >", items=items), A.MAKE_WOOD_SWORD, A.MAKE_WOOD_SWORD)
    assert first.items == {"wood": 2, "wood_sword": 9}
    assert second.items == {"wood": 1, "wood_sword": 9}


# Each row of gathering: the block, the tool needed, the item, the block left behind, and the
# achievement.
HARVESTS = [
    ("T", None, "wood", ".", "collect_wood"),
    ("#", "wood_pickaxe", "stone", "_", "collect_stone"),
    ("c", "wood_pickaxe", "coal", "_", "collect_coal"),
    ("i", "stone_pickaxe", "iron", "_", "collect_iron"),
    ("D", "iron_pickaxe", "diamond", "_", "collect_diamond"),
]
harvests = pytest.mark.parametrize(("block", "tool", "item", "left", "achievement"), HARVESTS)
TOOLS = ("wood_pickaxe", "stone_pickaxe", "iron_pickaxe")


@harvests
def test_harvest(block, tool, item, left, achievement):
    tools = {tool: 1} if tool else {}
    moment = becomes(f"> {block}", A.DO, f"> {left}", items=tools)
    assert moment.items == {**tools, item: 1}
    gained(moment, achievement)


@harvests
def test_harvest_without_its_own_tool(block, tool, item, left, achievement):
    """Craftax's quirk: a block needs its own pickaxe; a better pickaxe does not replace it."""
    if tool is None:
        return
    others = {name: 1 for name in TOOLS if name != tool}
    moment = becomes(f"> {block}", A.DO, f"> {block}", items=others)
    assert moment.items == others and not moment.earned


@harvests
def test_harvest_with_a_full_bag_still_takes_the_block(block, tool, item, left, achievement):
    items = {item: 9, **({tool: 1} if tool else {})}
    moment = becomes(f"> {block}", A.DO, f"> {left}", items=items)
    assert moment.items == items
    gained(moment, achievement)


@pytest.mark.parametrize("block", [",", "_", "L", "B", "F", "y"])
def test_blocks_that_give_nothing(block):
    items = dict.fromkeys(TOOLS, 1)
    moment = becomes(f"> {block}", A.DO, f"> {block}", items=items)
    assert moment.items == items and not moment.earned


def test_grass_gives_a_sapling_by_chance():
    for chance, items in ((0.0999, {"sapling": 1}), (0.1001, {})):
        moment = becomes("> .", A.DO, "> .", draws=quiet(sapling=chance))
        assert moment.items == items
        assert moment.earned == ({"collect_sapling"} if items else set())


def test_water_is_drunk_and_resets_thirst():
    parts = {"vitals": {"drink": 3}, "counters": {"thirst": 30}}
    moment = becomes("> ~", A.DO, "> ~", **parts)
    assert moment.vitals["drink"] == 4 and moment.counters["thirst"] == 2
    gained(moment, "collect_drink")
    assert becomes("> ~", A.DO, "> ~").vitals["drink"] == 9


def test_a_ripe_plant_is_eaten_and_grows_again():
    parts = {"vitals": {"food": 3}, "counters": {"hunger": 30}, "change": plant(0, 4, 5, 700)}
    moment = becomes("> Y", A.DO, "> y", **parts)
    assert moment.vitals["food"] == 7 and moment.counters["hunger"] == 2
    assert moment.world.plants.age[0] == 1
    gained(moment, "eat_plant")


def test_quirk_eating_a_plant_without_a_slot_makes_the_first_slot_young():
    def planted(world):
        return plant(1, 8, 8, 200)(plant(0, 9, 9, 300)(world))

    moment = becomes("> Y", A.DO, "> y", change=planted)
    assert moment.world.plants.age[:2].tolist() == [1, 201]


def test_nothing_is_gathered_across_the_border():
    for at, drawing in (((0, 4), "^"), ((4, 0), "<"), ((15, 4), "v"), ((4, 15), ">")):
        state = scene.scene(drawing, at, fill="T")
        (moment,) = play(state, A.DO)
        assert not moment.items and not moment.earned
        np.testing.assert_array_equal(moment.state.map, state.map)


# Each row of placing: the action, the item and its cost, the blocks that may be replaced, the block
# placed, and the achievement.
PLACEMENTS = [
    (A.PLACE_STONE, "stone", 1, ".,_L~", "#", "place_stone"),
    (A.PLACE_TABLE, "wood", 2, ".,_L", "B", "place_table"),
    (A.PLACE_FURNACE, "stone", 1, ".,_L", "F", "place_furnace"),
    (A.PLACE_PLANT, "sapling", 1, ".", "y", "place_plant"),
]
placements = pytest.mark.parametrize(("action", "item", "cost", "on", "sign", "name"), PLACEMENTS)


@placements
def test_placement(action, item, cost, on, sign, name):
    for block in SIGNS:
        placed = block in on
        after = f"> {sign}" if placed else f"> {block}"
        moment = becomes(f"> {block}", action, after, items={item: cost + 1})
        assert moment.items == {item: 1 if placed else cost + 1}
        gained(moment, *([name] if placed else []))


@placements
def test_placement_needs_its_price_and_a_free_cell_on_the_map(action, item, cost, on, sign, name):
    few = {item: cost - 1} if cost > 1 else {}
    assert becomes("> .", action, "> .", items=few).items == few
    enough = {item: cost}
    assert becomes("> C", action, "> C", items=enough).items == enough
    for at, drawing in (((0, 4), "^"), ((4, 0), "<"), ((15, 4), "v"), ((4, 15), ">")):
        state = scene.scene(drawing, at, fill=".", items=enough)
        (moment,) = play(state, action)
        assert moment.items == enough
        np.testing.assert_array_equal(moment.state.map, state.map)


def test_quirk_a_furnace_needs_no_table():
    gained(becomes("> .", A.PLACE_FURNACE, "> F", items={"stone": 1}), "place_furnace")


def test_plants_ripen_at_the_age_of_600():
    state = scene.scene("> .", items={"sapling": 1})
    young = play(state, A.PLACE_PLANT)[0]
    assert young.world.plants.planted[0] and young.world.plants.age[0] == 1
    for age, sign in ((598, "y"), (599, "Y"), (900, "Y")):
        grown = plant(0, 4, 5, age)
        moment = becomes("> y", A.NOOP, f"> {sign}", change=grown)
        assert moment.world.plants.age[0] == age + 1


def test_quirk_a_plant_beyond_the_slots_is_placed_and_never_ripens():
    def full(world):
        for i in range(10):
            world = plant(i, 12, 5 + i, 100)(world)
        return world

    moment = becomes("> .", A.PLACE_PLANT, "> y", items={"sapling": 1}, change=full)
    gained(moment, "place_plant")
    cells = list(zip(moment.world.plants.row, moment.world.plants.column, strict=True))
    assert cells == [(12, 5 + i) for i in range(10)]


# The following tests check moves.
WAYS = [(A.LEFT, "<", (0, -1)), (A.RIGHT, ">", (0, 1)), (A.UP, "^", (-1, 0)), (A.DOWN, "v", (1, 0))]


@pytest.mark.parametrize(("action", "sign", "step"), WAYS)
@pytest.mark.parametrize("block", SIGNS)
def test_moving_turns_and_goes_where_it_can(action, sign, step, block):
    state = scene.scene(". . . \n . > . \n . . .")
    row, column = 5 + step[0], 5 + step[1]
    state = state.replace(map=state.map.at[row, column].set(SIGNS[block]))
    (moment,) = play(state, action)
    goes = block in OPEN or block == "L"
    assert moment.position == ((row, column) if goes else (5, 5))
    assert scene.PLAYER[int(moment.world.facing) - 1] == sign
    assert moment.terminated == (block == "L")
    if block == "L":
        assert moment.vitals["health"] == 0 and moment.reward == pytest.approx(-0.9)


def test_mobs_and_the_border_are_in_the_way():
    becomes("> C", A.RIGHT, "> C")
    for at, drawing, action in (((0, 4), "^", A.UP), ((4, 0), "<", A.LEFT), ((15, 4), "v", A.DOWN)):
        assert play(scene.scene(drawing, at), action)[0].position == at


def test_quirk_lava_at_the_opposite_border_lets_the_player_out_and_die():
    for at, action, beyond, lava in (
        ((0, 4), A.UP, (-1, 4), (15, 4)),
        ((4, 0), A.LEFT, (4, -1), (4, 15)),
    ):
        state = scene.scene(">", at)
        state = state.replace(map=state.map.at[lava].set(Block.LAVA))
        (moment,) = play(state, action)
        assert moment.position == beyond and moment.terminated
    for at, action, lava in (((15, 4), A.DOWN, (0, 4)), ((4, 15), A.RIGHT, (4, 0))):
        state = scene.scene(">", at)
        state = state.replace(map=state.map.at[lava].set(Block.LAVA))
        assert play(state, action)[0].position == at


@pytest.mark.parametrize(
    "action", [a for a in CLASSIC.actions if a not in (A.LEFT, A.RIGHT, A.UP, A.DOWN)]
)
def test_nothing_else_turns_or_moves(action):
    (moment,) = play(scene.scene("v #"), action)
    assert moment.position == (4, 4) and moment.world.facing == A.DOWN


# The following tests check vitals and sleep.
@pytest.mark.parametrize(
    ("vital", "counter", "period"),
    [("food", "hunger", 26), ("drink", "thirst", 21), ("energy", "fatigue", 31)],
)
def test_needs_grow(vital, counter, period):
    state = scene.scene(">", counters={counter: 2 * (period - 2)})
    before, after = play(state, A.NOOP, A.NOOP)
    assert (before.vitals[vital], after.vitals[vital]) == (9, 8)
    assert before.counters[counter] == 2 * (period - 1) and after.counters[counter] == 0
    empty = scene.scene(">", counters={counter: 2 * (period - 1)}, vitals={vital: 0})
    assert play(empty, A.NOOP)[0].vitals[vital] == 0


def test_health_recovers_every_26_steps_and_in_need_falls_every_16():
    well = scene.scene(">", counters={"recover": 48}, vitals={"health": 5})
    assert [m.vitals["health"] for m in play(well, A.NOOP, A.NOOP)] == [5, 6]
    for need in ("food", "drink", "energy"):
        ill = scene.scene(">", counters={"recover": -28}, vitals={"health": 5, need: 0})
        moments = play(ill, A.NOOP, A.NOOP)
        assert [m.vitals["health"] for m in moments] == [5, 4]
        assert moments[1].reward == pytest.approx(-0.1)


def test_death_of_need_ends_the_episode():
    state = scene.scene(">", counters={"recover": -30}, vitals={"health": 1, "food": 0})
    (moment,) = play(state, A.NOOP)
    assert moment.terminated and moment.vitals["health"] == 0


def test_sleep_begins_only_when_tired_and_everything_is_slower():
    rested = play(scene.scene(">"), A.SLEEP)[0]
    assert not rested.world.sleeping and not rested.earned
    (moment,) = play(scene.scene(">", vitals={"energy": 8, "health": 5}), A.SLEEP)
    assert moment.world.sleeping
    assert moment.counters == {"recover": 4, "hunger": 1, "thirst": 1, "fatigue": -2}


def test_a_sleeping_player_takes_no_other_action():
    for action in CLASSIC.actions:
        state = scene.scene("> T", sleeping=True, vitals={"energy": 3}, items={"stone": 1})
        (moment,) = play(state, action)
        assert moment.world.sleeping and moment.items == {"stone": 1} and moment.position == (4, 4)


def test_sleep_gives_energy_every_11_steps_and_ends_the_step_after_it_is_full():
    state = scene.scene(">", sleeping=True, vitals={"energy": 8}, counters={"fatigue": -20})
    full, awake = play(state, A.NOOP, A.NOOP)
    assert full.vitals["energy"] == 9 and full.world.sleeping and not full.earned
    assert not awake.world.sleeping
    gained(awake, "wake_up")


def test_need_does_not_wake():
    state = scene.scene(
        ">", sleeping=True, vitals={"energy": 3, "food": 0}, counters={"recover": -30}
    )
    (moment,) = play(state, A.NOOP)
    assert moment.vitals["health"] == 8 and moment.world.sleeping
