"""Tests of facts (things that the agent has or knows in a state), descriptions and controls."""

import jax.numpy as jnp
import numpy as np
import pytest
from market import Market, Purse

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.core.controls import ActionKeys, Controls, sign
from jaxenvs.core.facts import Fact, a, away, bar, count, listed, sentences
from jaxenvs.puzzles.puzzle import PuzzleState

CRAFT = jaxenvs.make("Craft-Classic-Ids-v0")


class Bazaar(Market):
    """Environment `Market` with facts and names of actions."""

    action_names = ("left", "buy", "sell")

    def facts(self, state, params=None):
        return Fact("", "get rich", "sentence"), bar("mood", 2, 5), count("coins", int(state.coins))


PURSE = Purse(time=jnp.int32(0), coins=jnp.int32(3))


def test_the_defaults_serve_any_environment():
    env = Market()
    assert [row.keys for row in env.controls.actions] == [("0",), ("1",), ("2",)]
    assert env.controls.actions[2].name == "action 2" and env.controls.pointing is None
    assert env.facts(PURSE) == () and env.icon("coin", 8, (0, 0, 0)) is None
    assert env.features.space is env.observation_space and env.features.of(PURSE) is PURSE
    assert env.describe(PURSE) == "Observation:\n[[3 3]\n [3 3]]"


def test_names_give_keys_and_facts_give_sentences():
    env = Bazaar()
    assert env.controls.actions[0] == ActionKeys("left", ("left", "a"))
    assert env.describe(PURSE).splitlines()[:3] == [
        "Get rich.",
        "Mood 2 of 5.",
        "You have 3 coins.",
    ]


def test_actions_that_are_not_discrete_have_no_keys():
    class Arm(Market):
        action_space = jaxenvs.spaces.Box(-1.0, 1.0, (2,), np.float32)

    assert Arm().controls == Controls()


def test_many_numbers_are_not_written_out():
    class Camera(Market):
        def observe(self, state, params=None):
            return {"image": jnp.zeros((64, 64, 3), jnp.uint8), "hour": jnp.int32(7)}

    assert Camera().describe(PURSE).splitlines() == [
        "Hour: 7",
        "Image: uint8 (64, 64, 3), too many numbers to write.",
    ]


@pytest.mark.parametrize("kind", ["EpisodeStatistics", "StickyAction", "FrameStack", "Flatten"])
def test_wrappers_pass_on_what_the_environment_says(kind):
    env = getattr(wrappers, kind)(env=Bazaar())
    state = PURSE
    if kind not in ("Flatten",):
        state = wrappers.WrappedState(env=PURSE, memory=())
    assert env.controls == Bazaar().controls and env.status_rows == 0
    assert env.facts(state) == Bazaar().facts(PURSE)
    assert env.describe(state) == Bazaar().describe(PURSE)
    icons = [
        getattr(wrappers, kind)(env=CRAFT).icon("wood", 8, (0, 0, 0)),
        CRAFT.icon("wood", 8, (0, 0, 0)),
    ]
    np.testing.assert_array_equal(*icons)


def test_features_follow_the_environment_where_a_wrapper_leaves_the_observation():
    counted = wrappers.EpisodeStatistics(env=CRAFT)
    assert counted.features.space.shape == (1345,) and counted.features == CRAFT.features
    stacked = wrappers.FrameStack(env=CRAFT)
    assert stacked.features.space == stacked.observation_space


def test_places_of_a_wrapped_puzzle_are_those_of_its_state():
    env = jaxenvs.make("Puzzle-TSP-10-v0")
    level = env.read_level("\n".join(f"{i / 10} {0.2 + i % 2 / 2}" for i in range(10)))
    inside = PuzzleState(time=jnp.int32(0), board=level.board, instance=level.instance)
    pointing = wrappers.EpisodeStatistics(env=env).controls.pointing
    assert pointing.action(wrappers.WrappedState(env=inside, memory=()), (3, 7)) == 4


def test_every_id_has_a_name_and_controls_for_each_action():
    for id in jaxenvs.registry.list():
        env = jaxenvs.make(id)
        names = [row.name for row in env.controls.actions]
        assert len(names) == len(set(names)), id
        given = env.controls.values  # None: actions are plain indices
        count = len(given) if given else env.action_space.n
        assert len(names) == count, id
        assert given or count == len(env.action_names), id


def test_words():
    assert [a("key"), a("open door")] == ["a key", "an open door"]
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
    assert away(2, -1) == "2 steps ahead and 1 to the left" and away(-1, 0) == "1 step behind"
    assert away(0, 1) == "1 step to the right" and away(0, 0) == "here"
    assert sentences([count("wood", 0)]) == ["You have nothing."]
    assert [sign("U"), sign("return"), sign("left")] == ["Shift U", "Enter", "Left"]
