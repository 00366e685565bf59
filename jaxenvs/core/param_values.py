"""Params that the user gives when making an environment: `make(id, max_steps_in_episode=50)`.

The environment stores them in its field `given_params`. Environments with different given params
are therefore unequal, and never share a compiled program.
"""

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from . import checks

# Name of the field in which an environment stores the given params, as sorted pairs (name, value).
FIELD = "given_params"
LIMIT = "max_steps_in_episode"


def constructor_fields(env: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the dataclass fields of an environment, or of its class, that `make` can set."""
    return tuple(f for f in dataclasses.fields(env) if f.init and f.name != FIELD)


def settings(env: Any) -> dict[str, Any]:
    """Return a dict of the constructor fields and the given params of an environment."""
    fields = {field.name: getattr(env, field.name) for field in constructor_fields(env)}
    return {**fields, **dict(getattr(env, FIELD))}


def names(env: Any) -> tuple[str, ...]:
    """Return the names of the params that are single numbers, which `make` can set by keyword.

    Params that are arrays or structs are left out. For a wrapper, its own params come first, then
    the params of the wrapped environment.
    """
    params = env.default_params
    if not dataclasses.is_dataclass(params):
        kind = type(params).__name__
        raise TypeError(f"{type(env).__name__}: default_params must be a struct, got {kind}")
    fields = [field.name for field in dataclasses.fields(params)]
    own = [name for name in fields if _is_number(getattr(params, name))]
    return tuple(dict.fromkeys([*own, *(names(env.env) if _is_wrapper(env) else ())]))


def with_params(env: Any, owner: str, given: Mapping[str, Any]) -> Any:
    """Return `env` with new default values for the params named in `given`.

    For a wrapper, a param that the wrapped environment has is set there; the wrapper stores only
    the params that it adds. A float without a fractional part, such as 1e4, counts as an integer.
    Raises `TypeError` for an unknown name or a value of the wrong type, and `ValueError` for a time
    limit below 1. The messages begin with `owner`.
    """
    allowed = names(env)
    if _is_wrapper(env):
        inside = names(env.env)
        passed = {name: value for name, value in given.items() if name in inside}
        env = dataclasses.replace(env, env=with_params(env.env, owner, passed)) if passed else env
        given = {name: value for name, value in given.items() if name not in inside}
    params = env.default_params
    pairs = dict(getattr(env, FIELD))
    for name, value in given.items():
        if name not in allowed:
            near = checks.suggestion(name, allowed)
            raise TypeError(
                f"{owner}: {type(env).__name__} has no param {name!r}; its params are "
                f"{', '.join(allowed)}{near}"
            )
        pairs[name] = _number(value, np.asarray(getattr(params, name)), f"{owner}: {name}")
        if name == LIMIT and pairs[name] < 1:
            raise ValueError(f"{owner}: {name}={value} must be at least 1")
    if _has_field_of_params(env):
        return dataclasses.replace(env, default_params=params.replace(**pairs))
    return dataclasses.replace(env, **{FIELD: tuple(sorted(pairs.items()))})


class _Given(property):
    """Property `default_params` in which values given to `make` replace the class's defaults."""


def apply_to_defaults(cls: type) -> None:
    """Replace the `default_params` of a class by a property that applies given params.

    The property calls the original `default_params`, which the class defines or inherits, and
    replaces in its result the values of the params that were given to `make`.
    """
    own = inspect.getattr_static(cls, "default_params")
    is_applied = isinstance(own, _Given) or getattr(own, "__isabstractmethod__", False)
    if is_applied or _has_field_of_params(cls):
        return

    @functools.wraps(getattr(own, "fget", None) or cls, updated=())
    def default_params(env: Any) -> Any:
        params: Any = own.__get__(env, type(env)) if hasattr(own, "__get__") else own
        given = dict(getattr(env, FIELD))
        # Skip the given params that `params` lacks. A subclass may call `super().default_params`
        # and add params to the result; the property of the subclass then sets the added params.
        known = {name: given[name] for name in given if hasattr(params, name)}
        return params.replace(**known) if known else params

    cls.default_params = _Given(default_params)  # type: ignore[attr-defined]


def _has_field_of_params(env: Any) -> bool:
    """Return whether `default_params` is a dataclass field, which can store given params."""
    return any(field.name == "default_params" for field in dataclasses.fields(env))


def _is_wrapper(env: Any) -> bool:
    return hasattr(env, "unwrapped")


def _number(value: Any, default: np.ndarray, where: str) -> Any:
    """Return `value` as a NumPy scalar with the dtype of `default`; raise if it does not fit."""
    if isinstance(value, float) and value.is_integer() and default.dtype.kind in "iu":
        value = int(value)
    if value is None:
        raise TypeError(f"{where}: it must be a number of dtype {default.dtype}, got None")
    return np.asarray(checks.tree_like(value, default, where, "it"))[()]


def _is_number(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return len(leaves) == 1 and leaves[0] is value and np.ndim(value) == 0
