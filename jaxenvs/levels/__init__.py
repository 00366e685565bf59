"""Levels as data: read, write, load, save, change and check levels and states."""

from .api import Entry, check, mutate, parse, read, stack, write
from .errors import LevelError, LevelWarning
from .files import load, save, shipped
from .source import from_levels
from .states import load_state, save_state

__all__ = [
    "Entry",
    "LevelError",
    "LevelWarning",
    "check",
    "from_levels",
    "load",
    "load_state",
    "mutate",
    "parse",
    "read",
    "save",
    "save_state",
    "shipped",
    "stack",
    "write",
]
