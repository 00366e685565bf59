"""`from_levels`: an environment whose episodes begin in given levels."""

import os
from collections.abc import Sequence
from typing import Any

from jaxtyping import PyTree

from ..core import checks
from ..core.env import Env, State
from ..core.wrappers.levels import FromLevels, LevelSet
from . import api
from .api import Entry
from .files import load


def from_levels(
    env: Env, levels: str | os.PathLike[str] | Sequence[PyTree[Any] | Entry]
) -> FromLevels:
    """Return `env` with resets that draw uniformly from the given levels.

    levels: the path of a file or folder for `load`, or a sequence of levels or of `Entry`s. All
        must have the same params, such as the time limit, and the same constructor fields; the
        environment gets these values.

    Raises `TypeError` for one level or stacked levels, and `ValueError` for no levels, for states
    instead of levels, and for levels with different params or fields.
    """
    named = isinstance(levels, (str, os.PathLike))
    found: Any = load(levels, env) if named else api.listed(levels, "from_levels")
    name = str(levels) if named else ""
    entries = [e if isinstance(e, Entry) else Entry(e) for e in found]
    _check(env, entries)
    stacked = api.stack(entries)
    first = entries[0]
    given = api.with_fields(env, first.fields)
    given = given.with_params(**first.params) if first.params else given
    return FromLevels(given, LevelSet(stacked, name))


def _check(env: Env, entries: Sequence[Entry]) -> None:
    """Raise an error for a state, for a level that does not fit `env`, or for different params."""
    for number, entry in enumerate(entries):
        if isinstance(entry.level, State):
            raise ValueError(
                f"levels: level {number} is a state, as its line `time:` says; remove the line"
            )
        where = f"levels: level {number}"
        checks.level_like(entry.level, lambda: api.bare(env).level_shape, where)
        if _settings(entry) != _settings(entries[0]):
            raise ValueError(
                f"levels: level {number} has the params {_listed(entry)}, level 0 has "
                f"{_listed(entries[0])}; all levels of a file share their params"
            )


def _settings(entry: Entry) -> dict[str, Any]:
    """Return the params and fields that the text of a level sets."""
    return entry.params | entry.fields


def _listed(entry: Entry) -> str:
    return ", ".join(f"{name}={value}" for name, value in _settings(entry).items()) or "no params"
