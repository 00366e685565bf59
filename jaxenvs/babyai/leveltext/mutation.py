"""Random edits of levels of BabyAI, inside `jit`.

An edit is one of the edits of MiniGrid's levels (`jaxenvs.grid.leveltext.mutation`), or replaces an
instruction of the mission by a random one.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ...core.random import Key, below, words
from ...grid import tiles
from ...grid.leveltext.mutation import DOORS, PORTABLE, Edits, changes, edited, pick
from ...grid.state import Level
from .. import mission as m
from ..env import BabyEnv, BabyLevel

# Bit mask of the fields of an instruction that `redraw` keeps: `AFTER` and the boxes' contents.
KEPT = 1 << m.AFTER | 0x7F << m.CONTENTS
ARTICLES = 1 << (m.FIRST + m.UNIQUE) | 1 << (m.SECOND + m.UNIQUE)


def mutate(env: BabyEnv, key: Key, level: Level, edits: int | Array) -> BabyLevel:
    """Return a level after `edits` random edits, each of a random kind among those that suit `env`.

    An edit that makes the level invalid is undone.
    """
    kinds = [*changes(env, fixed=False), functools.partial(redraw, env)]
    settled, is_valid = functools.partial(_settled, env), functools.partial(_is_valid, env)
    return edited(Edits(kinds, settled, is_valid), key, level, edits)


def redraw(env: BabyEnv, key: Key, level: Level) -> Level:
    """Replace a random instruction of the mission by a random one about objects of the level."""
    key_word, key_verb, *key_things = jax.random.split(key, 4)
    number, found = pick(key_word, m.verb(level.task) != m.NOTHING)
    verb = jnp.asarray(np.array(env.verbs, np.uint32))[below(words(key_verb, 1)[0], len(env.verbs))]
    door, thing = (tiles.is_any(level.grid, *some) for some in (DOORS, PORTABLE))
    fits = jnp.where(verb == m.OPEN, door, thing | (door & (verb == m.GO_TO)))
    first, some = pick(key_things[0], fits)
    second, other = pick(key_things[1], thing | door)
    what = [m.like(level.grid.reshape(-1)[cell]) for cell in (first, second)]
    put = (verb == m.PUT_NEXT) & (what[0] != what[1])
    word = m.instruction(verb, what[0], jnp.where(put, what[1], jnp.uint32(0)))
    old = level.task[number]
    fine = found & some & other & (put | (verb != m.PUT_NEXT))
    word = jnp.where(fine, word | (old & jnp.uint32(KEPT)), old)
    return level.replace(task=level.task.at[number].set(word))


def _settled(env: BabyEnv, level: Level) -> BabyLevel:
    """Recompute the marks of a level and the articles ("a" or "the") of its mission."""
    task = level.task & jnp.uint32(0xFFFFFFFF ^ ARTICLES)
    plain = Level(grid=level.grid, pose=level.pose, task=task, accepted=level.accepted)
    return env.marked(plain)


def _is_valid(env: BabyEnv, level: BabyLevel) -> Bool[Array, ""]:
    """Return whether a level has the objects that its mission names.

    If the agent starts with an object, exactly one object must fit the first description.
    """
    counts = [(level.marks >> d & 1).sum(dtype=jnp.int32) for d in range(2 * len(level.task))]
    verbs = m.verb(level.task)
    firsts = jnp.stack(counts[::2])
    fine = jnp.where(verbs == m.NOTHING, 1, firsts) > 0
    fine = fine & (jnp.where(verbs == m.PUT_NEXT, jnp.stack(counts[1::2]), 1) > 0)
    return fine.all() & ((firsts[0] == 1) | (not env.starts_carrying))
