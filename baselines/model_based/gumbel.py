"""Gumbel MuZero's search (Danihelka et al., 2022) through mctx, for learners that plan."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs.core.masking import Mask


def searched(
    settings: Any,
    weights: PyTree[Array],
    key: Array,
    root: Any,
    expand: Any,
    mask: Mask,
    gumbel_scale: float,
) -> Any:
    """What mctx finds from a batch of roots; `gumbel_scale=0` draws nothing.

    `mask` are the legal actions at the roots, and `expand` is its `recurrent_fn`. `settings` has
    `simulations`, `considered`, `value_scale` and `rescale`.
    """
    import mctx

    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
        return mctx.gumbel_muzero_policy(
            params=weights,
            rng_key=key,
            root=root,
            recurrent_fn=expand,
            num_simulations=settings.simulations,
            invalid_actions=jax.tree.map(jnp.logical_not, mask),
            max_num_considered_actions=settings.considered,
            gumbel_scale=gumbel_scale,
            qtransform=functools.partial(
                mctx.qtransform_completed_by_mix_value,
                value_scale=settings.value_scale,
                rescale_values=settings.rescale,
            ),
        )
