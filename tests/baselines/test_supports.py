"""Tests of the bounds and atoms that a warning about clipped value targets recommends."""

import math
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.baselines.model_based import dyna
from jaxenvs.baselines.off_policy import c51
from jaxenvs.baselines.run import supports

INFINITE = (-math.inf, math.inf)


def buffer(reward, terminated=(), is_step=None, written=None):
    """Return a replay buffer of one agent and one environment with the given steps."""
    reward = np.float32(reward)
    ends = np.isin(np.arange(len(reward)), terminated)
    steps = np.ones(len(reward), bool) if is_step is None else np.array(is_step, bool)
    written = len(reward) if written is None else written
    fields = {"reward": reward, "terminated": ends, "is_step": steps, "written": np.int32(written)}
    return SimpleNamespace(**{k: jnp.asarray(v)[None, None] for k, v in fields.items()})


def test_returns_end_with_the_task_and_continue_over_time_limits():
    found = supports.paid(buffer([1, 2, 4, 0], terminated=[2, 3]), 0, 0.5, INFINITE)
    assert found.least == 1 and found.reward == (0, 40)
    # The upper bound of returns is 8: the largest reward, 4, in every step, discounted by 0.5. The
    # other bound, ten times the largest return in the buffer (4), is higher.
    assert found.returns == (0, 8)
    found = supports.paid(buffer([-1] * 50, is_step=[*[1] * 20, 0, *[1] * 29]), 0, 0.9, (-1, 0))
    assert found.reward == (-1, 0) and found.returns[0] == pytest.approx(-10, rel=1e-4)


def test_the_ring_is_read_from_its_oldest_step():
    """The ring must be read from the oldest step, in slot 1, to the newest, in slot 0."""
    around = supports.paid(buffer([5, 0, 1, 0], terminated=[0], written=5), 0, 0.1, INFINITE)
    plain = supports.paid(buffer([0, 1, 0, 5], terminated=[3]), 0, 0.1, INFINITE)
    assert around == plain
    half = supports.paid(buffer([7, 0, 0], is_step=[1, 0, 0], written=1), 0, 0.0, INFINITE)
    assert half.returns == (0, 7)
    none = supports.paid(buffer([0, 0], is_step=[0, 0], written=0), 0, 0.9, INFINITE)
    assert none.returns == (0, 0) and none.least == math.inf


def test_only_the_bound_that_is_passed_changes():
    paid = supports.Paid((-1, 0), (-99.99999, 0), 1.0)
    found = c51.wider(c51.Settings(), paid)
    assert supports.as_flags(found) == "--v-min -100"
    # All rewards and returns fit into the support, so it was predictions that exceeded it. Their
    # true range is unknown, so the recommended support is twice as wide.
    inside = supports.Paid((0, 1), (0, 1), 1.0)
    assert supports.as_flags(c51.wider(c51.Settings(), inside)) == "--v-min -20 --v-max 20"


@pytest.mark.parametrize(
    ("largest", "least", "expected"),
    [
        (640, 4.0, "--spacing 0.32"),
        # the smallest reward, 4, is 1.24 after the transform h of two_hot.py, and limits the
        # spacing
        (10_240, 4.0, "--spacing 1.3 --atoms 90"),
        # the smallest reward, 0.1, is 0.05 after the transform h, and limits the spacing
        (100, 0.1, "--atoms 190"),
        # the rewards fit into the support, so the warning comes from too large predictions: double
        # the spacing
        (1, 1.0, "--spacing 0.1"),
    ],
)
def test_atoms_are_wider_apart_unless_that_hides_small_rewards(largest, least, expected):
    paid = supports.Paid((0, largest), (0, 0), least)
    assert supports.as_flags(dyna.wider(dyna.Settings(), paid)) == expected
