"""Tests of mobs and arrows in Craft-Classic, on states that are drawn as text (see scene.py).

Tests whose names contain `quirk` check odd behaviour of craftax that this library reproduces.
"""

import jax.numpy as jnp
import pytest
import scene
from scene import SIGNS, becomes, mob, play, quiet, set_slot

from jaxenvs.craft import Action, Block
from jaxenvs.craft.tables import ROLES

A = Action
GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once
SOLID = "~#TciDBFyY"


# The following tests check fighting.
@pytest.mark.full
@pytest.mark.parametrize(
    ("sign", "kind", "name"),
    [
        ("Z", "melee", "defeat_zombie"),
        ("C", "passive", "eat_cow"),
        ("S", "ranged", "defeat_skeleton"),
    ],
)
def test_a_mob_is_hit_until_it_is_dead(sign, kind, name):
    health = 5 if kind == "melee" else 3
    shut = f"# # # \n > {sign} # \n # # #"
    hits = play(scene.scene(shut, vitals={"food": 2}), *[A.DO] * health)
    assert [m.mob(kind).health for m in hits] == list(range(health - 1, -1, -1))
    assert [m.mob(kind).alive for m in hits] == [True] * (health - 1) + [False]
    assert hits[-1].earned == {name} and name not in hits[-2].earned
    assert hits[-1].vitals["food"] == (8 if kind == "passive" else 2)
    assert not hits[-1].mob(kind).marked
    assert not hits[-1].items, "what is behind the mob is not gathered"


@pytest.mark.parametrize(
    ("items", "damage"),
    [
        ({}, 1),
        ({"wood_sword": 1}, 2),
        ({"stone_sword": 1}, 3),
        ({"iron_sword": 1}, 5),
        ({"wood_sword": 1, "stone_sword": 1, "iron_sword": 1}, 5),
        ({"wood_sword": 2}, 4),
        ({"stone_sword": 2, "iron_sword": 1}, 6),
        ({"iron_sword": 9}, 45),
    ],
)
def test_quirk_damage_grows_with_the_number_of_swords(items, damage):
    strong = set_slot("passive", 0, mob(4, 5, health=31))
    (moment,) = play(scene.scene("> C", items=items, change=strong), A.DO)
    assert moment.mob("passive").health == max(31 - damage, 0)


def test_quirk_do_revives_dead_mobs_with_health():
    """Check that DO revives dead mobs with health, and that other actions do not.

    A revived mob that is too far from the player vanishes in the same step.
    """
    dead = set_slot("passive", 1, mob(6, 6, health=2, alive=False, marked=False))
    before = "> # \n . ."
    for action in (A.NOOP, A.LEFT, A.PLACE_STONE):
        assert not play(scene.scene(before, change=dead), action)[0].mob("passive", 1).alive
    (moment,) = play(scene.scene(before, change=dead), A.DO)
    assert moment.mob("passive", 1) == (6, 6, 2, 0, 0, True, True)
    for health, row in ((0, 6), (2, 18)):
        gone = set_slot("melee", 2, mob(row, 6, health, alive=False, marked=False))
        state = scene.scene(before, change=gone)
        if row < scene.SIZE:
            assert not play(state, A.DO)[0].mob("melee", 2).alive
    far = set_slot("passive", 1, mob(15, 15, health=2, alive=False, marked=False))
    assert not play(scene.scene(">", (0, 0), change=far), A.DO)[0].mob("passive", 1).alive


def test_quirk_a_revived_mob_blocks_nothing_until_it_has_moved():
    """Check a DO that revives a mob ahead: it collects the mob's block and does not hit the mob."""
    dead = set_slot("passive", 0, mob(4, 5, health=2, alive=False, marked=False))
    moment = becomes("> T", A.DO, "> C", change=dead)
    assert moment.items == {"wood": 1} and moment.mob("passive").health == 2
    assert moment.mob("passive").marked


# The following tests check zombies.
def test_zombies_approach_along_the_longer_axis_when_the_draw_allows():
    near = quiet(melee_gate=0.7499)
    becomes("> . . Z", A.NOOP, "> . Z .", draws=near)
    far = quiet(melee_gate=0.7501, melee_step=1)
    becomes("> . . Z .", A.NOOP, "> . . . Z", draws=far)
    for axis, after in ((0.5, "> . . \n . . Z \n . . ."), (0.4999, "> . . \n . . . \n . Z .")):
        draws = quiet(melee_gate=0.0, melee_axis=axis)
        becomes("> . . \n . . . \n . . Z", A.NOOP, after, draws=draws)


