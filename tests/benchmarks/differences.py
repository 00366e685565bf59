"""Report the first difference between two rollouts of the same actions."""

import operator

import jax
import numpy as np

FLOATS = (2**23, 0x7F800000)  # words between them can be positive, normal float32 numbers


def assert_alike(here, there, rounding=0.0):
    """Raise `AssertionError` that describes the earliest difference between two dicts of arrays.

    Floats are compared with a tolerance, `rounding` absolute and 1e-6 relative, all else exactly.
    Under the key `steps` the first axis of every leaf counts environment steps; leaves under other
    keys are reported where no step differs.
    """
    assert jax.tree.structure(here) == jax.tree.structure(there)
    found = []
    pairs = zip(jax.tree_util.tree_leaves_with_path(here), jax.tree.leaves(there), strict=True)
    for order, ((path, a), b) in enumerate(pairs):
        assert a.shape == b.shape and a.dtype == b.dtype, jax.tree_util.keystr(path)
        different = np.argwhere(~_alike(a, b, rounding))
        if len(different):
            stepped = path[0].key == "steps"
            step = different[0][0] if stepped else np.inf
            found.append((step, order, path, different, a, b, stepped))
    if found:
        raise AssertionError(_described(*min(found, key=operator.itemgetter(0, 1))[2:], found))


def _alike(a, b, rounding):
    if a.dtype == np.float32:
        return np.isclose(a, b, rtol=1e-6, atol=rounding, equal_nan=True)
    return np.asarray(a == b)


def _described(path, different, a, b, stepped, found):
    index = tuple(map(int, different[0]))
    axes = ("step", "row")[0 if stepped else 1 :]
    place = [f"{axis} {number}" for axis, number in zip(axes, index, strict=False)]
    place.append(f"index {index[len(axes) :]}")
    lines = [
        f"{jax.tree_util.keystr(path)} differs first in {', '.join(place)}:",
        f"  CPU {_value(a[index])}",
        f"  GPU {_value(b[index])}",
        f"  {len(different)} of {a.size} elements differ, in all:",
    ]
    lines += [f"  {jax.tree_util.keystr(other[2])}: {len(other[3])}" for other in found]
    return "\n".join(lines)


def _value(value):
    """A number, also as the float32 that its word may hold."""
    if value.dtype == np.int32 and FLOATS[0] <= value < FLOATS[1]:
        return f"{value} (as float32 {value.view(np.float32)!s}, as bits {int(value):#010x})"
    return str(value)
