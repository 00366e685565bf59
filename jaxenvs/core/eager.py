"""Eager calls: outside a trace, a method runs as one compiled program, which later calls reuse.

Without this, each call would run one operation at a time and recompile its loops: a second or two
for a reset that draws its level in loops. Inside a trace, and under `jax.disable_jit`, nothing
changes.
"""

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import jax
import jax.core
import numpy as np
from jaxtyping import PyTree

Method = TypeVar("Method", bound=Callable[..., Any])

# Number of compiled methods kept, one per environment and method; the least recently used is
# dropped.
MOST_PROGRAMS = 256
_off: contextvars.ContextVar[bool] = contextvars.ContextVar("op_by_op", default=False)


def compiled(method: Method) -> Method:
    """Make a method of a frozen, hashable object run as a compiled program when called eagerly.

    The object is static and every argument is a pytree of arrays or numbers. The program is shared
    by equal objects with fields of the same types, and recompiled only for new shapes, dtypes or
    structures. If the object has `check_values`, it checks params first, as a trace has no values.
    """
    signature = inspect.signature(method)

    def compiled_for(owner: Any) -> Any:
        return program(method, owner, _kinds(owner))

    @functools.wraps(method)
    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_eager():
            return method(owner, *args, **kwargs)
        try:
            given = signature.bind(owner, *args, **kwargs)
            params = given.arguments.get("params")
            if params is not None and hasattr(owner, "check_values"):
                owner.check_values(params, method.__name__)
            arguments = _arrays((given.args[1:], given.kwargs))
            return compiled_for(owner)(*arguments)
        except jax.errors.JaxRuntimeError:
            raise
        except Exception:
            pass
        # The caller made a mistake, or the code cannot be compiled. The plain call raises an error
        # about the values as given, and its traceback shows no compilation.
        with op_by_op():
            return method(owner, *args, **kwargs)

    call.compiled_for = compiled_for  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def shared(method: Method) -> Method:
    """Return the jitted program of a bound method that `compiled` decorates.

    JAX traces the program once; every trace that calls it reuses that.
    """
    program = method.__func__.compiled_for(method.__self__)  # type: ignore[attr-defined]
    return lambda *args, **kwargs: program(args, kwargs)  # type: ignore[return-value]


def compile_overrides(cls: type) -> None:
    """Apply `compiled` to each method of a class that overrides a compiled one."""
    for name, method in list(vars(cls).items()):
        inherited = getattr(super(cls, cls), name, None)
        if inspect.isfunction(method) and hasattr(inherited, "compiled_for"):
            setattr(cls, name, compiled(method))


@contextlib.contextmanager
def op_by_op() -> Iterator[None]:
    """Run eager calls in this context one operation at a time, as JAX itself would."""
    before = _off.set(True)
    try:
        yield
    finally:
        _off.reset(before)


@functools.lru_cache(maxsize=MOST_PROGRAMS)
def program(method: Callable[..., Any], owner: Hashable, kinds: Hashable) -> Any:
    """Return the jitted function of (args, kwargs) that eager calls of a method run.

    kinds: types of the owner's fields. They distinguish owners that compare equal (1 and 1.0).
    """

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return method(owner, *args, **kwargs)

    run.__name__ = run.__qualname__ = method.__qualname__
    return jax.jit(run)


def _kinds(value: Any) -> Hashable:
    """Return the types of a value and its parts, and the signs of floats.

    They tell apart values that compare equal: 1, 1.0 and True; 0.0 and -0.0.
    """
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return type(value), *map(_kinds, parts)
    if isinstance(value, tuple):
        return type(value), *map(_kinds, value)
    return type(value), isinstance(value, float) and math.copysign(1.0, value)


def _is_eager() -> bool:
    """Return whether this is outside any trace of JAX, so that a call may be wrapped in `jit`.

    False inside `jit`, `vmap`, `grad`, `scan`, `eval_shape` and the like.
    """
    if _off.get() or jax.config.jax_disable_jit:  # type: ignore[attr-defined]  # an option of JAX
        return False
    current, outside = _trace_state()
    return current() == outside


@functools.cache
def _trace_state() -> tuple[Callable[[], Any], Any]:
    """Return a function that gives the current trace's token, and the token outside any trace."""
    try:  # imported here, because the import takes a tenth of a second
        from jax.extend.core import get_opaque_trace_state
    except ImportError:  # before jax 0.10
        from jax.core import get_opaque_trace_state  # pyright: ignore[reportAttributeAccessIssue]
    current = functools.partial(get_opaque_trace_state, convention="jaxenvs")
    with jax.core.eval_context():
        return current, current()


def _arrays(tree: PyTree) -> PyTree:
    """Return strongly typed arrays: `2`, `np.int32(2)` and `jnp.asarray(2)` share one program.

    Raises `TypeError` for a leaf that is not a number, or an integer that does not fit JAX's dtype.
    """
    return jax.tree.map(_array, tree)


def _array(leaf: Any) -> jax.Array | np.ndarray:
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError("a traced value outside its trace")
    if isinstance(leaf, jax.Array):
        weak = getattr(leaf, "weak_type", False)
        return jax.lax.convert_element_type(leaf, leaf.dtype) if weak else leaf
    given = np.asarray(leaf)
    strong = given.astype(jax.dtypes.canonicalize_dtype(given.dtype))
    if given.dtype.kind in "iu" and (strong != given).any():
        raise TypeError(f"{leaf} does not fit {strong.dtype}")
    return strong
