"""Tests of worlds of Craft as text: states and levels, invalid texts, files of levels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import levels
from jaxenvs.craft.state import Slots
from jaxenvs.levels import LevelError

STEPS = 60
CLASSIC = "Craft-Classic-Ids-v0"
# Environments besides CLASSIC. With `kit=8`, the player starts on floor 8. With pixels, the state
# of the full game also stores the light.
FULL = (
    ("Craft-Classic-Pixels-v0", {}),
    ("Craft-Ids-v0", {}),
    ("Craft-Ids-v0", {"kit": 8}),
    ("Craft-Pixels-v0", {"kit": 4}),
)
# Text of a map of grass with two columns of trees, and text of a state on this map.
GRASS = "legend: . grass\nlegend: T tree\ngrid:\n" + "\n".join(["TT" + "." * 62] * 64)
TWICE = "time: 7\n" + "mob: type cow, slot 1, row 3\n" * 2
STATE = "time: 7\nplayer: row 3, column 5, facing up\nvitals: health 4\n" + GRASS


@pytest.fixture(scope="module")
def classic():
    return jaxenvs.make(CLASSIC)


@pytest.fixture(scope="module")
def played(classic):
    """Return the states of an episode of Classic with random actions."""
    return states(classic)


def states(env):
    """Return every twentieth state of an episode with random actions, the first one included."""
    state, step = jax.jit(env.reset)(jax.random.key(5)).state, jax.jit(env.step)
    found, draw = [state], np.random.default_rng(0)
    for i in range(STEPS):
        action = jnp.int32(draw.integers(env.action_space.n))
        state = step(jax.random.key(i), state, action).state
        found += [state] if i % 20 == 19 else []
    return found


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def check(env, found):
    """Check that reading the text of a state gives an equal state, which has the same text."""
    for state in found:
        text = levels.write(env, state)
        back = levels.read(env, text)
        assert_same(state, back)
        assert levels.write(env, back) == text


def test_reading_a_state_inverts_writing_it(classic, played):
    check(classic, played)


@pytest.mark.full
@pytest.mark.parametrize(("id", "fields"), FULL)
def test_reading_a_state_inverts_writing_it_on_every_floor(id, fields):
    env = jaxenvs.make(id, **fields)
    check(env, states(env))


@pytest.mark.parametrize(("id", "fields"), [(CLASSIC, {}), *with_full(*FULL)])
def test_a_level_that_was_read_begins_the_same_episode(id, fields):
    env = jaxenvs.make(id, **fields)
    level = jax.jit(env.sample_level)(jax.random.key(2))
    text = levels.write(env, level)
    back = levels.read(env, text)
    reset = jax.jit(env.reset_to)
    assert_same(reset(jax.random.key(0), level), reset(jax.random.key(0), back))
    assert levels.write(env, back) == text


@pytest.mark.full
def test_a_few_lines_are_a_state(classic):
    state = levels.read(classic, STATE)
    world = classic.world(state)
    assert (int(state.time), int(world.row), int(world.column)) == (7, 3, 5)
    assert (int(world.facing), int(world.vitals["health"])) == (3, 4)
    assert int(world.vitals["food"]) == 9 and not any(mob.alive for mob in world.mobs["melee"])
    assert int(state.map[0, 1]) == 5 and int(state.map[0, 2]) == 2
    after = classic.step(jax.random.key(0), state, jnp.int32(1)).state
    assert int(classic.world(after).column) == 4


def test_mobs_projectiles_and_plants_have_a_line_each(classic):
    things = (
        "mob: type cow, slot 1, row 3, column 9, health 2, alive yes, marked yes\n"
        "projectile: type arrow, slot 0, row 8, column 8, d_row 0, d_column 1, alive yes\n"
        "plant: slot 4, row 2, column 2, age 599, planted yes\n"
        "achievements: collect_wood, wake_up\nitems: wood 3, iron_sword 1\n"
    )
    world = classic.world(levels.read(classic, things + STATE))
    cow, arrow = world.mobs["passive"][1], world.projectiles[0]
    assert (int(cow.row), int(cow.column), int(cow.health), bool(cow.alive)) == (3, 9, 2, True)
    assert (int(arrow.d_column), bool(arrow.alive)) == (1, True)
    assert (int(world.plants.age[4]), bool(world.plants.planted[4])) == (599, True)
    assert (int(world.items["wood"]), int(world.items["iron_sword"])) == (3, 1)
    assert int(world.earned[0]) == 1 << 0 | 1 << 15


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "legend: T tree",
            "legend: T tee",
            "line 5.*'tee' is no block; known .* did you mean 'tree'",
        ),
        ("legend: T tree", "legend: T tree lit", "'lit' does not fit here; .* write nothing"),
        ("legend: T tree", "legend: . tree", "character '.' is already explained"),
        ("legend: T tree", "legend: tree", "write a character and a block"),
        ("legend: T tree\n", "", "line 6, column 1: unknown character 'T'; explain it"),
        ("TT" + "." * 62 + "\nTT", "TT", "the picture has 63 rows, expected 64"),
        ("\nTT..", "\nTT.", "line 7, column 64: the row has 63 characters, expected 64"),
        ("row 3", "row 64", "row 64: rows and columns are 0 to 63"),
        ("row 3", "raw 3", "unknown value 'raw'; known are row, .* did you mean 'row'"),
        ("row 3", "row 3, row 4", "row is given twice"),
        ("facing up", "facing north", "'north' is no direction; known are left, right, up, down"),
        ("facing up", "facing 7", "'7' is no direction; known are left, right, up, down"),
        ("health 4", "health many", "'many' must be a whole number from 0 to 255"),
        ("time: 7", "time: 7\nmob: type cow, row 3", "write the slot, 0 to 2"),
        (
            "time: 7",
            "time: 7\nmob: type bear, slot 0",
            "'bear' is no mob; known are zombie",
        ),
        ("time: 7", TWICE, "an earlier line has the passive slot 1, too; remove one"),
        ("time: 7", "time: 7\nmob: type cow, slot 0, row 300", "whole number from 0 to 255"),
        ("row 3", "row " + "9" * 500, "'9{57}\\.\\.\\.' must be a whole number from -1 to 254"),
        ("time: 7", "time: 7\nachievements: wake_up, wake_up", "wake_up is given twice"),
        ("time: 7", "time: 7\nmob:", "write one `type`, such as `type zombie`"),
        ("time: 7", "time: 7\nmob: type cow, slot 0, alive 1", "alive is '1'; write yes or no"),
        ("time: 7", "time: 7\nmob: slot 0", "write one `type`, such as `type zombie`"),
        ("time: 7", "time: 7\nplant: slot 10", "write the slot, 0 to 9"),
        (
            "time: 7",
            "time: 7\nachievements: fly",
            "'fly' is no achievement; known are",
        ),
        ("time: 7\n", "", "a level has no such line; a state also has a line `time: 0`"),
        ("time: 7", "time: -7", "must be a whole number from 0"),
        ("time: 7", "kit: dungeon\ntime: 7", "unknown name `kit`"),
    ],
)
def test_invalid_texts_say_what_is_wrong(classic, as_a_user, old, new, says):
    assert old in STATE
    with pytest.raises(LevelError, match=says):
        levels.read(classic, STATE.replace(old, new, 1))


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_mutated_texts_raise_nothing_but_level_errors(classic, played, as_a_user, count):
    draw, refused = np.random.default_rng(1), 0
    texts = [levels.write(classic, state) for state in played[1:]]
    for i in range(count):
        text = list(texts[i % len(texts)])
        head = "".join(text).index("grid:")
        for _ in range(draw.integers(1, 6)):
            at = draw.integers(head + 200)
            text[at : at + draw.integers(3)] = chr(draw.integers(9, 300))
        try:
            levels.write(classic, levels.read(classic, "".join(text)))
        except LevelError:
            refused += 1
    assert refused > count / 2


def test_files_of_levels_begin_episodes_and_states_do_not(classic, tmp_path):
    drawn = [jax.jit(classic.sample_level)(jax.random.key(i)) for i in range(2)]
    levels.save(tmp_path / "maps.txt", drawn, classic)
    env = jaxenvs.make(CLASSIC, levels=str(tmp_path / "maps.txt"))
    begun = jax.jit(env.reset)(jax.random.key(0)).state
    assert any(np.array_equal(begun.map, level.map) for level in drawn)
    (tmp_path / "state.txt").write_text(STATE)
    with pytest.raises(ValueError, match="level 0 is a state, as its line `time:` says"):
        jaxenvs.make(CLASSIC, levels=str(tmp_path / "state.txt"))


@pytest.mark.full
def test_in_the_full_game_values_have_all_bits_and_lines_name_floors(as_a_user):
    env = jaxenvs.make("Craft-Ids-v0")
    state = jax.jit(env.reset)(jax.random.key(1)).state
    world = env.world(state)
    zero, third = jnp.float32(-0.0), jnp.float32(1) / 3
    world = world._replace(mana_counter=zero, vitals={**world.vitals, "health": third})
    state = env.packed(state.time, state.map, world, floors=state.floors, light=state.light)
    check(env, [state])
    bad = world._replace(mana_counter=jnp.float32(np.nan))
    bad = env.packed(state.time, state.map, bad, floors=state.floors, light=state.light)
    with pytest.raises(ValueError, match="mana_counter is nan, which no text can describe"):
        levels.write(env, bad)
    text = levels.write(env, state)
    without_floors = "\n".join(row for row in text.split("\n") if not row.startswith("floor"))
    for line, says in (
        ("floor: floor 9, kills 1", "'9' must be a whole number from 0 to 8"),
        ("mob: floor 3, type lizard, slot 0, health many", "health is 'many'; write a number"),
        ("kit: dungeon", "a state has no such line; a level has it, and no line `time:`"),
        ("light: ff*2304", "begin the line with the floor, such as `floor 3,`"),
        ("light: floor 0, ff*2304\nlight: floor 0, 00*2304", "about the same floor; remove one"),
        ("light: floor 0, ff*", "'' must be a whole number from 1 to 2304"),
        ("light: floor 0, ff*9999", "'9999' must be a whole number from 1 to 2304"),
        ("floor: floor 3, down_row 63", "down_row 63: rows and columns are 0 to 47"),
        ("floor: floor 3, kills 1\nfloor: floor 3, kills 2", "about the same floor; remove one"),
        ("mob: floor 3, type lizard, slot 0, health 1e39", "health is '1e39'; write a number"),
        ("mob: floor 3, type lizard, slot 0, health 1_0", "health is '1_0'; write a number"),
        ("light: floor 0, ff*2", "the floor has 2304 cells, the line 2"),
        ("light: floor 0, f", "'f' is no light; write two digits 0 to f, such as ff\\*48"),
    ):
        with pytest.raises(LevelError, match=says):
            levels.read(env, f"{line}\n{without_floors}")
    lizard = "mob: floor 3, type lizard, slot 2, row 4, column 7, cooldown 0, alive yes, health 2.5"
    found = levels.read(env, f"{lizard}\n{text}")
    assert (found.words == state.words).all() and (found.floors[:3] == state.floors[:3]).all()
    assert (found.floors[3] != state.floors[3]).any()
    assert lizard in levels.write(env, found).split("\n")


@pytest.mark.full
def test_ladders_of_a_level_lie_on_the_map(as_a_user):
    env = jaxenvs.make("Craft-Ids-v0")
    floor = "\n".join(["." * 48] * 48)
    text = "legend: . grass lit\ngrid:\n" + "\n\n".join([floor] * 9)
    assert (levels.read(env, text).light == 1).all()
    for line, says in (
        ("floor: floor 0, down_row 48", "down_row 48: rows and columns are 0 to 47"),
        ("floor: floor 8, up_column 60", "up_column 60: rows and columns are 0 to 47"),
        ("kit: sword", "'sword' is no kit; known are nothing, dungeon"),
        ("effects: red 8", "'8' must be a whole number from 0 to 7"),
    ):
        with pytest.raises(LevelError, match=says):
            levels.read(env, f"{line}\n{text}")


def test_a_text_that_is_too_long_to_be_read_is_refused(classic, played):
    entry = levels.Entry(played[0], notes={"source": "x" * 65_536})
    with pytest.raises(ValueError, match="only texts of up to 65,536 can be read; save_state"):
        levels.write(classic, entry)


@pytest.mark.full
def test_other_sizes_and_slots_have_texts():
    env = jaxenvs.make(CLASSIC, size=32, slots=Slots(melee=2, plant=3))
    check(env, states(env)[-1:])


def test_a_map_without_a_text_is_refused(classic):
    level = jax.jit(classic.sample_level)(jax.random.key(0))
    with pytest.raises(ValueError, match="the map has the byte 200, which is no cell"):
        levels.write(classic, level.replace(map=level.map.at[0, 0].set(200)))