@pytest.mark.parametrize(("distance", "comes"), [(9, True), (10, False)])
def test_zombies_notice_a_player_nearer_than_ten_steps(distance, comes):
    state = scene.scene("> " + ". " * (distance - 1) + "Z", at=(4, 0))
    (moment,) = play(state, A.NOOP, draws=quiet(melee_gate=0.0, melee_step=1))
    assert moment.mob("melee").column == (distance - 1 if comes else distance + 1)


def test_zombies_hit_when_adjacent_to_the_player_and_then_wait():
    moments = play(scene.scene("# # # \n > Z # \n # # #"), *[A.NOOP] * 7)
    assert [m.vitals["health"] for m in moments] == [7, 7, 7, 7, 7, 7, 5]
    assert [m.mob("melee").cooldown for m in moments] == [5, 4, 3, 2, 1, 0, 5]
    assert moments[0].reward == pytest.approx(-0.2)


def test_a_hit_on_a_sleeping_player_is_harder_and_wakes_with_the_achievement():
    (moment,) = play(scene.scene("# # \n > Z", sleeping=True, vitals={"energy": 3}), A.NOOP)
    assert moment.vitals["health"] == 2 and not moment.world.sleeping
    assert moment.earned == {"wake_up"} and moment.reward == pytest.approx(1 - 0.7)


def test_quirk_the_second_zombie_hits_an_awake_player():
    asleep = scene.scene("Z > Z", sleeping=True, vitals={"energy": 3})
    # Health 9 - 7 - 2: the first blow hits a sleeping player, the second a player who is awake.
    assert play(asleep, A.NOOP)[0].vitals["health"] == 0


@pytest.mark.parametrize("block", [*SOLID, "L"])
def test_zombies_go_nowhere_solid_or_into_lava(block):
    becomes(f"> . . {block} Z", A.NOOP, f"> . . {block} Z", draws=quiet(melee_gate=0.0))


@pytest.mark.parametrize(("distance", "stays"), [(13, True), (14, False)])
def test_mobs_vanish_far_from_the_player(distance, stays):
    for sign, (kind, _) in scene.MOBS.items():
        state = scene.scene("> " + ". " * (distance - 1) + sign, at=(4, 0))
        (moment,) = play(state, A.NOOP)
        assert moment.mob(kind).alive == stays and moment.mob(kind).health > 0


def test_quirk_dead_mobs_go_on_moving_and_cooling():
    dead = set_slot("melee", 0, mob(4, 8, health=0, cooldown=3, alive=False, marked=False))
    (moment,) = play(scene.scene("> . . . .", change=dead), A.NOOP)
    assert moment.mob("melee") == (4, 7, 0, 2, 0, False, False)


# The following tests check cows.
@pytest.mark.parametrize("step", range(8))
def test_cows_wander_half_of_the_time(step):
    (moment,) = play(scene.scene("> . . \n . . . \n . . C"), A.NOOP, draws=quiet(passive_step=step))
    move = [(0, -1), (0, 1), (-1, 0), (1, 0)][step] if step < 4 else (0, 0)
    assert (moment.mob("passive").row - 6, moment.mob("passive").column - 6) == move


def test_mobs_move_one_after_another():
    """Check that a cow can enter a cell that an earlier cow leaves in the same step.

    Check also that a cow cannot enter the cell of a later cow, which has not moved yet.
    """
    becomes("> . . C C .", A.NOOP, "> . C C . .", draws=quiet(passive_step=0))
    becomes("> . . C C .", A.NOOP, "> . . C . C", draws=quiet(passive_step=1))


# The following tests check skeletons and arrows.
def test_skeletons_shoot_from_four_or_five_steps():
    for gap, shoots in ((2, False), (3, True), (4, True), (5, False)):
        state = scene.scene("> " + "_ " * gap + "S_ _ _", at=(4, 0))
        (moment,) = play(state, A.NOOP, draws=quiet(ranged_step=1))
        assert bool(moment.world.projectiles[0].alive) == shoots
        assert moment.mob("ranged").cooldown == (4 if shoots else 0)
        assert moment.mob("ranged").column == gap + 1 + (not shoots)
        if shoots:  # the arrow has already flown one cell in the step of the shot
            assert int(moment.world.projectiles[0].column) == gap


