"""Tests that the full game and craftax 1.6.1 agree, given equal starts, actions and draws."""

import anything
import feats
import jax
import jax.numpy as jnp
import lockstep_full as lockstep
import numpy as np
import pytest
import starts_full as starts
from lockstep import merged

from jaxenvs.craft.tables import Achievement, Action

GROUP = "lockstep_full"  # tests of this group share a worker, which compiles both games once
ROWS = 8 * len(starts.KINDS)  # every policy plays every kind of start twice
STEPS, LONG_STEPS, TRIALS, ANY_TRIALS = 12, 200, 10, 125
LUCK = 4  # seed with which grass gives a sapling at once


def check(report, least, events):
    print(report._replace(first=[]))
    assert not report.differences, report.first[:5]
    assert report.steps >= least
    assert report.events["choices unexplained"] == 0
    assert not [name for name in events if not report.events[name]]


@pytest.mark.full
def test_every_kind_of_start_plays_as_the_package():
    check(lockstep.trial(ROWS, STEPS, seed=0), least=500, events=["mobs born", "hurt"])


@pytest.mark.full
def test_one_action_reaches_each_achievement_in_both_games():
    theirs, names, actions = feats.batch(ROWS)
    params = lockstep.numbers(ROWS, 0, share=0, gods=0)
    different, new, _ = one_step(theirs, actions, params, seed=LUCK)
    reached = {int(name) for row, name in enumerate(names) if new[row, name]}
    assert not [name for name in Achievement if name not in reached]
    assert not different


# Seed 60 covers a rare case: a projectile breaks a block that a new torch lights.
@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 60])
def test_states_of_any_kind_play_as_the_package(seed):
    assert not any_step(seed)[0]


@pytest.mark.slow
def test_ten_thousand_steps_from_states_of_any_kind_play_as_the_package():
    found, seen, reached = {}, {}, np.zeros(len(Achievement), int)
    for seed in range(1, ANY_TRIALS + 1):
        different, new, events = any_step(seed)
        found |= {seed: different} if different else {}
        seen = {name: seen.get(name, 0) + int(flags.sum()) for name, flags in events.items()}
        reached += new.sum(axis=0)
    print(seen, {a.name: int(reached[a]) for a in Achievement})
    assert not found
    assert not [name for name, count in seen.items() if not count and "unexplained" not in name]


@pytest.fixture(scope="module")
def parts():
    """Yield a list to which each test of long games appends its report.

    After the tests, check that the reports together contain all events and achievements.
    """
    reports = []
    yield reports
    if len(reports) == TRIALS:
        total = merged([*reports, feats_played()])
        assert all(total.achievements.values()), total.achievements
        check(
            total, least=60_000, events=[name for name in total.events if "unexplained" not in name]
        )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, TRIALS + 1))
def test_long_games_play_as_the_package(part, parts):
    """Play at least 5,000 steps; `parts` checks the events and achievements of all long games."""
    parts.append(lockstep.trial(ROWS, LONG_STEPS, seed=100 * part))
    check(parts[-1], least=5_000, events=["mobs born", "mobs gone", "hurt", "blocks changed"])


def feats_played():
    """Play from the starts of `feats`, from which one action earns an achievement.

    Repeat the action of each start, and return the report.
    """
    theirs, _, actions = feats.batch(ROWS)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(ROWS, dtype=jnp.int32) + 1_000 * LUCK)
    params = lockstep.numbers(ROWS, 0, share=0, gods=0)
    return lockstep.play(
        theirs, keys, jnp.asarray(-1 - actions, jnp.int32), STEPS, params, lockstep.sides()
    )


def any_step(seed):
    """Step random states, with DO in a third of them, and return the results of `one_step`."""
    rows = np.arange(ROWS)
    actions = np.where(rows % 3 == 0, Action.DO, (rows + seed) % len(Action))
    drawn = anything.Anything(ROWS, actions, seed)
    return one_step(drawn.states(), actions, drawn.params, seed)


def one_step(theirs, actions, params, seed):
    """Step both games; return differences, new achievements, and events.

    The differences are a dict with the fields that differ in some state; a value has the indices of
    the states in which the field differs.
    """
    run = lockstep.sides()
    theirs, ours = run.begin(theirs, params)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(ROWS, dtype=jnp.int32) + 1_000 * seed)
    ways = jnp.asarray(-1 - actions, jnp.int32)
    outputs, action, draws, events, new = run.theirs(theirs, keys, ways, params)
    found = run.compare(outputs, run.ours(ours, action, draws, params), params)
    found, events, new = jax.device_get((found, events, new))
    assert not events["choices unexplained"].any()
    named = {name: np.flatnonzero(flags) for name, flags in found.items() if flags.any()}
    return named, new, events
