"""Tests of XLand against xminigrid 0.9.3: same levels, tasks and actions give the same results."""

import jax
import numpy as np
import peer_xland as peer
import pytest
import worlds_xland as worlds

import jaxenvs
from jaxenvs import registry
from jaxenvs.xland import SETS, Goal, Rule

SIZE, NUM_RULES, STEPS, LIMIT = 9, 4, 40, 30
# Number of environments of a batch. Each kind of goal occurs in 11 environments. Each kind of rule
# is the only kind in at least 7 environments (see `worlds_xland.rulesets`).
ROWS = 11 * 15


def compared(play, seed, rows=ROWS, size=SIZE, num_rules=NUM_RULES):
    """Return how the libraries differ in a batch, the kinds of fired rules, and of reached goals.

    A row is an environment. A kind of rule counts as fired if a rule fired in a row that has only
    rules of this kind.
    """
    played = play(np.random.default_rng(seed), rows, STEPS, size, num_rules)
    different, fired, reached = lockstep(played, size)
    rules = set(worlds.kinds_alone(played)[fired].tolist())
    return different, rules, set(played.ruleset.goal[reached, 0].tolist())


def lockstep(played, size):
    """Return how the libraries differ in a batch, and two masks of its environments.

    The first mask tells where a rule fired, the second mask where the goal was reached.
    """
    given = worlds.on_device(played)
    theirs = peer.play(size, LIMIT)(*given)
    ours = peer.play_ours(size, played.ruleset.rules.shape[1])(*given, np.int32(LIMIT))
    fired, reached = (np.asarray(theirs[name]).any(axis=1) for name in ("fired", "terminated"))
    return peer.differences(theirs, ours, LIMIT), fired, reached


def check(play, seeds):
    rules, goals = set(), set()
    for seed in seeds:
        different, fired, reached = compared(play, seed)
        assert not different, f"seed {seed}"
        rules, goals = rules | fired, goals | reached
    print(f"{play.__name__}: {len(seeds) * ROWS * STEPS:,} steps")
    assert {*Rule} - {Rule.NONE} <= rules and {*Goal} - {Goal.NONE} == goals


def test_dense_worlds_play_as_the_package():
    check(worlds.dense, range(5))


def test_hostile_worlds_play_as_the_package():
    """Play on levels with arbitrary tiles in all cells, and with agents on the border of the grid.

    There, XLand-MiniGrid wraps and clamps the indices of cells; XLand must do the same.
    """
    check(worlds.hostile, range(5))


def test_tasks_of_the_sets_play_as_the_package():
    """Play tasks of `small-1m` and `trivial-21k` in all layouts that have the size `SIZE`."""
    played = worlds.small_tasks(np.random.default_rng(0), ROWS, STEPS, SIZE, NUM_RULES)
    different, fired, reached = lockstep(played, SIZE)
    assert not different and min(fired.sum(), reached.sum()) > 3


@pytest.mark.slow
@pytest.mark.parametrize("id", registry.list("XLand"))
def test_tasks_of_all_sets_play_as_the_package_in_each_layout(id):
    """Play tasks of four task sets on levels that XLand-MiniGrid draws."""
    env, rng = jaxenvs.make(id), np.random.default_rng(0)
    names = [name for name in SETS if name[-2:] != "3m"]
    ruleset = worlds.chosen(rng, ROWS, names, env.num_rules, env.num_tiles)
    keys = jax.random.split(jax.random.key(0), ROWS)
    grid, pose = peer.levels(registry.spec(id).aliases[0])(keys, ruleset.init_tiles)
    played = worlds.played(rng, np.asarray(grid), np.asarray(pose), ruleset, STEPS)
    different, fired, reached = lockstep(played, env.size)
    print(f"{id}: {ROWS * STEPS:,} steps; a rule fired in {fired.sum()} rows, {reached.sum()} won")
    assert not different and fired.any() and reached.any()


@pytest.mark.slow
@pytest.mark.parametrize("play", [worlds.dense, worlds.hostile])
def test_many_worlds_play_as_the_package(play):
    check(play, range(5, 40))
