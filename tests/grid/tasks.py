"""Compute the fields `task` and `accepted` of this library's levels from MiniGrid's levels."""

import functools

import jax.numpy as jnp
import numpy as np
import wfc_upstream
from minigrid.core import world_object
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

import jaxenvs
from jaxenvs.babyai import mission as m
from jaxenvs.grid import Kind

# Phrases of Fetch's missions; a task has the index of its phrase.
PHRASES = ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")


def tile(type, colour):
    return OBJECT_TO_IDX[type] | COLOR_TO_IDX[colour] << 4


def cell(position):
    """Pack a position into an integer: the row in the lowest byte, the column in the next byte."""
    return int(position[1]) | int(position[0]) << 8


def locked_room(env):
    """Return the task of LockedRoom: colours of the locked door and of the door to the key."""
    locked = next(room for room in env.rooms if room.locked)
    for room in env.rooms:
        (x, y), (width, height) = room.top, room.size
        inside = [env.grid.get(x + i, y + j) for i in range(1, width) for j in range(1, height)]
        if any(thing is not None and thing.type == "key" for thing in inside):
            return COLOR_TO_IDX[locked.color] | COLOR_TO_IDX[room.color] << 8
    raise AssertionError("a level has a key")


def memory(env):
    """Return the task of Memory: the cell where the episode ends in success."""
    return cell(env.success_pos)


def fetch(env):
    """Return the task of Fetch: the target's tile and the index of the phrase."""
    phrase = PHRASES.index(env.mission.rsplit(" ", 2)[0])
    return tile(env.targetType, env.targetColor) | phrase << 8


def go_to_door(env):
    """Return the task of GoToDoor: the door's cell and tile."""
    door = Kind.CLOSED_DOOR | COLOR_TO_IDX[env.target_color] << 4
    return cell(env.target_pos) | door << 16


def go_to_object(env):
    """Return the task of GoToObject: the object's cell and tile."""
    return cell(env.target_pos) | tile(env.targetType, env.target_color) << 16


def put_near(env):
    """Return the task of PutNear: cell and tile of the target, and tile of the object to move."""
    target = tile(env.target_type, env.target_color)
    return cell(env.target_pos) | target << 16 | tile(env.move_type, env.moveColor) << 24


def balls(env):
    """Return the task of Dynamic-Obstacles: cells of the moving balls, int32 (balls,).

    The balls are in MiniGrid's order.
    """
    return np.array([cell(ball.cur_pos) for ball in env.obstacles], np.int32)


def target(env):
    """Return the task of levels in which an object must be picked up: the object's tile."""
    return tile(env.obj.type, env.obj.color)


# Name of this library's class -> function that returns the task of a MiniGrid environment after a
# reset. Classes that are not listed have no task.
TASKS = {
    "LockedRoom": locked_room,
    "Memory": memory,
    "Fetch": fetch,
    "GoToDoor": go_to_door,
    "GoToObject": go_to_object,
    "PutNear": put_near,
    "DynamicObstacles": balls,
    "UnlockPickup": target,
    "KeyCorridor": target,
}

PLACES = {
    None: m.ANYWHERE,
    "front": m.FRONT,
    "behind": m.BEHIND,
    "left": m.ON_LEFT,
    "right": m.ON_RIGHT,
}


@functools.cache
def described(kind, colour, place):
    """Return the packed description of an object; None fits any kind or colour."""
    kind = m.ANY_KIND if kind is None else OBJECT_TO_IDX[kind]
    colour = m.ANY_COLOUR if colour is None else COLOR_TO_IDX[colour]
    return int(m.description(kind, colour, PLACES[place]))


def instruction(instr):
    """Return a simple instruction of MiniGrid, packed into an integer of 32 bits."""
    verbs = {
        "GoToInstr": m.GO_TO,
        "OpenInstr": m.OPEN,
        "PickupInstr": m.PICK_UP,
        "PutNextInstr": m.PUT_NEXT,
    }
    both = [getattr(instr, name, None) for name in ("desc", "desc_move", "desc_fixed")]
    what = [described(d.type, d.color, d.loc) for d in both if d is not None]
    word = verbs[type(instr).__name__] | what[0] << m.FIRST
    word |= getattr(instr, "strict", False) << m.STRICT
    return word | what[1] << m.SECOND if len(what) > 1 else word


def mission(env, length):
    """Return MiniGrid's mission in this library's encoding: uint32 (length,)."""
    name = type(env.instrs).__name__
    sequence = name in ("BeforeInstr", "AfterInstr")
    words = []
    for side in (env.instrs.instr_a, env.instrs.instr_b) if sequence else (env.instrs,):
        both = (side.instr_a, side.instr_b) if hasattr(side, "instr_a") else (side,)
        words += [*map(instruction, both), 0][:2]
    words += [0] * (4 - len(words))
    words[2] |= (name == "AfterInstr") << m.AFTER
    for thing in env.grid.grid:
        if isinstance(thing, world_object.Box) and thing.contains is not None:
            words[0] |= tile("key", thing.contains.color) << m.CONTENTS
    assert not any(words[length:]), "our level has room for every mission"
    return np.array(words[:length], np.uint32)


@functools.cache
def counterpart(id):
    """Return this library's environment for an id of MiniGrid."""
    return jaxenvs.make(id)


def fields(env):
    """Return a dict of the fields `task` and `accepted` that the level has in this library.

    A field is left out if the level's class does not have it. The dict is empty for an environment
    without an id, except for the recorded levels of wave function collapse.
    """
    if isinstance(env, wfc_upstream.Recorded):
        return {"accepted": jnp.bool_(True)}
    if env.spec is None:
        return {}
    ours, more = counterpart(env.spec.id), {}
    if hasattr(env, "instrs"):
        more["task"] = jnp.asarray(mission(env, *ours.state_shape.task.shape))
    elif type(ours).__name__ in TASKS:
        more["task"] = jnp.asarray(TASKS[type(ours).__name__](env), jnp.int32)
    if ours.marks_rejected:
        more["accepted"] = jnp.bool_(True)
    return more
