"""Checks of arguments, most of which run while JAX traces a function.

Their error messages give the bad value, the allowed values and the fix.
"""

import contextlib
import contextvars
import difflib
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, PyTree

from .random import Key, Keys
from .spaces import Box, Dict, Space

BATCH_FIX = "for a batch use jaxenvs.make_vec(env, num_envs) or jax.vmap"
_drawn: contextvars.ContextVar[bool] = contextvars.ContextVar("level_is_drawn", default=False)


def closest(given: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """Return at most `count` of the allowed names that resemble `given`, the most similar first.

    Upper and lower case count as equal. If fewer than `count` names resemble `given`, names that
    begin with `given` are added at the end.
    """
    folded: dict[str, str] = {}
    for name in allowed:
        folded.setdefault(name.lower(), name)
    found = difflib.get_close_matches(given.lower(), folded, n=count, cutoff=0.4)
    starting = [name for name in folded if name.startswith(given.lower()) and name not in found]
    return [folded[name] for name in (found + starting)[:count]]


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message that suggests similar names: `; did you mean 'x' or 'y'?`.

    Returns "" if no allowed name is similar.
    """
    names = closest(given, allowed)
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def counted(number: int, noun: str) -> str:
    """Format a number and its noun, in the plural unless the number is 1: `1 seed`, `2 seeds`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def one_of(owner: str, name: str, given: object, allowed: Iterable[object]) -> None:
    """Raise `ValueError` unless `given`, the value of argument `name`, is one of `allowed`."""
    allowed = tuple(allowed)
    if not isinstance(given, Hashable) or given not in allowed:
        near = suggestion(str(given), map(str, allowed))
        choices = ", ".join(map(repr, allowed))
        raise ValueError(f"{owner}: {name}={given!r} is not one of {choices}{near}")


def integer_field(owner: str, name: str, given: object, low: int, high: int | None = None) -> None:
    """Check that a constructor field is a Python int from `low` to `high` (None: no upper bound).

    Raises `TypeError` for another type (bool included), `ValueError` for an int out of range.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        kind = type(given).__name__
        raise TypeError(f"{owner}: {name} must be a Python int, got {kind} {given!r}")
    if given < low or (high is not None and given > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {high}"
        allowed = str(low) if low == high else allowed
        raise ValueError(f"{owner}: {name}={given} is out of range; it must be {allowed}")


def float_field(owner: str, name: str, given: object, low: float) -> None:
    """Check that a constructor field is a Python float or int, at least `low`, finite in float32.

    Raises `TypeError` for another type (bool included), `ValueError` for a number out of range.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        kind = type(given).__name__
        raise TypeError(f"{owner}: {name} must be a Python float, got {kind} {given!r}")
    if not low <= given <= float(np.finfo(np.float32).max):
        raise ValueError(
            f"{owner}: {name}={given} is out of range; it must be finite in float32 and "
            f"at least {low:g}"
        )


def number(where: str, name: str, given: Any, low: float, high: float) -> None:
    """Raise `ValueError` if a number, or any entry of an array, is outside `low .. high`.

    NaN counts as outside. The function does nothing if `given` is not a number, or if it is a
    traced value, because a trace does not know values.
    """
    if isinstance(given, Tracer) or not isinstance(
        given, (int, float, np.generic, np.ndarray, jax.Array)
    ):
        return
    values = np.asarray(given).reshape(-1)
    if values.dtype.kind not in "iuf":
        return
    outside = ~((values >= low) & (values <= high))
    if outside.any():
        raise ValueError(
            f"{where}: {name}={values[outside][0]} is out of range; it must be from {low} to {high}"
        )


def single_key(key: Any, where: str) -> Key:
    """Return `key` as one typed PRNG key; raise `TypeError` if it is a batch or not a key."""
    key = any_key(key, where)
    if key.shape != ():
        raise TypeError(
            f"{where}: got a batch of keys of shape {key.shape}, one key is needed; {BATCH_FIX}"
        )
    return key


def any_key(key: Any, where: str) -> Keys:
    """Return `key` as typed PRNG keys, one or a batch; raise `TypeError` if it is not a key.

    Raw keys are accepted: uint32 arrays as `jax.random.PRNGKey` returns.
    """
    if isinstance(key, (jax.Array, np.ndarray)):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return key  # type: ignore[return-value]
        if key.dtype == np.uint32 and key.ndim >= 1 and key.shape[-1] == 2:
            return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(
        f"{where}: the key must be a JAX PRNG key, got {_describe(key)}; make one with "
        "jax.random.key(0)"
    )


def tree_like(given: PyTree, wanted: PyTree, where: str, name: str) -> PyTree[Array]:
    """Return `given` cast to the dtypes of `wanted`, after a check of its structure and shapes.

    Python numbers become arrays, and ints become floats where `wanted` has a float. Raises
    `TypeError` if the structure differs from `wanted`, or if a leaf has another shape or does not
    fit its dtype. The message about a leaf gives its name.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(wanted)
    if jax.tree.structure(given) != structure:
        raise TypeError(
            f"{where}: {name} must be like {type(wanted).__name__}, got {_describe(given)}; "
            f"start from env.default_params and use .replace(...)"
        )
    cast = []
    for (path, like), leaf in zip(leaves, jax.tree.leaves(given), strict=True):
        like = np.asarray(like)
        leaf_name = name + jax.tree_util.keystr(path)
        # NumPy converts a Python int to a 64-bit array; JAX uses 32 bits unless x64 is enabled.
        dtype = jax.dtypes.canonicalize_dtype(like.dtype)
        array = _number(leaf, dtype, f"{where}: {leaf_name}")
        if array.shape != like.shape:
            raise TypeError(
                f"{where}: {leaf_name} has shape {array.shape}, one environment needs "
                f"{like.shape}; {BATCH_FIX}"
            )
        cast.append(array)
    return jax.tree.unflatten(structure, cast)


def _number(leaf: Any, dtype: np.dtype, where: str) -> Array:
    try:
        array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        given = jnp.asarray(leaf)
    except (TypeError, ValueError, OverflowError):
        _refuse_number(leaf, dtype, where)
    integers = np.issubdtype(dtype, np.integer)
    if given.dtype == np.bool_ and dtype != np.bool_:
        _refuse_number(leaf, dtype, where)
    if integers and not np.issubdtype(given.dtype, np.integer):
        _refuse_number(leaf, dtype, where)
    if integers and array.dtype != dtype and not isinstance(leaf, Tracer):
        most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
        if ((np.asarray(array) > most) | (np.asarray(array) < least)).any():
            _refuse_number(leaf, dtype, where)  # the cast to `dtype` would change the value
    return given.astype(dtype)


def _refuse_number(leaf: Any, dtype: np.dtype, where: str) -> NoReturn:
    raise TypeError(f"{where} must be a number of dtype {dtype}, got {_describe(leaf)}")


def state_of(state: Any, like: PyTree, where: str) -> None:
    """Raise `TypeError` unless `state` has the structure, shapes and dtypes of `like`.

    `like` is a state of the environment, or the shapes and dtypes of its arrays.
    """
    if jax.tree.structure(state) != jax.tree.structure(like):
        advice = "take it from env.reset or env.step (a state of make_vec fits no other step)"
        if jax.tree.structure(getattr(state, "state", None)) == jax.tree.structure(like):
            advice = "give its field `state`"
        raise TypeError(
            f"{where}: the state must be a {type(like).__name__} of this environment, got "
            f"{_describe(state)}; {advice}"
        )
    wanted_leaves, _ = jax.tree_util.tree_flatten_with_path(like)
    for (path, wanted), given in zip(wanted_leaves, jax.tree.leaves(state), strict=True):
        given_shape, given_dtype = jnp.shape(given), jnp.result_type(given)
        if given_shape == wanted.shape and given_dtype == wanted.dtype:
            continue
        batched = given_shape[1:] == wanted.shape and len(given_shape) > len(wanted.shape)
        fix = BATCH_FIX if batched else "was it made by an environment with other settings?"
        raise TypeError(
            f"{where}: state{jax.tree_util.keystr(path)} is {given_dtype}{list(given_shape)}, "
            f"expected {wanted.dtype}{list(wanted.shape)}; {fix}"
        )


@contextlib.contextmanager
def level_is_drawn() -> Iterator[None]:
    """Disable the check `level_like` in this context, for a level that the environment itself drew.

    Such a level always passes the check, and the check is expensive: at the first reset, it would
    trace the level generator a second time to compute the shapes of the environment's levels.
    """
    before = _drawn.set(True)
    try:
        yield
    finally:
        _drawn.reset(before)


def level_like(level: PyTree, wanted: Callable[[], PyTree], where: str) -> None:
    """Raise `TypeError` unless the arrays of `level` have the shapes of the environment's levels.

    `wanted` returns a level of the environment, or the shapes of its arrays. The function compares
    the arrays that have the same name in both levels. Arrays may be missing in `level`, because an
    environment can complete a level that a user wrote.
    """
    if _drawn.get():
        return
    like = {path: leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(wanted())}
    given = dict(jax.tree_util.tree_leaves_with_path(level))
    if like and not like.keys() & given.keys():
        raise TypeError(
            f"{where}: the level must be like those of env.sample_level, got {_describe(level)}"
        )
    for path, expected in like.items():
        shape = jnp.shape(given[path]) if path in given else expected
        if shape != expected:
            batched = shape[1:] == expected and len(shape) > len(expected)
            fix = BATCH_FIX if batched else "was it made for another size?"
            name = f"level{jax.tree_util.keystr(path)}"
            raise TypeError(f"{where}: {name} has shape {shape}, expected {expected}; {fix}")


def action_in(space: Space, action: Any, where: str) -> tuple[PyTree[Array], Bool[Array, ""]]:
    """Return the action clipped into `space`, and whether it lay outside the space."""
    return space.clip(_element(space, action, f"{where}: the action"))


def _element(space: Space, action: Any, where: str) -> PyTree[Array]:
    """Convert an action to arrays; raise `TypeError` if it does not fit `space`.

    An action fits if it has the shape of the space and, for a space of integers, is an integer. For
    a Dict space, every entry must fit, and the message names the entry that does not.
    """
    if isinstance(space, Dict):
        if not isinstance(action, Mapping) or set(action) != set(space.spaces):
            names, given = sorted(space.spaces), _describe(action)
            raise TypeError(f"{where} must be a dict with the names {names}, got {given}")
        parts = space.spaces.items()
        return {name: _element(part, action[name], f"{where}[{name!r}]") for name, part in parts}
    is_box = isinstance(space, Box)
    has_floats = _has_floats(space)
    try:
        action = jax.tree.map(functools.partial(as_array, space), action)
        arrays = jax.tree.leaves(action)
        shape = arrays[0].shape if jax.tree_util.all_leaves([action]) else None
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{where} must be an element of {space}, got {_describe(action)}") from None
    if is_box and shape != space.shape:
        batched = shape is not None and shape[1:] == space.shape
        fix = BATCH_FIX if batched else "sample one with env.action_space.sample(key)"
        raise TypeError(
            f"{where} must have shape {space.shape} ({space}), got {_describe(action)}; {fix}"
        )
    wants_integers = is_box and np.issubdtype(space.dtype, np.integer)
    if wants_integers and not np.issubdtype(arrays[0].dtype, np.integer):
        raise TypeError(f"{where} must be an integer of {space}, got {_describe(action)}")
    if has_floats and np.issubdtype(arrays[0].dtype, np.complexfloating):
        raise TypeError(f"{where} must be a real number of {space}, got {_describe(action)}")
    return action


def _as_floats(dtype: Any, value: Any) -> Array:
    """Convert a value to an array; integers and booleans become floats of `dtype`.

    `Box.clip` casts the bounds to the value's dtype, so with integers a bound of 0.5 would become
    0. Integers of Python and NumPy are converted before JAX would wrap them to 32 bits.
    """
    if not isinstance(value, jax.Array):
        value = np.asarray(value)
    return jnp.asarray(value.astype(dtype) if value.dtype.kind in "iub" else value)


def _has_floats(space: Space) -> bool:
    return isinstance(space, Box) and bool(np.issubdtype(space.dtype, np.floating))


def as_array(space: Space, value: Any) -> Array:
    """Convert an action to an array; integers become floats if `space` has floats.

    Raises `TypeError` for an integer that JAX would wrap: without x64, JAX keeps only the lower 32
    bits of NumPy's 64-bit integers.
    """
    if _has_floats(space):
        return _as_floats(space.dtype, value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iu":
        kept = np.iinfo(jax.dtypes.canonicalize_dtype(value.dtype))
        values: Any = np.asarray(value)
        if values.size and (values.min() < kept.min or values.max() > kept.max):
            raise TypeError(f"the action must have integers of {kept.dtype}, got {value!r}")
    return jnp.asarray(value)


def same_types(before: PyTree, after: PyTree, where: str) -> PyTree[Array]:
    """Check that a step kept the structure, shapes and dtypes of the state.

    Returns `after`, the state after the step, with strong dtypes. Raises `TypeError` if the
    structure, a shape or a dtype differs from `before`; the message begins with `where`.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(before)
    if jax.tree.structure(after) != structure:
        raise TypeError(f"{where} returned {jax.tree.structure(after)} for a state {structure}")
    strong = []
    for (path, old), new in zip(leaves, jax.tree.leaves(after), strict=True):
        new = jnp.asarray(new)
        if new.shape != old.shape or new.dtype != old.dtype:
            raise TypeError(
                f"{where} turned state{jax.tree_util.keystr(path)} from {old.dtype}"
                f"{list(old.shape)} into {new.dtype}{list(new.shape)}; a step keeps shapes and "
                "dtypes (use .astype)"
            )
        strong.append(new.astype(old.dtype))
    return jax.tree.unflatten(structure, strong)


def _describe(value: Any) -> str:
    """Describe a value for an error message: dtype and shape of an array, else type and repr."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return f"an array {value.dtype}{list(value.shape)}"
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
