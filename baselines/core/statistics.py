"""Statistics of a few runs, as Agarwal et al. (2021), arXiv:2108.13264, define them.

The scores of a method are a list of arrays, one array per task. The last axis of an array has one
score per run (seed). Axes before the last one, written as `...` in docstrings, are batch axes, for
example of bootstrap resamples: a statistic is computed for each of their entries.
"""

from collections.abc import Callable, Sequence

import numpy as np

Scores = Sequence[np.ndarray]  # one array of floats (..., runs) per task
# value of a statistic: a number, or an array with the scores' axes `...`, without the axis of runs
Numbers = np.ndarray | np.floating

RESAMPLES = 2000
LEVEL = 0.95  # confidence level: the fraction of the resamples that an interval contains


def interquartile_mean(scores: Scores) -> Numbers:
    """Return the mean of the middle half of all scores, pooled over tasks and runs, shape (...).

    A quarter of the scores, rounded down, is left out at each end.
    """
    every = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = every.shape[-1] // 4
    return every[..., cut : every.shape[-1] - cut].mean(axis=-1)


def mean(scores: Scores) -> Numbers:
    """Average the scores over the runs of each task, then over tasks; return shape (...)."""
    return np.mean([task.mean(axis=-1) for task in scores], axis=0)


def median(scores: Scores) -> Numbers:
    """Average the scores over the runs of each task; return the median task's mean, shape (...)."""
    return np.median([task.mean(axis=-1) for task in scores], axis=0)


def profile(scores: Scores, thresholds: np.ndarray) -> Numbers:
    """Return the fraction of scores above each threshold, shape (..., thresholds).

    As a function of the threshold, this fraction is the performance profile of the method. The
    scores of all tasks are pooled.
    """
    every = np.concatenate(scores, axis=-1)
    return (every[..., None] > thresholds).mean(axis=-2)


def improvement(scores: Scores, others: Scores) -> Numbers:
    """Return the probability that a run of `scores` beats a run of `others`, shape (...).

    The probability is estimated from all pairs of runs of a task, then averaged over tasks. A pair
    with equal scores counts as half a win.
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
    """Return the percentile bootstrap interval of `statistic(*methods)`, shape (2, ...).

    The bootstrap is stratified: each task's runs are resampled with replacement.
    """
    random = np.random.default_rng(seed)

    def drawn(task: np.ndarray) -> Numbers:
        return task[random.integers(len(task), size=(resamples, len(task)))]

    found = statistic(*([drawn(task) for task in scores] for scores in methods))
    return np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
