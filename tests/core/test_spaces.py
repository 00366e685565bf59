"""Tests of spaces: samples reach every value and both bounds; `contains` and `clip` are correct."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from jaxenvs.core.spaces import Box, Dict, Discrete, MultiDiscrete

UINT32, INT32 = np.iinfo(np.uint32), np.iinfo(np.int32)
INTEGERS = {
    "bytes": Box(0, 255, (), np.uint8),
    "narrow": Box(-3, 4, (), np.int8),
    "all of int8": Box(-128, 127, (), np.int8),
    "dice": Discrete(6),
    "one value": Discrete(1),
}


def drawn(space, count, seed=0):
    return jax.device_get(
        jax.jit(jax.vmap(space.sample))(jax.random.split(jax.random.key(seed), count))
    )


@pytest.mark.parametrize("name", INTEGERS)
def test_every_integer_comes_equally_often(name):
    space = INTEGERS[name]
    values, counts = np.unique(drawn(space, 20_000), return_counts=True)
    np.testing.assert_array_equal(values, range(int(space.low), int(space.high) + 1))
    assert len(values) == 1 or chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("limits", [INT32, UINT32], ids=["int32", "uint32"])
def test_a_whole_32_bit_range_is_covered(limits):
    space = Box(limits.min, limits.max, (), limits.dtype)
    values = drawn(space, 20_000).astype(np.float64)
    assert values.dtype == np.float64
    share = (values - limits.min) / (float(limits.max) - limits.min)
    assert chisquare(np.histogram(share, 16, (0, 1))[0]).pvalue > 1e-4
    # In a space of the two smallest or two largest values of the dtype, both values are sampled.
    for low in (limits.min, limits.max - 1):
        assert set(drawn(Box(low, low + 1, (), limits.dtype), 64).tolist()) == {low, low + 1}


def test_entries_keep_to_their_separate_bounds():
    space = Box([0, -5, 7], [1, 5, 7], (3,), np.int32)
    values = drawn(space, 500)
    assert values.min(axis=0).tolist() == [0, -5, 7] and values.max(axis=0).tolist() == [1, 5, 7]
    assert jax.vmap(space.contains)(jnp.asarray(values)).all()


def test_floats_fill_their_range_and_reach_both_ends():
    space = Box(-1.0, 3.0, (4,), np.float32)
    values = drawn(space, 5_000)
    assert values.dtype == np.float32 and values.min() >= -1 and values.max() <= 3
    assert chisquare(np.histogram(values, 20, (-1, 3))[0]).pvalue > 1e-4
    assert drawn(Box(2.5, 2.5, (), np.float32), 3).tolist() == [2.5] * 3


def test_unbounded_floats_keep_to_the_side_they_have():
    inf = np.inf
    space = Box([-inf, 1.0, -inf], [inf, inf, 2.0], (3,), np.float32)
    values = drawn(space, 5_000)
    assert np.isfinite(values).all()
    free, above, below = values.T
    assert abs(free.mean()) < 0.1 and above.min() >= 1 and below.max() <= 2
    assert abs(above.mean() - 2) < 0.1 and abs(below.mean() - 1) < 0.1


def test_flags_come_both_ways():
    space = Box(False, True, (2,), np.bool_)
    values = drawn(space, 200)
    assert values.dtype == np.bool_ and 0.3 < values.mean() < 0.7
    assert space.contains(jnp.array([True, False]))
    assert not space.contains(jnp.array([1, 0]))
    assert not drawn(Box(False, False, (2,), np.bool_), 20).any()


INSIDE = [
    (Discrete(3), 2, True),
    (Discrete(3), 0, True),
    (Discrete(3), 3, False),
    (Discrete(3), -1, False),
    (Discrete(3), 1.0, False),
    (Discrete(3), np.int64(2), True),
    (Discrete(3), 2**40, False),
    (Discrete(3), jnp.uint8(2), True),
    (Discrete(3), jnp.array([1]), False),
    (Discrete(3), "left", False),
    (Discrete(3), None, False),
    (Discrete(3), True, False),
    (Box(0, 255, (2,), np.uint8), np.array([0, 255]), True),
    (Box(0, 255, (2,), np.uint8), np.array([0, 256]), False),
    (Box(0, 255, (2,), np.uint8), jnp.array([-1, 0]), False),
    (Box(0.0, 1.0, (), np.float32), 1.0, True),
    (Box(0.0, 1.0, (), np.float32), 1.5, False),
    (Box(0.0, 1.0, (), np.float32), np.nan, False),
    (Box(0.0, 1.0, (), np.float32), jnp.float32(np.nan), False),
    (Box(0.0, 1.0, (), np.float32), 1, False),
    (Box(0.0, 1.0, (), np.float32), 0.5 + 3j, False),
    (Box(0.0, 1.0, (), np.float32), jax.random.key(0), False),
    (Discrete(3), jax.random.key(0), False),
    (MultiDiscrete([2, 3]), np.array([1, 2]), True),
    (MultiDiscrete([2, 3]), np.array([2, 0]), False),
    (Dict({"a": Discrete(2)}), {"a": 1}, True),
    (Dict({"a": Discrete(2)}), {"a": 2}, False),
    (Dict({"a": Discrete(2)}), {"b": 1}, False),
    (Dict({"a": Discrete(2)}), {"a": 1, "b": 1}, False),
    (Dict({"a": Discrete(2)}), 1, False),
]


@pytest.mark.parametrize(("space", "value", "inside"), INSIDE)
def test_contains_never_raises(space, value, inside, as_a_user):
    assert bool(space.contains(value)) == inside


CLIPPED = [
    (Discrete(7), 99, 6, True),
    (Discrete(7), -2, 0, True),
    (Discrete(7), 3, 3, False),
    (Box(0, 255, (), np.uint8), jnp.int32(300), 255, True),
    (Box(0, 255, (), np.uint8), jnp.int32(-1), 0, True),
    (Box(-1.0, 1.0, (), np.float32), jnp.float32(np.nan), 0.0, True),
    (Box(-1.0, 1.0, (), np.float32), jnp.float32(np.inf), 1.0, True),
    (Discrete(7), jnp.uint32(2**32 - 1), 6, True),
    (Box(False, True, (), np.bool_), True, True, False),
    (Box(False, False, (), np.bool_), True, False, True),
    (Box(True, True, (), np.bool_), False, True, True),
]


@pytest.mark.parametrize(("space", "value", "nearest", "outside"), CLIPPED)
def test_clip_moves_to_the_nearest_value_and_says_so(space, value, nearest, outside):
    given_back, moved = jax.jit(space.clip)(jnp.asarray(value))
    assert given_back == nearest and bool(moved) == outside
    assert given_back.dtype == space.dtype


def test_a_dict_is_clipped_by_its_parts():
    space = Dict({"a": Discrete(3), "b": Box(0.0, 1.0, (2,), np.float32)})
    given_back, moved = space.clip({"a": jnp.int32(5), "b": jnp.array([0.5, 2.0])})
    assert given_back["a"] == 2 and given_back["b"].tolist() == [0.5, 1.0] and moved
    assert not space.clip(space.sample(jax.random.key(0)))[1]


@settings(max_examples=40, deadline=None)
@given(st.integers(INT32.min, INT32.max), st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1))
def test_samples_lie_inside_whatever_the_bounds(low, span, seed):
    high = min(low + span, INT32.max)
    space = Box(low, high, (), np.int32)
    value = int(space.sample(jax.random.key(seed)))
    assert low <= value <= high
    assert space.contains(value) and space.contains(jnp.int32(value))


REFUSED = [
    (lambda: Discrete(0), "at least one"),
    (lambda: MultiDiscrete([3, 0]), "at least one"),
    (lambda: MultiDiscrete([]), "at least one"),
    (lambda: Box(2, 1, (), np.int32), "must not exceed"),
    (lambda: Box(0, 256, (), np.uint8), "0..255"),
    (lambda: Box(-1, 2, (), np.uint8), "0..255"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_impossible_spaces_are_refused(build, message, as_a_user):
    with pytest.raises(ValueError, match=message):
        build()


def test_spaces_are_values():
    assert Discrete(3) == Discrete(3) != Discrete(4)
    assert hash(Discrete(3)) == hash(Discrete(3))
    assert Discrete(3) != MultiDiscrete(3)
    assert Dict({"a": Discrete(2)}) == Dict({"a": Discrete(2)})
    assert Box(0, 1, (2,), np.uint8) != Box(0, 1, (2,), np.int8)
    assert repr(Discrete(3)) == "Discrete(3)"


SHOWN = [
    (Box(0, 255, (7, 7, 3), np.uint8), "Box(0, 255, (7, 7, 3), uint8)"),
    (Box(-4.8, np.inf, (2,), np.float32), "Box(-4.8, inf, (2,), float32)"),
    (Box(0.0, [1.0, 0.1], (2,), np.float32), "Box(by element within [0.0, 1.0], (2,), float32)"),
    (Box([-4.8, -np.inf], [4.8, np.inf], (2,), np.float32),
     "Box(by element within [-inf, inf], (2,), float32)"),
    (Box([0, -5], [0, -5], (2,), np.int32), "Box(by element within [-5, 0], (2,), int32)"),
    (Box(0, 1, (), np.int32), "Box(0, 1, (), int32)"),
    (Box(False, True, (2,), np.bool_), "Box(False, True, (2,), bool)"),
    (Box(0, 1, (0, 2), np.int32), "Box(None, None, (0, 2), int32)"),
]  # fmt: skip


@pytest.mark.parametrize(("space", "text"), SHOWN, ids=[text for _, text in SHOWN])
def test_the_repr_of_a_box_shows_its_bounds(space, text):
    assert repr(space) == text
