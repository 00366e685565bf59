"""Fuzzing: environments keep their contract with any actions, params and time limits.

Hypothesis chooses the plays, and shrinks a play that fails. `jaxenvs/testing/fuzzing.py` defines
the rules of the contract, such as rewards inside the reward space. With the marker `full`, some ids
are played for millions of steps in total; `python tests/proofs/fuzzing.py` plays every id for
longer.
"""

import functools

import defaults
import jax
import pytest
from defaults import HOSTILE, HOSTILE_FULL
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxenvs
from jaxenvs import testing
from jaxenvs.testing import fuzzing

# Number of environments in a play, number of steps in a play, and number of plays for each id.
ROWS, LENGTH, EXAMPLES = 128, 32, 62


@functools.cache
def fuzzer(env):
    return testing.Fuzzer(env, ROWS, LENGTH, fuzzing.NEAR)


@pytest.mark.parametrize("id", defaults.params(HOSTILE, full=HOSTILE_FULL))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), hostile=st.floats(0, 1), variation=st.floats(0, 4))
def test_no_step_breaks_a_rule(id, seed, hostile, variation):
    found = fuzzer(jaxenvs.make(id)).play(jax.random.key(seed), hostile, variation)
    assert {rule: int(count) for rule, count in found.items() if count} == {}


def test_these_are_three_million_steps():
    assert len(HOSTILE_FULL) * EXAMPLES * ROWS * LENGTH >= 3_000_000
