"""Movement and attacks of mobs, slot by slot as in Craftax.

The mob's role decides its behaviour: a melee mob approaches the player and hits when adjacent, a
passive mob walks at random, a ranged mob keeps its distance and shoots. A behaviour returns an
`_Intent` (a step, an attack or a shot), which `_carry_out` applies.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import any_of
from . import harm, projectiles
from .body import hurt
from .compiler.once import once, once_joined
from .crowd import ROW, Crowd, place_of
from .ground import is_in
from .state import Mob, World, mobs_of, unlock
from .step import Moment
from .tables import ROLES, Achievement, MobRow, of_type


class _Turn(NamedTuple):
    """The turn of one mob: everything that a behaviour reads to compute an `_Intent`."""

    moment: Moment  # state of the step after the turns of all mobs that move before this one
    role: str
    number: int  # index of the mob's slot within its role
    slot: int  # index of the mob's slot among all slots, as in `Crowd.places`
    mob: Mob

    @property
    def world(self) -> World:
        """Unpacked state of the player and the floor, after the turns of all earlier mobs."""
        return self.moment.world

    @property
    def rows(self) -> tuple[MobRow, ...]:
        """`MobRow` of each mob type that has this mob's role."""
        return self.moment.rules.types(self.role)

    def of(self, field: str) -> Any:
        """Return the value that a field of `MobRow` has for this mob's type."""
        return of_type([getattr(row, field) for row in self.rows], self.mob.type)

    def whim(self, name: str) -> Array:
        """Return a random draw of this step for this mob; `name` is the field of `Whims`.

        For example, `whim("step")` is the drawn direction of the mob's random step.
        """
        return getattr(self.moment.draws.whims[self.role], name)[self.number]

    @property
    def distance(self) -> Array:
        """Number of steps from the mob to the player (Manhattan distance)."""
        return jnp.abs(self.mob.row - self.world.row) + jnp.abs(self.mob.column - self.world.column)

    def shuns(self, block: Array) -> Bool[Array, ""]:
        """Return whether `block` is one of the blocks that mobs of this type avoid.

        The result is False for solid blocks, which no mob can enter anyway.
        """
        # Set of avoided blocks -> indices of the mob types that avoid these blocks.
        kinds: dict[frozenset[int], list[int]] = {}
        for type, row in enumerate(self.rows):
            kinds.setdefault(row.shuns, []).append(type)
        if len(kinds) == 1:
            return is_in(block, self.rows[0].shuns)
        type = self.mob.type
        return any_of(is_in(block, blocks) & is_in(type, types) for blocks, types in kinds.items())

    @property
    def besieges(self) -> Any:
        """True if this is a melee or ranged mob on the boss floor.

        These mobs never vanish, and the melee mobs among them chase the player from any distance.
        """
        if not self.moment.rules.is_full or self.role == "passive":
            return False
        return harm.is_boss_floor(self.moment.rules, self.world)

    def is_free(self, step: tuple[Array, Array]) -> Bool[Array, ""]:
        """Return whether the mob can take a step, which is given as (rows down, columns right)."""
        row, column = self.mob.row + step[0], self.mob.column + step[1]
        ground, block = self.moment.ground, self.moment.ground.block(row, column)
        blocked = is_in(block, self.moment.rules.solid) | self.shuns(block)
        taken = self.moment.crowd.sees(place_of(row, column))
        at_player = (row == self.world.row) & (column == self.world.column)
        return ground.inside(row, column) & ~blocked & ~taken & ~at_player

    def done(self, goes: Array, step: tuple[Array, Array], **changes: Any) -> tuple[Crowd, Mob]:
        """Return the crowd and the mob at the end of its turn.

        The mob moves by `step` if `goes` is True. The mob vanishes if it was too far from the
        player before the move. `changes` are new values of other fields of the mob.
        """
        mob = self.mob
        stays = self.distance < self.moment.params.mob_despawn_distance
        stays = mob.alive & (stays | self.besieges)
        old = place_of(mob.row, mob.column)
        place = jnp.where(goes, place_of(mob.row + step[0], mob.column + step[1]), old)
        crowd = self.moment.crowd.moved(self.slot, place, mob.alive, stays)
        row, column = crowd.places[self.slot] // ROW, crowd.places[self.slot] % ROW
        return crowd, mob._replace(row=row, column=column, alive=stays, **changes)


class _Intent(NamedTuple):
    """Decision of a mob's behaviour for its turn: a step, an attack or a shot."""

    step: tuple[Array, Array]
    free: Array  # whether the mob can take the step
    # Whether the mob attacks instead of taking the step. None: mobs of its role never attack.
    attacks: Array | None = None
    # Direction (rows down, columns right) of the mob's shot. None: mobs of its role do not shoot.
    aim: tuple[Array, Array] | None = None


