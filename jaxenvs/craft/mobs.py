"""What moves by itself: zombies, cows, skeletons and arrows, slot after slot as upstream does."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.settle import settled
from .chance import Draws
from .ground import Ground, is_in
from .player import is_taken
from .state import Arrow, Mob, World, unlock
from .tables import Achievement, Block, Rules


def move_all(
    rules: Rules, ground: Ground, world: World, draws: Draws, despawn_distance: Array
) -> tuple[Ground, World]:
    """Move every mob and arrow."""
    for i in range(len(world.mobs["zombie"])):
        chance = (draws.zombie_step[i], draws.zombie_axis[i], draws.zombie_gate[i])
        world = _zombie(rules, ground, world, i, chance, despawn_distance)
    world = world._replace(mobs=settled(world.mobs))
    for i in range(len(world.mobs["cow"])):
        world = _cow(rules, ground, world, i, draws.cow_step[i], despawn_distance)
    world = world._replace(mobs=settled(world.mobs))
    for i in range(len(world.mobs["skeleton"])):
        chance = (draws.skeleton_step[i], draws.skeleton_axis[i], draws.skeleton_gate[i])
        world = _skeleton(rules, ground, world, i, chance, despawn_distance)
    world = world._replace(mobs=settled(world.mobs))
    for i in range(len(world.arrows)):
        ground, world = _arrow(rules, ground, world, i)
    return ground, world


def _zombie(
    rules: Rules, ground: Ground, world: World, slot: int, chance: Any, despawn_distance: Array
) -> World:
    step, axis, gate = chance
    mob = world.mobs["zombie"][slot]
    distance = _distance(world, mob)
    chases = (distance < 10) & (gate < 0.75)
    d_row, d_column = _choose(chases, _towards(world, mob, axis), _drift(step))
    attacks = (distance == 1) & (mob.cooldown <= 0) & mob.alive
    attacks = settled(attacks)
    hurt = jnp.where(attacks, jnp.where(world.sleeping, 7, 2), 0)
    world = unlock(world, Achievement.WAKE_UP, world.sleeping & attacks)
    world = world._replace(
        vitals={**world.vitals, "health": world.vitals["health"] - hurt},
        sleeping=world.sleeping & ~attacks,
    )
    mob = mob._replace(cooldown=_cooled(mob, attacks, 5))
    goes = ~attacks & _is_free(rules, ground, world, mob.row + d_row, mob.column + d_column)
    goes, d_row, d_column = settled((goes, d_row, d_column))
    return _relocated(world, "zombie", slot, mob, (d_row, d_column), goes, despawn_distance)


def _cow(
    rules: Rules, ground: Ground, world: World, slot: int, step: Array, despawn_distance: Array
) -> World:
    mob = world.mobs["cow"][slot]
    d_row, d_column = _drift(step)
    goes = settled(_is_free(rules, ground, world, mob.row + d_row, mob.column + d_column))
    return _relocated(world, "cow", slot, mob, (d_row, d_column), goes, despawn_distance)


def _skeleton(
    rules: Rules, ground: Ground, world: World, slot: int, chance: Any, despawn_distance: Array
) -> World:
    step, axis, gate = chance
    mob = world.mobs["skeleton"][slot]
    distance = _distance(world, mob)
    towards = _towards(world, mob, axis)
    close = distance <= 3
    meant = _choose(distance >= 10, towards, _drift(step))
    meant = _choose(close, (-towards[0], -towards[1]), meant)
    d_row, d_column = _choose(gate > 0.85, meant, _drift(step))
    free = _is_free(rules, ground, world, mob.row + d_row, mob.column + d_column)
    shoots = ((distance >= 4) & (distance <= 5)) | (close & ~free)
    shoots = shoots & (mob.cooldown <= 0) & mob.alive
    shoots, free, towards, d_row, d_column = settled((shoots, free, towards, d_row, d_column))
    world = world._replace(arrows=_shot(world, mob, towards, shoots))
    mob = mob._replace(cooldown=_cooled(mob, shoots, 4))
    goes = free & ~shoots
    return _relocated(world, "skeleton", slot, mob, (d_row, d_column), goes, despawn_distance)


def _shot(world: World, mob: Mob, direction: tuple[Array, Array], when: Array) -> tuple[Arrow, ...]:
    """Arrows with a new one, from the mob's cell, in the first free slot."""
    arrows = []
    for arrow in world.arrows:
        takes = when & ~arrow.alive
        when = when & arrow.alive
        new = (mob.row, mob.column, *direction)
        old = (arrow.row, arrow.column, arrow.d_row, arrow.d_column)
        arrows.append(
            Arrow(*(jnp.where(takes, n, o) for n, o in zip(new, old, strict=True)), arrow.alive | takes)
        )
    return tuple(arrows)


def _arrow(rules: Rules, ground: Ground, world: World, slot: int) -> tuple[Ground, World]:
    """Fly one cell: hits the player, breaks tables and furnaces, ends at what is solid."""
    arrow = world.arrows[slot]
    row, column = arrow.row + arrow.d_row, arrow.column + arrow.d_column
    block = ground.block(row, column)
    at_player = (row == world.row) & (column == world.column)
    hits = arrow.alive & at_player
    stopped = is_in(block, rules.solid - {Block.WATER})
    stopped = stopped | at_player | is_taken(world, row, column)
    breaks = arrow.alive & is_in(block, {Block.CRAFTING_TABLE, Block.FURNACE})
    flies = arrow.alive & ground.inside(row, column) & ~stopped
    flies, hits, breaks = settled((flies, hits, breaks))
    after = arrow._replace(row=row, column=column, alive=flies)
    world = world._replace(
        vitals={**world.vitals, "health": world.vitals["health"] - jnp.where(hits, 2, 0)},
        sleeping=world.sleeping & ~hits,
        arrows=(*world.arrows[:slot], after, *world.arrows[slot + 1 :]),
    )
    return ground.put(row, column, Block.PATH, breaks), world


def _relocated(
    world: World,
    kind: str,
    slot: int,
    mob: Mob,
    step: tuple[Array, Array],
    goes: Array,
    despawn_distance: Array,
) -> World:
    """The mob at its new cell, or gone if it was far away, with the marks of cells brought up."""
    stays_alive = mob.alive & (_distance(world, mob) < despawn_distance)

    def unmarked(other: Mob) -> Mob:
        left = mob.alive & (other.row == mob.row) & (other.column == mob.column)
        return other._replace(marked=other.marked & ~left)

    moved = mob._replace(
        row=jnp.where(goes, mob.row + step[0], mob.row),
        column=jnp.where(goes, mob.column + step[1], mob.column),
        alive=stays_alive,
        marked=stays_alive,
    )
    mobs = {name: [unmarked(m) for m in slots] for name, slots in world.mobs.items()}
    mobs[kind][slot] = moved
    return world._replace(mobs={name: tuple(slots) for name, slots in mobs.items()})


def _is_free(
    rules: Rules, ground: Ground, world: World, row: Array, column: Array
) -> Bool[Array, ""]:
    """Whether a mob may go to a cell."""
    block = ground.block(row, column)
    blocked = is_in(block, rules.solid | {Block.LAVA}) | is_taken(world, row, column)
    at_player = (row == world.row) & (column == world.column)
    return ground.inside(row, column) & ~blocked & ~at_player


def _distance(world: World, mob: Mob) -> Array:
    return jnp.abs(mob.row - world.row) + jnp.abs(mob.column - world.column)


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
