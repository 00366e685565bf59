"""Tests of the numbers that describe a finished episode of Craft: achievements and deaths."""

import functools

import jax
import numpy as np
import pytest
import scene
from scene import ENV, quiet

import jaxenvs
from jaxenvs.craft import Action, diagnostics

GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once
NAMES = diagnostics.names(ENV.rules)


@functools.cache
def measured():
    return jax.jit(functools.partial(diagnostics.measure, ENV))


def found(before, action=Action.NOOP, **draws):
    """Return the numbers that are not 0 after one step from the state `before`."""
    after, _ = scene.advance()(before, np.int32(action), quiet(**draws), ENV.default_params)
    values = np.asarray(measured()(before, after.state))
    assert values.shape == (len(NAMES),) and values.dtype == np.float32
    return {name: float(x) for name, x in zip(NAMES, values, strict=True) if x}


def test_a_zombie_kills_a_sleeping_player():
    asleep = scene.scene(". > Z", vitals={"health": 1, "energy": 3}, sleeping=True)
    died = found(asleep, melee_gate=0.99)
    assert died.pop("achieved/wake_up") == 1
    assert died == {"died": 1, "died/asleep": 1, "died/by/zombie": 1}


def test_an_arrow_kills():
    given = scene.scene(". > l", fill="_", vitals={"health": 1, "food": 0})
    assert found(given) == {"died": 1, "died/food": 1, "died/by/arrow": 1}


def test_lava_kills():
    assert found(scene.scene(". > L"), Action.RIGHT) == {"died": 1, "died/lava": 1}


def test_thirst_kills():
    given = scene.scene(". > .", vitals={"health": 1, "drink": 0}, counters={"recover": -31})
    assert found(given) == {"died": 1, "died/drink": 1, "died/unhurt": 1}


def test_who_lives_has_no_cause_of_death():
    given = scene.scene(". > Z", vitals={"health": 9, "drink": 0}, sleeping=True)
    assert found(given).keys() == {"achieved/wake_up"}
    assert found(scene.scene(". > T"), Action.DO) == {"achieved/collect_wood": 1}


@pytest.mark.full
def test_the_deepest_floor_is_the_number_of_floors_entered():
    env = jaxenvs.make("Craft-Ids-v0")
    names = dict(zip(env.measures, range(len(env.measures)), strict=True))
    state = jax.jit(env.reset)(jax.random.key(0)).state
    both = jax.jit(functools.partial(diagnostics.measure, env))
    assert both(state, state)[names["deepest_floor"]] == 0
    world = env.world(state)
    bits = [env.achievements.index(name) for name in ("enter_dungeon", "enter_gnomish_mines")]
    earned = list(world.earned)
    for bit in bits:
        earned[bit // 31] = earned[bit // 31] | (1 << bit % 31)
    entered = env.packed(
        state.time, state.map, world._replace(earned=tuple(earned)),
        floors=state.floors, light=state.light,
    )  # fmt: skip
    values = both(state, entered)
    assert values[names["deepest_floor"]] == 2 and values[names["died"]] == 0
    assert values[names["achieved/enter_dungeon"]] == 1
