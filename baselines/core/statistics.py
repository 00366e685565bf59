"""Statistics of a few runs, by the definitions of Agarwal et al. (2021), arXiv:2108.13264.

The scores of a method are an array for each task, with one number per run (one seed) on the last
axis. Every statistic also takes scores with leading axes and keeps these: the resamples of
`interval` are computed all at once.
"""

from collections.abc import Callable, Sequence

import numpy as np

Scores = Sequence[np.ndarray]  # of each task: floats (..., runs)
Numbers = np.ndarray | np.floating  # one, or an array with the scores' leading axes

RESAMPLES = 2000
LEVEL = 0.95  # share of the resamples inside an interval


def interquartile_mean(scores: Scores) -> Numbers:
    """Mean of the middle half of all runs of all tasks, rounded up to whole runs: (...)."""
    every = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = every.shape[-1] // 4
    return every[..., cut : every.shape[-1] - cut].mean(axis=-1)


def mean(scores: Scores) -> Numbers:
    """Mean over tasks of the mean over runs: (...)."""
    return np.mean([task.mean(axis=-1) for task in scores], axis=0)


def median(scores: Scores) -> Numbers:
    """Median over tasks of the mean over runs: (...)."""
    return np.median([task.mean(axis=-1) for task in scores], axis=0)


def profile(scores: Scores, thresholds: np.ndarray) -> Numbers:
    """Share of all runs with more than each threshold: (..., thresholds)."""
    every = np.concatenate(scores, axis=-1)
    return (every[..., None] > thresholds).mean(axis=-2)


def improvement(scores: Scores, others: Scores) -> Numbers:
    """Probability that a run scores more than one of the other method, mean over tasks: (...).

    Equal scores count half.
    """
    pairs = [(x[..., :, None], y[..., None, :]) for x, y in zip(scores, others, strict=True)]
    won = [(x > y).mean(axis=(-2, -1)) + (x == y).mean(axis=(-2, -1)) / 2 for x, y in pairs]
    return np.mean(won, axis=0)


def interval(
    statistic: Callable[..., Numbers],
    *methods: Scores,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> np.ndarray:
    """Ends of the percentile interval of `statistic(*methods)`: (2, ...).

    The bootstrap is stratified: the runs of a task are drawn, with replacement, from that task's.
    """
    random = np.random.default_rng(seed)

    def drawn(task: np.ndarray) -> Numbers:
        return task[random.integers(len(task), size=(resamples, len(task)))]

    found = statistic(*([drawn(task) for task in scores] for scores in methods))
    return np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
