"""Tree search of Gumbel MuZero (Danihelka et al., 2022) with mctx; AlphaZero and MuZero use it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs.core.masking import Mask


def search(
    settings: Any,
    weights: PyTree[Array],
    key: Array,
    root: Any,
    expand: Any,
    mask: Mask,
    gumbel_scale: float,
) -> Any:
    """Run a tree search from each root of a batch; return mctx's `PolicyOutput`.

    `gumbel_scale=0` makes the action deterministic. `mask` holds the legal actions at the roots,
    and `expand` is mctx's `recurrent_fn`. `settings` must have the fields `simulations`,
    `considered`, `value_scale` and `rescale`.
    """
    import mctx

    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes, which strict promotion forbids
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
