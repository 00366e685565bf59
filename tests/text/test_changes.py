"""Tests of `describe_changes`, which says in words how a state differs from the state before."""

import itertools

import jax
import numpy as np

import jaxenvs

DOORKEY = jaxenvs.make("Grid-DoorKey-5x5-v0")


def played(env, *actions, seed=0):
    """Return the states of an episode, given the names of its actions."""
    states = [env.reset(jax.random.key(seed)).state]
    for name in actions:
        action = np.int32(env.action_names.index(name))
        states.append(env.step(jax.random.key(0), states[-1], action).state)
    return states


def changes(env, *actions, seed=0):
    states = played(env, *actions, seed=seed)
    return [env.describe_changes(*pair) for pair in itertools.pairwise(states)]


def test_a_key_that_is_picked_up_is_carried_and_no_longer_seen():
    *_, last = changes(DOORKEY, "left", "pick up")
    assert last.splitlines()[:2] == [
        "You now carry a yellow key.",
        "You no longer see a yellow key.",
    ]


def test_an_action_without_effect_changes_nothing():
    assert changes(DOORKEY, "drop") == ["Nothing changed."]


def test_a_turn_names_the_new_direction_only_if_it_is_observed():
    whole = jaxenvs.make("Grid-DoorKey-5x5-v0", obs="full")
    assert changes(whole, "left")[0].startswith("You now face ")
    assert "face" not in changes(DOORKEY, "left")[0]


def test_rows_of_a_board_that_changed_are_quoted():
    env = jaxenvs.make("Puzzle-LightsOut-5x5-v0")
    (text,) = changes(env, "0,0")
    rows = text.splitlines()
    assert [row[:5] for row in rows] == ["Row 1", "Row 2"] and "became" in rows[0]


def test_changes_of_the_inventory_and_the_vitals_are_named():
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    state = env.reset(jax.random.key(0)).state
    world = env.world(state)
    items = {**world.items, "wood": world.items["wood"] + 2, "sapling": world.items["sapling"] + 1}
    richer = world._replace(items=items, vitals={**world.vitals, "food": world.vitals["food"] - 2})
    after = env.packed(state.time, state.map, richer)
    assert env.describe_changes(state, after).splitlines() == [
        "Food is now 7 of 9, it was 9 of 9.",
        "You gained 2 wood and 1 sapling.",
    ]
    assert env.describe_changes(after, state).splitlines()[1] == "You lost 2 wood and 1 sapling."
