"""One step of the game: an edition is a list of stages, and the list is the step."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxtyping import Array, Float32

from ..core.bits import cut, join
from ..core.settle import settled
from .chance import Draws
from .ground import Ground
from .packing import field_of, held
from .state import World, repacked
from .tables import Rules


class Front(NamedTuple):
    """The cell ahead of the player, and what is around."""

    row: Array
    column: Array
    block: Array  # beyond the border as upstream reads, see `Ground.cell`
    marks: Array  # whether something lies there, and whether it is lit, see `ground`
    inside: Array  # whether it is on the map
    taken: Array  # whether a mob is seen there
    table: Array  # whether a crafting table is on one of the eight cells around the player
    furnace: Array


class Moment(NamedTuple):
    """A step on its way: what its stages read and change."""

    rules: Rules
    ground: Ground  # the map, and what the step has written so far
    world: World
    action: Array
    draws: Draws
    params: Any
    light: Float32[Array, ""]  # of the state before
    reach: int  # steps from the player at which mobs may appear, exclusive
    floors: Any = None  # words of the floors that the player left, in the full game
    front: Any = None  # a `Front`, behind `player.face`
    hit: Any = None  # whether the player hit a mob, behind `attack.strike`
    crowd: Any = None  # a `Crowd`, behind `mobs.move`
    in_lava: Any = None  # whether the player is, behind `body.burn`
    deed: Any = None  # number of what the player does, behind `deeds.choose`
    torch: Any = None  # whether the player lays one, behind `deeds.do`
    known: Any = None  # a world and its words, behind `repack`


Rule = Callable[[Moment], Moment]


class Stage(NamedTuple):
    """A part of a step, and its edge: what stands there is for the compiler, see `core.settle`."""

    rule: Rule
    edge: Rule | None = None


def holds(*names: str) -> Rule:
    """Edge behind which these numbers of the world are not computed again."""

    def edge(moment: Moment) -> Moment:
        fields = [field_of(moment.rules.packing, name) for name in names]
        return moment._replace(world=held(fields, moment.world))

    return edge


def settles(name: str) -> Rule:
    """Edge behind which this field of the moment is not computed again."""
    return lambda moment: moment._replace(**{name: settled(getattr(moment, name))})


def repack(moment: Moment) -> Moment:
    """Edge behind which only words are known, see `state.repacked`: of the world, and of what the
    map's writes need."""
    front, writes = moment.front, moment.ground.writes
    ahead = (front.row + 1, 8), (front.column + 1, 8), (moment.torch, 1), (moment.action, 8)
    more = [join(*ahead), *((index << 8) | cell for index, cell in writes)]
    world, words, more = repacked(moment.rules, moment.world, more)
    row, column, torch, action = cut(more[0], 8, 8, 1, 8)
    writes = tuple((word >> 8, word & 255) for word in more[1:])
    return moment._replace(
        world=world,
        action=action,
        ground=Ground(moment.ground.cells, world.floor, writes),
        front=front._replace(row=row - 1, column=column - 1),
        torch=torch != 0,
        known=(world, words),
    )


def advance(stages: Sequence[Stage], moment: Moment) -> Moment:
    """Pass through the stages in turn."""
    for stage in stages:
        moment = stage.rule(moment)
        if stage.edge is not None:
            moment = stage.edge(moment)
    return moment
