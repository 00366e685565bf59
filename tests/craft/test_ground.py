"""Tests of `is_in` and `codes`, which look up blocks in sets that are stored as bits.

Some sets need more than one 32-bit word.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.craft.ground import codes, is_in

NUMBERS = np.arange(62, dtype=np.int32)
SETS = [{2}, {2, 7, 30}, {31}, {2, 30, 31, 32, 61}, set(range(17, 36)), set(range(62))]


@pytest.mark.parametrize("blocks", SETS)
def test_a_set_holds_its_blocks_and_no_other(blocks):
    assert set(np.flatnonzero(is_in(jnp.asarray(NUMBERS), blocks)).tolist()) == blocks


@pytest.mark.parametrize(("first", "second"), [({2}, {7}), ({2, 7, 25}, {3}), ({33}, {15})])
def test_codes_say_which_of_two_sets_holds_a_block(first, second):
    found = np.asarray(codes(jnp.asarray(NUMBERS), first, second))
    assert found.tolist() == [(n in first) | (n in second) << 1 for n in NUMBERS.tolist()]
