"""The base of the parts of `Env`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    from ..spaces import Space


class Part:
    """Members of `Env` that have a default; `Wrapper` forwards them to the wrapped environment."""

    if TYPE_CHECKING:  # members of `Env` that parts read

        @property
        def name(self) -> str: ...

        @property
        def action_space(self) -> Space: ...

        @property
        def observation_space(self) -> Space: ...

        def observe(self, state: Any, params: Any = None) -> PyTree[Array]: ...


def members(env_class: type) -> Iterator[tuple[str, Any]]:
    """Yield name and default of the public members of `Env` and its parts, not of `Derived`."""
    for kind in env_class.__mro__:
        if issubclass(kind, Part) and kind is not Part:
            yield from ((name, it) for name, it in vars(kind).items() if name[0] != "_")
