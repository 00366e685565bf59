"""Players that navigate in MiniGrid: to a cell, through locked doors, past obstacles.

The generators yield actions for a running MiniGrid environment: the caller must play each action
before it requests the next one. Cells are (x, y) here, as in MiniGrid.
"""

import heapq
import itertools

import numpy as np

from jaxenvs.grid import Action

STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # vectors of a step to the right, down, left and up
PORTABLE = ("key", "ball", "box")
# Approximate numbers of actions to move an object away, and to fetch a key.
CLEARING, UNLOCKING = 30, 60


class StuckError(Exception):
    """Error: a player finds no path, or is blocked."""


# Functions that treat the environment as a graph.


def pose_of(env):
    return int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)


def ahead(pose):
    """Return the cell in front of a pose (x, y, direction)."""
    return pose[0] + STEPS[pose[2]][0], pose[1] + STEPS[pose[2]][1]


def around(cell):
    return [(cell[0] + dx, cell[1] + dy) for dx, dy in STEPS]


def look(env, cell):
    """Return the object on a cell: None if it is empty, "outside" if it is outside the grid."""
    inside = 0 <= cell[0] < env.width and 0 <= cell[1] < env.height
    return env.grid.get(*cell) if inside else "outside"


def kind(thing):
    return thing if thing is None or isinstance(thing, str) else thing.type


def things(env, wanted):
    """Return the cells of the objects for which `wanted(thing)` is true."""
    cells = itertools.product(range(env.width), range(env.height))
    return [cell for cell in cells if (thing := env.grid.get(*cell)) is not None and wanted(thing)]


def colour_of_key(thing):
    """Return the colour of a key on the floor or in a box, or None for other objects."""
    if kind(thing) == "box" and thing.contains is not None:
        thing = thing.contains
    return thing.color if kind(thing) == "key" else None


def flooded(env, start, passes):
    """Return the cells, except walls, that the agent can reach from `start`, and their neighbours.

    `passes(cell)` is whether the agent can enter a cell. The result is a set.
    """
    seen, queue = {start}, [start]
    while queue:
        cell = queue.pop()
        for near in around(cell) if cell == start or passes(cell) else ():
            if near not in seen and kind(look(env, near)) not in ("wall", "outside"):
                seen.add(near)
                queue.append(near)
    return seen


def openable(env, clearing, banned):
    """Return the cells of locked doors, except `banned`, that the agent can reach and unlock.

    If `clearing` is True, the agent may move objects out of its way.
    """
    opened = set()

    def passes(cell):
        thing = look(env, cell)
        if kind(thing) == "door":
            return cell not in banned and (not thing.is_locked or cell in opened)
        return thing is None or (clearing and kind(thing) in PORTABLE)

    while True:
        cells = flooded(env, pose_of(env)[:2], passes)
        keys = {colour_of_key(look(env, cell)) for cell in cells} | {colour_of_key(env.carrying)}
        new = {c for c in cells if is_locked(look(env, c)) and look(env, c).color in keys}
        if new - banned <= opened:
            return opened
        opened |= new - banned


def is_locked(thing):
    return kind(thing) == "door" and thing.is_locked and not thing.is_open


def cost(thing, cell, clearing, doors):
    """Return the approximate number of actions to enter `cell`, or None if it is impossible.

    `thing` is the object on the cell. `doors` has the locked doors that the agent can unlock. If
    `clearing` is True, the agent may move objects out of its way.
    """
    if thing is None or kind(thing) == "floor":
        return 1
    if kind(thing) == "door":
        if is_locked(thing):
            return UNLOCKING if cell in doors else None
        return 1 if thing.is_open else 2
    return CLEARING if clearing and kind(thing) in PORTABLE else None


def route(env, wanted, clearing, banned):
    """Return the poses on the cheapest path to facing a cell for which `wanted(cell)` is true.

    The path enters no cell in `banned`; if `clearing` is True, it may lead through objects, which
    the agent moves away. Returns None if there is no path.
    """
    doors = openable(env, clearing, banned)
    start = pose_of(env)
    best, came, queue = {start: 0}, {}, [(0, start)]
    while queue:
        spent, pose = heapq.heappop(queue)
        if spent > best[pose]:
            continue
        front = ahead(pose)
        if wanted(front):
            way = [pose]
            while way[-1] in came:
                way.append(came[way[-1]])
            return way[::-1]
        x, y, direction = pose
        moves = {(x, y, (direction - 1) % 4): 1, (x, y, (direction + 1) % 4): 1}
        entering = None if front in banned else cost(look(env, front), front, clearing, doors)
        if entering is not None:
            moves[(*front, direction)] = entering
        for after, price in moves.items():
            if spent + price < best.get(after, np.inf):
                best[after], came[after] = spent + price, pose
                heapq.heappush(queue, (spent + price, after))
    return None


