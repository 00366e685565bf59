"""Code that several adapters use.

It makes environments from ids, checks params and actions, and starts episodes.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..core.env import Env, Reset
from ..core.random import Key
from ..core.registry import make
from ..core.spaces import Box, Dict, Space
from ..core.starts import LEVEL, RESET
from ..core.vector import VectorEnv
from ..core.wrapper import refuse_self_resetting


def environment(env: Any, fields: Mapping[str, Any], where: str) -> Env:
    """Return the environment `env`; if `env` is an id, make the environment with `fields`.

    Raises `TypeError` if `env` is neither, or if `fields` are given without an id. Raises
    `ValueError` if the environment resets itself, as `AutoReset` does. `where` begins the messages.
    """
    if isinstance(env, str):
        env = make(env, **fields)
    elif not isinstance(env, Env):
        kind = type(env).__name__
        raise TypeError(f"{where}: needs an id or an environment of make(), got {kind} {env!r}")
    elif fields:
        raise TypeError(f"{where}: fields {sorted(fields)} belong to make(); give them with an id")
    refuse_self_resetting(env, where, "leave AutoReset out")
    return env


class Adapter:
    """Base class of adapters; it makes them picklable.

    Compiled functions are not pickled; an unpickled copy compiles them again. The copy continues
    the current episode exactly as the pickled adapter would.
    """

    _COMPILED = ("_reset", "_reset_rows", "_step")

    def _compile(self) -> None:
        """Set the attributes that hold compiled functions."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._COMPILED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()


def host_params(env: Env, params: Any, where: str, batch: VectorEnv | None = None) -> Any:
    """Check params (None: the defaults) and return them as NumPy arrays of the right dtypes.

    With `batch`, leaves may have a leading axis, with one entry for each environment of the batch.
    This function must not start a JAX backend: Gymnasium's `AsyncVectorEnv` makes an environment
    and then forks, and a backend does not survive a fork.
    """
    params = env.default_params if params is None else params
    ends = [params]
    # To check all entries of a leaf, check only the smallest and the largest one: every other entry
    # lies between them.
    if batch is not None:
        axes = batch.param_axes(batch.checked_params(params, where))

        def end(of: Callable[..., Any]) -> Any:
            return jax.tree.map(lambda x, axis: x if axis is None else of(x, axis=0), params, axes)

        ends = [end(np.min), end(np.max)]
    checked = [functools.partial(env.checked_params, one, where) for one in ends]
    like, *_ = [jax.eval_shape(check) for check in checked]
    return jax.tree.map(lambda leaf, like: np.asarray(leaf, like.dtype), params, like)


def begin(env: Env, key: Key, params: Any, ended: Any = None) -> Reset:
    """Start an episode; return its first observation and state.

    An environment of a `make_vec` batch that gets the same key starts the same episode. `ended` is
    the last state of the previous episode, from which `Env.carry_over` copies statistics; None in
    the first episode.
    """
    level = env.sample_level(jax.random.fold_in(key, LEVEL), params)
    begun = env.reset_to(jax.random.fold_in(key, RESET), level, params)
    if ended is None or not env.carries_over:
        return begun
    state = env.carry_over(ended, begun.state, params)
    return Reset(env.observe(state, params), state)


def taken(space: Space, action: Any, rows: int | None, error: type[Exception]) -> PyTree:
    """Convert an action from the user to arrays with the dtypes of the action space.

    With `rows`, `action` is a batch of that many actions. Raises `error` for a wrong shape, dtype
    or value.
    """
    if isinstance(space, Dict):
        if not isinstance(action, Mapping) or set(action) != set(space.spaces):
            raise error(f"step: the action must be a dict of {sorted(space.spaces)}, got {action}")
        return {name: taken(part, action[name], rows, error) for name, part in space.spaces.items()}
    assert isinstance(space, Box)
    try:
        given = np.asarray(action)
    except ValueError:  # raised for nested lists of different lengths
        given = np.empty(0, object)
    shape = space.shape if rows is None else (rows, *space.shape)
    kinds = "iu" if np.issubdtype(space.dtype, np.integer) else "iuf"
    # Accept integers for booleans, because elements of Gymnasium's `MultiBinary` are int8.
    kinds = "biu" if space.dtype == np.bool_ else kinds
    inside = given.shape == shape and given.dtype.kind in kinds
    if not inside or not ((space.low <= given) & (given <= space.high)).all():
        many = "an action" if rows is None else f"an array of {rows} actions"
        raise error(f"step: needs {many} of {space}, shape {shape}, got {action!r}")
    return given.astype(space.dtype)
