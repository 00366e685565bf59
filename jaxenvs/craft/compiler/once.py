"""Barriers in the middle of a rule: XLA computes the marked values once. Read `once(x)` as `x`."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Array

from ...core.bits import kept
from ...core.settle import settled
from ..packing import Field, read, stored, value_of, written

once = settled  # return a pytree of arrays unchanged, computed once


def once_joined(*values: Any, bits: Sequence[int] = ()) -> list[Array]:
    """Return integers unchanged, computed once, packed in a word; `bits` are their widths or 1."""
    return kept(*zip(values, bits or (1,) * len(values), strict=True))


def held(fields: Sequence[Field], it: Any) -> Any:
    """Return a NamedTuple unchanged; its `fields` are computed once, packed in a word."""
    values = [stored(field, read(it, field.name)) for field in fields]
    joined = once_joined(*values, bits=[field.bits for field in fields])
    found = {f.name: value_of(f, value) for f, value in zip(fields, joined, strict=True)}
    return written(it, found)
