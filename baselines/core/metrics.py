"""Metrics, such as losses, that are unknown in updates without gradient steps.

Each of these metrics has a companion, named with the suffix `KNOWN`: the number of gradient steps.
If the number is 0, the log contains null instead of the metric. The companions are not logged.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

KNOWN = "_known"


def means(sums: Mapping[str, Array], count: Any) -> dict[str, Array]:
    """Return the mean of each metric over the gradient steps of an update.

    `sums` are the sums of the metrics, and `count` is the number of gradient steps; the means are
    NaN if `count` is 0. For each metric, the result also has an entry, named with the suffix
    `KNOWN`, that contains `count`.
    """
    count = jnp.asarray(count, jnp.float32)
    found = {
        name: jnp.where(count > 0.0, total / jnp.maximum(count, 1e-9), jnp.nan)
        for name, total in sums.items()
    }
    return found | {f"{name}{KNOWN}": count for name in sums}


def row(metrics: Mapping[str, np.ndarray], i: int) -> dict[str, list[Any]]:
    """Return the metrics of update i as lists with one value per seed.

    An unknown value is None. `metrics` are arrays (seeds, updates).
    """
    found = {name: values[:, i].tolist() for name, values in metrics.items()}
    for name in [name for name in found if name.endswith(KNOWN)]:
        counts, value = found.pop(name), name.removesuffix(KNOWN)
        found[value] = [x if n else None for x, n in zip(found[value], counts, strict=True)]
    return found
