"""`struct`, a class decorator: a frozen dataclass that is a pytree, compared by value.

JAX's own `register_dataclass` is not used, because it rebuilds a struct by calling its constructor.
JAX also rebuilds trees with leaves that are not arrays, such as the axes of `vmap`, and a
constructor that checks types would reject such leaves. The dataclasses of chex avoid this problem,
but importing chex takes a quarter of the library's import time and writes a temporary file.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import GetAttrKey, register_pytree_with_keys

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and a pytree, with the method `replace`.

    The leaves are ordered by field name. Two structs are equal if they have the same class and
    their leaves agree in shape, dtype and every bit. A Python number counts as the 32-bit array to
    which JAX converts it. `==` returns a bool, and equal structs have equal hashes, so params can
    be static arguments of `jit`. Values of traced leaves are unknown, so `==` and `hash` raise
    `TypeError` for them.
    """
    made = dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
    names = tuple(sorted(field.name for field in dataclasses.fields(made)))  # type: ignore[arg-type]

    def flatten(it: Any) -> tuple[list[Any], tuple[str, ...]]:
        return [getattr(it, name) for name in names], names

    def flatten_with_keys(it: Any) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        return [(GetAttrKey(name), getattr(it, name)) for name in names], names

    def unflatten(_: tuple[str, ...], leaves: Any) -> Any:
        it = object.__new__(made)
        it.__dict__.update(zip(names, leaves, strict=True))
        return it

    register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    made.replace = dataclasses.replace  # type: ignore[attr-defined]
    for name, function in (("__eq__", _equal), ("__hash__", _hash)):
        if name not in vars(cls):
            setattr(made, name, function)
    return made


class Struct:
    """Base class that declares for type checkers the methods that the decorator `struct` adds."""

    if TYPE_CHECKING:
        __dataclass_fields__: dict[str, Any]

        def replace(self, **changes: Any) -> Self:
            """Return a copy with some fields changed."""
            ...


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if type(self) is not type(other):
        return NotImplemented
    return _value(self) == _value(other)


def _hash(self: Any) -> int:
    return hash(_value(self))


def _value(it: Any) -> tuple[Any, ...]:
    """Return a hashable tuple: a struct's tree structure, then dtype, shape, bytes of each leaf."""
    leaves, structure = jax.tree.flatten(it)
    return structure, *(_leaf_value(leaf, it) for leaf in leaves)


def _leaf_value(leaf: Any, owner: Any) -> Any:
    if isinstance(leaf, Tracer):
        raise TypeError(
            f"a {type(owner).__name__} with traced leaves cannot be compared or hashed; give it to "
            "the transformed function as an ordinary argument, not a static one"
        )
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return str(leaf.dtype), _leaf_value(jax.random.key_data(leaf), owner)
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        return leaf
    if type(leaf) is float:
        array = array.astype(np.float32)
    if type(leaf) is int and -(2**31) <= leaf < 2**31:
        array = array.astype(np.int32)
    return array.dtype, array.shape, array.tobytes()
