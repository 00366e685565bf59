"""All chance of a step, drawn once: the rules are a function of state, action and these draws."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, UInt32

from ..core.random import Key, below, hashed
from .state import Slots

SPAWNING = ("cow", "zombie", "skeleton")  # kinds in the order in which they may appear


class Draws(NamedTuple):
    """25 decisions, with the default slots. A uniform lies in [0, 1)."""

    sapling: Float32[Array, ""]  # uniform: whether grass gives a sapling
    zombie_step: Int32[Array, " zombies"]  # 0 left, 1 right, 2 up, 3 down
    zombie_axis: Float32[Array, " zombies"]  # uniform: which axis, when both are as far
    zombie_gate: Float32[Array, " zombies"]  # uniform: towards the player, or that step
    cow_step: Int32[Array, " cows"]  # as a zombie's; 4 to 7 stay
    skeleton_step: Int32[Array, " skeletons"]
    skeleton_axis: Float32[Array, " skeletons"]
    skeleton_gate: Float32[Array, " skeletons"]
    spawn: Float32[Array, "3"]  # uniform: whether one appears, in the order of SPAWNING
    place: Float32[Array, "3"]  # uniform: on which of the cells


def draw(key: Key, slots: Slots) -> Draws:
    """Draw the chance of a step."""
    number = iter(range(7 + 3 * slots.zombie + slots.cow + 3 * slots.skeleton))

    def word() -> Array:
        # One by one: each is a little arithmetic where it is used, with no array in between.
        return hashed(key, jnp.uint32(next(number)))

    def uniforms(count: int) -> Array:
        return jnp.stack([uniform(word()) for _ in range(count)])

    def steps(count: int, bound: int) -> Array:
        return jnp.stack([below(word(), bound) for _ in range(count)])

    return Draws(
        sapling=uniform(word()),
        zombie_step=steps(slots.zombie, 4),
        zombie_axis=uniforms(slots.zombie),
        zombie_gate=uniforms(slots.zombie),
        cow_step=steps(slots.cow, 8),
        skeleton_step=steps(slots.skeleton, 4),
        skeleton_axis=uniforms(slots.skeleton),
        skeleton_gate=uniforms(slots.skeleton),
        spawn=uniforms(3),
        place=uniforms(3),
    )


def uniform(word: UInt32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Map a word to a uniform number in [0, 1) with 24 bits."""
    return (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2.0**-24)
