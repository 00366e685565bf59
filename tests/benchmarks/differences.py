"""Compare two rollouts of the same actions and report the first difference."""

import operator
from typing import NamedTuple

import jax
import numpy as np

FLOATS = (2**23, 0x7F800000)  # range of the 32-bit words of positive, normal float32 numbers


class Rounding(NamedTuple):
    """Largest difference between floats that still count as equal."""

    units: int = 0  # tolerance in units in the last place of the larger float
    absolute: float = 0.0


def assert_alike(here, there, rounding=None):
    """Raise `AssertionError` with the earliest difference between two dicts of arrays.

    Integers must be equal. Floats must be equal too, except for outputs with a tolerance in
    `rounding`; its keys are `reset`, `end`, and keys under `steps` such as `obs`. Leaves under
    `steps` have the environment step as first axis. If leaves under `steps` differ, the earliest of
    these differences is reported; otherwise a difference in another leaf.
    """
    assert jax.tree.structure(here) == jax.tree.structure(there)
    found = []
    pairs = zip(jax.tree_util.tree_leaves_with_path(here), jax.tree.leaves(there), strict=True)
    for order, ((path, a), b) in enumerate(pairs):
        assert a.shape == b.shape and a.dtype == b.dtype, jax.tree_util.keystr(path)
        stepped = path[0].key == "steps"
        allowed = (rounding or {}).get(path[1 if stepped else 0].key, Rounding())
        different = np.argwhere(~_alike(a, b, allowed))
        if len(different):
            step = different[0][0] if stepped else np.inf
            found.append((step, order, path, different, a, b, stepped))
    if found:
        raise AssertionError(_described(*min(found, key=operator.itemgetter(0, 1))[2:], found))


def _alike(a, b, allowed):
    same = np.asarray(a == b)
    if not np.issubdtype(a.dtype, np.floating):
        return same
    # NumPy warns about inf - inf. Silence it: `same` already counts equal infinities as equal.
    with np.errstate(invalid="ignore"):
        most = allowed.units * np.spacing(np.maximum(abs(a), abs(b))) + allowed.absolute
        return same | (abs(a - b) <= most) | (np.isnan(a) & np.isnan(b))


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
    """Format a number; for an int32 that may be the bits of a float32, add this float32."""
    if value.dtype == np.int32 and FLOATS[0] <= value < FLOATS[1]:
        return f"{value} (as float32 {value.view(np.float32)!s}, as bits {int(value):#010x})"
    return str(value)
