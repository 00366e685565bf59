"""Our full game against craftax 1.6.1: equal starts, actions and draws, equal results."""

import anything
import feats
import jax
import jax.numpy as jnp
import lockstep_full as lockstep
import numpy as np
import pytest
import starts_full as starts

from jaxenvs.craft.tables import Achievement, Action

GROUP = "lockstep_full"  # one worker compiles both games for both files
ROWS = 8 * len(starts.KINDS)  # every kind of start by every player, twice
STEPS, LONG_STEPS, TRIALS, ANY_TRIALS = 12, 200, 10, 125
LUCK = 4  # a seed with which grass gives a sapling at once


def check(report, least, events):
    print(report._replace(first=[]))
    assert not report.differences, report.first[:5]
    assert report.steps >= least
    assert report.events["choices unexplained"] == 0
    assert not [name for name in events if not report.events[name]]


def test_every_kind_of_start_plays_as_the_package():
    check(lockstep.trial(ROWS, STEPS, seed=0), least=500, events=["mobs born", "hurt"])


def test_one_action_reaches_each_achievement_in_both_games():
    theirs, names, actions = feats.batch(ROWS)
    params = lockstep.numbers(ROWS, 0, share=0, gods=0)
    different, new = one_step(theirs, actions, params, seed=LUCK)
    reached = {int(name) for row, name in enumerate(names) if new[row, name]}
    assert not [name for name in Achievement if name not in reached]
    assert not different


def test_states_of_any_kind_play_as_the_package():
    assert not any_step(seed=0)


@pytest.mark.slow
def test_ten_thousand_steps_from_states_of_any_kind_play_as_the_package():
    assert not {seed: found for seed in range(1, ANY_TRIALS + 1) if (found := any_step(seed))}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, TRIALS + 1))
def test_long_games_play_as_the_package(part, record_property):
    """Together over 60,000 steps; each part takes a few minutes."""
    report = lockstep.trial(ROWS, LONG_STEPS, seed=100 * part)
    record_property("report", report._asdict())
    check(report, least=6_000, events=[name for name in report.events if "unexplained" not in name])


def any_step(seed):
    """Rows that differ, by field, after a step from random states; all actions in turn."""
    drawn = anything.Anything(ROWS, seed)
    actions = (np.arange(ROWS) + seed) % len(Action)
    return one_step(drawn.states(), actions, drawn.params, seed)[0]


def one_step(theirs, actions, params, seed):
    """Rows that differ, by field, after a step of both games, and what was reached in it."""
    run = lockstep.sides()
    theirs, ours = run.begin(theirs, params)
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(ROWS, dtype=jnp.int32) + 1_000 * seed)
    ways = jnp.asarray(-1 - actions, jnp.int32)
    outputs, action, draws, events, new = run.theirs(theirs, keys, ways, params)
    found = run.compare(outputs, run.ours(ours, action, draws, params), params)
    found, events, new = jax.device_get((found, events, new))
    assert not events["choices unexplained"].any()
    return {name: np.flatnonzero(flags) for name, flags in found.items() if flags.any()}, new
