"""Mobs, slot after slot as upstream does: three behaviours, one for each role, read their rows.

A melee mob comes nearer and hits beside the player, a passive one strolls, a ranged one keeps its
distance and shoots. A behaviour says what a mob means to do; `_carry_out` does it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import any_of, kept
from ..core.settle import settled
from . import harm, projectiles
from .body import hurt
from .crowd import ROW, Crowd, place_of
from .ground import is_in
from .state import Mob, World, mobs_of, unlock
from .step import Moment
from .tables import ROLES, Achievement, MobRow, of_type


class _Turn(NamedTuple):
    """What a mob's move depends on."""

    moment: Moment  # in which mobs before it have moved
    role: str
    number: int  # of the slot among those of its role
    slot: int  # in the crowd
    mob: Mob

    @property
    def world(self) -> World:
        """The world behind the moves of the mobs before it."""
        return self.moment.world

    @property
    def rows(self) -> tuple[MobRow, ...]:
        """Rows of the types of the role."""
        return self.moment.rules.types(self.role)

    def of(self, field: str) -> Any:
        """A field of the row of the mob's type."""
        return of_type([getattr(row, field) for row in self.rows], self.mob.type)

    def whim(self, name: str) -> Array:
        """The slot's own draw."""
        return getattr(self.moment.draws.whims[self.role], name)[self.number]

    @property
    def distance(self) -> Array:
        """Steps from the mob to the player."""
        return jnp.abs(self.mob.row - self.world.row) + jnp.abs(self.mob.column - self.world.column)

    def shuns(self, block: Array) -> Bool[Array, ""]:
        """Whether the mob's type does not enter a block that is not solid."""
        kinds: dict[frozenset[int], list[int]] = {}  # types that shun the same
        for type, row in enumerate(self.rows):
            kinds.setdefault(row.shuns, []).append(type)
        if len(kinds) == 1:
            return is_in(block, self.rows[0].shuns)
        type = self.mob.type
        return any_of(is_in(block, blocks) & is_in(type, types) for blocks, types in kinds.items())

    @property
    def besieges(self) -> Any:
        """Whether the mob stays near wherever it is: on the last floor, but for passive ones."""
        if not self.moment.rules.floors or self.role == "passive":
            return False
        return harm.is_boss_floor(self.moment.rules, self.world)

    def is_free(self, step: tuple[Array, Array]) -> Bool[Array, ""]:
        """Whether the mob may make a step."""
        row, column = self.mob.row + step[0], self.mob.column + step[1]
        ground, block = self.moment.ground, self.moment.ground.block(row, column)
        blocked = is_in(block, self.moment.rules.solid) | self.shuns(block)
        taken = self.moment.crowd.sees(place_of(row, column))
        at_player = (row == self.world.row) & (column == self.world.column)
        return ground.inside(row, column) & ~blocked & ~taken & ~at_player

    def done(self, goes: Array, step: tuple[Array, Array], **changes: Any) -> tuple[Crowd, Mob]:
        """The mob at its new cell, or gone if it was far away."""
        mob = self.mob
        stays = self.distance < self.moment.params.mob_despawn_distance
        stays = mob.alive & (stays | self.besieges)
        old = place_of(mob.row, mob.column)
        place = jnp.where(goes, place_of(mob.row + step[0], mob.column + step[1]), old)
        crowd = self.moment.crowd.moved(self.slot, place, mob.alive, stays)
        row, column = crowd.places[self.slot] // ROW, crowd.places[self.slot] % ROW
        return crowd, mob._replace(row=row, column=column, alive=stays, **changes)


class _Intent(NamedTuple):
    """What a mob means to do."""

    step: tuple[Array, Array]
    free: Array  # whether it may make the step
    attacks: Array | None = None  # instead of the step; None: it never does
    aim: tuple[Array, Array] | None = None  # where it shoots; None: it hits


