"""Conversion between the task of a MiniGrid level and the mission and picture in the level's text.

A task is an int32 with the objects and cells of a mission, see `jaxenvs.grid.tasks`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.checks import closest, counted
from ...levels.blocks import Block, Header
from ...levels.cells import Cell, cell, cells, integer
from ...levels.errors import LevelError
from .. import missions, tiles
from ..state import GridState
from ..tiles import Colour, Kind
from . import kinds
from .picture import error


class Form(NamedTuple):
    """All possible tasks of an environment class, and whether a task contains the target's cell."""

    tasks: tuple[int, ...]  # packed tasks, with 0 in place of the target's cell
    has_cell: bool = False  # whether bytes 0 to 2 of a task are the target's row, column and tile


def _things(*kinds: Kind) -> list[int]:
    return [kind | colour << 4 for kind in kinds for colour in Colour]


_ALL = _things(Kind.KEY, Kind.BALL, Kind.BOX)
FORMS = {
    "Fetch": Form(
        tuple(t | phrase << 8 for t in _things(Kind.KEY, Kind.BALL) for phrase in range(5))
    ),
    "GoToDoor": Form(tuple(t << 16 for t in _things(Kind.CLOSED_DOOR)), has_cell=True),
    "GoToObject": Form(tuple(t << 16 for t in _ALL), has_cell=True),
    "PutNear": Form(tuple(t << 16 | moved << 24 for t in _ALL for moved in _ALL), has_cell=True),
    "LockedRoom": Form(tuple(locked | key << 8 for locked in Colour for key in Colour)),
    "PickUpWorld": Form(tuple(_ALL)),
}
DOORS = (Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)


def form(env: Any) -> Form | None:
    """Return all possible tasks of an environment; None if its mission names no objects."""
    return next((FORMS[name] for name in kinds.classes(env) if name in FORMS), None)


def mission(env: Any, task: Any) -> str:
    """Return the mission of a task as text."""
    return missions.text(jax.device_get(_words(env)(task)))


@functools.lru_cache(maxsize=64)
def _words(env: Any) -> Any:
    return jax.jit(functools.partial(_words_of, env))


def _words_of(env: Any, task: Any) -> Any:
    nothing = jnp.full(env.grid_shape, tiles.EMPTY, jnp.uint8)
    state = GridState(time=jnp.int32(0), grid=nothing, agent=jnp.int32(0), task=task)
    return env.mission_words(state)


@functools.lru_cache(maxsize=64)
def sentences(env: Any) -> dict[str, int | None]:
    """Return a dict from the text of each mission of `env` to its packed task.

    The bytes for the target's cell are 0, because this cell differs between levels. If the only
    mission names no objects, its task is None.
    """
    found = form(env)
    if found is None:
        return {mission(env, _no_task(env)): None}
    tasks = np.array(found.tasks, np.int32)
    words = jax.device_get(jax.jit(jax.vmap(functools.partial(_words_of, env)))(tasks))
    return {missions.text(row): int(task) for row, task in zip(words, tasks, strict=True)}


def _no_task(env: Any) -> Any:
    """Return zeros in the shape of the tasks of `env`; None if it has no task."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), env.level_shape.task)


def of_mission(env: Any, block: Block) -> int | None:
    """Return the packed task of the mission that the header of `block` names.

    The bytes for the target's cell are still 0. Raises `LevelError` if `env` has no such mission,
    or if the header is missing although `env` has several missions.
    """
    known, header = sentences(env), block.get("mission")
    if header is None:
        if len(known) > 1:
            example = next(iter(known))
            raise LevelError(
                f"this environment has several missions; add a line such as `mission: {example}`",
                block.line,
            )
        return next(iter(known.values()))
    sentence = " ".join(header.value.split())
    if sentence not in known:
        near = closest(sentence, known, 1) or list(known)[:1]
        raise header.error(f"this environment has no such mission; it has one such as `{near[0]}`")
    return known[sentence]


def complete(env: Any, block: Block, task: int | None, grid: np.ndarray, *, begins: bool) -> Any:
    """Return a task as an array, with its cells filled in from the headers or the picture.

    begins: whether the grid is the start of an episode. The grid must then have the objects of the
        mission.

    Raises `LevelError` if the picture does not fit the task.
    """
    like = env.level_shape.task
    if like is None:
        return None
    if like.ndim:
        return _balls(block, grid, like.shape[0])
    found = form(env)
    if found is None:
        row, column = _memory_cell(env, block, grid)
        return np.int32(row | column << 8)
    assert task is not None
    if found.has_cell:
        row, column = _target(block, grid, task >> 16 & 0xFF)
        task |= row | column << 8
    if begins:
        for tile in named_by(env, task):
            if not _alike(grid, tile).any():
                raise _mission_error(block, f"the picture has no {tiles.name(tile)}")
    return np.int32(task)


def named_by(env: Any, task: Any) -> tuple[Any, ...]:
    """Return the tile bytes of a mission's objects, except a target whose cell is in the task."""
    name = next(name for name in kinds.classes(env) if name in FORMS)
    if name == "LockedRoom":
        locked, other = task & 0xFF, (task >> 8) & 0xFF
        return Kind.LOCKED_DOOR | locked << 4, Kind.CLOSED_DOOR | other << 4
    if name == "PutNear":
        return ((task >> 24) & 0xFF,)
    return () if FORMS[name].has_cell else (task & 0xFF,)


