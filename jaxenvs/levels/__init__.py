"""Levels as data: read, write, load, save, change, check and solve levels and states."""

from .api import Entry, check, mutate, parse, read, stack, write
from .errors import LevelError, LevelWarning
from .files import load, save, shipped
from .reachable import distances
from .solving import (
    Solution,
    check_first_actions,
    check_solver,
    env_of,
    first_actions,
    has_first_actions,
    has_solver,
    solve,
)
from .source import from_levels
from .states import load_state, save_state

__all__ = [
    "Entry",
    "LevelError",
    "LevelWarning",
    "Solution",
    "check",
    "check_first_actions",
    "check_solver",
    "distances",
    "env_of",
    "first_actions",
    "from_levels",
    "has_first_actions",
    "has_solver",
    "load",
    "load_state",
    "mutate",
    "parse",
    "read",
    "save",
    "save_state",
    "shipped",
    "solve",
    "stack",
    "write",
]
