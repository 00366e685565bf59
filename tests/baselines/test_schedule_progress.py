"""Tests of a run's progress (0 to 1) when `total_steps` changes; all schedules depend on it."""

import dataclasses
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.baselines.core import schedules, settings
from jaxenvs.baselines.off_policy import dqn
from jaxenvs.baselines.run import options
from jaxenvs.baselines.storage.checkpoints import RunError


def planned(updates, plans=()):
    """Return settings of a run of this many updates, with one step per update.

    A pair (at, end) in `plans` says that until update `at`, the run was planned to end at `end`.
    """
    total = {"num_envs": 1, "rollout_steps": 1, "total_steps": updates}
    return settings.Common(**total, plans=plans)


def plans_of(run, update, updates):
    """Resume a run after `update`, for `updates` updates in total; return its new `plans`."""
    asked = dataclasses.replace(run, total_steps=updates)
    return schedules.resumed(asked, run, update, restart=False).plans


def test_a_run_may_be_resumed_often():
    """`plans` and progress are correct if a run is resumed with more or fewer updates than planned.

    They are also correct if it is resumed at an earlier update, after later checkpoints are lost.
    """
    first, second = planned(100), planned(200, ((60, 100),))
    assert plans_of(first, 60, 200) == second.plans
    assert plans_of(second, 60, 100) == (), "nothing was done by the other plan"
    assert plans_of(second, 60, 300) == ((60, 100),)
    assert plans_of(second, 130, 150) == ((60, 100), (130, 200))
    third = planned(150, ((60, 100), (130, 200)))
    assert plans_of(third, 140, 150) == third.plans
    assert plans_of(third, 50, 400) == ((50, 100),)
    assert plans_of(third, 0, 400) == (), "it begins anew"
    exact = Fraction(60, 100) + Fraction(40, 100) * Fraction(70, 140)
    for update, share in ((0, 0), (30, 0.3), (60, 0.6), (95, 0.7), (130, exact), (140, 0.9)):
        assert float(third.progress(jnp.int32(update))) == pytest.approx(float(share), rel=1e-6)
        assert third.progress_at(update) == pytest.approx(float(share), rel=1e-12)
        assert third.update_at(float(share)) == pytest.approx(update)
    assert float(third.progress(jnp.int32(140), since=130)) == 0.5


def test_progress_never_falls_whatever_was_planned():
    rng, updates = np.random.default_rng(0), jnp.arange(400, dtype=jnp.int32)
    for _ in range(20):
        begins = np.unique(rng.integers(1, 200, 4)).tolist()
        plans = tuple((at, at + int(rng.integers(0, 90))) for at in begins)
        last = begins[-1] + int(rng.integers(0, 200))
        one = planned(last, plans)
        one.check_plans()
        seen = np.asarray(one.progress(updates))[: last + 1]
        assert (np.diff(seen) >= -1e-6).all() and seen[0] == 0.0 and seen[-1] <= 1.0
        exact = [one.progress_at(update) for update in range(last + 1)]
        np.testing.assert_allclose(seen, exact, atol=1e-5)


def test_plans_are_no_flags():
    for flag in (f"--{name.replace('_', '-')}" for name in schedules.UNSHOWN):
        with pytest.raises(RunError, match=flag):
            options.parse(["Grid-Empty-5x5-v0", flag, "1"], "dqn")
    for plans in (((5, 3),), ((9, 20), (5, 20)), ((0, 7),)):
        with pytest.raises(ValueError, match="must be pairs"):
            dqn.Settings(plans=plans).check()
