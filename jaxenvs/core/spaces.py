"""Spaces of actions and observations: `Box`, `MultiDiscrete`, `Discrete` and `Dict`.

They correspond to Gymnasium's spaces, but sampling, membership tests and clipping are JAX
functions.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from .random import Key, multiply_high


class Space:
    """A set of arrays of one shape and dtype, or of dicts of such arrays."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def sample(self, key: Key) -> PyTree[Array]:
        """Draw a random element; every element of the space can be drawn."""
        raise NotImplementedError

    def contains(self, value: PyTree[ArrayLike]) -> Bool[Array, ""]:
        """Return whether `value` is an element of the space; never raises.

        An element has the shape of the space, and a dtype of the same kind as the dtype of the
        space (boolean, integer or float).
        """
        raise NotImplementedError

    def clip(self, value: PyTree[Array]) -> tuple[PyTree[Array], Bool[Array, ""]]:
        """Return the element nearest to `value`, and whether `value` lay outside the space."""
        raise NotImplementedError

    def _fits(self, value: PyTree[ArrayLike]) -> bool:
        """Return whether the shape and the kind of dtype of `value` fit the space.

        The size of the dtype does not matter: an int64 array fits an int32 space.
        """
        try:
            array = (
                np.asarray(value) if isinstance(value, (int, float, bool)) else jnp.asarray(value)
            )
        except (TypeError, ValueError, OverflowError):
            return False
        kinds = (np.bool_, np.integer, np.floating)
        same_kind = any(
            jnp.issubdtype(array.dtype, kind) and jnp.issubdtype(self.dtype, kind) for kind in kinds
        )
        return array.shape == self.shape and same_kind

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def _parts(self) -> tuple[Any, ...]:
        raise NotImplementedError


