"""Two-hot encoding: numbers as distributions over equally spaced atoms, for a cross-entropy loss.

First the transform h of Pohlen et al. (2018) squeezes a number, so that a few atoms suffice for
values of any scale. The result is encoded as probabilities of its two neighbouring atoms, such that
their mean equals it (Schrittwieser et al., 2020). Numbers that differ by much less than the spacing
are hard to distinguish: with a spacing of 1, a reward of 0.6 is encoded like 0 with slightly more
probability on the atom 1.
"""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32

SLOPE = 1e-3  # smallest slope of h, which makes it invertible
ROUNDING = 1e-3  # tolerance for rounding beyond the outermost atom, in units of the spacing


def squeezed(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Apply the transform h: about the square root of a number, with its sign."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + SLOPE * x


def stretched(y: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Apply the inverse of h.

    The formula avoids differences of nearly equal numbers, which lose three float32 digits near 0.
    """
    y, sign = jnp.abs(y), jnp.sign(y)
    more = y + 1.0 + SLOPE
    root = 2.0 * more / (jnp.sqrt(1.0 + 4.0 * SLOPE * more) + 1.0)  # square root of the number + 1
    return sign * (root - 1.0) * (root + 1.0)


def clipped(value: Float[Array, "*batch"], top: int, spacing: float) -> Bool[Array, "*batch"]:
    """Return whether numbers lie beyond the outermost of `top` atoms on either side of 0."""
    return jnp.abs(squeezed(value.astype(jnp.float32))) > (top + ROUNDING) * spacing


def reach(settings: Any) -> str:
    """Return the range of numbers that `atoms` with this `spacing` can represent, as text."""
    end = float(stretched(jnp.float32(settings.atoms * settings.spacing)))
    given = f"atoms={settings.atoms}, spacing={settings.spacing:g}"
    return f"-{end:.3g} to {end:.3g} ({given})"


def wider(settings: Any, largest: float, least: float) -> dict[str, float]:
    """Return changed settings whose atoms cover numbers of magnitude up to `largest`.

    The spacing grows as long as rewards of magnitude `least` can still be resolved; if that does
    not suffice, the number of atoms grows too.
    """
    end = float(squeezed(jnp.float32(largest)))
    if end <= settings.atoms * settings.spacing:  # returns fit: predicted values exceed the atoms
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
    """Return the probabilities of 2 `top` + 1 atoms: `top` on either side of 0, and one at 0.

    Their mean is h(value), clipped to the outermost atoms.
    """
    place = jnp.clip(squeezed(value.astype(jnp.float32)) / spacing, -top, top)[..., None]
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    return jnp.maximum(1.0 - jnp.abs(place - atoms), 0.0)


def mean(logits: Float[Array, "*batch atoms"], spacing: float) -> Float32[Array, "*batch"]:
    """Return the number that a distribution over atoms encodes: h^-1 of its mean."""
    top = logits.shape[-1] // 2
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    place = (jax.nn.softmax(logits.astype(jnp.float32)) * atoms).sum(axis=-1)
    return stretched(spacing * place)


def cross_entropy(
    logits: Float[Array, "*batch atoms"], value: Float[Array, "*batch"], spacing: float
) -> Float32[Array, "*batch"]:
    """Return the cross-entropy of predicted distributions with the two-hot encoding of `value`."""
    chex.assert_shape(value, logits.shape[:-1], custom_message="a number for each distribution")
    target = two_hot(value, logits.shape[-1] // 2, spacing)
    return -(target * jax.nn.log_softmax(logits.astype(jnp.float32))).sum(axis=-1)
