"""Evaluate a function with fused multiply-adds, as a compiler may generate them.

The function's jaxpr is run one operation at a time. If an operand of a float32 sum is a product,
product and sum are computed in float64 and rounded once to float32. This equals a fused
multiply-add, except in rare cases of double rounding.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

SIGNS = {"add": (1, 1), "add_any": (1, 1), "sub": (1, -1)}
INLINED = {"jit", "pjit", "closed_call", "custom_jvp_call"}


class _Number(NamedTuple):
    """An array and, if it is a float32 product, its two factors."""

    value: Any
    factors: tuple[Any, Any] | None = None


def evaluate(function, *args, first=0):
    """Evaluate a function; return the leaves of its result, and the number of fused multiply-adds.

    If both operands of a sum are products, one product is fused: the operand with the index `first`
    (0 or 1).
    """
    closed = jax.make_jaxpr(function)(*args)
    given = [_Number(np.asarray(leaf)) for leaf in jax.tree.leaves(args)]
    counts = []
    found = _run(closed.jaxpr, closed.consts, given, first, counts)
    return [number.value for number in found], sum(counts)


def _run(jaxpr, consts, args, first, counts):
    known = dict(zip(jaxpr.constvars, map(_Number, consts), strict=True))
    known |= dict(zip(jaxpr.invars, args, strict=True))

    def read(atom):
        return _Number(atom.val) if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        given = [read(atom) for atom in eqn.invars]
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive.name in INLINED:
            made = _run(inner.jaxpr, inner.consts, given, first, counts)
        else:
            made = _made(eqn, given, first, counts)
        known |= dict(zip(eqn.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _made(eqn, given, first, counts):
    values, name = [number.value for number in given], eqn.primitive.name
    if eqn.outvars[0].aval.dtype == np.float32 and name in SIGNS:
        for place in (first, 1 - first):
            if given[place].factors is not None:
                counts.append(1)
                return [_Number(_fused(given, SIGNS[name], place))]
    made = eqn.primitive.bind(*values, **eqn.params)
    if eqn.outvars[0].aval.dtype == np.float32 and name == "mul":
        return [_Number(made, (values[0], values[1]))]
    return [_Number(x) for x in made] if eqn.primitive.multiple_results else [_Number(made)]


def _fused(given, signs, place):
    a, b = (np.asarray(factor, np.float64) for factor in given[place].factors)
    other = np.asarray(given[1 - place].value, np.float64)
    return (signs[place] * (a * b) + signs[1 - place] * other).astype(np.float32)
