"""`struct`: a frozen dataclass that is a pytree.

JAX's own `register_dataclass` makes a struct by its constructor, and JAX puts other things than
arrays into trees (`vmap` puts axes): a constructor whose types are checked refuses them. chex,
whose dataclasses do as these, costs a quarter of the library's import and makes Python write a
temporary file.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

from jax.tree_util import GetAttrKey, register_pytree_with_keys

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a class a frozen pytree with `replace`; its leaves come in the order of their names."""
    made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
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
    return made


class Struct:
    """What a type checker must know of a struct: `struct` adds these when it makes the class."""

    if TYPE_CHECKING:
        __dataclass_fields__: dict[str, Any]

        def replace(self, **changes: Any) -> Self:
            """Return a copy with some fields changed."""
            ...
