"""Tests of `levels.distances` and of `info["optimal"]`: steps to success of every state."""

from typing import Any, cast

import blind
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import levels, wrappers

pytestmark = pytest.mark.full

DOOR = "Grid-DoorKey-6x6-v0"
COMPARED = ["Grid-PutNear-6x6-N2-v0"]  # an object to carry, and episodes that fail
COMPARED += with_full(DOOR, "BabyAI-OpenRedBlueDoors-v0", "BabyAI-KeyInBox-v0")


def drawn(env, count):
    return [env.sample_level(jax.random.key(seed)) for seed in range(count)]


@pytest.fixture(scope="module")
def door():
    """Return an environment that has only two levels and `info["optimal"]`, and the two levels."""
    env = jaxenvs.make(DOOR)
    two = drawn(env, 2)
    table = levels.distances(env, two)
    return wrappers.OptimalInInfo(levels.from_levels(env, two), table), two


@pytest.mark.parametrize("id", COMPARED)
def test_every_state_has_the_distance_that_blind_search_finds(id):
    env = jaxenvs.make(id)
    for level in drawn(env, 2):
        states, steps = blind.Blind(env).distances(level)
        found = levels.distances(env, [level])
        assert len(found) == len(steps) and (steps > 0).any()
        np.testing.assert_array_equal(jax.jit(jax.vmap(found))(states), steps)


@pytest.mark.full
def test_hanoi_has_all_its_states_and_the_known_distance():
    env = jaxenvs.make("Puzzle-Hanoi-5-v0")
    level = env.sample_level(jax.random.key(0))
    found = levels.distances(env, [level])
    assert len(found) == 3**5 - 1, "the solved state ends the episode"
    assert found.steps.max() == 2**5 - 1 and found.steps.min() == 1


@pytest.mark.full
def test_xland_has_the_distance_of_its_solver():
    env = jaxenvs.make("XLand-R1-9x9-v0")
    level = env.sample_level(jax.random.key(0))
    (solution,) = levels.solve(env, [level])
    assert solution.proven
    found = levels.distances(env, [level], max_states=1_000_000)
    assert found(env.reset_to(jax.random.key(0), level).state) == solution.steps


def test_a_level_that_begins_solved_takes_one_step():
    """The distance is 1, because only a step ends an episode; the plan of `solve` is empty."""
    env = jaxenvs.make("Puzzle-SlidingTile-3x3-v0", scramble=0, size=2)
    level = env.sample_level(jax.random.key(0))
    assert levels.solve(env, [level])[0].steps == 0
    assert levels.distances(env, [level])(env.reset_to(jax.random.key(0), level).state) == 1


@pytest.mark.full
def test_info_counts_down_along_a_shortest_plan(door):
    env, two = door
    for level, solution in zip(two, levels.solve(env, two), strict=True):
        plan = jnp.asarray(solution.plan)
        state = env.reset_to(jax.random.key(0), level).state

        def step(state, action):
            stepped = env.step(jax.random.key(0), state, action)
            return stepped.state, (stepped.info["optimal"], stepped.terminated)

        _, (optimal, over) = jax.jit(lambda s, p, step=step: jax.lax.scan(step, s, p))(state, plan)
        assert env.distances(state) == len(plan) == solution.steps
        assert optimal.tolist() == list(range(len(plan) - 1, -1, -1)) and over[-1]


def test_a_batch_never_gains_more_than_one_step_and_resets_to_its_levels(door):
    env, _ = door
    batch = jaxenvs.make_vec(env, 16)
    state = batch.reset(jax.random.key(1)).state
    step, left = jax.jit(batch.step), jax.jit(jax.vmap(env.distances))
    before = left(state.env)
    assert (before > 0).all()
    for i in range(20):
        action = jax.random.randint(jax.random.key(i), (16,), 0, 7)
        stepped = step(jax.random.key(i), state, action)
        going = ~(stepped.terminated | stepped.truncated)
        after, state = stepped.info["optimal"], stepped.state
        assert (after[going] >= before[going] - 1).all() and (after[going] > 0).all()
        before = left(state.env)
        assert (before > 0).all(), "also where the next episode has begun"


def test_failure_and_foreign_states_have_minus_one(door):
    env, _ = door
    other = drawn(env.unwrapped, 3)[2]  # a level whose door is in another column
    assert env.distances(env.reset_to(jax.random.key(0), other).state) == -1
    lava = jaxenvs.make("Grid-LavaGapS5-v0")
    level = lava.sample_level(jax.random.key(0))
    with_optimum = wrappers.OptimalInInfo(lava, levels.distances(lava, [level]))
    state, seen = with_optimum.reset_to(jax.random.key(0), level).state, []
    for _ in range(5):  # go forward, into a wall or the lava
        stepped = with_optimum.step(jax.random.key(0), state, 2)
        state = stepped.state
        seen.append((bool(stepped.terminated), int(stepped.info["optimal"])))
        if stepped.terminated:
            break
    assert all((left == -1) == over for over, left in seen)


def test_equal_tables_are_equal(door):
    env, two = door
    again = levels.distances(env, two)
    assert again == env.distances and hash(again) == hash(env.distances)
    assert again != levels.distances(env, two[:1])
    assert repr(again) == f"<distances of {len(again):,} states>"


def test_bad_input(door, as_a_user):
    (env, two), no_table = door, cast("Any", {})
    with pytest.raises(ValueError, match="more than max_states=10 states"):
        levels.distances(env, two, max_states=10)
    with pytest.raises(ValueError, match="give at least one"):
        levels.distances(env, [])
    with pytest.raises(TypeError, match="random"):
        levels.distances(jaxenvs.make("Grid-Dynamic-Obstacles-5x5-v0"), [])
    with pytest.raises(NotImplementedError, match="no exact solver"):
        levels.distances(jaxenvs.make("Classic-CartPole-v0"), [])
    with pytest.raises(TypeError, match=r"must come from jaxenvs\.levels\.distances, got dict"):
        wrappers.OptimalInInfo(env, no_table)
    with pytest.raises(ValueError, match=r"are for states of \d+ words, Empty has"):
        wrappers.OptimalInInfo(jaxenvs.make("Grid-Empty-5x5-v0"), env.distances)
    with pytest.raises(TypeError, match="LogWrapper has states of its own"):
        wrappers.OptimalInInfo(wrappers.LogWrapper(env), env.distances)
    with pytest.raises(ValueError, match="begins its next episode by itself"):
        wrappers.OptimalInInfo(wrappers.AutoReset(env), env.distances)
