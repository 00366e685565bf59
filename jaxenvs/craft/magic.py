"""The player's arrows, spells, potions, books and enchantments, in the full game."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from ..core.bits import any_of
from . import projectiles
from .full_rows import COLOURS
from .harm import FIRE, ICE, PIECES
from .state import World, one, unlock
from .step import Front, Moment
from .tables import Achievement, Action, Block

CAST, ENCHANT = 2, 9  # cost in mana of casting a spell, and of enchanting an item
SHOT = "arrow2"  # name, in `Rules.projectiles`, of the arrow that the player's bow shoots
CASTS = {  # for each spell: action that casts it, achievements for casting and for learning it
    "fireball": (Action.CAST_FIREBALL, Achievement.CAST_FIREBALL, Achievement.LEARN_FIREBALL),
    "iceball": (Action.CAST_ICEBALL, Achievement.CAST_ICEBALL, Achievement.LEARN_ICEBALL),
}
# Effects of potions: pairs of the vital that a potion changes, and the points that it adds.
# `World.effects` has an index into EFFECTS for each colour of potion.
EFFECTS = tuple((vital, points) for vital in ("health", "mana", "energy") for points in (8, -3))


def able(world: World, front: Front) -> dict[int, Any]:
    """Return a dict that says, for each magic action, whether the action would have an effect.

    Magic actions shoot an arrow, cast a spell, drink a potion, read a book or enchant an item.
    """
    potions = {
        Action.DRINK_POTION_RED + number: world.items[f"{colour}_potion"] > 0
        for number, colour in enumerate(COLOURS)
    }
    books = {Action.READ_BOOK: world.items["books"] > 0}
    return {**shots(world), **potions, **books, **tables(world, front)}


def shots(world: World) -> dict[int, Any]:
    """Return, for each action that shoots or casts a spell, whether the action is possible."""
    room = any_of(~missile.alive for missile in world.missiles)
    bow, mana = world.items["bow"] >= 1, world.vitals["mana"] >= CAST
    casts = {action: room & mana & world.spells[spell] for spell, (action, *_) in CASTS.items()}
    return {Action.SHOOT_ARROW: room & bow & (world.items["arrows"] >= 1), **casts}


def tables(world: World, front: Front) -> dict[int, Any]:
    """Return, for each of the three enchanting actions, whether the action is possible.

    An enchantment table must be ahead. The player needs a gem (a ruby for fire, a sapphire for
    ice), mana, and the item to enchant.
    """
    items = world.items
    fire = (front.block == Block.ENCHANTMENT_TABLE_FIRE) & (items["ruby"] >= 1)
    ice = (front.block == Block.ENCHANTMENT_TABLE_ICE) & (items["sapphire"] >= 1)
    ready = (fire | ice) & (world.vitals["mana"] >= ENCHANT)
    worn = sum((items[piece] for piece in PIECES[1:]), items[PIECES[0]])
    return {
        Action.ENCHANT_SWORD: ready & (items["sword"] > 0),
        Action.ENCHANT_BOW: ready & (items["bow"] > 0),
        Action.ENCHANT_ARMOUR: ready & (worn > 0),
    }


def shoot(moment: Moment) -> Moment:
    """Shoot an arrow or cast a spell, if the action is possible.

    The projectile starts on the player's cell. In the same step, `projectiles.hit` moves it by one
    cell.
    """
    rules, world, action = moment.rules, moment.world, moment.action
    can = shots(world)
    shoots = (action == Action.SHOOT_ARROW) & can[Action.SHOOT_ARROW]
    world = unlock(world, Achievement.FIRE_BOW, shoots)
    type, fires = jnp.int32(rules.shots[SHOT]), shoots
    for spell, (cast, achievement, _) in CASTS.items():
        casts = (action == cast) & can[cast]
        world = unlock(world, achievement, casts)
        type, fires = jnp.where(casts, rules.shots[spell], type), fires | casts
    facing = world.facing
    down = one(facing == Action.DOWN) - one(facing == Action.UP)
    right = one(facing == Action.RIGHT) - one(facing == Action.LEFT)
    spent = jnp.where(fires & ~shoots, CAST, 0)
    return moment._replace(
        world=world._replace(
            missiles=projectiles.shot(world.missiles, world, type, (down, right), fires),
            items={**world.items, "arrows": world.items["arrows"] - one(shoots)},
            vitals={**world.vitals, "mana": world.vitals["mana"] - spent},
        )
    )


def drink(moment: Moment) -> Moment:
    """Drink a potion and apply its effect; `World.effects` has the effect of each potion colour."""
    world, action = moment.world, moment.action
    items, effect, drinks = dict(world.items), jnp.int32(len(EFFECTS)), jnp.zeros((), jnp.bool_)
    for number, colour in enumerate(COLOURS):
        potion = f"{colour}_potion"
        this = (action == Action.DRINK_POTION_RED + number) & (items[potion] > 0)
        items[potion] = items[potion] - one(this)
        effect, drinks = jnp.where(this, world.effects[colour], effect), drinks | this
    vitals = dict(world.vitals)
    for number, (vital, points) in enumerate(EFFECTS):
        change = jnp.where(effect == number, points, 0).astype(vitals[vital].dtype)
        vitals[vital] = vitals[vital] + change
    world = unlock(world, Achievement.DRINK_POTION, drinks)
    return moment._replace(world=world._replace(items=items, vitals=vitals))


def read(moment: Moment) -> Moment:
    """Read a book, and learn one of the spells that the player does not know yet, if any."""
    world = moment.world
    reads = (moment.action == Action.READ_BOOK) & (world.items["books"] > 0)
    fire, ice = world.spells["fireball"], world.spells["iceball"]
    second = jnp.where(fire, ~ice, ~ice & (moment.draws.book < 0.5))
    spells = {}
    for spell, learns in (("fireball", reads & ~second), ("iceball", reads & second)):
        spells[spell] = world.spells[spell] | learns
        world = unlock(world, CASTS[spell][2], learns)
    items = {**world.items, "books": world.items["books"] - one(reads)}
    return moment._replace(world=world._replace(items=items, spells=spells))


def enchant(moment: Moment) -> Moment:
    """Enchant the sword, the bow or a piece of armour at the fire or ice table ahead."""
    world, front = moment.world, moment.front
    fire = front.block == Block.ENCHANTMENT_TABLE_FIRE
    kind, items, charms = jnp.where(fire, FIRE, ICE), world.items, dict(world.charms)
    can = tables(world, front).items()
    sword, bow, armour = ((moment.action == action) & able for action, able in can)
    slot = _piece(world, kind, moment.draws.armour)
    chosen = {"sword": sword, "bow": bow}
    chosen |= {piece: armour & (slot == number) for number, piece in enumerate(PIECES)}
    for name, takes in chosen.items():
        charms[name] = jnp.where(takes, kind, charms[name])
    paid = sword | bow | armour
    world = unlock(world, Achievement.ENCHANT_SWORD, sword)
    world = unlock(world, Achievement.ENCHANT_ARMOUR, armour)
    return moment._replace(
        world=world._replace(
            charms=charms,
            vitals={**world.vitals, "mana": world.vitals["mana"] - jnp.where(paid, ENCHANT, 0)},
            items={
                **items,
                "ruby": items["ruby"] - one(paid & fire),
                "sapphire": items["sapphire"] - one(paid & ~fire),
            },
        )
    )


def _piece(world: World, kind: Array, uniform: Array) -> Int32[Array, ""]:
    """Draw the piece of armour to enchant with the element `kind`; return its index in PIECES.

    The piece is drawn from the pieces without an enchantment. If there are none, it is drawn from
    the pieces with the opposite element. If there are none of these either, return 0. Craftax's
    quirk: pieces that the player does not wear can be drawn too.
    """
    charms = [world.charms[piece] for piece in PIECES]
    plain = sum((one(charm == 0) << i for i, charm in enumerate(charms)), jnp.int32(0))
    opposite = FIRE + ICE - kind
    other = sum((one(charm == opposite) << i for i, charm in enumerate(charms)), jnp.int32(0))
    bits = jnp.where(plain != 0, plain, other)
    total = jax.lax.population_count(bits)
    rank = jnp.ceil(total.astype(jnp.float32) * (1 - uniform)).astype(jnp.int32) - 1
    slot, seen = jnp.int32(0), jnp.int32(0)
    for i in range(len(PIECES)):
        has = (bits >> i) & 1
        slot = jnp.where((has != 0) & (seen == rank), np.int32(i), slot)
        seen = seen + has
    return slot
