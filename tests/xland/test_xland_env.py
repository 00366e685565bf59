"""Tests of XLand's environment: invalid rulesets, params, observations, text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.xland import Goal, Level, Rule, Ruleset, XLand, facts, parse_ruleset, tiles

ENV = XLand(size=9, num_rules=3, num_tiles=4)
BALL, SQUARE, PYRAMID = (3, 1), (4, 2), (5, 3)
LAID = [BALL, SQUARE]
NEAR = (Rule.NEAR, *BALL, *SQUARE, *PYRAMID)
REFUSED = {
    "rule 1 names no tile: its product is (0, 0)": (
        (Goal.HOLD, *BALL), [NEAR, (Rule.HOLD, *BALL)], LAID,
    ),
    "rule 0 names no tile: its second tile is (13, 1)": (
        (Goal.HOLD, *BALL), [(Rule.UP, *BALL, 13, 1, *BALL)], LAID,
    ),
    "rule 0 has the kind 12, which does not exist": ((Goal.HOLD, *BALL), [(12, 3, 1)], LAID),
    "its goal has the kind 15, which does not exist": ((15,), [], LAID),
    "its goal names no tile: its tile is (3, 0)": ((Goal.ON, 3, 0), [], LAID),
    "initial tile 1 is (3, 12)": ((Goal.HOLD, *BALL), [], [BALL, (3, 12)]),
    "row 9, column 2; rows and columns of this environment are 0 to 8": (
        (Goal.AGENT_AT, 9, 2), [], LAID,
    ),
    "a blue pyramid is neither on the map nor made by a rule": ((Goal.HOLD, *PYRAMID), [], LAID),
    "a green star is neither on the map": ((Goal.NEAR, *BALL, 12, 2), [NEAR], LAID),
    "a green goal tile cannot be picked up": ((Goal.HOLD, 6, 2), [], [(6, 2)]),
    "a red ball cannot be stood on": ((Goal.ON, *BALL), [], LAID),
    "the ruleset has 4 rules, this environment holds 3; make it with num_rules=4": (
        (Goal.HOLD, *BALL), [NEAR] * 4, LAID,
    ),
    "the ruleset has 5 initial tiles, this environment holds 4; make it with num_tiles=5": (
        (Goal.HOLD, *BALL), [], [BALL] * 5,
    ),
}  # fmt: skip


def message(kind, function, *args, **kwargs):
    with pytest.raises(kind) as raised:
        function(*args, **kwargs)
    return str(raised.value)


@pytest.mark.parametrize("text", REFUSED)
def test_unsound_rulesets_are_refused_in_one_sentence(text):
    goal, rules, laid = REFUSED[text]
    said = message(ValueError, ENV.params_for, Ruleset.of(goal, rules, laid))
    assert text in said and "\n" not in said and len(said) < 300


def test_the_first_unsound_ruleset_of_a_batch_is_named():
    good, bad = Ruleset.of((Goal.HOLD, *BALL), [NEAR], LAID), Ruleset.of((Goal.HOLD,), [NEAR], LAID)
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), good, good, bad)
    assert message(ValueError, ENV.params_for, batch).startswith("ruleset 2: its goal names no")


@pytest.mark.parametrize(
    "ruleset",
    [
        Ruleset.of((Goal.HOLD, *PYRAMID), [NEAR], LAID),
        Ruleset.of((Goal.HOLD, 6, 2), [(Rule.HOLD, *BALL, 6, 2)], LAID),
        Ruleset.of((Goal.ON, *PYRAMID), [NEAR], LAID),
        Ruleset.of((Goal.TILE_AT, 2, 6, 0, 0), [], LAID),
        Ruleset.of((Goal.AGENT_NEAR, 9, 4), [], LAID),
        Ruleset.of((Goal.NONE,)),
    ],
)
def test_sound_rulesets_are_padded_and_come_back(ruleset):
    params = ENV.params_for(ruleset)
    assert params.ruleset.rules.shape == (3,) and params.ruleset.init_tiles.shape == (4,)
    assert params.ruleset.unpacked() == ruleset.sized(3, 4)


def test_a_ruleset_of_other_types_is_refused():
    wide = jax.tree.map(lambda leaf: leaf.astype(np.int32), Ruleset.of((Goal.HOLD, *BALL)))
    said = message(TypeError, ENV.params_for, wide)
    assert "goal must be an array uint8(5,), got int32(5,)" in said and "Ruleset.of" in said


def test_params_of_another_size_are_refused():
    other = XLand(size=9, num_rules=2, num_tiles=4).default_params
    said = message(TypeError, ENV.reset, jax.random.key(0), other)
    assert "ruleset.rules" in said and "(2,)" in said and "(3,)" in said


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"view_size": 4}, "view_size=4 must be odd"),
        ({"layout": "R3"}, "is not one of 'R1'"),
        ({"layout": "R4", "size": 10}, "size=10 must be odd with layout='R4'"),
        ({"layout": "R9", "size": 6}, "from 7 to 127"),
        ({"size": 5}, "num_tiles=23 is out of range; it must be from 2 to 8"),
    ],
)
def test_bad_fields_are_refused(fields, text):
    assert text in message(ValueError, XLand, **fields)


def test_each_environment_of_a_batch_has_its_own_task():
    tasks = [Ruleset.of((Goal.AGENT_NEAR, *BALL), [], [one]) for one in (BALL, SQUARE)]
    tasks[1] = tasks[1].replace(goal=Ruleset.of((Goal.AGENT_NEAR, *SQUARE)).goal)
    params = ENV.params_for(jax.tree.map(lambda *leaves: np.stack(leaves), *tasks))
    venv = jaxenvs.make_vec(ENV, 2)
    state = venv.reset(jax.random.key(0), params).state
    lying = [set(np.unique(grid).tolist()) for grid in np.asarray(state.env.grid)]
    assert lying == [{tiles.FLOOR, tiles.WALL, 0x13}, {tiles.FLOOR, tiles.WALL, 0x24}]


def test_obs_dict_contains_the_task_and_the_pocket():
    env = XLand(size=9, num_rules=3, num_tiles=4, obs="dict")
    ruleset = Ruleset.of((Goal.HOLD, *PYRAMID), [NEAR], LAID)
    params = env.params_for(ruleset)
    level = env.sample_level(jax.random.key(1), params)
    level = Level.of(level.grid.at[1, 1:3].set(jnp.array([0x71, 0x13], jnp.uint8)), 1, 1, 1)
    start = env.reset_to(jax.random.key(0), level, params)
    step = env.step(jax.random.key(0), start.state, 3, params)
    assert step.obs["pocket"].tolist() == [*BALL] and int(step.obs["direction"]) == 1
    assert np.array_equal(step.obs["goal"], ruleset.goal)
    assert np.array_equal(step.obs["rules"], ruleset.sized(3, 4).rules)
    assert bool(env.observation_space.contains(step.obs))


def test_a_heading_is_the_image_with_the_direction():
    env = XLand(size=9, num_rules=3, num_tiles=4, obs="heading")
    obs, state = env.reset(jax.random.key(2))
    assert set(obs) == {"image", "direction"} and bool(env.observation_space.contains(obs))
    assert np.array_equal(obs["image"], ENV.observe(state))
    assert f"You face {facts.HEADINGS[int(obs['direction'])]}." in env.describe(state)
    assert "You face" not in ENV.describe(state)


def test_the_text_states_the_task_only_if_it_is_observed():
    state = ENV.reset(jax.random.key(0)).state
    env = XLand(size=9, num_rules=3, num_tiles=4, obs="dict")
    assert ENV.describe(state).startswith("Your task is not part of this observation; obs='dict'")
    assert "pyramid" not in ENV.describe(state)
    assert "Goal: hold a green pyramid." in env.describe(state)
    assert ENV.facts(state)[0].value == "Goal: hold a green pyramid"


def test_a_task_as_text_is_the_default_one(as_a_user):
    text = "goal: hold(red key); near(red ball, agent) -> red key; map: red ball"
    env = XLand(size=9, num_rules=3, num_tiles=4, task=text)
    assert env.default_params == ENV.params_for(parse_ruleset(text.replace(";", "\n")))
    assert env.ending(ENV.sample_level(jax.random.key(0))) is None
    for task, said in {
        "goal: hold(red kex)": "line 1, `goal: hold(red kex)`: `red kex` is not a tile",
        "goal: hold(red key); map: red ball": "a red key is neither on the map nor made by a rule",
        f"goal: none; {'hold(red key) -> red ball; ' * 4}": "has 4 rules, this environment holds 3",
    }.items():
        assert said in message(ValueError, XLand, size=9, num_rules=3, num_tiles=4, task=task)
    assert "task must be text" in message(TypeError, XLand, task=Ruleset.of((1, 3, 1)))


def test_the_text_names_objects_in_sight_and_below_the_agent():
    grid = np.full((9, 9), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.FLOOR
    grid[3, 4], grid[4, 5], grid[4, 4], grid[6, 4] = 0x13, 0x59, 0x26, 0x2C
    state = ENV.reset_to(jax.random.key(0), Level.of(grid, 4, 4, 0)).state
    text = ENV.describe(state)
    assert "You stand on a green goal tile." in text
    assert "a red ball 1 step ahead and a closed yellow door 1 step to the right" in text
    assert "star" not in text  # the star is behind the agent, so it is not visible


def test_aliases_are_the_package_s_ids():
    assert jaxenvs.make("XLand-MiniGrid-R9-25x25") == jaxenvs.make("XLand-R9-25x25-v0")
    assert len(jaxenvs.registry.list("XLand")) == 21
