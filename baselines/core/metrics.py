"""Metrics, such as losses, that are unknown in updates without gradient steps.

For each of these metrics, a second metric, named with the suffix `KNOWN`, has the number of
gradient steps. If this number is 0, the log contains null for the first metric. The second metric
is not logged.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

KNOWN = "_known"
SUM = "_sum"  # suffix of a metric that is a sum over the episodes that ended in an update
EPISODES = "episodes"  # name of a metric: number of episodes that ended in an update
# First parts of the names of two metrics of each kind of level: the share of successes among the
# episodes of the kind, and the number of these episodes.
SUCCESS, OF_KIND = "success/", f"{EPISODES}/"


def is_total(name: str) -> bool:
    """Return whether a metric is a sum over episodes or their number, so that devices add it."""
    return name == EPISODES or is_sum(name) or name.startswith(OF_KIND)


def is_sum(name: str) -> bool:
    """Return whether the log divides a metric by a number of episodes; a kind may end in `SUM`."""
    return name.endswith(SUM) and not name.startswith(OF_KIND)


def counted_by(name: str) -> str:
    """Return the name of the metric that counts the episodes over which `name` is a mean."""
    return f"{OF_KIND}{name.removeprefix(SUCCESS)}" if name.startswith(SUCCESS) else EPISODES


def means(sums: Mapping[str, Array], count: Any) -> dict[str, Array]:
    """Return the mean of each metric over the gradient steps of an update; NaN without such steps.

    `sums` are the sums of the metrics over `count` gradient steps. For each metric, the result also
    has `count` under the metric's name plus the suffix `KNOWN`.
    """
    count = jnp.asarray(count, jnp.float32)
    found = {
        name: jnp.where(count > 0.0, total / jnp.maximum(count, 1e-9), jnp.nan)
        for name, total in sums.items()
    }
    return found | {f"{name}{KNOWN}": count for name in sums}


def row(metrics: Mapping[str, np.ndarray], i: int) -> dict[str, list[Any]]:
    """Return the metrics of update i as lists with one value per seed; an unknown value is None.

    `metrics` are arrays (seeds, updates).
    """
    found = {name: values[:, i].tolist() for name, values in metrics.items()}
    for name in [name for name in found if name.endswith(KNOWN)]:
        counts, value = found.pop(name), name.removesuffix(KNOWN)
        found[value] = [x if n else None for x, n in zip(found[value], counts, strict=True)]
    return found
