"""Features of samples of levels, to compare the distributions of two samples.

A feature has a name and one value for each level. A sample is grids (levels, rows, columns) as tile
bytes, poses (levels, 3) and missions as text.
"""

import re
from typing import NamedTuple

import numpy as np

from jaxenvs.grid import Kind, tiles

FREE = (Kind.EMPTY, Kind.GOAL, Kind.FLOOR)
DOORS = (Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)
THINGS = {
    "open door": Kind.DOOR,
    "closed door": Kind.CLOSED_DOOR,
    "locked door": Kind.LOCKED_DOOR,
    "key": Kind.KEY,
    "ball": Kind.BALL,
    "box": Kind.BOX,
    "box with key": Kind.KEY_BOX,
    "goal": Kind.GOAL,
}
COLOURS, KINDS = "red|green|blue|purple|yellow|grey", "door|key|ball|box|object"
PLACES = "in front of you|behind you|on your left|on your right"


class Sample(NamedTuple):
    grids: np.ndarray
    poses: np.ndarray
    missions: np.ndarray

    @property
    def kinds(self):
        return self.grids & 15


def joint(*columns):
    """Return a list of tuples: for each level, its values in all `columns`."""
    return list(zip(*(np.asarray(column).tolist() for column in columns), strict=True))


def where(grids, *codes):
    """Return for each grid the flat index of the only cell whose tile byte is in `codes`."""
    found = np.isin(grids, codes).reshape(len(grids), -1)
    assert (found.sum(axis=1) == 1).all()
    return found.argmax(axis=1)


def whole(sample):
    """Return features for levels with few random objects: each row, each column, the whole grid."""
    grids = sample.grids
    found = {f"row {i}": [g[i].tobytes() for g in grids] for i in range(grids.shape[1])}
    found |= {f"column {i}": [g[:, i].tobytes() for g in grids] for i in range(grids.shape[2])}
    found["grid"] = [g.tobytes() for g in grids]
    return found


def of_agent(sample):
    row, column, direction = sample.poses.T
    return {
        "pose": joint(row, column, direction),
        "cell": joint(row, column),
        "direction": direction.tolist(),
        "row": row.tolist(),
        "column": column.tolist(),
        "in front": kind_in_front(sample).tolist(),
    }


def kind_in_front(sample):
    row, column, direction = sample.poses.T
    ahead = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])[direction]
    return sample.kinds[np.arange(len(row)), row + ahead[:, 0], column + ahead[:, 1]]


