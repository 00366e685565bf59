"""Tests of the solver `jaxenvs.grid.oracle`.

Its plans succeed, and are as short as plans of breadth-first search.
"""

import functools
import importlib

import blind
import jax
import jax.numpy as jnp
import pytest

import jaxenvs
from jaxenvs.grid import tiles
from jaxenvs.grid.oracle import bounds, solve
from jaxenvs.levels import Solution

# Ids of the default tests; together with `FULL`, they have all kinds of tasks and lower bounds.
IDS = ("Grid-DoorKey-5x5-v0",)  # goal behind a locked door
FULL = (
    "Grid-PutNear-6x6-N2-v0",  # object that must be carried near another
    "BabyAI-PutNextS4N1-v0",  # object that must be carried next to another
    "Grid-GoToDoor-5x5-v0",  # agent must stand next to a door
    "BabyAI-OpenRedBlueDoors-v0",  # instructions with a fixed order
    "Grid-RedBlueDoors-6x6-v0",  # two doors to open
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-GoToObj-v0",
    "BabyAI-KeyInBox-v0",
    "BabyAI-PickupDist-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockPickup-v0",
    "Grid-FourRooms-v0",
    "Grid-Fetch-5x5-N2-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Grid-KeyCorridorS3R1-v0",
    "Grid-KeyCorridorS3R2-v0",
    "Grid-LavaCrossingS9N1-v0",
    "Grid-MemoryS7-v0",
    "Grid-MultiRoom-N2-S4-v0",
    "Grid-ObstructedMaze-1Dl-v0",
    "Grid-ObstructedMaze-1Dlh-v0",
    "Grid-Unlock-v0",
    "Grid-UnlockPickup-v0",
)
MOST = 64  # number of states to which the states of a plan are padded
module = importlib.import_module("jaxenvs.grid.oracle.searching")
solving = importlib.import_module("jaxenvs.grid.oracle.solve")


def levels_of(env, count, seed=0):
    return jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(seed), count))


def played(env, level, plan):
    """Return the states along a plan, the last reward, and whether the plan ends with success."""
    states, step = [env.reset_to(jax.random.key(0), level).state], None
    for action in plan:
        step = env.step(jax.random.key(0), states[-1], action)
        states.append(step.state)
    return states, float(step.reward), bool(step.terminated) and step.reward > 0


@functools.lru_cache(maxsize=1)
def compiled_bounds(env, sizes):
    """Return a compiled function: (first state of a level, `MOST` states) -> lower bounds."""

    def bounds_of(first, states):
        level = bounds.level_of(env, first, sizes)
        return jax.vmap(lambda state: bounds.lower_bound(env, level, state))(states)

    return jax.jit(bounds_of)


def lower_bounds(env, states):
    """Return the oracle's lower bound for each state; `states[0]` is the start of the level."""
    sizes = bounds.sizes_of(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], states[0]))
    padded = [*states, *states[-1:] * (MOST - len(states))]
    many = jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)
    return compiled_bounds(env, sizes)(states[0], many)[: len(states)].tolist()


@pytest.mark.parametrize("id", [*IDS, *(pytest.param(id, marks=pytest.mark.full) for id in FULL)])
def test_plans_are_as_short_as_blind_search_finds(id):
    env = jaxenvs.make(id)
    levels, search = levels_of(env, 12), blind.Blind(env)
    compared = 0
    for i, found in enumerate(solve(env, levels)):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], levels)
        try:
            shortest = search.shortest(level)
        except blind.TooLargeError:
            assert found.proven
            continue
        compared += 1
        assert found.steps == shortest and found.proven != found.unsolvable
        if shortest is None:
            assert found.unsolvable and found.optimal_return == 0
            continue
        states, reward, succeeds = played(env, level, found.plan)
        assert succeeds and len(found.plan) == found.steps == found.lower
        assert found.optimal_return == pytest.approx(reward, abs=1e-6)
        # A lower bound never exceeds the number of steps that are left.
        for left, bound in enumerate(reversed(lower_bounds(env, states[:-1])), start=1):
            assert bound <= left
    assert compared >= 6


@pytest.mark.full
def test_a_search_that_runs_out_of_budget_returns_a_bound():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0")
    level = jax.tree.map(lambda leaf: leaf[0], levels_of(env, 1))
    (best,) = solve(env, level)
    (found,) = solve(env, level, node_budget=20, batch_size=4)
    assert best.proven and best.steps is not None
    assert not found.proven and found.steps is None and found.plan == ()
    assert 1 <= found.lower <= best.steps and found.optimal_return is None


@pytest.mark.full
def test_large_levels_are_solved_in_smaller_groups(monkeypatch):
    """The tables of distances of a search take at most 2 GiB, except for a single large level."""
    sizes = {"Grid-DoorKey-6x6-v0": 64, "BabyAI-BossLevel-v0": 64, "Grid-PerfectMaze-101x101-v0": 1}
    worlds = {id: jaxenvs.make(id) for id in sizes}
    assert {id: solving.together(world) for id, world in worlds.items()} == sizes
    env = worlds["Grid-DoorKey-6x6-v0"]
    levels = levels_of(env, 5)
    expected = solve(env, levels)
    monkeypatch.setattr(solving, "TABLE_BYTES", 2 * solving.BYTES_PER_PAIR * 36**2)
    assert solving.together(env) == 2 and solve(env, levels) == expected
    assert solve(env, jax.tree.map(lambda leaf: leaf[:0], levels)) == []


@pytest.mark.full
def test_a_level_without_a_key_is_proven_unsolvable():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0")
    level = jax.tree.map(lambda leaf: leaf[0], levels_of(env, 1))
    keyless = jnp.where(tiles.kind(level.grid) == tiles.Kind.KEY, tiles.EMPTY, level.grid)
    (found,) = solve(env, level.replace(grid=keyless.astype(jnp.uint8)))
    assert found == Solution(None, (), found.lower, False, True, 0.0, 0.0)


@pytest.mark.full
def test_states_with_more_changed_cells_than_a_node_holds_are_searched_again(monkeypatch):
    env = jaxenvs.make("Grid-UnlockPickup-v0")
    levels = levels_of(env, 4)
    expected = solve(env, levels)
    monkeypatch.setattr(module, "SIZES", (1,))
    searches = []

    def search(*given):
        searches.append(given[2:4])
        return original(*given)

    original = module._search
    monkeypatch.setattr(module, "_search", search)
    found = solve(env, levels)
    assert searches[0] == (1, True) and len(searches) == 2 and not searches[1][1]
    assert [each.steps for each in found] == [each.steps for each in expected]
    assert all(each.proven for each in found)


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("Grid-Dynamic-Obstacles-5x5-v0", "obstacles of .* move at random"),
        ("Grid-Playground-v0", "no mission"),
        ("Puzzle-SlidingTile-3x3-v0", "no Grid or BabyAI environment; puzzles are solved by"),
    ],
)
def test_an_environment_without_an_optimum_is_explained(id, message):
    env = jaxenvs.make(id)
    with pytest.raises(TypeError, match=message):
        solve(env, env.sample_level(jax.random.key(0)))
