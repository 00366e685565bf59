"""Tests of tables and fields: tile bytes, mission words, observation spaces, invalid fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

import jaxenvs
from jaxenvs.grid import Action, Colour, Kind, Level, missions, tiles

IDS = jaxenvs.registry.list("Grid")
DOORS = {Kind.DOOR: "open", Kind.CLOSED_DOOR: "closed", Kind.LOCKED_DOOR: "locked"}
CODES = np.array([kind | colour << 4 for kind in Kind for colour in range(8)], np.uint8)


def test_numbers_are_the_packages():
    for kind in Kind:
        if kind not in (*DOORS, Kind.KEY_BOX):
            assert OBJECT_TO_IDX[kind.name.lower()] == kind
    assert {colour.name.lower(): int(colour) for colour in Colour} == COLOR_TO_IDX
    assert [action.name.lower() for action in Action] == [
        "left", "right", "forward", "pickup", "drop", "toggle", "done",
    ]  # fmt: skip


def test_every_byte_becomes_a_triple_and_comes_back():
    triples = np.asarray(tiles.encode(jnp.asarray(CODES)))
    assert triples.dtype == np.uint8
    # Triples hide the contents of a box, so a box with a key looks like a grey box.
    seen = np.where(CODES & 15 == Kind.KEY_BOX, Kind.BOX | Colour.GREY << 4, CODES)
    np.testing.assert_array_equal(tiles.decode(triples), seen)
    assert len({tuple(triple) for triple in triples.tolist()}) == len(set(seen.tolist()))
    for code, (thing, colour, state) in zip(seen.tolist(), triples.tolist(), strict=True):
        kind = Kind(code & 15)
        assert colour == code >> 4
        assert thing == (OBJECT_TO_IDX["door"] if kind in DOORS else kind)
        assert state == (STATE_TO_IDX[DOORS[kind]] if kind in DOORS else 0)


def test_a_byte_is_made_of_its_parts():
    codes = jnp.asarray(CODES)
    np.testing.assert_array_equal(tiles.tile(tiles.kind(codes), tiles.colour(codes)), CODES)
    fixed = [tiles.EMPTY, tiles.WALL, tiles.GOAL, tiles.LAVA]
    triples = [[1, 0, 0], [2, 5, 0], [8, 1, 0], [9, 0, 0]]
    np.testing.assert_array_equal(tiles.encode(jnp.array(fixed, jnp.uint8)), triples)


PREDICATES = {
    tiles.is_walkable: {Kind.EMPTY, Kind.FLOOR, Kind.GOAL, Kind.LAVA, Kind.DOOR},
    tiles.is_portable: {Kind.KEY, Kind.BALL, Kind.BOX, Kind.KEY_BOX},
    tiles.is_opaque: {Kind.WALL, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR},
}


@pytest.mark.parametrize("predicate", PREDICATES)
def test_predicates_depend_on_the_kind_alone(predicate):
    held = predicate(jnp.asarray(CODES))
    np.testing.assert_array_equal(held, [(code & 15) in PREDICATES[predicate] for code in CODES])


@pytest.mark.parametrize("text", sorted({jaxenvs.make(id).mission for id in IDS}))
def test_missions_come_back_from_their_words(text):
    words = missions.ids(text, 16)
    assert words.dtype == np.uint8 and words.shape == (16,)
    assert missions.text(words) == text


def test_a_mission_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="17 words"):
        missions.ids("the " * 17, 16)


def test_an_unknown_word_of_a_mission_is_an_error():
    with pytest.raises(KeyError):
        missions.ids("sing to the moon")


def test_a_level_takes_plain_numbers():
    level = Level.of(np.full((3, 4), tiles.EMPTY), 1, 2, 3)
    assert level.grid.dtype == np.uint8 and level.pose.dtype == np.int8
    assert level.pose.tolist() == [1, 2, 3]


def test_a_level_of_a_wrong_shape_is_refused_while_tests_run():
    """Only jaxtyping's import hook raises for wrong shapes; this test proves that it is active."""
    with pytest.raises(TypeError, match="pose"):
        Level(grid=jnp.zeros((3, 3), jnp.uint8), pose=jnp.zeros(4, jnp.int8))
    with pytest.raises(TypeError, match="grid"):
        Level(grid=jnp.zeros((3, 3), jnp.int32), pose=jnp.zeros(3, jnp.int8))


OBSERVATIONS = {
    "image": (7, 7, 3),
    "full": (6, 6, 3),
    "onehot": (7, 7, 20),
    "rgb": (56, 56, 3),
    "rgb_full": (48, 48, 3),
}


@pytest.mark.parametrize("obs", ["image", "full", *with_full("onehot", "rgb", "rgb_full", "dict")])
def test_observations_lie_in_their_space(obs):
    env = jaxenvs.make("Grid-DoorKey-6x6-v0", obs=obs)
    first = jax.jit(env.reset)(jax.random.key(0)).obs
    assert env.observation_space.contains(first)
    if obs == "dict":
        assert {name: (x.shape, x.dtype) for name, x in first.items()} == {
            "image": ((7, 7, 3), np.uint8),
            "direction": ((), np.int32),
            "mission": ((16,), np.uint8),
        }
    else:
        assert (first.shape, first.dtype) == (OBSERVATIONS[obs], np.uint8)


REFUSED = [
    ("Grid-v0", {"obs": "pixels"}, ValueError, "'rgb'"),
    ("Grid-v0", {"view_size": 6}, ValueError, "odd"),
    ("Grid-v0", {"view_size": 1}, ValueError, "from 3"),
    ("Grid-v0", {"view_size": 7.0}, TypeError, "int"),
    ("Grid-v0", {"tile_size": 0}, ValueError, "from 4"),
    ("Grid-v0", {"size": 3}, ValueError, "from 4"),
    ("Grid-v0", {"size": 128}, ValueError, "to 127"),
    ("Grid-v0", {"size": True}, TypeError, "int"),
    ("Grid-v0", {"see_through_walls": "yes"}, ValueError, "True"),
    ("Grid-DoorKey-5x5-v0", {"size": 4}, ValueError, "from 5"),
    ("Grid-LavaGapS5-v0", {"size": 4}, ValueError, "from 5"),
    ("Grid-LavaCrossingS9N1-v0", {"size": 8}, ValueError, "odd"),
    ("Grid-LavaCrossingS9N1-v0", {"crossings": 7}, ValueError, "from 1 to 6"),
    ("Grid-LavaCrossingS9N1-v0", {"obstacle": "water"}, ValueError, "'lava'"),
    ("Grid-DistShift1-v0", {"second_strip": 0}, ValueError, "from 1"),
]


@pytest.mark.parametrize(("id", "fields", "error", "fix"), REFUSED)
def test_a_wrong_field_is_refused_with_what_is_allowed(id, fields, error, fix, as_a_user):
    (name,) = fields
    with pytest.raises(error, match=name) as raised:
        jaxenvs.make(id, **fields)
    assert fix in str(raised.value)


@pytest.mark.parametrize("fields", [{"size": 4}, {"size": 5, "random_start": True}, {"size": 33}])
def test_other_sizes_work(fields):
    env = jaxenvs.make("Grid-v0", **fields)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    assert state.grid.shape == (env.size, env.size)
    assert env.default_params.max_steps_in_episode == 4 * env.size**2
    assert env.observation_space.contains(obs)