def test_skeletons_shoot_when_they_cannot_flee():
    draws = quiet(ranged_gate=0.86)
    becomes("> . S # \n # # # #", A.NOOP, "> l S # \n # # # #", draws=draws)
    becomes("> . S .", A.NOOP, "> . . S", draws=draws)


@pytest.mark.parametrize(("gate", "column"), [(0.8501, 9), (0.85, 11)])
def test_distant_skeletons_approach_when_the_draw_allows(gate, column):
    draws = quiet(ranged_gate=gate, ranged_step=1)
    (moment,) = play(scene.scene("> " + "_ " * 9 + "S_ _", at=(4, 0)), A.NOOP, draws=draws)
    assert moment.mob("ranged").column == column


def test_quirk_a_skeleton_waits_even_if_it_had_no_arrow():
    flying = "u u u . . .\n. . . . . .\n > . . . S_ #"
    (moment,) = play(scene.scene(flying), A.NOOP)
    assert moment.mob("ranged").cooldown == 4
    assert [int(a.d_row) for a in moment.world.projectiles] == [-1] * 3


def test_an_arrow_hits_and_ends_and_wakes_without_an_achievement():
    state = scene.scene("> l .", sleeping=True, vitals={"energy": 3})
    (moment,) = play(state, A.NOOP)
    assert moment.vitals["health"] == 7 and not moment.world.sleeping
    assert not moment.earned and not moment.world.projectiles[0].alive


@pytest.mark.parametrize("block", SIGNS)
def test_arrows_cross_open_blocks_and_water_and_break_tables_and_furnaces(block):
    left = "_" if block in "BF" else block
    flies = block in ".,_L~"
    after = f". . {'r' + block if flies else left} ." if block != "." else ". . r ."
    becomes(f". r {block} .\n v . . .", A.NOOP, after + "\n v . . .")


def test_arrows_end_at_mobs_and_the_border():
    moment = becomes("r C \n v .", A.NOOP, ". C \n v .")
    assert moment.mob("passive").health == 3
    assert not play(scene.scene("l . \n v .", at=(4, 0)), A.NOOP)[0].world.projectiles[0].alive


def test_quirk_an_arrow_that_leaves_above_or_left_breaks_the_table_at_the_opposite_border():
    for drawing, at, table, breaks in (
        ("u . v", (0, 4), (15, 4), True),
        ("l . v", (4, 0), (4, 15), True),
        ("d . v", (15, 4), (0, 4), False),
    ):
        state = scene.scene(drawing, at)
        state = state.replace(map=state.map.at[table].set(Block.CRAFTING_TABLE))
        block = play(state, A.NOOP)[0].block(*table)
        assert block == (Block.PATH if breaks else Block.CRAFTING_TABLE)


# The following tests check mobs that appear.
APPEARS = [
    ("passive", 0.1, ".", 4),
    ("melee", 0.02, "._", 10),
    ("ranged", 0.05, "_", 10),
]
appears = pytest.mark.parametrize(("kind", "chance", "blocks", "nearest"), APPEARS)


def born(kind, state, uniform=0.0, place=0.5):
    draws = quiet(appears={kind: uniform}, place={kind: place})
    return play(state, A.NOOP, draws=draws)[0].mob(kind)


@appears
def test_mobs_appear_on_their_ground_at_their_distance(kind, chance, blocks, nearest):
    for sign in SIGNS:
        for distance in (nearest - 1, nearest, 13, 14):
            # The mob can appear only on the cell with the block `sign`; all other cells are sand.
            state = scene.scene("> " + ", " * (distance - 1) + sign, at=(4, 0), time=59)
            found = born(kind, state)
            assert found.alive == (sign in blocks and nearest <= distance < 14), (sign, distance)
            if found.alive:
                assert (found.row, found.column) == (4, distance)
                assert found.health == {"melee": 5}.get(kind, 3) and found.marked


@appears
def test_mobs_appear_with_their_chance(kind, chance, blocks, nearest):
    # Time 60 is full daylight.
    state = scene.scene("> " + ", " * 10 + blocks[0], at=(4, 0), time=60)
    assert born(kind, state, uniform=chance - 1e-4).alive
    assert not born(kind, state, uniform=chance + 1e-4).alive
    night = state.replace(time=jnp.int32(210))
    more = chance + (0.1 if kind == "melee" else 0)
    assert born(kind, night, uniform=more - 1e-4).alive
    assert not born(kind, night, uniform=more + 1e-4).alive


