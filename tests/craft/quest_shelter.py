"""Plan shelters for `quest_player`: chambers of one, two or four cells, walled in by stones.

To place a stone on a cell, the player must face the cell. But a player who turns towards a free
cell also moves into it, so the order of the stones is a puzzle. A search over position, direction
and closed cells finds the shortest sequence of actions.
"""

from typing import NamedTuple

import numpy as np
from quest_clones import IS_WALKED, IS_WET, WAYS

from jaxenvs.craft.tables import ROLES, Action, Block

DIRECTIONS = [(int(down), int(right)) for down, right in WAYS]
HOLLOWED = (Block.STONE, Block.COAL, Block.STALAGMITE, Block.TREE)
PAIRS = [[(0, 0), way] for way in DIRECTIONS]
SQUARES = [[(0, 0), (0, b), (a, 0), (a, b)] for a in (-1, 1) for b in (-1, 1)]
SHAPES = [[(0, 0)], *PAIRS, *SQUARES]
# If the player's cell is in a connected set of more open cells than this, `shut_in` is False.
LARGEST = 6


class _Chamber(NamedTuple):
    cells: list  # cells of the chamber, the player's cell first
    edge: list  # open cells around the chamber
    dug: int  # bit mask of the chamber's cells that must be dug out first


class _Moment(NamedTuple):
    cell: int
    facing: int
    stones: int  # bit mask of the edge cells that have a stone
    solid: int  # bit mask of the chamber's cells that are still solid


def onto(place, way):
    """Return the neighbour of a cell in a direction."""
    return place[0] + way[0], place[1] + way[1]


def inside(place):
    """Return whether a cell is on the map."""
    return 0 <= place[0] < 48 and 0 <= place[1] < 48


def is_open(game, place):
    """Return whether a mob or projectile could enter a cell."""
    return inside(place) and bool(IS_WALKED[game.block[place]] or IS_WET[game.block[place]])


def shut_in(game):
    """Return whether no mob or projectile can reach the player."""
    seen, todo = {game.at}, [game.at]
    while todo:
        place = todo.pop()
        near = {onto(place, way) for way in DIRECTIONS}
        new = [cell for cell in near - seen if is_open(game, cell)]
        seen.update(new)
        todo += new
        if len(seen) > LARGEST:
            return False
    others = [*game.mobs(*ROLES), *(shot for shot in game.world.projectiles if shot.alive)]
    return not any((int(other.row), int(other.column)) in seen for other in others)


def plan(game, start, facing, shapes=SHAPES):
    """Return the shortest list of actions that walls in a player at `start`; None if impossible."""
    chambers = [_chamber(game, start, shape) for shape in shapes]
    ways = [_shortest(game, chamber, facing) for chamber in chambers if chamber is not None]
    return min((way for way in ways if way is not None), key=len, default=None)


def refuge(game, seed):
    """Return the nearby cell at which the player can be walled in soonest; None if impossible."""
    steps, order = _around(game)
    some = np.random.default_rng(seed)
    best, place = 1_000, None
    for where in order[1:]:
        if steps[where] > best:
            break
        # If many cells are near, skip half of them at random, to save time.
        if len(order) > 60 and some.random() < 0.5:
            continue
        way = plan(game, where, 0, [*PAIRS, SQUARES[-1]])
        if way is not None and steps[where] + len(way) < best:
            best, place = steps[where] + len(way), where
    return place


def _around(game, most=14):
    """Return the number of steps to each cell nearby, and a list of the cells from near to far."""
    steps, order = {game.at: 0}, [game.at]
    for place in order:
        if steps[place] == most:
            break
        for way in DIRECTIONS:
            there = onto(place, way)
            if there not in steps and inside(there) and IS_WALKED[game.block[there]]:
                steps[there] = steps[place] + 1
                order.append(there)
    return steps, order


def _chamber(game, start, shape):
    """Return a chamber with the given shape at the cell `start`; None if it cannot be built."""
    cells, dug = [onto(start, offset) for offset in shape], 0
    for number, place in enumerate(cells):
        if not inside(place):
            return None
        if IS_WALKED[game.block[place]]:
            continue
        if len(cells) != 2 or number == 0 or game.block[place] not in HOLLOWED:
            return None
        if not game.has("pickaxe"):
            return None
        dug |= 1 << number
    around = {onto(place, way) for place in cells for way in DIRECTIONS} - set(cells)
    edge = sorted(place for place in around if is_open(game, place))
    if len(edge) > game.has("stone") or any(game.item[place] for place in edge):
        return None
    return _Chamber(cells, edge, dug)


def _shortest(game, chamber, facing):
    """Return the shortest list of actions that closes a chamber; None if impossible."""
    first = _Moment(0, facing, 0, chamber.dug)
    came, todo, shut = {first: None}, [first], (1 << len(chamber.edge)) - 1
    for moment in todo:
        if moment.stones == shut:
            return _actions(came, moment)
        for action, new in _next(game, chamber, moment):
            if new not in came:
                came[new] = moment, action
                todo.append(new)
    return None


def _actions(came, moment):
    actions = []
    while came[moment] is not None:
        moment, action = came[moment]
        actions.append(int(action))
    return actions[::-1]


def _shut(chamber, moment, place):
    return moment.stones >> chamber.edge.index(place) & 1


def _next(game, chamber, moment):
    """Yield each action that is possible in a chamber, with the `_Moment` after the action.

    The actions turn, move, place a stone, or dig.
    """
    here = chamber.cells[moment.cell]
    for way, direction in enumerate(DIRECTIONS):
        there, turned = onto(here, direction), moment._replace(facing=way)
        if there in chamber.cells:
            number = chamber.cells.index(there)
            stays = moment.solid >> number & 1
            yield way + 1, turned if stays else turned._replace(cell=number)
        elif (
            there not in chamber.edge or IS_WET[game.block[there]] or _shut(chamber, moment, there)
        ):
            yield way + 1, turned
    ahead = onto(here, DIRECTIONS[moment.facing])
    if ahead in chamber.edge:
        stone = 1 << chamber.edge.index(ahead)
        yield Action.PLACE_STONE, moment._replace(stones=moment.stones | stone)
    elif ahead in chamber.cells and moment.solid >> chamber.cells.index(ahead) & 1:
        solid = 1 << chamber.cells.index(ahead)
        yield Action.DO, moment._replace(solid=moment.solid & ~solid)