def of_things(sample):
    """Return features of each kind of object: the number, and the cell and colour of two objects.

    The two objects are the first and the last of the kind, row by row.
    """
    count, rows, columns = sample.grids.shape
    flat = sample.grids.reshape(count, -1)
    found = {"walls": (flat == tiles.WALL).sum(axis=1).tolist()}
    firsts = {}
    for name, kind in THINGS.items():
        here = flat & 15 == kind
        number = here.sum(axis=1)
        found[f"number of {name}"] = number.tolist()
        places = {"first": here.argmax(axis=1), "last": rows * columns - 1}
        places["last"] = places["last"] - here[:, ::-1].argmax(axis=1)
        for which, index in places.items():
            # Convert uint8 to int: below, -1 marks levels without an object of this kind.
            colour = flat[np.arange(count), index].astype(int) >> 4
            for part, value in zip(
                ("row", "column", "colour"),
                (index // columns, index % columns, colour),
                strict=True,
            ):
                found[f"{which} {name}, {part}"] = np.where(number, value, -1).tolist()
        firsts[name] = number > 0, places["first"] // columns, places["first"] % columns
    found |= of_pairs(sample, firsts)
    return found


def of_pairs(sample, firsts):
    """Return the relative positions of objects, and whether their colours are equal.

    firsts: for each kind, whether a level has an object, and the row and column of the first one.
    """
    found, row, column = {}, sample.poses[:, 0], sample.poses[:, 1]
    for name, (exists, r, c) in firsts.items():
        apart = [np.where(exists, np.clip(x, -3, 3), 9) for x in (r - row, c - column)]
        found[f"agent to {name}"] = joint(*apart)
        for other in ("locked door", "ball"):
            if other != name:
                there, r2, c2 = firsts[other]
                apart = [np.where(exists & there, np.sign(x), 9) for x in (r - r2, c - c2)]
                found[f"{other} to {name}"] = joint(*apart)
    index = np.arange(len(sample.grids))
    colours = {n: sample.grids[index, r, c] >> 4 for n, (_, r, c) in firsts.items()}
    for a, b in (("locked door", "key"), ("locked door", "ball"), ("closed door", "locked door")):
        both = firsts[a][0] & firsts[b][0]
        found[f"{a} like {b}"] = np.where(both, colours[a] == colours[b], 2).tolist()
    return found


def of_mission(sample):
    """Return features of the missions: the text, its pattern, and some of its words.

    In the pattern, letters replace colours, kinds and places.
    """
    texts = sample.missions.tolist()
    form = [re.sub(COLOURS, "C", re.sub(rf"\b({KINDS})\b", "K", text)) for text in texts]
    plain = [re.sub(r"\b(a|the) ", "", re.sub(PLACES, "P", text)) for text in form]
    found = {"mission": texts, "form of the mission": form, "plain form": plain}
    for name, words in (("colour", COLOURS), ("kind", KINDS), ("place", PLACES)):
        spoken = [re.findall(rf"\b({words})\b", text) for text in texts]
        found[f"first {name} spoken of"] = [words[0] if words else "" for words in spoken]
        found[f"last {name} spoken of"] = [words[-1] if words else "" for words in spoken]
    found["verbs"] = [tuple(re.findall("go to|open|pick up|put|then|after|and", t)) for t in texts]
    found["articles"] = [tuple(re.findall(r"\b(a|the)\b", text))[:3] for text in texts]
    return found


def grown(cells):
    """Return, for a batch of grids, a mask of the cells in `cells` and their four neighbours."""
    wider = cells.copy()
    wider[:, 1:] |= cells[:, :-1]
    wider[:, :-1] |= cells[:, 1:]
    wider[:, :, 1:] |= cells[:, :, :-1]
    wider[:, :, :-1] |= cells[:, :, 1:]
    return wider


def flooded(passable, start):
    """Return a mask of the cells that are connected to `start` through the mask `passable`."""
    seen = start
    while True:
        wider = seen | (grown(seen) & passable)
        if (wider == seen).all():
            return seen
        seen = wider


def agents_cell(sample):
    start = np.zeros(sample.grids.shape, bool)
    start[np.arange(len(start)), sample.poses[:, 0], sample.poses[:, 1]] = True
    return start


def of_ways(sample):
    """Return how many cells and objects the agent can reach at first, and with all doors open.

    With all doors open, the objects that the agent cannot reach are counted instead.
    """
    kinds, start = sample.kinds, agents_cell(sample)
    thing = ~np.isin(kinds, (Kind.EMPTY, Kind.WALL, Kind.LAVA))
    at_once = flooded(np.isin(kinds, (*FREE, Kind.DOOR)), start)
    behind = flooded(np.isin(kinds, (*FREE, *DOORS)), start)
    return {
        "cells at once": at_once.sum(axis=(1, 2)).tolist(),
        "things at once": (grown(at_once) & thing).sum(axis=(1, 2)).tolist(),
        "cells behind doors": behind.sum(axis=(1, 2)).tolist(),
        "things out of reach": (thing & ~grown(behind)).sum(axis=(1, 2)).tolist(),
    }


def of_rooms(sample, room_size):
    """Return features of grids of equal rooms: numbers of doors, and rooms of agent and objects.

    The objects are the first key, ball, box and locked door.
    """
    pitch = room_size - 1
    _, rows, columns = sample.grids.shape
    across = (columns - 1) // pitch
    row, column = sample.poses[:, 0], sample.poses[:, 1]
    agent = np.minimum(row // pitch, (rows - 1) // pitch - 1) * across
    agent = agent + np.minimum(column // pitch, across - 1)
    found = {"room of the agent": agent.tolist()}
    doors = np.isin(sample.kinds, DOORS)
    found["doors of each kind of wall"] = joint(
        doors[:, :, ::pitch].sum(axis=(1, 2)), doors[:, ::pitch].sum(axis=(1, 2))
    )
    for name in ("key", "ball", "box", "locked door"):
        here = (sample.kinds == THINGS[name]).reshape(len(agent), -1)
        index = here.argmax(axis=1)
        room = index // columns // pitch * across + index % columns // pitch
        room = np.where(here.any(axis=1), room, -1)
        found[f"room of the first {name}"] = room.tolist()
        found[f"rooms of agent and {name}"] = joint(agent, room)
    return found


def of_door_key(sample):
    key, locked = tiles.tile(Kind.KEY, 4).item(), tiles.tile(Kind.LOCKED_DOOR, 4).item()
    size = sample.grids.shape[1]
    key, door = where(sample.grids, key), where(sample.grids, locked)
    row, column, _ = sample.poses.T
    return {
        "door": door.tolist(),
        "wall column, key row": joint(door % size, key // size),
        "wall column, key column": joint(door % size, key % size),
        "key row, agent row": joint(key // size, row),
        "key column, agent column": joint(key % size, column),
    }


def of_four_rooms(sample):
    size = sample.grids.shape[1]
    goal, (row, column, _) = where(sample.grids, tiles.GOAL), sample.poses.T
    rooms = [np.digitize(x, [9, 10]) for x in (goal // size, goal % size, row, column)]
    return {
        "rooms of goal and agent": joint(*rooms),
        "goal": (goal // 3).tolist(),
        "agent": ((row * size + column) // 3).tolist(),
    }


def of_crossings(sample):
    lines = np.isin(sample.grids, (tiles.LAVA, tiles.WALL))[:, 1:-1, 1:-1]
    across, down = (lines.sum(axis=i) >= lines.shape[i] - 2 for i in (1, 2))
    return {
        "rivers": joint(across.sum(axis=1), down.sum(axis=1)),
        "obstacles": lines.sum(axis=(1, 2)).tolist(),
    }


def of_chain(sample):
    """Return the position and extent of MultiRoom's chain of rooms."""
    walls = sample.grids == tiles.WALL
    rows, columns = walls.any(axis=2), walls.any(axis=1)
    size = walls.shape[1]
    top, left = rows.argmax(axis=1), columns.argmax(axis=1)
    bottom = size - 1 - rows[:, ::-1].argmax(axis=1)
    right = size - 1 - columns[:, ::-1].argmax(axis=1)
    goal = where(sample.grids, tiles.GOAL)
    down, across = goal // size - sample.poses[:, 0], goal % size - sample.poses[:, 1]
    free = (sample.grids == tiles.EMPTY) & flooded(~walls, agents_cell(sample))
    return {
        "top": top.tolist(),
        "left": left.tolist(),
        "bottom": bottom.tolist(),
        "right": right.tolist(),
        "height": (bottom - top).tolist(),
        "width": (right - left).tolist(),
        "way to the goal": joint(np.clip(down // 4, -3, 3), np.clip(across // 4, -3, 3)),
        "floor of all rooms": free.sum(axis=(1, 2)).tolist(),
    }


def of_hallway(sample):
    """Return features of Memory: the hallway's last column, the agent's column, and the objects."""
    grids, count = sample.grids, len(sample.grids)
    middle = grids.shape[1] // 2
    # Column where the hallway ends: the first wall in the row below the border.
    end = (grids[:, 1] == tiles.WALL)[:, 1:].argmax(axis=1) + 1
    upper = sample.kinds[np.arange(count), middle - 2, end + 1]
    return {
        "end of the hallway": end.tolist(),
        "end, agent": joint(end, sample.poses[:, 1]),
        "cue and upper thing": joint(sample.kinds[:, middle - 1, 1], upper),
    }


def of_four_doors(sample):
    """Return features of GoToDoor: the size of the room, and the positions of doors."""
    walls = ~np.isin(sample.grids, (tiles.EMPTY,))
    height, width = walls.any(axis=2).sum(axis=1), walls.any(axis=1).sum(axis=1)
    wanted = [
        ("red", "green", "blue", "purple", "yellow", "grey").index(t.split()[3])
        for t in sample.missions
    ]
    tile = (Kind.CLOSED_DOOR | np.array(wanted) << 4)[:, None, None]
    door = (sample.grids == tile).reshape(len(walls), -1).argmax(axis=1)
    row, column = door // walls.shape[2], door % walls.shape[2]
    side = np.select([row == 0, row == height - 1, column == 0], [0, 1, 2], 3)
    return {
        "size of the room": joint(height, width),
        "side of the target": side.tolist(),
        "width, place of the upper door": joint(width, (sample.kinds[:, 0] == 11).argmax(axis=1)),
        "height, place of the left door": joint(
            height, (sample.kinds[:, :, 0] == 11).argmax(axis=1)
        ),
    }


SMALL = ("Empty", "DoorKey", "Crossing", "LavaGap", "DistShift", "FourRooms", "Grid-v0")
SPECIAL = {
    "DoorKey": of_door_key,
    "FourRooms": of_four_rooms,
    "Crossing": of_crossings,
    "Grid-MultiRoom": of_chain,
    "Memory": of_hallway,
    "Grid-GoToDoor": of_four_doors,
}


def features(id, env, sample):
    """Return the features of a sample: a dict name -> list with one hashable value per level."""
    found = of_agent(sample)
    small = any(name in id for name in SMALL)
    if small:
        found |= whole(sample)
    else:
        found |= of_things(sample) | of_mission(sample) | of_ways(sample)
    if hasattr(env, "room_size"):
        found |= of_rooms(sample, env.room_size)
    for name, special in SPECIAL.items():
        if name in id and (name != "DoorKey" or small):
            found |= special(sample)
    return found
