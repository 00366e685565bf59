"""All random draws of a step, made at once: the rules are a function of state, action, draws."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt32

from ..core.random import Key, below, hashed
from .state import Slots
from .tables import APPEARING

WAYS = {"melee": 4, "passive": 8, "ranged": 4}  # number of values of `Whims.step`


class Whims(NamedTuple):
    """Random draws for the mobs of a role, one per slot. Uniform draws are in [0, 1)."""

    step: Int32[Array, " slots"]  # random step: 0 left, 1 right, 2 up, 3 down, else none
    # Uniform: axis of a step towards the player if the distances along both axes are equal.
    axis: Float32[Array, " slots"] | None = None
    # Uniform: decides between a purposeful and a random step, see `MobRow.gate`.
    gate: Float32[Array, " slots"] | None = None


class Loot(NamedTuple):
    """Random contents of a chest, from 14 draws."""

    torches: Int32[Array, ""]  # count, 4 to 7, or 0
    ore: Int32[Array, ""]  # index into ORES; beyond the last: none
    coal: Int32[Array, ""]  # count, 1 to 3, if the ore is coal
    iron: Int32[Array, ""]  # count, 1 or 2, if the ore is iron
    potion: Int32[Array, ""]  # index of the potion's colour
    potions: Int32[Array, ""]  # count of potions, 1 or 2, or 0
    arrows: Int32[Array, ""]  # count, 1 to 4, or 0
    pickaxe: Int32[Array, ""]  # level 1 to 4, or 0
    sword: Int32[Array, ""]  # level 1 to 4, or 0


class Draws(NamedTuple):
    """Random draws of a step: with the default slots, 25 in Classic and 41 in the full game.

    Uniform draws are in [0, 1).
    """

    sapling: Float32[Array, ""]  # uniform: whether grass gives a sapling
    whims: dict[str, Whims]  # draws for the mobs of each role
    appears: dict[str, Float32[Array, ""]]  # uniform, by role: whether a mob appears
    place: dict[str, Float32[Array, ""]]  # uniform, by role: cell where the mob appears
    loot: Any = None  # `Loot` of a chest; this and the next two fields in the full game only
    book: Any = None  # uniform: spell that a book teaches if none is known; fireball from 0.5
    armour: Any = None  # uniform: piece of armour that is enchanted


ORES = ("coal", "iron", "diamond", "sapphire", "ruby")
_ORE_ODDS = np.cumsum((0.3, 0.3, 0.15, 0.125, 0.125)).astype(np.float32)
# Cumulative probabilities of the levels of a tool in a chest.
_LEVEL_ODDS = np.cumsum((0.4, 0.3, 0.2, 0.1)).astype(np.float32)


def draw(key: Key, slots: Slots, full: bool = False) -> Draws:
    """Draw the random numbers of a step; `full` adds the draws of the full game."""
    number = itertools.count()

    def word() -> Array:
        # Each word is hashed separately, not in one array, so that XLA fuses the hash into its use.
        return hashed(key, jnp.uint32(next(number)))

    def uniforms(count: int) -> Array:
        return jnp.stack([uniform(word()) for _ in range(count)])

    def whims(role: str, count: int) -> Whims:
        step = jnp.stack([below(word(), WAYS[role]) for _ in range(count)])
        if role == "passive":
            return Whims(step)
        return Whims(step, uniforms(count), uniforms(count))

    draws = Draws(
        sapling=uniform(word()),
        whims={role: whims(role, count) for role, count in slots.mobs.items()},
        appears={role: uniform(word()) for role in APPEARING},
        place={role: uniform(word()) for role in APPEARING},
    )
    if not full:
        return draws
    return draws._replace(loot=_loot(word), book=uniform(word()), armour=uniform(word()))


def _loot(word: Callable[[], Array]) -> Loot:
    """Draw the contents of a chest."""

    def happens(chance: float) -> Array:
        return uniform(word()) < np.float32(chance)

    def among(odds: np.ndarray) -> Any:
        number = uniform(word())
        return sum(((number >= odd).astype(jnp.int32) for odd in odds[:-1]), jnp.int32(0))

    tool, is_pickaxe = happens(0.2), happens(0.5)
    return Loot(
        torches=jnp.where(happens(0.6), 4 + below(word(), 4), 0),
        ore=jnp.where(happens(0.6), among(_ORE_ODDS), len(ORES)),
        coal=1 + below(word(), 3),
        iron=1 + below(word(), 2),
        potion=below(word(), 6),
        potions=jnp.where(happens(0.5), 1 + below(word(), 2), 0),
        arrows=jnp.where(happens(0.25), 1 + below(word(), 4), 0),
        pickaxe=jnp.where(tool & is_pickaxe, 1 + among(_LEVEL_ODDS), 0),
        sword=jnp.where(tool & ~is_pickaxe, 1 + among(_LEVEL_ODDS), 0),
    )


def uniform(word: UInt32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Map a random word to a uniform number in [0, 1) with 24 bits."""
    return (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2.0**-24)
