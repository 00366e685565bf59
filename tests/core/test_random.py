"""Tests of the integer arithmetic behind random draws: it is exact, and draws are uniform."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from jaxenvs.core import random

WORD = st.integers(0, 2**32 - 1)


def word(*values):
    return jnp.array(values, jnp.uint32)


@settings(max_examples=200, deadline=None)
@given(WORD, WORD)
def test_multiply_high_is_the_high_half_of_the_product(a, b):
    assert int(random.multiply_high(word(a), word(b))[0]) == (a * b) >> 32


def test_multiply_high_at_the_corners():
    corners = [0, 1, 2, 0xFFFF, 0x10000, 0x10001, 2**31, 2**32 - 2, 2**32 - 1]
    for a, b in itertools.product(corners, repeat=2):
        assert int(random.multiply_high(word(a), word(b))[0]) == (a * b) >> 32


def test_below_takes_its_share_of_all_words():
    """`below(word, bound)` never decreases with `word`; each value has about equally many words.

    The smallest word gives 0, the largest word gives bound - 1.
    """
    words = jnp.asarray((np.arange(6 * 7 * 8 * 9) * 2**32 // (6 * 7 * 8 * 9)).astype(np.uint32))
    for bound in (1, 2, 3, 6, 7, 8, 9):
        values = np.asarray(random.below(words, bound))
        assert (np.diff(values) >= 0).all()
        assert abs(np.bincount(values, minlength=bound) - len(words) / bound).max() <= 1
    assert random.below(word(0, 2**32 - 1), 5).tolist() == [0, 4]


def test_below_takes_a_traced_bound_and_gives_int32():
    values = jax.jit(random.below)(word(0, 2**31, 2**32 - 1), jnp.int32(10))
    assert values.dtype == np.int32 and values.tolist() == [0, 5, 9]


def test_words_are_uniform_uint32():
    drawn = random.words(jax.random.key(0), 5)
    assert drawn.shape == (5,) and drawn.dtype == np.uint32 and len(set(drawn.tolist())) == 5


def test_choose_takes_the_largest_allowed_word_and_0_where_none_is_allowed():
    # `choose` returns the index of the largest allowed word. If several words are equally large, it
    # returns the last of their indices.
    words = word(2**30, 2**31, 2**29, 2**31)
    for allowed, chosen in (([1, 1, 1, 1], 3), ([1, 1, 1, 0], 1), ([0, 0, 1, 0], 2), ([0] * 4, 0)):
        assert random.choose(words, jnp.array(allowed, bool)).tolist() == chosen


def test_every_allowed_index_is_chosen_equally_often():
    words = jax.random.bits(jax.random.key(0), (6_000, 7), jnp.uint32)
    allowed = jnp.array([0, 1, 1, 0, 1, 0, 1], bool)
    drawn = np.asarray(jax.jit(jax.vmap(random.choose, (0, None)))(words, allowed))
    index, counts = np.unique(drawn, return_counts=True)
    assert index.tolist() == [1, 2, 4, 6] and chisquare(counts).pvalue > 1e-4


def test_permutation_ranks_the_words_and_keeps_the_order_of_equals():
    assert random.permutation(word(30, 10, 20)).tolist() == [2, 0, 1]
    assert random.permutation(word(5, 5, 1, 5)).tolist() == [1, 2, 0, 3]
    assert random.permutation(word(0, 2**32 - 1, 2**31)).tolist() == [0, 2, 1]


def test_every_permutation_comes_equally_often():
    words = jax.random.bits(jax.random.key(0), (6_000, 4), jnp.uint32)
    drawn = np.asarray(jax.jit(jax.vmap(random.permutation))(words))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 24 and chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("count", [1, 2, 6, 64, 1000])
def test_shuffled_numbers_are_all_there(count):
    order = random.shuffled(jax.random.key(count), count)
    assert order.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(count))


def test_every_order_of_four_comes_equally_often():
    keys = jax.random.split(jax.random.key(0), 24_000)
    orders = np.asarray(jax.vmap(lambda key: random.shuffled(key, 4))(keys))
    counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-4


def test_mix_is_one_to_one():
    """`mix` is one-to-one: the test inverts each of its steps."""
    inverse = [pow(c, -1, 2**32) for c in (0x846CA68B, 0x7FEB352D)]
    values = np.concatenate([np.arange(2**12), 2**32 - 1 - np.arange(2**12)])
    mixed = np.asarray(random.mix(jnp.asarray(values, jnp.uint32))).astype(np.uint64)
    mixed = mixed ^ (mixed >> 16)
    mixed = mixed * inverse[0] % 2**32
    mixed = mixed ^ (mixed >> 15) ^ (mixed >> 30)
    mixed = mixed * inverse[1] % 2**32
    mixed = mixed ^ (mixed >> 16)
    np.testing.assert_array_equal(mixed, values)


def test_hashed_words_are_uniform_over_counters_and_over_keys():
    counters = jnp.arange(20_000)
    keys = jax.random.split(jax.random.key(1), 20_000)
    over_counters = random.hashed(jax.random.key(0), counters)
    over_keys = random.hashed(keys, jnp.zeros(20_000, jnp.int32))
    for words in (over_counters, over_keys):
        for part in (words >> 28, words & 15):
            counts = np.bincount(np.asarray(part), minlength=16)
            assert chisquare(counts).pvalue > 1e-4
    assert len(np.unique(np.asarray(over_counters))) > 19_900


@pytest.mark.parametrize(("values", "count"), [(1, 1), (3, 3), (5, 9), (24, 36)])
def test_distinct_integers_are_drawn_among_those_that_remain(values, count):
    drawn = jax.random.bits(jax.random.key(values), (20, values), jnp.uint32)
    given = np.asarray(jax.jit(jax.vmap(lambda words: random.distinct(words, count)))(drawn))
    for words, row in zip(np.asarray(drawn).tolist(), given.tolist(), strict=True):
        rest, wanted = list(range(count)), []
        for one in words:
            wanted.append(rest.pop(one * len(rest) >> 32))
        assert row == wanted