# Generators of players' actions.


def turn(before, after):
    """Return the action that turns the agent from one direction to another on the same cell."""
    return Action.RIGHT if (after[2] - before[2]) % 4 == 1 else Action.LEFT


def face(env, wanted, clearing=True, banned=frozenset()):
    """Go to face a cell for which `wanted(cell)` is true; open doors and remove obstacles."""
    while True:
        way = route(env, wanted, clearing, banned)
        if way is None:
            raise StuckError
        for before, after in itertools.pairwise(way):
            if before[:2] == after[:2]:
                yield turn(before, after)
                continue
            cell = after[:2]
            thing = look(env, cell)
            if is_locked(thing):
                yield from unlock(env, cell, clearing, banned)
                break
            if kind(thing) in PORTABLE:
                yield from clear(env, cell, banned)
                break
            if kind(thing) == "door" and not thing.is_open:
                yield Action.TOGGLE
            yield Action.FORWARD
        else:
            return


def unlock(env, cell, clearing=True, banned=frozenset()):
    """Fetch the key of the locked door in `cell`, and open the door."""
    colour = look(env, cell).color
    if colour_of_key(env.carrying) == colour and kind(env.carrying) == "box":
        yield from put_down(env)
    if colour_of_key(env.carrying) != colour:
        keys = things(env, lambda thing: colour_of_key(thing) == colour)
        yield from fetch(env, keys, clearing, banned | {cell})
    yield from face(env, lambda front: front == cell, clearing, banned)
    yield Action.TOGGLE


def fetch(env, cells, clearing=True, banned=frozenset(), from_boxes=True):
    """Pick up an object in one of `cells`; with `from_boxes`, open a filled box first."""
    cells = {tuple(int(i) for i in cell) for cell in cells}
    yield from face(env, lambda front: front in cells, clearing, banned)
    cell = ahead(pose_of(env))
    if from_boxes and kind(look(env, cell)) == "box" and look(env, cell).contains is not None:
        yield Action.TOGGLE
    if env.carrying is not None:
        yield from put_down(env)
        yield from face(env, lambda front: front == cell, clearing, banned)
    yield Action.PICKUP


def put_down(env):
    """Drop the carried object in a cell where it blocks no path, or else in any free cell."""
    start = pose_of(env)[:2]

    def passes(cell, without=None):
        thing = look(env, cell)
        return cell != without and kind(thing) in (None, "door")

    before = flooded(env, start, passes)

    def harmless(cell):
        if look(env, cell) is not None or cell == start:
            return False
        return flooded(env, start, lambda c: passes(c, cell)) == before

    for wanted in (harmless, lambda cell: look(env, cell) is None and cell != start):
        if route(env, wanted, False, frozenset()) is not None:
            yield from face(env, wanted, clearing=False)
            yield Action.DROP
            return
    raise StuckError


def clear(env, cell, banned=frozenset()):
    """Remove the object in front of the agent: pick it up or, with full hands, move it elsewhere.

    After the move, the agent carries the same object as before.
    """
    held = env.carrying
    if held is None:
        yield Action.PICKUP
        return
    yield from put_down(env)
    yield from face(env, lambda front: front == cell, False, banned)
    yield Action.PICKUP
    yield from put_down(env)
    yield from fetch(env, [held.cur_pos], banned=banned, from_boxes=False)


def enter(env, wanted, clearing=True):
    """Step onto the cell of an object for which `wanted(thing)` is true."""
    cells = set(things(env, wanted))
    yield from face(env, cells.__contains__, clearing)
    yield Action.FORWARD


def toggle(env, wanted, clearing=True):
    """Open a door for which `wanted(thing)` is true; close it first if it is open."""
    cells = set(things(env, wanted))
    if not cells:
        raise StuckError
    yield from face(env, cells.__contains__, clearing)
    cell = ahead(pose_of(env))
    if is_locked(look(env, cell)):
        yield from unlock(env, cell, clearing)
        return
    if look(env, cell).is_open:
        yield Action.TOGGLE
    yield Action.TOGGLE
