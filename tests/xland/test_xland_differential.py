"""Our rule worlds against xminigrid 0.9.3: equal starts, tasks and actions, equal results."""

import numpy as np
import peer_xland as peer
import pytest
import worlds_xland as worlds

from jaxenvs.xland import Goal, Rule

SIZE, NUM_RULES, STEPS, LIMIT = 9, 4, 40, 30
ROWS = 11 * 15  # each kind of rule alone in fifteen rows, each kind of goal in eleven


def compared(play, seed, rows=ROWS, size=SIZE, num_rules=NUM_RULES):
    """What differs in a batch of worlds; kinds of rules that fired and of goals reached; steps."""
    played = play(np.random.default_rng(seed), rows, STEPS, size, num_rules)
    given = worlds.on_device(played)
    theirs = peer.play(size, LIMIT)(*given)
    ours = peer.play_ours(size, num_rules)(*given, np.int32(LIMIT))
    fired, reached = (np.asarray(theirs[name]).any(axis=1) for name in ("fired", "terminated"))
    rules = set(worlds.kinds_alone(played)[fired].tolist())
    goals = set(np.asarray(played.ruleset.goal[reached, 0]).tolist())
    return peer.differences(theirs, ours, LIMIT), rules, goals


def check(play, seeds):
    rules, goals = set(), set()
    for seed in seeds:
        different, fired, reached = compared(play, seed)
        assert not different, f"seed {seed}"
        rules, goals = rules | fired, goals | reached
    print(f"{play.__name__}: {len(seeds) * ROWS * STEPS:,} steps")
    assert {*Rule} - {Rule.NONE} <= rules and {*Goal} - {Goal.NONE} == goals


def test_dense_worlds_play_as_the_package():
    check(worlds.dense, range(6))


def test_hostile_worlds_play_as_the_package():
    """Any tile anywhere, the agent on the border, where the package wraps and clamps."""
    check(worlds.hostile, range(6))


@pytest.mark.slow
@pytest.mark.parametrize("play", [worlds.dense, worlds.hostile])
def test_many_worlds_play_as_the_package(play):
    check(play, range(6, 40))
