"""`Part`, the superclass of `PlayerPart`, `LearnerPart`, `BatchPart`, `TextPart`, `UpstreamPart`.

These five are the base classes of `Env` whose members have defaults.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    from ..spaces import Space


class Part:
    """Superclass of the base classes of `Env`, such as `PlayerPart`.

    `Wrapper` forwards their members to the wrapped environment.
    """

    if TYPE_CHECKING:  # members that `Env` defines, declared here for type checkers

        @property
        def name(self) -> str: ...

        @property
        def action_space(self) -> Space: ...

        @property
        def observation_space(self) -> Space: ...

        def observe(self, state: Any, params: Any = None) -> PyTree[Array]: ...


def members(env_class: type) -> Iterator[tuple[str, Any]]:
    """Yield (name, default) of each public member of `Env` and its bases, except `Derived`."""
    for kind in env_class.__mro__:
        if issubclass(kind, Part) and kind is not Part:
            yield from ((name, it) for name, it in vars(kind).items() if name[0] != "_")