class Box(Space):
    """All arrays of `shape` and `dtype` with `low <= x <= high`.

    A component with finite bounds is sampled uniformly. Bounds of floats may be infinite. For a
    component with one infinite bound, the distance from the finite bound is sampled from an
    exponential distribution. A component with two infinite bounds is sampled from a normal
    distribution.
    """

    def __init__(self, low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        if np.issubdtype(self.dtype, np.integer):
            _check_representable(low, high, self.dtype)
        self.low = np.broadcast_to(np.asarray(low, self.dtype), self.shape)
        self.high = np.broadcast_to(np.asarray(high, self.dtype), self.shape)
        if not (self.low <= self.high).all():
            raise ValueError(f"Box: low must not exceed high, got low={low} and high={high}")

    def sample(self, key: Key) -> Array:
        if self.dtype == np.bool_:
            coin = jax.random.bernoulli(key, shape=self.shape)
            return jnp.where(coin, self.high, self.low)
        if np.issubdtype(self.dtype, np.integer):
            return _sample_integers(key, self.low, self.high)
        return _sample_floats(key, self.low, self.high)

    def contains(self, value: PyTree[ArrayLike]) -> Bool[Array, ""]:
        if not self._fits(value):
            return jnp.array(False)
        # NumPy compares 64-bit values exactly; JAX would round them to 32 bits.
        if isinstance(value, (int, float, bool, np.ndarray, np.generic)):
            return jnp.array(bool(((self.low <= value) & (value <= self.high)).all()))
        value = jnp.asarray(value)
        low, high, reachable = self._bounds_as(value.dtype)
        return ((value >= low) & (value <= high)).all() & reachable

    def clip(self, value: Array) -> tuple[Array, Bool[Array, ""]]:
        valid = self.contains(value)
        if self.dtype == np.bool_:  # some XLA backends do not clamp booleans
            return (value.astype(np.bool_) | self.low) & self.high, ~valid
        if np.issubdtype(self.dtype, np.floating):
            value = jnp.where(jnp.isnan(value), jnp.zeros_like(value), value)  # NaN counts as 0
        low, high, _ = self._bounds_as(value.dtype)
        # Clip before the cast, which would wrap integers that are too large.
        nearest = jnp.clip(value, low, high).astype(self.dtype)
        return jnp.clip(nearest, self.low, self.high), ~valid

    def _bounds_as(self, dtype: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return the bounds in `dtype`, and whether `dtype` has values within the bounds.

        `dtype` is of the same kind (integer or float) as the space's dtype. Bounds beyond the
        limits of `dtype` are clipped to the limits. The last result is False if, for some
        component, no value of `dtype` lies within the original bounds.
        """
        if not np.issubdtype(dtype, np.integer):
            return self.low.astype(dtype), self.high.astype(dtype), True
        most = min(np.iinfo(dtype).max, np.iinfo(np.int64).max)
        least = np.iinfo(dtype).min
        low, high = self.low.astype(np.int64), self.high.astype(np.int64)
        reachable = bool((low <= most).all() and (high >= least).all())
        low, high = (np.asarray(np.clip(x, least, most), dtype) for x in (low, high))
        return low, high, reachable

    def _parts(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.low.tobytes(), self.high.tobytes()

    def __repr__(self) -> str:
        low, high = (self.low.min(), self.high.max()) if self.low.size else (None, None)
        alike = (self.low == low).all() and (self.high == high).all()
        # `!s` uses `str`; without it, a float32 of 4.8 would show the digits of a float64.
        bounds = f"{low!s}, {high!s}" if alike else f"by element within [{low!s}, {high!s}]"
        return f"Box({bounds}, {self.shape}, {self.dtype})"


class MultiDiscrete(Box):
    """Integer arrays with `0 <= x[i] < nvec[i]`, int32."""

    def __init__(self, nvec: Any) -> None:
        self.nvec = np.asarray(nvec, np.int32)
        if self.nvec.size == 0 or (self.nvec < 1).any():
            raise ValueError(f"{type(self).__name__}: needs at least one value each, got {nvec}")
        super().__init__(0, self.nvec - 1, self.nvec.shape, np.int32)

    def __repr__(self) -> str:
        return f"MultiDiscrete({self.nvec.tolist()})"


class Discrete(MultiDiscrete):
    """The integers `0 .. n-1`, int32 scalars."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.n = int(n)

    def __repr__(self) -> str:
        return f"Discrete({self.n})"


class Dict(Space):
    """Dicts with fixed names; the value of each name is an element of the name's space."""

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self.spaces = dict(spaces)

    def sample(self, key: Key) -> dict[str, PyTree[Array]]:
        keys = jax.random.split(key, len(self.spaces))
        return {
            name: space.sample(k)
            for k, (name, space) in zip(keys, self.spaces.items(), strict=True)
        }

    def contains(self, value: PyTree[ArrayLike]) -> Bool[Array, ""]:
        if not isinstance(value, Mapping) or set(value) != set(self.spaces):
            return jnp.array(False)
        inside = [space.contains(value[name]) for name, space in self.spaces.items()]
        return jnp.array(inside).all()

    def clip(self, value: PyTree[Array]) -> tuple[dict[str, Array], Bool[Array, ""]]:
        parts = {name: space.clip(value[name]) for name, space in self.spaces.items()}
        outside = jnp.stack([bad for _, bad in parts.values()]).any()
        return {name: part for name, (part, _) in parts.items()}, outside

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self.spaces.items())

    def __repr__(self) -> str:
        return f"Dict({self.spaces})"


def batched(space: Space, count: int) -> Space:
    """Return the space of `count` elements of `space`, stacked along a new first axis."""
    if isinstance(space, Dict):
        return Dict({name: batched(part, count) for name, part in space.spaces.items()})
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(np.broadcast_to(space.nvec, (count, *space.shape)))
    if isinstance(space, Box):
        return Box(space.low, space.high, (count, *space.shape), space.dtype)
    raise TypeError(f"a batch cannot have the space {space}")


def _check_representable(low: Any, high: Any, dtype: np.dtype) -> None:
    """Raise `ValueError` if an integer bound lies outside the limits of its dtype.

    NumPy would silently wrap such a bound.
    """
    limits = np.iinfo(dtype)
    if np.min(np.asarray(low)) < limits.min or np.max(np.asarray(high)) > limits.max:
        raise ValueError(f"Box: {dtype} holds {limits.min}..{limits.max}, got {low}..{high}")


def _sample_integers(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Draw uniform integers from `low` to `high`, both included.

    Unlike `jax.random.randint`, it can also draw the largest integer of the dtype.
    """
    word = jax.random.bits(key, low.shape, jnp.uint32)
    span = jnp.asarray((high.astype(np.int64) - low.astype(np.int64) + 1).astype(np.uint32))
    # A span of 2**32 wraps to 0 in uint32. In this case every 32-bit integer is a valid value.
    offset = jnp.where(span == 0, word, multiply_high(word, span))
    return (jnp.asarray(low).astype(jnp.uint32) + offset).astype(low.dtype)


def _sample_floats(key: Key, low: np.ndarray, high: np.ndarray) -> Array:
    """Draw floats: uniform between two finite bounds, normal if both bounds are infinite.

    If one bound is finite, the distance from it is drawn from an exponential distribution.
    """
    key_uniform, key_tail, key_normal = jax.random.split(key, 3)
    dtype, shape = low.dtype, low.shape
    bounded_low, bounded_high = np.isfinite(low), np.isfinite(high)
    start, stop = np.where(bounded_low, low, 0), np.where(bounded_high, high, 1)
    # Spacing of 2**23 + 1 points from 0 to 1. The last point is 1, so the upper bound can be drawn.
    step = 2.0**-23
    points = jax.random.randint(key_uniform, shape, 0, 2**23 + 1).astype(dtype) * dtype.type(step)
    uniform = start.astype(dtype) * (1 - points) + stop.astype(dtype) * points
    tail = jax.random.exponential(key_tail, shape, dtype)
    drawn = jnp.where(bounded_low, low + tail, jax.random.normal(key_normal, shape, dtype))
    drawn = jnp.where(bounded_high & ~bounded_low, high - tail, drawn)
    return jnp.where(bounded_low & bounded_high, uniform, drawn).astype(dtype)
