"""Numbers as distributions over a few equally spaced ones, the atoms, learned by cross-entropy.

A number is squeezed first (Pohlen et al., 2018), so that a few atoms are enough for values of any
scale, and then divided between the two atoms beside it (Schrittwieser et al., 2020). What differs
by much less than the spacing of the atoms is hard to tell apart: a reward of 0.6, say, is one of 0
with some more of the atom 1, for a spacing of 1.
"""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32

SLOPE = 1e-3  # least slope of the squeezing, so that it can be undone
ROUNDING = 1e-3  # spacings by which float32 may take a number beyond the outermost atom


def squeezed(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """About the square root of a number, with its sign."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + SLOPE * x


def stretched(y: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The number that was squeezed.

    Written without differences of nearly equal numbers, which cost float32 three digits near 0.
    """
    y, sign = jnp.abs(y), jnp.sign(y)
    more = y + 1.0 + SLOPE
    root = 2.0 * more / (jnp.sqrt(1.0 + 4.0 * SLOPE * more) + 1.0)  # of the number, plus 1
    return sign * (root - 1.0) * (root + 1.0)


def clipped(value: Float[Array, "*batch"], top: int, spacing: float) -> Bool[Array, "*batch"]:
    """Return whether numbers lie beyond the outermost atoms, `top` on either side of 0."""
    return jnp.abs(squeezed(value.astype(jnp.float32))) > (top + ROUNDING) * spacing


def reach(settings: Any) -> str:
    """The numbers that the `atoms` of the settings, `spacing` apart, can express."""
    end = float(stretched(jnp.float32(settings.atoms * settings.spacing)))
    given = f"atoms={settings.atoms}, spacing={settings.spacing:g}"
    return f"-{end:.3g} to {end:.3g} ({given})"


def wider(settings: Any, largest: float, least: float) -> dict[str, float]:
    """Settings whose atoms reach numbers of the size `largest`.

    They are wider apart, but do not hide rewards of the size `least`; if that is not enough, more.
    """
    end = float(squeezed(jnp.float32(largest)))
    if end <= settings.atoms * settings.spacing:  # values are too large, not what was earned
        end = 2.0 * settings.atoms * settings.spacing
    widest = max(settings.spacing, float(squeezed(jnp.float32(least))))
    spacing = min(end / settings.atoms, widest)
    found: dict[str, float] = {"spacing": spacing} if spacing > settings.spacing else {}
    if widest < end / settings.atoms:
        found["atoms"] = math.ceil(end / spacing)
    return found


def two_hot(
    value: Float[Array, "*batch"], top: int, spacing: float
) -> Float32[Array, "*batch atoms"]:
    """Shares of the atoms, `top` on either side of 0; their mean is the squeezed value, clipped."""
    place = jnp.clip(squeezed(value.astype(jnp.float32)) / spacing, -top, top)[..., None]
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    return jnp.maximum(1.0 - jnp.abs(place - atoms), 0.0)


def mean(logits: Float[Array, "*batch atoms"], spacing: float) -> Float32[Array, "*batch"]:
    """The number that a distribution over atoms stands for."""
    top = logits.shape[-1] // 2
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    place = (jax.nn.softmax(logits.astype(jnp.float32)) * atoms).sum(axis=-1)
    return stretched(spacing * place)


def cross_entropy(
    logits: Float[Array, "*batch atoms"], value: Float[Array, "*batch"], spacing: float
) -> Float32[Array, "*batch"]:
    """Of distributions with those of the true numbers."""
    chex.assert_shape(value, logits.shape[:-1], custom_message="a number for each distribution")
    shares = two_hot(value, logits.shape[-1] // 2, spacing)
    return -(shares * jax.nn.log_softmax(logits.astype(jnp.float32))).sum(axis=-1)
