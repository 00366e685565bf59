"""All chance of a step, drawn once: the rules are a function of state, action and these draws."""

import itertools
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, UInt32

from ..core.random import Key, below, hashed
from .state import Slots
from .tables import APPEARING

WAYS = {"melee": 4, "passive": 8, "ranged": 4}  # of a random step; beyond the fourth: none


class Whims(NamedTuple):
    """What the mobs of a role do in a step, a number for each slot. A uniform is in [0, 1)."""

    step: Int32[Array, " slots"]  # 0 left, 1 right, 2 up, 3 down, else none
    axis: Float32[Array, " slots"] | None = None  # uniform: which axis, when both are as far
    gate: Float32[Array, " slots"] | None = None  # uniform: with a purpose, or that step


class Draws(NamedTuple):
    """25 decisions, with the default slots. A uniform lies in [0, 1)."""

    sapling: Float32[Array, ""]  # uniform: whether grass gives a sapling
    whims: dict[str, Whims]  # by role
    appears: dict[str, Float32[Array, ""]]  # uniform: whether one of a role appears
    place: dict[str, Float32[Array, ""]]  # uniform: on which of the cells


def draw(key: Key, slots: Slots) -> Draws:
    """Draw the chance of a step."""
    number = itertools.count()

    def word() -> Array:
        # One by one: each is a little arithmetic where it is used, with no array in between.
        return hashed(key, jnp.uint32(next(number)))

    def uniforms(count: int) -> Array:
        return jnp.stack([uniform(word()) for _ in range(count)])

    def whims(role: str, count: int) -> Whims:
        step = jnp.stack([below(word(), WAYS[role]) for _ in range(count)])
        if role == "passive":
            return Whims(step)
        return Whims(step, uniforms(count), uniforms(count))

    return Draws(
        sapling=uniform(word()),
        whims={role: whims(role, count) for role, count in slots.mobs.items()},
        appears={role: uniform(word()) for role in APPEARING},
        place={role: uniform(word()) for role in APPEARING},
    )


def uniform(word: UInt32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Map a word to a uniform number in [0, 1) with 24 bits."""
    return (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2.0**-24)
