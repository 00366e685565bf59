"""Select the games and levels that episodes can draw.

A selection does not change the shapes of arrays, so a policy trained on some levels can play all
other levels.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32

from ..core.checks import suggestion
from .collection import Collection

EVERY = 3  # the split `test` has every third level of a game
SPLITS = ("all", "train", "test")
_RANGE = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?(?::([1-9]\d{,8}))?")


class Selection(NamedTuple):
    """The levels that episodes can draw, grouped by game. All arrays are NumPy's."""

    first: Int32[np.ndarray, " games"]  # index in `places` of each selected game's first level
    counts: Int32[np.ndarray, " games"]  # number of selected levels of each selected game
    places: Int32[np.ndarray, " selected"]  # index of each selected level in the collection


def select(collection: Collection, levels: str, games: str) -> Selection:
    """Return the levels that episodes can draw; games without a selected level are left out.

    `levels` is a split (`SPLITS`), or a range such as `0:20` of the levels of each game. `games`
    lists names of games; see `_chosen`. Raises `ValueError` for a name that does not exist, and if
    no level is selected.
    """
    names = [Path(game.name).stem for game in collection.games]
    chosen = _chosen(names, games)
    numbers = [
        _numbers(levels, int(collection.levels[game])) + collection.first[game] for game in chosen
    ]
    kept = [each for each in numbers if len(each)]
    if not kept:
        counts = ", ".join(f"{names[game]} {collection.levels[game]}" for game in chosen)
        raise ValueError(
            f"levels={levels!r} selects no level; the numbers of levels are: {counts}. Levels are "
            f"counted from 0, and `test` has the levels {EVERY - 1}, {2 * EVERY - 1} and so on"
        )
    counts = np.array([len(each) for each in kept], np.int32)
    return Selection(
        first=(np.cumsum(counts) - counts).astype(np.int32),
        counts=counts,
        places=np.concatenate(kept).astype(np.int32),
    )


def _numbers(levels: str, count: int) -> np.ndarray:
    """Return the numbers of the levels that `levels` selects in a game with `count` levels."""
    every = np.arange(count)
    if levels in SPLITS:
        is_test = every % EVERY == EVERY - 1
        return {"all": every, "train": every[~is_test], "test": every[is_test]}[levels]
    found = _RANGE.fullmatch(levels)
    if not found:
        raise ValueError(
            f"levels={levels!r} is not all, train, test or a range FROM:TO or FROM:TO:STEP, such "
            f"as 0:20{suggestion(levels, SPLITS)}"
        )
    return every[slice(*(int(each) if each else None for each in found.groups()))]


def _chosen(names: list[str], games: str) -> list[int]:
    """Return the indices of the games that a list such as `crates,relay` or `-scree` selects.

    A name with a minus excludes its game. If all names have a minus, all games except these are
    selected. An empty list selects all games.
    """
    given = [each.strip() for each in games.split(",") if each.strip()]
    for name in given:
        if name.removeprefix("-") not in names:
            near = suggestion(name.removeprefix("-"), names)
            raise ValueError(
                f"games={games!r}: no game is called {name.removeprefix('-')!r}; the games are "
                f"{', '.join(names)}{near}"
            )
    wanted = {name for name in given if not name.startswith("-")} or {*names}
    wanted -= {name.removeprefix("-") for name in given if name.startswith("-")}
    if not wanted:
        raise ValueError(f"games={games!r} leaves no game; the games are {', '.join(names)}")
    return [i for i, name in enumerate(names) if name in wanted]
