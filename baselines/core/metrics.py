"""Metrics of an update that are known only if the update took gradient steps.

Each has a second metric, named with the suffix `KNOWN`, that counts its measurements. The log has
null for a count of 0, and otherwise only the value.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

KNOWN = "_known"


def means(sums: Mapping[str, Array], count: Any) -> dict[str, Array]:
    """Return means from sums over `count` gradient steps; NaN and marked unknown if it is 0."""
    count = jnp.asarray(count, jnp.float32)
    found = {
        name: jnp.where(count > 0.0, total / jnp.maximum(count, 1e-9), jnp.nan)
        for name, total in sums.items()
    }
    return found | {f"{name}{KNOWN}": count for name in sums}


def row(metrics: Mapping[str, np.ndarray], i: int) -> dict[str, list[Any]]:
    """Return the metrics (seeds, updates) of update i as lists over seeds; None if unknown."""
    found = {name: values[:, i].tolist() for name, values in metrics.items()}
    for name in [name for name in found if name.endswith(KNOWN)]:
        counts, value = found.pop(name), name.removesuffix(KNOWN)
        found[value] = [x if n else None for x, n in zip(found[value], counts, strict=True)]
    return found
