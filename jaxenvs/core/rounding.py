"""`rounded` prevents XLA from fusing a product with the addition that follows.

For CPUs, XLA compiles `a * b + c` to one fused multiply-add, which rounds once. For GPUs (jax
0.11), XLA rounds the product and then the sum, as eager JAX does. Without `rounded`, a state
computed by such a sum would differ in its last bit between CPU and GPU.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

_LEAST = np.finfo(np.float32).min


def rounded(product: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return a finite product unchanged, but make XLA round it to float32 before it is used.

    The function returns the maximum of the product and the most negative float. This maximum costs
    one instruction and stops the fusion. On a CPU, `reduce_precision` and `optimization_barrier`
    would have no effect, because XLA removes both before fusion.
    """
    return jnp.maximum(product, _LEAST)
