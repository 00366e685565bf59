"""Edges: barriers between the stages of a step, so that XLA does not recompute earlier values.

An edge is a function that runs after a stage. It returns the `Moment`, the intermediate state of a
step, with unchanged values. `CLASSIC` and `FULL` list the edges of each edition, by the stage that
they follow.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Int32

from ...core.bits import cut, join
from ...core.platforms import by_platform
from .. import body, deeds, player
from ..ground import Ground
from ..packing import Known, field_of, word_of
from ..state import World, known_words, slots_of, world_of_words, world_words
from ..step import Moment, Rule
from ..tables import Rules
from .barriers import materialised
from .once import held, once


def settle(name: str) -> Rule:
    """Return an edge (a barrier after a stage) for the field `name` of `Moment`.

    After this edge, XLA on a CPU does not compute the field again.
    """
    return lambda moment: moment._replace(**{name: once(getattr(moment, name))})


def hold(*names: str) -> Rule:
    """Return an edge (a barrier after a stage) for the fields `names` of `World`.

    After this edge, XLA on a CPU does not compute these fields again.
    """

    def edge(moment: Moment) -> Moment:
        fields = [field_of(moment.rules.packing, name) for name in names]
        return moment._replace(world=held(fields, moment.world))

    return edge


def repack(moment: Moment) -> Moment:
    """Pack the world into words and unpack it again, so that XLA computes its values only once.

    The pending writes to the map, the position of the cell ahead of the player, `Moment.torch` and
    the action pass through packed words too, because later stages use them.
    """
    front, writes = moment.front, moment.ground.writes
    ahead = (front.row + 1, 8), (front.column + 1, 8), (moment.torch, 1), (moment.action, 8)
    more = [join(*ahead), *((index << 8) | cell for index, cell in writes)]
    world, known, more = _repacked(moment.rules, moment.world, more)
    row, column, torch, action = cut(more[0], 8, 8, 1, 8)
    writes = tuple((word >> 8, word & 255) for word in more[1:])
    return moment._replace(
        world=world,
        action=action,
        ground=Ground(moment.ground.cells, world.floor, writes),
        front=front._replace(row=row - 1, column=column - 1),
        torch=torch != 0,
        known=known,
    )


def _repacked(
    rules: Rules, world: World, more: Sequence[Array]
) -> tuple[World, Known, list[Int32[Array, ""]]]:
    """Pack a world and unpack it again; on CPUs and GPUs, XLA computes its words only once.

    Return three values: the unpacked world; its words as a `Known`, so that `words_of` can reuse
    words that stay unchanged; and the int32 scalars `more`, which XLA also computes only once.
    """
    # The player's row, column and floor are also passed as separate scalars, although the packed
    # words contain them, because some GPU kernels need only one of them.
    here = [world.row, world.column, world.floor]
    words = [*world_words(rules, world), *here, *more]
    plants = word_of(rules.packing.plant, world.plants)

    def as_array(words: list[Array], plants: Array) -> tuple[list[Array], Array]:
        joined = once(jnp.concatenate([jnp.stack(words), plants]))
        return [joined[i] for i in range(len(words))], joined[len(words) :]

    def as_scalars(words: list[Array], plants: Array) -> tuple[list[Array], Array]:
        return materialised((words, plants))

    words, plants = by_platform(words, plants, cpu=as_array, default=as_scalars)
    rest = iter(words)
    world = world_of_words(rules, slots_of(world), rest, plants)
    row, column, floor, *more = rest
    world = world._replace(row=row, column=column, floor=floor)
    return world, known_words(rules, world, words), more


CLASSIC = {deeds.choose: settle("deed"), player.move: hold("row", "column")}
FULL = {**CLASSIC, body.carry: repack}
