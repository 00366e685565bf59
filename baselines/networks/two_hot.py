"""Two-hot encoding: numbers as distributions over equally spaced atoms, for a cross-entropy loss.

First the transform h of Pohlen et al. (2018) squeezes a number, so that few atoms cover a wide
range of numbers. The squeezed number lies between two neighbouring atoms. Only these two atoms have
a probability above 0 (Schrittwieser et al., 2020). Their probabilities are chosen such that the
mean of the distribution equals the squeezed number.

A network can hardly distinguish numbers that differ by much less than the spacing of the atoms,
because their encodings are similar. For example, with a spacing of 1, a reward of 0 has probability
1 on the atom 0. A reward of 0.6 still has probability 0.73 there, and only 0.27 on the atom 1.
"""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32

# Slope of the linear term of h (epsilon in the paper). Because of this term, the inverse of h is
# nowhere steeper than 1 / SLOPE.
SLOPE = 1e-3
# A number counts as too large only if it lies beyond the outermost atom by more than this fraction
# of the spacing. Smaller distances may be rounding errors.
ROUNDING = 1e-3


def squeezed(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Apply the transform h: roughly the square root of |x|, with the sign of x."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + SLOPE * x


def stretched(y: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Apply the inverse of the transform h.

    The formula of Pohlen et al. (2018) subtracts nearly equal numbers near 0, which loses three
    decimal digits in float32. The formula here is equivalent, without this subtraction.
    """
    y, sign = jnp.abs(y), jnp.sign(y)
    more = y + 1.0 + SLOPE
    # the root equals sqrt(|result| + 1)
    root = 2.0 * more / (jnp.sqrt(1.0 + 4.0 * SLOPE * more) + 1.0)
    return sign * (root - 1.0) * (root + 1.0)


def clipped(value: Float[Array, "*batch"], top: int, spacing: float) -> Bool[Array, "*batch"]:
    """Return whether numbers are too large to encode with `top` atoms on either side of 0."""
    return jnp.abs(squeezed(value.astype(jnp.float32))) > (top + ROUNDING) * spacing


def reach(settings: Any) -> str:
    """Return text for messages: the range of numbers that `atoms` and `spacing` can encode."""
    end = float(stretched(jnp.float32(settings.atoms * settings.spacing)))
    given = f"atoms={settings.atoms}, spacing={settings.spacing:g}"
    return f"-{end:.3g} to {end:.3g} ({given})"


def wider(settings: Any, largest: float, least: float) -> dict[str, float]:
    """Return values of `spacing` and `atoms` with which numbers up to `largest` can be encoded.

    The result contains only settings that must change. The spacing grows first, at most until
    rewards of magnitude `least` can just be distinguished from 0. If that is not enough, the number
    of atoms grows, too.
    """
    end = float(squeezed(jnp.float32(largest)))
    # The caller has found numbers outside the range of the atoms. If `largest`, an estimate from
    # the replay buffer, is inside the range, these numbers were predictions of the network. Their
    # size is unknown here, so double the range.
    if end <= settings.atoms * settings.spacing:
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
    """Return the two-hot encoding of `value`: probabilities of 2 * `top` + 1 atoms.

    There are `top` atoms on either side of 0, and one at 0. The mean of the distribution is
    h(value), clipped to the range of the atoms.
    """
    place = jnp.clip(squeezed(value.astype(jnp.float32)) / spacing, -top, top)[..., None]
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    return jnp.maximum(1.0 - jnp.abs(place - atoms), 0.0)


def mean(logits: Float[Array, "*batch atoms"], spacing: float) -> Float32[Array, "*batch"]:
    """Return the number that a distribution over atoms encodes: the inverse of h at its mean."""
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