@appears
def test_every_allowed_cell_has_its_number(kind, chance, blocks, nearest):
    """Check which of four allowed cells in a row each uniform draw chooses.

    Cells are numbered row by row. Low draws choose the last cells, high draws the first.
    """
    columns = [4, 6, 8, 9]
    state = scene.scene(">", at=(0, 6))
    state = state.replace(map=state.map.at[10, jnp.array(columns)].set(SIGNS[blocks[0]]))
    for column, place in zip(columns, (0.99, 0.7, 0.3, 0.01), strict=True):
        assert born(kind, state, place=place).column == column


def test_no_mob_appears_where_one_is_or_when_all_slots_are_taken():
    state = scene.scene("> , , , , C", change=None)
    # A cow occupies the only grass cell, so no other cow appears.
    assert not born("passive", state).cooldown
    assert sum(bool(m.alive) for m in play(state, A.NOOP)[0].world.mobs["passive"]) == 1
    full = scene.scene("> , , , , C C C . . .")
    draws = quiet(appears=dict.fromkeys(ROLES, 0.0))
    assert [int(m.column) for m in play(full, A.NOOP, draws=draws)[0].world.mobs["passive"]] == [
        9,
        10,
        11,
    ]


def test_quirk_a_new_mob_keeps_the_cooldown_of_its_slot():
    old = set_slot("melee", 0, mob(9, 9, health=0, cooldown=5, alive=False, marked=False))
    state = scene.scene("> " + ", " * 10 + ".", at=(4, 0), change=old)
    found = born("melee", state)
    assert found.alive and found.cooldown == 4


def test_quirk_a_full_role_marks_its_first_mob_again():
    """Check that a cow without a mark is marked again if all cow slots are alive.

    A mob's mark says that its cell counts as occupied. The first and the last cow share a cell.
    When the last cow leaves, the first cow loses its mark. If all slots are alive, `spawn._filled`
    marks the first cow again in the same step.
    """

    def together(world):
        cows = (mob(4, 8), mob(4, 12), mob(4, 8))
        return world._replace(mobs={**world.mobs, "passive": cows})

    moves = jnp.array([4, 4, 1], jnp.int32)
    state = scene.scene(">", change=together)
    (moment,) = play(state, A.NOOP, draws=quiet(passive_step=moves))
    assert [moment.mob("passive", i).marked for i in range(3)] == [True, True, True]
    two = lambda world: together(world)._replace(  # noqa: E731
        mobs={
            **world.mobs,
            "passive": (mob(4, 8), mob(4, 12, 0, alive=False, marked=False), mob(4, 8)),
        }
    )
    (moment,) = play(scene.scene(">", change=two), A.NOOP, draws=quiet(passive_step=moves))
    assert [moment.mob("passive", i).marked for i in range(3)] == [False, False, True]


def test_quirk_no_other_role_appears_on_a_cell_marked_again():
    """Check that no zombie or skeleton appears on the cell of a cow that is marked again.

    A mob's mark says that its cell counts as occupied. Two cows start on the only cell where a
    zombie could appear. When the last cow leaves, the first cow stays and loses its mark, but
    `spawn._filled` marks this cow again, because all cow slots are alive.
    """

    def crowded(world):
        cows = (mob(4, 11), mob(8, 2), mob(4, 11))
        return world._replace(mobs={**world.mobs, "passive": cows})

    state = scene.scene("> " + ", " * 10 + "_", at=(4, 0), change=crowded)
    draws = quiet(
        passive_step=jnp.array([4, 4, 1], jnp.int32), appears={"melee": 0.0, "ranged": 0.0}
    )
    (moment,) = play(state, A.NOOP, draws=draws)
    assert moment.mob("passive", 2).column == 12 and moment.mob("passive", 0).column == 11
    assert not moment.mob("melee").alive and not moment.mob("ranged").alive
    lone = set_slot("passive", 0, mob(8, 2))
    state = scene.scene("> " + ", " * 10 + "_", at=(4, 0), change=lone)
    assert play(state, A.NOOP, draws=draws)[0].mob("melee").column == 11
