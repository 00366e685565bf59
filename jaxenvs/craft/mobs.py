"""What moves by itself: zombies, cows, skeletons and arrows, slot after slot as upstream does."""

import functools
import operator
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import kept
from ..core.settle import settled
from .chance import Draws
from .ground import Ground, is_in
from .state import MOST_MOBS, MOVING, Arrow, Mob, World, mobs_of, unlock
from .tables import Achievement, Block, Rules

_ROW = 256  # see `_place`: more than a row has cells


class _Crowd(NamedTuple):
    """Where all mobs are, while they move one after another."""

    places: tuple[Array, ...]  # cell of every slot in the order of moving, see `_place`
    marks: Array  # bit i: the cell of slot i is seen as taken

    def on(self, place: Array) -> Array:
        """Bits of the slots on a cell."""
        bits = [jnp.where(p == place, 1 << i, 0) for i, p in enumerate(self.places)]
        return functools.reduce(operator.or_, bits)

    def sees(self, place: Array) -> Bool[Array, ""]:
        """Whether a cell is seen as taken."""
        return (self.on(place) & self.marks) != 0

    def moved(self, slot: int, place: Array, leaves: Array, stays: Array) -> "_Crowd":
        """Slot on its new cell. If it `leaves`, its old cell is seen as free, whoever else is on
        it; if it `stays` in the game, it is seen on the new one."""
        marks = self.marks & ~jnp.where(leaves, self.on(self.places[slot]), 0)
        marks = marks | jnp.where(stays, 1 << slot, 0)
        places = (*self.places[:slot], place, *self.places[slot + 1 :])
        return _Crowd(places, marks)


class _Turn(NamedTuple):
    """What a mob's move depends on."""

    rules: Rules
    ground: Ground
    world: World
    crowd: _Crowd
    slot: int  # in the crowd
    mob: Mob
    despawn_distance: Array

    @property
    def distance(self) -> Array:
        """Steps from the mob to the player."""
        return jnp.abs(self.mob.row - self.world.row) + jnp.abs(self.mob.column - self.world.column)

    def is_free(self, step: tuple[Array, Array]) -> Bool[Array, ""]:
        """Whether the mob may make a step."""
        row, column = self.mob.row + step[0], self.mob.column + step[1]
        block = self.ground.block(row, column)
        blocked = is_in(block, self.rules.solid | {Block.LAVA})
        taken = self.crowd.sees(_place(row, column))
        at_player = (row == self.world.row) & (column == self.world.column)
        return self.ground.inside(row, column) & ~blocked & ~taken & ~at_player

    def done(self, goes: Array, step: tuple[Array, Array], **changes: Any) -> tuple[_Crowd, Mob]:
        """The mob at its new cell, or gone if it was far away."""
        mob = self.mob
        stays = mob.alive & (self.distance < self.despawn_distance)
        old = _place(mob.row, mob.column)
        place = jnp.where(goes, _place(mob.row + step[0], mob.column + step[1]), old)
        crowd = self.crowd.moved(self.slot, place, mob.alive, stays)
        place, marks = kept((place, 16), (crowd.marks, MOST_MOBS))
        places = (*crowd.places[: self.slot], place, *crowd.places[self.slot + 1 :])
        row, column = place // _ROW, place % _ROW
        return _Crowd(places, marks), mob._replace(row=row, column=column, alive=stays, **changes)


def move_all(
    rules: Rules, ground: Ground, world: World, draws: Draws, despawn_distance: Array
) -> tuple[Ground, World]:
    """Move every mob and arrow."""
    moves: dict[str, Any] = {"zombie": _zombie, "cow": _cow, "skeleton": _skeleton}
    everybody = mobs_of(world)
    marks = functools.reduce(
        operator.or_, [jnp.where(m.marked, 1 << i, 0) for i, m in enumerate(everybody)]
    )
    crowd = _Crowd(tuple(_place(m.row, m.column) for m in everybody), settled(marks))
    moved: list[Mob] = []
    for name in MOVING:
        for i, mob in enumerate(world.mobs[name]):
            turn = _Turn(rules, ground, world, crowd, len(moved), mob, despawn_distance)
            world, crowd, mob = moves[name](turn, draws, i)
            moved.append(mob)
    seen = [mob._replace(marked=((crowd.marks >> i) & 1) != 0) for i, mob in enumerate(moved)]
    rest = iter(seen)
    mobs = {name: tuple(next(rest) for _ in world.mobs[name]) for name in MOVING}
    world = world._replace(mobs=mobs)
    for i in range(len(world.arrows)):
        ground, world = _arrow(rules, ground, world, crowd, i)
    return ground, world


def _zombie(turn: _Turn, draws: Draws, i: int) -> tuple[World, _Crowd, Mob]:
    """Comes nearer when it is near, and hits beside the player."""
    world, mob = turn.world, turn.mob
    chases = (turn.distance < 10) & (draws.zombie_gate[i] < 0.75)
    step = _choose(chases, _towards(world, mob, draws.zombie_axis[i]), _drift(draws.zombie_step[i]))
    attacks = settled((turn.distance == 1) & (mob.cooldown <= 0) & mob.alive)
    goes = ~attacks & turn.is_free(step)
    crowd, mob = turn.done(goes, step, cooldown=_cooled(mob, attacks, 5))
    hurt = jnp.where(attacks, jnp.where(world.sleeping, 7, 2), 0)
    world = unlock(world, Achievement.WAKE_UP, world.sleeping & attacks)
    return _hurt(world, hurt, attacks), crowd, mob


