"""Random edits of levels of MiniGrid and BabyAI, inside `jit`.

An edit toggles a wall; moves the agent, the goal or an object; paints an object; opens, closes or
locks a door; adds or removes an object; or, in BabyAI, redraws an instruction. An edit after which
the mission would name an absent object, or that finds no fitting cell, changes nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..babyai import mission as m
from ..babyai.env import BabyEnv
from ..core.random import Key, below, choose, words
from ..grid import tasks, tiles
from ..grid.placement import item
from ..grid.state import Level
from ..grid.tiles import Colour, Kind
from . import grid_tasks, kinds

PORTABLE = (Kind.KEY, Kind.BALL, Kind.BOX, Kind.KEY_BOX)
DOORS = grid_tasks.DOORS
BALL = Kind.BALL | Colour.BLUE << 4  # a moving ball of Dynamic-Obstacles
# The bits of an instruction that do not come from its verb and descriptions.
KEPT = 1 << m.AFTER | 0x7F << m.CONTENTS
ARTICLES = 1 << (m.FIRST + m.UNIQUE) | 1 << (m.SECOND + m.UNIQUE)
Change = Callable[[Key, Level], Level]


def mutate(env: Any, key: Key, level: Level, edits: int | Array) -> Level:
    """Return a level after `edits` random edits, each drawn uniformly from those of `env`."""
    changes = _changes(env)
    level = _settled(env, level)

    def edit(number: Array, level: Level) -> Level:
        key_which, key_change = jax.random.split(jax.random.fold_in(key, number))
        which = below(words(key_which, 1)[0], len(changes))
        changed = _settled(env, jax.lax.switch(which, changes, key_change, level))
        fine = _is_valid(env, changed)
        return jax.tree.map(lambda new, old: jnp.where(fine, new, old), changed, level)

    return jax.lax.fori_loop(0, edits, edit, level)


def _changes(env: Any) -> list[Change]:
    """Return the kinds of edits that fit the levels of `env`."""
    known = set(kinds.of(env) or kinds.KINDS["ObstructedWorld"])
    if any(kind.__name__ == "Memory" for kind in type(env).__mro__):
        known = set()  # the objects decide the mission, so they stay
    changes: list[Change] = [toggle_wall, move_agent]
    movable = tuple(known & {*PORTABLE, Kind.GOAL, Kind.LAVA})
    thing = [kind for kind in (Kind.KEY, Kind.BALL, Kind.BOX) if kind in known]
    fixed = env.level_shape.task is not None and bool(env.level_shape.task.ndim)
    if movable:
        changes.append(functools.partial(move_object, movable))
    if thing and (not fixed or isinstance(env, BabyEnv)):
        changes += [paint, functools.partial(add_object, thing), remove_object]
    if known & set(DOORS):
        changes.append(turn_door)
    return [*changes, functools.partial(redraw, env)] if isinstance(env, BabyEnv) else changes


def toggle_wall(key: Key, level: Level) -> Level:
    """Turn an inner wall into an empty cell, or an empty cell into a wall."""
    inner = np.zeros(level.grid.shape, bool)
    inner[1:-1, 1:-1] = True
    is_wall = level.grid == tiles.WALL
    cell, found = _pick(key, (is_wall | _free(level)) & inner)
    code = jnp.where(is_wall.reshape(-1)[cell], jnp.uint8(tiles.EMPTY), jnp.uint8(tiles.WALL))
    return _put(level, cell, code, found)


def move_agent(key: Key, level: Level) -> Level:
    """Move the agent to an empty cell, and turn it."""
    key_cell, key_turn = jax.random.split(key)
    cell, found = _pick(key_cell, _free(level))
    row, column = cell // level.grid.shape[1], cell % level.grid.shape[1]
    pose = jnp.stack([row, column, below(words(key_turn, 1)[0], 4)]).astype(jnp.int8)
    return level.replace(pose=jnp.where(found, pose, level.pose))


def move_object(movable: tuple[Kind, ...], key: Key, level: Level) -> Level:
    """Move an object of one of these kinds to an empty cell."""
    key_old, key_new = jax.random.split(key)
    old, found = _pick(key_old, _is_any(level, movable))
    new, free = _pick(key_new, _free(level))
    code, width = level.grid.reshape(-1)[old], level.grid.shape[1]
    moved = _put(_put(level, old, jnp.uint8(tiles.EMPTY), found & free), new, code, found & free)
    if level.task is None or level.task.ndim:
        return moved
    packed = [tasks.pack(cell // width, cell % width) for cell in (old, new)]
    follows = ((level.task & 0xFFFF) == packed[0]) & found & free & (level.task > 0xFFFF)
    return moved.replace(task=jnp.where(follows, (level.task & ~0xFFFF) | packed[1], level.task))


def paint(key: Key, level: Level) -> Level:
    """Give a portable object or a door another colour; a grey box with a key, another key."""
    key_cell, key_colour = jax.random.split(key)
    cell, found = _pick(key_cell, _is_any(level, (*PORTABLE, *DOORS)))
    colour = below(words(key_colour, 1)[0], len(Colour)).astype(jnp.uint8)
    code = (level.grid.reshape(-1)[cell] & jnp.uint8(15)) | (colour << jnp.uint8(4))
    return _put(level, cell, code, found)


def add_object(thing: list[Kind], key: Key, level: Level) -> Level:
    """Add an object of one of these kinds in an empty cell."""
    key_cell, key_look = jax.random.split(key)
    cell, found = _pick(key_cell, _free(level))
    look = words(key_look, 2)
    kind = jnp.asarray(np.array(thing, np.int32))[below(look[0], len(thing))]
    code = item((kind - Kind.KEY) * len(Colour) + below(look[1], len(Colour)))
    return _put(level, cell, code, found)


def remove_object(key: Key, level: Level) -> Level:
    """Remove a portable object."""
    cell, found = _pick(key, _is_any(level, PORTABLE))
    return _put(level, cell, jnp.uint8(tiles.EMPTY), found)


def turn_door(key: Key, level: Level) -> Level:
    """Open, close or lock a door."""
    key_cell, key_kind = jax.random.split(key)
    cell, found = _pick(key_cell, _is_any(level, DOORS))
    kind = jnp.asarray(np.array(DOORS, np.uint8))[below(words(key_kind, 1)[0], len(DOORS))]
    return _put(level, cell, (level.grid.reshape(-1)[cell] & jnp.uint8(0xF0)) | kind, found)


def redraw(env: BabyEnv, key: Key, level: Level) -> Level:
    """Replace an instruction by one about objects of the level."""
    key_word, key_verb, *key_things = jax.random.split(key, 4)
    number, found = _pick(key_word, m.verb(level.task) != m.NOTHING)
    verb = jnp.asarray(np.array(env.verbs, np.uint32))[below(words(key_verb, 1)[0], len(env.verbs))]
    kind = tiles.kind(level.grid)
    door, thing = (_among(kind, some) for some in (DOORS, PORTABLE))
    fits = jnp.where(verb == m.OPEN, door, thing | (door & (verb == m.GO_TO)))
    first, some = _pick(key_things[0], fits)
    second, other = _pick(key_things[1], thing | door)
    what = [m.like(level.grid.reshape(-1)[cell]) for cell in (first, second)]
    put = (verb == m.PUT_NEXT) & (what[0] != what[1])
    word = m.instruction(verb, what[0], jnp.where(put, what[1], jnp.uint32(0)))
    old = level.task[number]
    fine = found & some & other & (put | (verb != m.PUT_NEXT))
    word = jnp.where(fine, word | (old & jnp.uint32(KEPT)), old)
    return level.replace(task=level.task.at[number].set(word))


def _settled(env: Any, level: Any) -> Any:
    """Return the level with the parts that follow from others: marks, articles, cells of balls."""
    if isinstance(env, BabyEnv):
        task = level.task & jnp.uint32(0xFFFFFFFF ^ ARTICLES)
        plain = Level(grid=level.grid, pose=level.pose, task=task, accepted=level.accepted)
        return env.marked(plain)
    if level.task is None or not level.task.ndim:
        return level
    rows, columns = jnp.nonzero(level.grid == BALL, size=level.task.shape[0], fill_value=0)
    return level.replace(task=tasks.pack(rows, columns))


def _is_valid(env: Any, level: Any) -> Bool[Array, ""]:
    """Return whether the mission of a level names only objects that are there."""
    if isinstance(env, BabyEnv):
        counts = [(level.marks >> d & 1).sum(dtype=jnp.int32) for d in range(2 * len(level.task))]
        verbs = m.verb(level.task)
        firsts = jnp.stack(counts[::2])
        fine = jnp.where(verbs == m.NOTHING, 1, firsts) > 0
        fine = fine & (jnp.where(verbs == m.PUT_NEXT, jnp.stack(counts[1::2]), 1) > 0)
        return fine.all() & ((firsts[0] == 1) | (not env.starts_carrying))
    found = grid_tasks.form(env)
    if level.task is not None and level.task.ndim:
        return (level.grid == BALL).sum(dtype=jnp.int32) == level.task.shape[0]
    if found is None:
        return jnp.ones((), jnp.bool_)
    fine = jnp.ones((), jnp.bool_)
    for code in grid_tasks.named_by(env, level.task):
        fine = fine & _there(level, code).any()
    if found.has_cell:
        task: Any = level.task
        row, column = tasks.part(task, 0), tasks.part(task, 1)
        fine = fine & _there(level, tasks.part(task, 2))[row, column]
    return fine


def _there(level: Level, code: Int32[Array, ""]) -> Bool[Array, "height width"]:
    """Return the cells with this tile; a door may be open, closed or locked."""
    code = jnp.asarray(code, jnp.int32)
    doors = _among((code & 15)[None], DOORS)[0]
    grid = level.grid.astype(jnp.int32)
    alike = _among(tiles.kind(level.grid), DOORS) & (grid >> 4 == code >> 4)
    return jnp.where(doors, alike, grid == code)


def _pick(key: Key, mask: Array) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """Return the index of a random true entry, and whether there is one."""
    flat = mask.reshape(-1)
    return choose(words(key, flat.size), flat), flat.any()


def _put(level: Level, cell: Array, code: Array, present: Array) -> Level:
    cells = level.grid.reshape(-1)
    code = jnp.where(present, code, cells[cell])
    return level.replace(grid=cells.at[cell].set(code).reshape(level.grid.shape))


def _free(level: Level) -> Bool[Array, "height width"]:
    """Return the empty cells inside the border where the agent is not."""
    height, width = level.grid.shape
    rows, columns = np.arange(height)[:, None], np.arange(width)[None, :]
    inside = (rows > 0) & (rows < height - 1) & (columns > 0) & (columns < width - 1)
    pose = level.pose.astype(jnp.int32)
    here = (jnp.asarray(rows, jnp.int32) == pose[0]) & (jnp.asarray(columns, jnp.int32) == pose[1])
    return (level.grid == tiles.EMPTY) & ~here & inside


def _is_any(level: Level, some: tuple[Kind, ...]) -> Bool[Array, "height width"]:
    return _among(tiles.kind(level.grid), some)


def _among(kind: Array, some: tuple[Kind, ...]) -> Array:
    return (kind[..., None] == jnp.asarray(np.array(some), kind.dtype)).any(axis=-1)
