"""Deprecated: the old place of two functions; importing this module causes a warning."""

import warnings

from ..core.gridworld import direction_vector as direction_vector
from .facts import observation_layout as observation_layout

warnings.warn(
    "the functions of jaxenvs.grid.view are now jaxenvs.core.gridworld.direction_vector and "
    "jaxenvs.grid.facts.observation_layout; the old name goes with the next release",
    DeprecationWarning,
    stacklevel=2,
)
