"""Functions that apply XLA's optimization barrier, one function for each purpose.

They return their arguments unchanged.
"""

from typing import TypeVar

import jax

T = TypeVar("T")


def materialised(tree: T) -> T:
    """Return the pytree unchanged; on a GPU, XLA stores its arrays before their consumers run.

    Kernels that use the arrays then read the values instead of computing them again. This barrier
    has no effect on a CPU, where XLA removes it before it fuses operations; use `once` there.
    """
    return jax.lax.optimization_barrier(tree)


def unknown(tree: T) -> T:
    """Return a pytree of constants unchanged, but hide their values from XLA's compiler.

    XLA then cannot simplify code that depends on the constants, such as a `cond`.
    """
    return jax.lax.optimization_barrier(tree)