def _melee(turn: _Turn) -> _Intent:
    """Comes nearer when it is near, and hits beside the player."""
    near = (turn.distance < turn.of("chase")) | turn.besieges
    chases = near & (turn.whim("gate") < turn.of("gate"))
    towards = _towards(turn.world, turn.mob, turn.whim("axis"))
    step = _choose(chases, towards, _drift(turn.whim("step")))
    attacks = (turn.distance == 1) & (turn.mob.cooldown <= 0) & turn.mob.alive
    return _Intent(step, turn.is_free(step), attacks)


def _passive(turn: _Turn) -> _Intent:
    """Strolls."""
    step = _drift(turn.whim("step"))
    return _Intent(step, turn.is_free(step))


def _ranged(turn: _Turn) -> _Intent:
    """Keeps its distance, now and then, and shoots."""
    distance, drift = turn.distance, _drift(turn.whim("step"))
    towards = _towards(turn.world, turn.mob, turn.whim("axis"))
    close = distance <= turn.of("retreat")
    meant = _choose(distance >= turn.of("chase"), towards, drift)
    meant = _choose(close, (-towards[0], -towards[1]), meant)
    step = _choose(turn.whim("gate") > turn.of("gate"), meant, drift)
    free = turn.is_free(step)
    shoots = (distance >= turn.of("nearest_shot")) & (distance <= turn.of("farthest_shot"))
    shoots = (shoots | (close & ~free)) & (turn.mob.cooldown <= 0) & turn.mob.alive
    return _Intent(step, free, shoots, towards)


_BEHAVIOURS = {"melee": _melee, "passive": _passive, "ranged": _ranged}


def move(moment: Moment) -> Moment:
    """Move every mob; those that shot have their projectiles at their own cells."""
    world, everybody = moment.world, mobs_of(moment.world)
    marks = any_of(jnp.where(m.marked, 1 << i, 0) for i, m in enumerate(everybody))
    crowd = Crowd(tuple(place_of(m.row, m.column) for m in everybody), settled(marks))
    moved: list[Mob] = []
    for role in ROLES:
        for i, mob in enumerate(moment.world.mobs[role]):
            turn = _Turn(moment._replace(world=world, crowd=crowd), role, i, len(moved), mob)
            intent = _edge(_BEHAVIOURS[role](turn))
            world, crowd, mob = _carry_out(turn, intent)
            moved.append(mob)
    seen = [mob._replace(marked=((crowd.marks >> i) & 1) != 0) for i, mob in enumerate(moved)]
    rest = iter(seen)
    mobs = {role: tuple(next(rest) for _ in world.mobs[role]) for role in ROLES}
    return moment._replace(world=world._replace(mobs=mobs), crowd=crowd)


def _edge(intent: _Intent) -> _Intent:
    """The same intent, computed once, see `core.settle`."""
    step, free, attacks, aim = intent
    if attacks is None:
        return intent
    if aim is None:
        return _Intent(step, free, settled(attacks))
    attacks, free, down, right = kept((attacks, 1), (free, 1), (aim[0] + 1, 2), (aim[1] + 1, 2))
    return _Intent(step, free, attacks, (down - 1, right - 1))


def _carry_out(turn: _Turn, intent: _Intent) -> tuple[World, Crowd, Mob]:
    """Attack or make the step; a step that is not free is none."""
    world, mob = turn.world, turn.mob
    if intent.attacks is None:
        return world, *turn.done(intent.free, intent.step)
    attacks = intent.attacks
    cooldown = jnp.where(attacks, turn.of("cooldown"), jnp.maximum(mob.cooldown - 1, 0))
    crowd, after = turn.done(intent.free & ~attacks, intent.step, cooldown=cooldown)
    if intent.aim is not None:
        type = of_type(
            [turn.moment.rules.shots[row.projectile or ""] for row in turn.rows], mob.type
        )
        flying = projectiles.shot(world.projectiles, mob, type, intent.aim, attacks)
        return world._replace(projectiles=flying), crowd, after
    points = harm.to_player(turn.moment.rules, world, turn.rows, mob.type, world.sleeping)
    points = jnp.where(attacks, points, 0)
    world = unlock(world, Achievement.WAKE_UP, world.sleeping & attacks)
    return hurt(world, points, attacks), crowd, after


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
