"""Tests that `stacked`, a `jnp.stack` for GPUs, gives the array of `jnp.stack` under any `vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.core.stacking import stacked

# Case -> (`in_axes` of each `vmap`, from the inner to the outer one; shape of the first argument;
# shape of the second argument).
BATCHES = {
    "none": ([], (), ()),
    "both": ([(0, 0)], (5,), (5,)),
    "one": ([(0, None)], (5,), ()),
    "nested": ([(0, 0), (0, 0)], (5, 3), (5, 3)),
    "other axis": ([(0, 0), (1, 0)], (3, 5), (5, 3)),
    "one in each": ([(0, None), (None, 0)], (3,), (5,)),
}


@pytest.mark.parametrize("batch", BATCHES)
def test_a_stack_for_gpus_is_jnp_stack(batch):
    axes, *shapes = BATCHES[batch]
    given = [np.arange(np.prod(shape), dtype=np.int32).reshape(shape) for shape in shapes]

    def batched(stack):
        function = lambda a, b: stack([a, b, a + b, jnp.int32(7)])  # noqa: E731
        for axis in axes:
            function = jax.vmap(function, axis)
        return jax.jit(function)(*given)

    ours, theirs = batched(stacked), batched(jnp.stack)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.bool_])
def test_a_stack_for_gpus_keeps_the_dtype(dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    rows = jax.vmap(lambda a, b: stacked([a, b]))(*values)
    np.testing.assert_array_equal(rows, values.T)
    assert rows.dtype == dtype


def test_a_batch_is_written_scalar_by_scalar():
    text = str(jax.make_jaxpr(jax.vmap(lambda a, b: stacked([a, b, a])))(*np.ones((2, 5), "f4")))
    assert "layout_constraint" in text and "f32[3,5]" in text and "f32[5,3]" in text