def _alike(grid: np.ndarray, tile: int) -> np.ndarray:
    """Return a mask of the cells with the tile `tile`; for a door, of all doors of its colour."""
    if tile & 15 not in DOORS:
        return grid == tile
    return np.isin(grid & 15, DOORS) & (grid >> 4 == tile >> 4)


def _target(block: Block, grid: np.ndarray, tile: int) -> Cell:
    """Return the cell in the header `target`; without this header, the only cell with `tile`."""
    header = block.get("target")
    if header is not None:
        return cell(header, header.value, grid.shape)
    found = np.argwhere(_alike(grid, tile)).tolist()
    if len(found) != 1:
        raise _mission_error(
            block,
            f"the picture has {counted(len(found), 'cell')} with a {tiles.name(tile)}; add "
            "`target: row,column` with the cell where the object is at the start",
        )
    return found[0][0], found[0][1]


def _memory_cell(env: Any, block: Block, grid: np.ndarray) -> Cell:
    """Return the cell of a Memory level that the agent must enter to succeed.

    The header `target` names this cell. Without the header, it is the cell next to the matching
    object.
    """
    header = block.get("target")
    if header is not None:
        return cell(header, header.value, grid.shape)
    middle = grid.shape[0] // 2
    shown, above, below = (
        [int(c) for c in np.flatnonzero(np.isin(grid[row] & 15, (Kind.KEY, Kind.BALL)))]
        for row in (middle - 1, middle - 2, middle + 2)
    )
    matches = above and below and shown == [1] and above == below and len(above) == 1
    ends = grid[[middle - 2, middle + 2], above[0]].tolist() if matches else []
    seen = int(grid[middle - 1, 1])
    if ends.count(seen) != 1:
        raise error(
            block,
            (middle - 1, 1),
            "there is not exactly one matching object at the end of the hallway; add `target: "
            "row,column` with the cell of success",
        )
    return (middle - 1 if ends[0] == seen else middle + 1), above[0]


def _balls(block: Block, grid: np.ndarray, count: int) -> np.ndarray:
    """Return the packed cells of the moving balls, in the order of the header `balls`.

    Without this header, the order is row by row.
    """
    ball, header = Kind.BALL | Colour.BLUE << 4, block.get("balls")
    drawn = [(row, column) for row, column in np.argwhere(grid == ball).tolist()]
    found = drawn if header is None else cells(header, header.value, grid.shape)
    if sorted(found) != drawn:
        assert header is not None
        raise header.error("name the cell of each blue ball once")
    if len(found) != count:
        raise LevelError(
            f"the picture has {counted(len(found), 'blue ball')}, this environment has {count}",
            block.line,
        )
    return np.array([row | column << 8 for row, column in found], np.int32)


def _mission_error(block: Block, message: str) -> LevelError:
    header = block.get("mission")
    return LevelError(message, block.line) if header is None else header.error(message)


def lines(env: Any, task: Any, grid: np.ndarray) -> list[tuple[str, str]]:
    """Return the header `balls` or `target` with the cells of a task; [] if a task has no cells."""
    like = env.level_shape.task
    if like is None:
        return []
    parts = np.atleast_1d(np.asarray(task))
    where = "; ".join(f"{part & 0xFF},{part >> 8 & 0xFF}" for part in parts)
    if like.ndim:
        return [("balls", where)]
    found = form(env)
    return [("target", where)] if found is None or found.has_cell else []


def raw_task(header: Header, like: Any) -> np.ndarray:
    """Parse the integers of the header `task` as a packed task, with the shape of `like`."""
    if like is None:
        raise header.error("levels of this environment have no task; remove the line")
    parts = header.value.split()
    if len(parts) != like.size:
        raise header.error(f"give {like.size} whole numbers, separated by spaces")
    low, high = np.iinfo(like.dtype).min, np.iinfo(like.dtype).max
    numbers = [integer(header, part, int(low), int(high)) for part in parts]
    return np.array(numbers, like.dtype).reshape(like.shape)


def check_mission(block: Block, wanted: str) -> None:
    """Raise `LevelError` if the header `mission` is not `wanted`, the mission of the task."""
    header = block.get("mission")
    if header is not None and " ".join(header.value.split()) != wanted:
        raise header.error(f"the line `task:` has the mission {wanted!r}; remove one of the lines")
