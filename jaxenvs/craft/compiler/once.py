"""Barriers in the middle of a rule: on a CPU, XLA computes their arguments only once.

The functions return their arguments unchanged: read `once(x)` as `x`.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Array

from ...core.bits import kept
from ...core.settle import settled
from ..packing import Field, read, stored, value_of, written

once = settled  # returns a pytree of arrays unchanged; on a CPU, XLA computes the arrays only once


def once_joined(*values: Any, bits: Sequence[int] = ()) -> list[Array]:
    """`once` for several integers: they are packed into one word, which XLA computes once.

    The word is then unpacked. `bits` has the width of each integer; by default each has one bit.
    """
    return kept(*zip(values, bits or (1,) * len(values), strict=True))


def held(fields: Sequence[Field], it: Any) -> Any:
    """`once` for fields of a NamedTuple, which pass through one packed word, see `once_joined`."""
    values = [stored(field, read(it, field.name)) for field in fields]
    joined = once_joined(*values, bits=[field.bits for field in fields])
    found = {f.name: value_of(f, value) for f, value in zip(fields, joined, strict=True)}
    return written(it, found)
