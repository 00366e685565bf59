"""`rounded`: prevent the compiler from fusing a product with the addition that follows.

XLA's compiler for CPUs turns `a * b + c` into one fused multiply-add, which rounds once. Its
compiler for GPUs (jax 0.11) multiplies, rounds, adds and rounds again, as JAX does eagerly. A state
that contains such a sum would differ in its last bit between CPU and GPU.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

_LEAST = np.finfo(np.float32).min


def rounded(product: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return a finite product unchanged, rounded to float32 before anything is added to it.

    The comparison is one instruction. `reduce_precision` and `optimization_barrier` would not do:
    on a CPU, XLA removes both before it fuses.
    """
    return jnp.maximum(product, _LEAST)
