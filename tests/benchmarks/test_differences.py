"""Tests of `differences.assert_alike`, whose message says where two rollouts differ."""

import differences
import numpy as np
import pytest
from differences import Rounding


@pytest.fixture
def plays():
    words = np.arange(24, dtype=np.int32).reshape(4, 3, 2)
    play = {"end": {"map": np.zeros((3, 5), np.uint8)}, "steps": {"words": words}}
    return play, {"end": {"map": play["end"]["map"].copy()}, "steps": {"words": words.copy()}}


def message(plays, **more):
    with pytest.raises(AssertionError) as raised:
        differences.assert_alike(*plays, **more)
    return str(raised.value)


def test_equal_plays_pass(plays):
    differences.assert_alike(*plays)


def test_the_message_has_the_earliest_step_and_both_values(plays):
    here, there = plays
    here["steps"]["words"][2, 1, 0] = np.float32(1).view(np.int32)
    there["steps"]["words"][2, 1, 0] = np.nextafter(np.float32(1), np.float32(0)).view(np.int32)
    there["steps"]["words"][3, 0, 1] = -7
    there["end"]["map"][0, 0] = 1
    text = message(plays)
    assert "['steps']['words'] differs first in step 2, row 1, index (0,)" in text
    assert "CPU 1065353216 (as float32 1.0, as bits 0x3f800000)" in text
    assert "GPU 1065353215 (as float32 0.99999994, as bits 0x3f7fffff)" in text
    assert "2 of 24 elements differ" in text and "['end']['map']: 1" in text


def test_if_no_step_differs_the_message_has_the_end(plays):
    plays[1]["end"]["map"][2, 4] = 3
    text = message(plays)
    assert "['end']['map'] differs first in row 2, index (4,)" in text and "GPU 3" in text


def test_floats_are_exact_unless_their_output_is_named(plays):
    one = np.ones((4, 3), np.float32)
    for play, value in zip(plays, (one, np.nextafter(one, np.float32(2))), strict=True):
        play["steps"] |= {"reward": value, "obs": value}
    assert "['obs']: 12" in message(plays) and "['reward']: 12" in message(plays)
    unit = {"obs": Rounding(units=1)}
    assert "['reward'] differs" in message(plays, rounding=unit)
    plays[1]["steps"]["reward"] = one
    differences.assert_alike(*plays, rounding=unit)
    plays[1]["steps"]["obs"] = one + np.float32(3e-7)
    assert "['obs'] differs" in message(plays, rounding=unit)
    differences.assert_alike(*plays, rounding={"obs": Rounding(absolute=4e-7)})


def test_integers_are_compared_exactly_whatever_the_rounding(plays):
    plays[1]["steps"]["words"][0, 0, 0] += 1
    assert "['words'] differs" in message(plays, rounding={"words": Rounding(9, 9.0)})


def test_nan_and_infinities_equal_only_themselves(plays):
    for play in plays:
        play["steps"]["obs"] = np.array([[np.nan, np.inf]], np.float32)
    differences.assert_alike(*plays)
    plays[1]["steps"]["obs"] = np.array([[0.0, -np.inf]], np.float32)
    assert "2 of 2 elements differ" in message(plays, rounding={"obs": Rounding(1)})
