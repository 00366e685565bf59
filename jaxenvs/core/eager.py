"""`compiled`, a decorator: eager calls of the decorated method run as one compiled program.

An eager call is a call outside any JAX trace. Without the decorator, JAX would run an eager call
one operation at a time and recompile its loops at each call. For example, a reset that draws its
level in loops would take a second or two. With the decorator, the first call compiles a program,
which later calls reuse. Inside a trace, and under `jax.disable_jit`, the decorator has no effect.
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

Method = TypeVar("Method", bound=Callable[..., Any])

# Maximum number of compiled functions kept in memory, one for each environment and method. Beyond
# it, the least recently used function is dropped.
MOST_PROGRAMS = 256
_off: contextvars.ContextVar[bool] = contextvars.ContextVar("op_by_op", default=False)


def compiled(method: Method) -> Method:
    """Decorate a method so that eager calls run as one compiled program.

    The method's object must be frozen and hashable, because it is a static argument. All other
    arguments are pytrees of arrays or numbers. Equal objects whose fields have the same types share
    a program. New shapes, dtypes or structures of the arguments cause a recompilation.

    If the object has a method `check_values`, each eager call passes its argument `params` to this
    method before it runs the program, because a trace cannot check values.
    """
    signature = inspect.signature(method)

    def compiled_for(owner: Any) -> Any:
        return program(method, owner, kinds(owner))

    @functools.wraps(method)
    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_eager():
            return method(owner, *args, **kwargs)
        try:
            given = signature.bind(owner, *args, **kwargs)
            params = given.arguments.get("params")
            if params is not None and hasattr(owner, "check_values"):
                owner.check_values(params, method.__name__)
            arguments = jax.tree.map(_array, (given.args[1:], given.kwargs))
            return compiled_for(owner)(*arguments)
        except jax.errors.JaxRuntimeError:
            raise
        except Exception:
            pass
        # The compiled call failed: the caller made a mistake, or the method cannot be compiled.
        # Repeat the call without compilation, because its error is clearer: the message shows the
        # argument values, and the traceback shows no frames of the compilation.
        with op_by_op():
            return method(owner, *args, **kwargs)

    call.compiled_for = compiled_for  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def shared(method: Method) -> Method:
    """Return the jitted function that eager calls of a bound method run.

    `compiled` must decorate the method. JAX traces the jitted function once; all traces that call
    it reuse the traced program.
    """
    program = method.__func__.compiled_for(method.__self__)  # type: ignore[attr-defined]
    return lambda *args, **kwargs: program(args, kwargs)  # type: ignore[return-value]


def compile_overrides(cls: type) -> None:
    """Apply `compiled` to the methods of a class that override a compiled method."""
    for name, method in list(vars(cls).items()):
        inherited = getattr(super(cls, cls), name, None)
        if inspect.isfunction(method) and hasattr(inherited, "compiled_for"):
            setattr(cls, name, compiled(method))


@contextlib.contextmanager
def op_by_op() -> Iterator[None]:
    """Run eager calls in this context one operation at a time, as JAX does by default."""
    before = _off.set(True)
    try:
        yield
    finally:
        _off.reset(before)


@functools.lru_cache(maxsize=MOST_PROGRAMS)
def program(method: Callable[..., Any], owner: Hashable, kinds: Hashable) -> Any:
    """Return the jitted function of (args, kwargs) that an eager call of `method` runs.

    `owner` is the object that `method` belongs to. `kinds`, the types of the object's fields, is
    only a key of the cache: objects whose fields are 1 and 1.0 are equal, but need separate
    programs.
    """

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return method(owner, *args, **kwargs)

    run.__name__ = run.__qualname__ = method.__qualname__
    return jax.jit(run)


def kinds(value: Any) -> Hashable:
    """Return the type of a value, the types of its fields or elements, and the signs of floats.

    The result distinguishes values that compare equal but can give different results: 1, 1.0 and
    True differ in type, 0.0 and -0.0 in sign.
    """
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return type(value), *map(kinds, parts)
    if isinstance(value, tuple):
        return type(value), *map(kinds, value)
    return type(value), isinstance(value, float) and math.copysign(1.0, value)


def _is_eager() -> bool:
    """Return True if this call is outside any JAX trace and compilation is not turned off.

    A trace means `jit`, `vmap`, `grad`, `scan`, `eval_shape` or another transformation.
    `jax.disable_jit` and `op_by_op` turn compilation off.
    """
    if _off.get() or jax.config.jax_disable_jit:  # type: ignore[attr-defined]  # an option of JAX
        return False
    current, outside = _trace_state()
    return current() == outside


@functools.cache
def _trace_state() -> tuple[Callable[[], Any], Any]:
    """Return (function that returns the current trace's token, token outside any trace)."""
    try:  # imported here, not with the module, because the import takes a tenth of a second
        from jax.extend.core import get_opaque_trace_state
    except ImportError:  # before jax 0.10, the function was in `jax.core`
        from jax.core import get_opaque_trace_state  # pyright: ignore[reportAttributeAccessIssue]
    current = functools.partial(get_opaque_trace_state, convention="jaxenvs")
    with jax.core.eval_context():
        return current, current()


def _array(leaf: Any) -> jax.Array | np.ndarray:
    """Convert a leaf of a pytree to a strongly typed array.

    As a result, `2`, `np.int32(2)` and `jnp.asarray(2)` use the same compiled program. Raises
    `TypeError` for a leaf that is not a number, or for an integer that does not fit JAX's dtype.
    """
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