def _cow(turn: _Turn, draws: Draws, i: int) -> tuple[World, _Crowd, Mob]:
    """Strolls."""
    step = _drift(draws.cow_step[i])
    return turn.world, *turn.done(turn.is_free(step), step)


def _skeleton(turn: _Turn, draws: Draws, i: int) -> tuple[World, _Crowd, Mob]:
    """Keeps its distance, now and then, and shoots."""
    world, mob, distance = turn.world, turn.mob, turn.distance
    drift = _drift(draws.skeleton_step[i])
    towards = _towards(world, mob, draws.skeleton_axis[i])
    close = distance <= 3
    meant = _choose(distance >= 10, towards, drift)
    meant = _choose(close, (-towards[0], -towards[1]), meant)
    step = _choose(draws.skeleton_gate[i] > 0.85, meant, drift)
    free = turn.is_free(step)
    shoots = ((distance >= 4) & (distance <= 5)) | (close & ~free)
    shoots = shoots & (mob.cooldown <= 0) & mob.alive
    shoots, free, down, right = kept(
        (shoots, 1), (free, 1), (towards[0] + 1, 2), (towards[1] + 1, 2)
    )
    crowd, after = turn.done(free & ~shoots, step, cooldown=_cooled(mob, shoots, 4))
    arrows = _shot(world, mob, (down - 1, right - 1), shoots)
    return world._replace(arrows=arrows), crowd, after


def _shot(world: World, mob: Mob, direction: tuple[Array, Array], when: Array) -> tuple[Arrow, ...]:
    """Arrows with a new one, from the mob's cell, in the first free slot."""
    arrows = []
    for arrow in world.arrows:
        takes = when & ~arrow.alive
        when = when & arrow.alive
        arrows.append(
            Arrow(
                row=jnp.where(takes, mob.row, arrow.row),
                column=jnp.where(takes, mob.column, arrow.column),
                d_row=jnp.where(takes, direction[0], arrow.d_row),
                d_column=jnp.where(takes, direction[1], arrow.d_column),
                alive=arrow.alive | takes,
            )
        )
    return tuple(arrows)


def _arrow(
    rules: Rules, ground: Ground, world: World, crowd: _Crowd, slot: int
) -> tuple[Ground, World]:
    """Fly one cell: hits the player, breaks tables and furnaces, ends at what is solid."""
    arrow = world.arrows[slot]
    row, column = arrow.row + arrow.d_row, arrow.column + arrow.d_column
    block = ground.block(row, column)
    at_player = (row == world.row) & (column == world.column)
    hits = arrow.alive & at_player
    stopped = is_in(block, rules.solid - {Block.WATER})
    stopped = stopped | at_player | crowd.sees(_place(row, column))
    breaks = arrow.alive & is_in(block, {Block.CRAFTING_TABLE, Block.FURNACE})
    flies = arrow.alive & ground.inside(row, column) & ~stopped
    flies, hits, breaks = kept((flies, 1), (hits, 1), (breaks, 1))
    after = arrow._replace(row=row, column=column, alive=flies)
    world = _hurt(world, jnp.where(hits, 2, 0), hits)
    world = world._replace(arrows=(*world.arrows[:slot], after, *world.arrows[slot + 1 :]))
    return ground.put(row, column, Block.PATH, breaks), world


def _hurt(world: World, points: Array, wakes: Array) -> World:
    vitals = {**world.vitals, "health": world.vitals["health"] - points}
    return world._replace(vitals=vitals, sleeping=world.sleeping & ~wakes)


def _place(row: Array, column: Array) -> Array:
    """A cell as one number."""
    return row * _ROW + column


def _towards(world: World, mob: Mob, axis: Array) -> tuple[Array, Array]:
    """One step to the player along the longer axis; on a tie chance decides."""
    rows, columns = world.row - mob.row, world.column - mob.column
    along_rows = jnp.abs(rows) > jnp.abs(columns)
    along_rows = along_rows | ((jnp.abs(rows) == jnp.abs(columns)) & (axis >= 0.5))
    return jnp.where(along_rows, jnp.sign(rows), 0), jnp.where(along_rows, 0, jnp.sign(columns))


def _drift(step: Array) -> tuple[Array, Array]:
    """Row and column of a random step: 0 left, 1 right, 2 up, 3 down, else none."""
    down = (step == 3).astype(jnp.int32) - (step == 2).astype(jnp.int32)
    right = (step == 1).astype(jnp.int32) - (step == 0).astype(jnp.int32)
    return down, right


def _choose(when: Array, a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return jnp.where(when, a[0], b[0]), jnp.where(when, a[1], b[1])


def _cooled(mob: Mob, attacks: Array, pause: int) -> Array:
    return jnp.where(attacks, pause, jnp.maximum(mob.cooldown - 1, 0))
