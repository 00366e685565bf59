"""Tests of the ranks of rows (number of selected rows before each row) against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.core.ranks import Ranks, numbers_from


@jax.jit
def ranked(mask):
    ranks = Ranks.of(mask)
    return ranks.total, ranks.of_rows(), ranks.rows()


# The computation divides rows into words of 32 and blocks of 1,024. Test numbers of rows near 32
# and 1,024, and a number of rows with several blocks.
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 1023, 1024, 1025, 5000])
def test_ranks_are_those_of_numpy(rows):
    rng = np.random.default_rng(rows)
    for share in (0.0, 0.004, 0.5, 1.0):
        mask = rng.random(rows) < share
        count, of_rows, listed = ranked(jnp.asarray(mask))
        selected = np.flatnonzero(mask)
        assert count == selected.size
        np.testing.assert_array_equal(of_rows, np.cumsum(mask) - mask)
        np.testing.assert_array_equal(listed, np.pad(selected, (0, rows - selected.size)))


def test_numbers_behind_the_last_selected_row_are_distinct_and_beyond_the_batch():
    listed, count = jnp.array([2, 5, 6, 0, 0, 0, 0], jnp.int32), jnp.int32(3)
    assert numbers_from(listed, 1, 4, count).tolist() == [5, 6, 9, 10]
    assert numbers_from(listed, 6, 4, count).tolist() == [7, 8, 9, 10]
