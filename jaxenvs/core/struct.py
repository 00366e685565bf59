"""`struct`: `chex.dataclass(frozen=True, kw_only=True)` in words that type checkers understand."""

from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

import chex

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a class a frozen pytree with `replace`."""
    return chex.dataclass(frozen=True, kw_only=True)(cls)


class Struct:
    """What a type checker must know of a struct: chex adds these when it makes the class."""

    if TYPE_CHECKING:
        __dataclass_fields__: dict[str, Any]

        def replace(self, **changes: Any) -> Self:
            """Return a copy with some fields changed."""
            ...
