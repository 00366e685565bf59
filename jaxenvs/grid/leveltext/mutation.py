"""Random edits of levels of MiniGrid, inside `jit`.

An edit toggles a wall; moves the agent, the goal or an object; paints an object; opens, closes or
locks a door; or adds or removes an object. An edit is undone if the level then lacks an object of
its mission, and does nothing if the level has no suitable cell.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ...core.random import Key, below, choose, words
from .. import tasks, tiles
from ..placement import item
from ..state import Level
from ..tiles import Colour, Kind
from . import goals, kinds

PORTABLE = (Kind.KEY, Kind.BALL, Kind.BOX, Kind.KEY_BOX)
DOORS = goals.DOORS
BALL = Kind.BALL | Colour.BLUE << 4  # tile byte of a moving ball of Dynamic-Obstacles
Change = Callable[[Key, Level], Level]


class Edits(NamedTuple):
    """The random edits for an environment, and functions to update and to check an edited level."""

    changes: Sequence[Change]
    # Updates the fields of a level that follow from its grid, such as the cells of moving balls.
    settled: Callable[[Any], Any]
    # Whether a level has all objects of its mission; an edit to an invalid level is undone.
    is_valid: Callable[[Any], Bool[Array, ""]]


def mutate(env: Any, key: Key, level: Level, edits: int | Array) -> Level:
    """Return a level after `edits` random edits, each drawn uniformly from the edits of `env`."""
    settled, is_valid = functools.partial(_settled, env), functools.partial(_is_valid, env)
    fixed = env.level_shape.task is not None and bool(env.level_shape.task.ndim)
    return edited(Edits(changes(env, fixed), settled, is_valid), key, level, edits)


def edited(of: Edits, key: Key, level: Any, edits: int | Array) -> Any:
    """Return a level after `edits` random edits, each drawn uniformly from `of.changes`."""

    def edit(number: Array, level: Any) -> Any:
        key_which, key_change = jax.random.split(jax.random.fold_in(key, number))
        which = below(words(key_which, 1)[0], len(of.changes))
        changed = of.settled(jax.lax.switch(which, of.changes, key_change, level))
        fine = of.is_valid(changed)
        return jax.tree.map(lambda new, old: jnp.where(fine, new, old), changed, level)

    return jax.lax.fori_loop(0, edits, edit, of.settled(level))


def changes(env: Any, fixed: bool) -> list[Change]:
    """Return the random edits that suit levels of `env`, as functions of a key and a level.

    fixed: whether to omit edits that paint, add or remove objects. It is True if the environment
        has moving balls, whose number must not change.
    """
    known = set(kinds.of(env) or kinds.KINDS["ObstructedWorld"])
    if "Memory" in kinds.classes(env):
        known = set()  # no edits of objects, because the objects determine the cell of success
    found: list[Change] = [toggle_wall, move_agent]
    movable = tuple(known & {*PORTABLE, Kind.GOAL, Kind.LAVA})
    thing = [kind for kind in (Kind.KEY, Kind.BALL, Kind.BOX) if kind in known]
    if movable:
        found.append(functools.partial(move_object, movable))
    if thing and not fixed:
        found += [paint, functools.partial(add_object, thing), remove_object]
    return [*found, turn_door] if known & set(DOORS) else found


def toggle_wall(key: Key, level: Level) -> Level:
    """Turn a random inner wall into an empty cell, or a random empty cell into a wall."""
    inner = np.zeros(level.grid.shape, bool)
    inner[1:-1, 1:-1] = True
    is_wall = level.grid == tiles.WALL
    cell, found = pick(key, (is_wall | _free(level)) & inner)
    code = jnp.where(is_wall.reshape(-1)[cell], jnp.uint8(tiles.EMPTY), jnp.uint8(tiles.WALL))
    return _put(level, cell, code, found)


def move_agent(key: Key, level: Level) -> Level:
    """Move the agent to a random empty cell, with a random direction."""
    key_cell, key_turn = jax.random.split(key)
    cell, found = pick(key_cell, _free(level))
    row, column = cell // level.grid.shape[1], cell % level.grid.shape[1]
    pose = jnp.stack([row, column, below(words(key_turn, 1)[0], 4)]).astype(jnp.int8)
    return level.replace(pose=jnp.where(found, pose, level.pose))


def move_object(movable: tuple[Kind, ...], key: Key, level: Level) -> Level:
    """Move a random object of the kinds `movable` to a random empty cell.

    If the level's task has the cell of this object, the task gets the new cell.
    """
    key_old, key_new = jax.random.split(key)
    old, found = pick(key_old, tiles.is_any(level.grid, *movable))
    new, free = pick(key_new, _free(level))
    code, width = level.grid.reshape(-1)[old], level.grid.shape[1]
    moved = _put(_put(level, old, jnp.uint8(tiles.EMPTY), found & free), new, code, found & free)
    if level.task is None or level.task.ndim:
        return moved
    packed = [tasks.pack(cell // width, cell % width) for cell in (old, new)]
    follows = ((level.task & 0xFFFF) == packed[0]) & found & free & (level.task > 0xFFFF)
    return moved.replace(task=jnp.where(follows, (level.task & ~0xFFFF) | packed[1], level.task))


def paint(key: Key, level: Level) -> Level:
    """Give a random portable object or door a random colour.

    A grey box with a key stays grey; its key gets the colour.
    """
    key_cell, key_colour = jax.random.split(key)
    cell, found = pick(key_cell, tiles.is_any(level.grid, *PORTABLE, *DOORS))
    colour = below(words(key_colour, 1)[0], len(Colour)).astype(jnp.uint8)
    code = (level.grid.reshape(-1)[cell] & jnp.uint8(15)) | (colour << jnp.uint8(4))
    return _put(level, cell, code, found)


def add_object(thing: list[Kind], key: Key, level: Level) -> Level:
    """Add an object of a random kind in `thing`, with a random colour, in a random empty cell."""
    key_cell, key_look = jax.random.split(key)
    cell, found = pick(key_cell, _free(level))
    look = words(key_look, 2)
    kind = jnp.asarray(np.array(thing, np.int32))[below(look[0], len(thing))]
    code = item((kind - Kind.KEY) * len(Colour) + below(look[1], len(Colour)))
    return _put(level, cell, code, found)


def remove_object(key: Key, level: Level) -> Level:
    """Remove a random portable object."""
    cell, found = pick(key, tiles.is_any(level.grid, *PORTABLE))
    return _put(level, cell, jnp.uint8(tiles.EMPTY), found)


def turn_door(key: Key, level: Level) -> Level:
    """Open, close or lock a random door, but not one in whose cell the agent stands."""
    key_cell, key_kind = jax.random.split(key)
    cell, found = pick(key_cell, tiles.is_any(level.grid, *DOORS) & ~_agent(level))
    kind = jnp.asarray(np.array(DOORS, np.uint8))[below(words(key_kind, 1)[0], len(DOORS))]
    return _put(level, cell, (level.grid.reshape(-1)[cell] & jnp.uint8(0xF0)) | kind, found)


def _settled(env: Any, level: Level) -> Level:
    """Set the task of a level with moving balls to the cells of its balls, row by row."""
    if level.task is None or not level.task.ndim:
        return level
    rows, columns = jnp.nonzero(level.grid == BALL, size=level.task.shape[0], fill_value=0)
    return level.replace(task=tasks.pack(rows, columns))


def _is_valid(env: Any, level: Level) -> Bool[Array, ""]:
    """Return whether a level has all objects that its mission names, and all its moving balls."""
    found = goals.form(env)
    if level.task is not None and level.task.ndim:
        return (level.grid == BALL).sum(dtype=jnp.int32) == level.task.shape[0]
    if found is None:
        return jnp.ones((), jnp.bool_)
    fine = jnp.ones((), jnp.bool_)
    for code in goals.named_by(env, level.task):
        fine = fine & _there(level, code).any()
    if found.has_cell:
        task: Any = level.task
        row, column = tasks.part(task, 0), tasks.part(task, 1)
        fine = fine & _there(level, tasks.part(task, 2))[row, column]
    return fine


def _there(level: Level, code: Int32[Array, ""]) -> Bool[Array, "height width"]:
    """Return a mask of the cells with the tile `code`; for a door, of all doors of its colour."""
    code = jnp.asarray(code).astype(jnp.uint8)
    is_door = tiles.is_any(level.grid, *DOORS)
    alike = is_door & (tiles.colour(level.grid) == tiles.colour(code))
    return jnp.where(tiles.is_any(code, *DOORS), alike, level.grid == code)


def pick(key: Key, mask: Array) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """Return the flat index of a random True entry of `mask`, and whether there is a True entry."""
    flat = mask.reshape(-1)
    return choose(words(key, flat.size), flat), flat.any()


def _put(level: Level, cell: Array, code: Array, present: Array) -> Level:
    cells = level.grid.reshape(-1)
    code = jnp.where(present, code, cells[cell])
    return level.replace(grid=cells.at[cell].set(code).reshape(level.grid.shape))


def _free(level: Level) -> Bool[Array, "height width"]:
    """Return a mask of the empty cells inside the border, without the agent's cell."""
    height, width = level.grid.shape
    rows, columns = np.arange(height)[:, None], np.arange(width)[None, :]
    inside = (rows > 0) & (rows < height - 1) & (columns > 0) & (columns < width - 1)
    return (level.grid == tiles.EMPTY) & ~_agent(level) & inside


def _agent(level: Level) -> Bool[Array, "height width"]:
    """Return a mask of the agent's cell."""
    row, column = level.pose[0], level.pose[1]
    return jnp.zeros(level.grid.shape, jnp.bool_).at[row, column].set(True)
