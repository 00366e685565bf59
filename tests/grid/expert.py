"""A player that knows the map: shortest walks to a goal, into lava, to a key and its door."""

import collections

import numpy as np

from jaxenvs.grid import Action, Kind, tiles

STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))  # (rows, columns) for right, down, left, up
SAFE = (Kind.EMPTY, Kind.FLOOR, Kind.DOOR)


def front(pose):
    """Cell in front of a pose (row, column, direction)."""
    return pose[0] + STEPS[pose[2]][0], pose[1] + STEPS[pose[2]][1]


def walk(grid, pose, wanted):
    """Shortest walk over safe cells until `wanted(byte in front)`: (actions, pose) or None."""
    paths = {pose: []}
    queue = collections.deque([pose])
    while queue:
        pose = queue.popleft()
        ahead = front(pose)
        if wanted(grid[ahead]):
            return paths[pose], pose
        row, column, direction = pose
        moves = {
            Action.LEFT: (row, column, (direction - 1) % 4),
            Action.RIGHT: (row, column, (direction + 1) % 4),
        }
        if grid[ahead] & 15 in SAFE:
            moves[Action.FORWARD] = (*ahead, direction)
        for action, after in moves.items():
            if after not in paths:
                paths[after] = [*paths[pose], action]
                queue.append(after)
    return None


def unpack(level):
    """Grid (a copy to draw on) and pose of a level."""
    return np.array(level.grid), tuple(int(x) for x in level.pose)


def reach(level, tile):
    """Actions that end by stepping onto the tile (goal or lava), opening what must be opened."""
    grid, pose = unpack(level)
    actions = []
    found = walk(grid, pose, lambda byte: byte == tile)
    if found is None:
        steps, pose = walk(grid, pose, lambda byte: byte & 15 == Kind.KEY)
        actions += [*steps, Action.PICKUP]
        colour = grid[front(pose)] >> 4
        grid[front(pose)] = tiles.EMPTY
        locked = Kind.LOCKED_DOOR | colour << 4
        steps, pose = walk(grid, pose, lambda byte: byte == locked)
        actions += [*steps, Action.TOGGLE]
        grid[front(pose)] = Kind.DOOR | colour << 4
        found = walk(grid, pose, lambda byte: byte == tile)
    return [*actions, *found[0], Action.FORWARD]
