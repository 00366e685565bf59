"""Deprecated alias of `jaxenvs.render.animation`, which the next release removes."""

import warnings
from typing import Any

from . import animation

warnings.warn(
    "jaxenvs.render.film is now jaxenvs.render.animation; the old name goes with the next release",
    DeprecationWarning,
    stacklevel=2,
)


def __getattr__(name: str) -> Any:
    """Return a member of `animation`; `FILMS` is now `FORMATS`."""
    return getattr(animation, {"FILMS": "FORMATS"}.get(name, name))
