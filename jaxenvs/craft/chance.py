"""Random numbers of a step, drawn before the rules are applied.

Everything after the draws is deterministic: state, action and draws determine the next state.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32

from ..core.random import Key, below, hashed, uniform
from .state import Slots
from .tables import APPEARING

# `Whims.step` is drawn uniformly from the integers 0 to WAYS[role] - 1. Values above 3 mean that
# the mob takes no step.
WAYS = {"melee": 4, "passive": 8, "ranged": 4}


class Whims(NamedTuple):
    """Random draws that decide the turns of the mobs of one role, one draw per mob slot.

    Uniform draws are in [0, 1).
    """

    step: Int32[Array, " slots"]  # random step: 0 left, 1 right, 2 up, 3 down, higher: no step
    # Uniform draw that breaks a tie. If a mob is n rows and n columns away from the player, its
    # step towards the player changes its row if the draw is at least 0.5, else its column.
    axis: Float32[Array, " slots"] | None = None
    # Uniform draw that decides whether the mob reacts to the player or steps at random, see
    # `MobRow.gate`.
    gate: Float32[Array, " slots"] | None = None


class Loot(NamedTuple):
    """Random contents of a chest, computed from 15 draws."""

    torches: Int32[Array, ""]  # number of torches: 4 to 7, or 0
    ore: Int32[Array, ""]  # index into ORES; len(ORES) means that the chest holds no ore
    coal: Int32[Array, ""]  # number of pieces of coal, 1 to 3; used if the ore is coal
    iron: Int32[Array, ""]  # number of pieces of iron, 1 or 2; used if the ore is iron
    potion: Int32[Array, ""]  # colour of the potions, an index into `full_rows.COLOURS`
    potions: Int32[Array, ""]  # number of potions: 1 or 2, or 0
    arrows: Int32[Array, ""]  # number of arrows: 1 to 4, or 0
    pickaxe: Int32[Array, ""]  # level of the pickaxe, 1 to 4; 0 if there is none
    sword: Int32[Array, ""]  # level of the sword, 1 to 4; 0 if there is none


class Draws(NamedTuple):
    """Random draws of a step: with the default slots, 25 in Classic and 42 in the full game.

    Uniform draws are in [0, 1).
    """

    sapling: Float32[Array, ""]  # uniform draw that decides whether grass gives a sapling
    whims: dict[str, Whims]  # role of mobs -> random draws that decide these mobs' turns
    # Role of mobs, such as "melee" -> uniform draw that decides whether such a mob appears.
    appears: dict[str, Float32[Array, ""]]
    # Role of mobs -> uniform draw that chooses the cell of the map on which the mob appears.
    place: dict[str, Float32[Array, ""]]
    # Random contents of a chest, a `Loot`. In Classic, `loot`, `book` and `armour` are None.
    loot: Any = None
    # Uniform draw that chooses a book's spell if the player knows no spell: iceball if the draw is
    # below 0.5, else fireball.
    book: Any = None
    armour: Any = None  # uniform draw that chooses the piece of armour that is enchanted


ORES = ("coal", "iron", "diamond", "sapphire", "ruby")
_ORE_ODDS = np.cumsum((0.3, 0.3, 0.15, 0.125, 0.125)).astype(np.float32)
# Cumulative probabilities of the levels 1 to 4 of a tool found in a chest.
_LEVEL_ODDS = np.cumsum((0.4, 0.3, 0.2, 0.1)).astype(np.float32)


def draw(key: Key, slots: Slots, full: bool = False) -> Draws:
    """Draw the random numbers of a step. `full` adds the draws that only the full game needs."""
    number = itertools.count()

    def word() -> Array:
        # Hash each random word as a separate scalar, so that XLA can fuse the hash into the code
        # that uses the word. An array of all words would prevent this fusion.
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
    """Draw the random contents of a chest; each call of `word` returns a new random uint32."""

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
