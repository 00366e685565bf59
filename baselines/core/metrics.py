"""Metrics of an update that are known only where something was learned in it.

Each comes with a second metric, its name and `KNOWN`: how often it was measured. The log has null
where that is 0, and only the value elsewhere.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

KNOWN = "_known"


def means(sums: Mapping[str, Array], count: Any) -> dict[str, Array]:
    """Means of sums over `count` gradient steps; not known, and NaN, where that is 0."""
    count = jnp.asarray(count, jnp.float32)
    found = {
        name: jnp.where(count > 0.0, total / jnp.maximum(count, 1e-9), jnp.nan)
        for name, total in sums.items()
    }
    return found | {f"{name}{KNOWN}": count for name in sums}


def row(metrics: Mapping[str, np.ndarray], i: int) -> dict[str, list[Any]]:
    """Metrics (seeds, updates) of update i, a list over the seeds; None where one is not known."""
    found = {name: values[:, i].tolist() for name, values in metrics.items()}
    for name in [name for name in found if name.endswith(KNOWN)]:
        counts, value = found.pop(name), name.removesuffix(KNOWN)
        found[value] = [x if n else None for x, n in zip(found[value], counts, strict=True)]
    return found
