"""Small numbers side by side in one 32-bit word."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int32

from .settle import settled


def join(*fields: tuple[Any, int]) -> Int32[Array, "*batch"]:
    """Put values of so many bits side by side, the first lowest."""
    word, offset = jnp.int32(0), 0
    for value, bits in fields:
        word = word | (value.astype(jnp.int32) << offset)
        offset += bits
    return word


def cut(word: Int32[Array, "*batch"], *bits: int) -> list[Int32[Array, "*batch"]]:
    """Undo `join`."""
    values, offset = [], 0
    for count in bits:
        values.append((word >> offset) & ((1 << count) - 1))
        offset += count
    return values


def kept(*fields: tuple[Any, int]) -> list[Array]:
    """Return the values as they are, see `settled`: together in one word, flags as flags."""
    values = cut(settled(join(*fields)), *(bits for _, bits in fields))
    flags = [value.dtype == jnp.bool_ for value, _ in fields]
    return [v != 0 if flag else v for v, flag in zip(values, flags, strict=True)]
