"""Barriers in the middle of a rule of the game: on a CPU, XLA computes their arguments only once.

A rule is the function of one stage of a step, see the module `step`. The functions of this module
return their arguments unchanged: read `once(x)` as `x`.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Array

from ...core.bits import kept
from ...core.settle import settled
from ..packing import Field, read, stored, value_of, written

# Return a pytree of arrays unchanged. On a CPU, XLA then stores the arrays in memory, instead of
# computing them again in each operation that uses them. On a GPU, `once` has no effect.
once = settled


def once_joined(*values: Any, bits: Sequence[int] = ()) -> list[Array]:
    """Return several integers unchanged; on a CPU, XLA computes them only once.

    The integers are packed into one word, which passes through `once` and is unpacked again. `bits`
    has the number of bits of each integer; by default, each integer has one bit.
    """
    return kept(*zip(values, bits or (1,) * len(values), strict=True))


def held(fields: Sequence[Field], it: Any) -> Any:
    """Return the NamedTuple `it` unchanged; on a CPU, XLA computes its fields `fields` only once.

    The fields are packed into one word, which passes through `once`, and unpacked again.
    """
    values = [stored(field, read(it, field.name)) for field in fields]
    joined = once_joined(*values, bits=[field.bits for field in fields])
    found = {f.name: value_of(f, value) for f, value in zip(fields, joined, strict=True)}
    return written(it, found)