def _melee(turn: _Turn) -> _Intent:
    """Behaviour of melee mobs: approach the player if near, and hit when adjacent."""
    near = (turn.distance < turn.of("chase")) | turn.besieges
    chases = near & (turn.whim("gate") < turn.of("gate"))
    towards = _towards(turn.world, turn.mob, turn.whim("axis"))
    step = _choose(chases, towards, _drift(turn.whim("step")))
    attacks = (turn.distance == 1) & (turn.mob.cooldown <= 0) & turn.mob.alive
    return _Intent(step, turn.is_free(step), once(attacks))


def _passive(turn: _Turn) -> _Intent:
    """Behaviour of passive mobs: walk at random."""
    step = _drift(turn.whim("step"))
    return _Intent(step, turn.is_free(step))


def _ranged(turn: _Turn) -> _Intent:
    """Behaviour of ranged mobs: approach or retreat to keep a distance, and shoot."""
    distance, drift = turn.distance, _drift(turn.whim("step"))
    towards = _towards(turn.world, turn.mob, turn.whim("axis"))
    close = distance <= turn.of("retreat")
    meant = _choose(distance >= turn.of("chase"), towards, drift)
    meant = _choose(close, (-towards[0], -towards[1]), meant)
    step = _choose(turn.whim("gate") > turn.of("gate"), meant, drift)
    free = turn.is_free(step)
    shoots = (distance >= turn.of("nearest_shot")) & (distance <= turn.of("farthest_shot"))
    shoots = (shoots | (close & ~free)) & (turn.mob.cooldown <= 0) & turn.mob.alive
    # Add 1, so that values -1 to 1 become 0 to 2: `once_joined` packs only non-negative numbers.
    aim = towards[0] + 1, towards[1] + 1
    shoots, free, down, right = once_joined(shoots, free, *aim, bits=(1, 1, 2, 2))
    return _Intent(step, free, shoots, (down - 1, right - 1))


_BEHAVIOURS = {"melee": _melee, "passive": _passive, "ranged": _ranged}


def move(moment: Moment) -> Moment:
    """Let each mob take its turn, slot by slot: move, hit the player, or shoot a projectile."""
    world, everybody = moment.world, mobs_of(moment.world)
    marks = any_of(jnp.where(m.marked, 1 << i, 0) for i, m in enumerate(everybody))
    crowd = Crowd(tuple(place_of(m.row, m.column) for m in everybody), once(marks))
    moved: list[Mob] = []
    for role in ROLES:
        for i, mob in enumerate(moment.world.mobs[role]):
            turn = _Turn(moment._replace(world=world, crowd=crowd), role, i, len(moved), mob)
            world, crowd, mob = _carry_out(turn, _BEHAVIOURS[role](turn))
            moved.append(mob)
    marked = [mob._replace(marked=((crowd.marks >> i) & 1) != 0) for i, mob in enumerate(moved)]
    rest = iter(marked)
    mobs = {role: tuple(next(rest) for _ in world.mobs[role]) for role in ROLES}
    return moment._replace(world=world._replace(mobs=mobs), crowd=crowd)


def _carry_out(turn: _Turn, intent: _Intent) -> tuple[World, Crowd, Mob]:
    """Apply a mob's intent: attack if `intent.attacks`, else take the step if it is free.

    Return the world, the crowd and the mob after the turn.
    """
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
    """Return a step towards the player, along the axis on which the player is farther away.

    If both distances are equal, the uniform draw `axis` decides.
    """
    rows, columns = world.row - mob.row, world.column - mob.column
    along_rows = jnp.abs(rows) > jnp.abs(columns)
    along_rows = along_rows | ((jnp.abs(rows) == jnp.abs(columns)) & (axis >= 0.5))
    return jnp.where(along_rows, jnp.sign(rows), 0), jnp.where(along_rows, 0, jnp.sign(columns))


def _drift(step: Array) -> tuple[Array, Array]:
    """Convert a drawn direction, such as `Whims.step`, to (rows down, columns right).

    0 is left, 1 right, 2 up, 3 down; higher values mean no step.
    """
    down = (step == 3).astype(jnp.int32) - (step == 2).astype(jnp.int32)
    right = (step == 1).astype(jnp.int32) - (step == 0).astype(jnp.int32)
    return down, right


def _choose(when: Array, a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return jnp.where(when, a[0], b[0]), jnp.where(when, a[1], b[1])
