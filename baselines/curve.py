"""The learning curve as a picture: return of finished episodes over steps, a line per seed."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

EPISODES = 200  # that a point averages: few end in one update, and the short ones first


def points(rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Steps (rows,) and mean returns (rows, seeds) of the latest `EPISODES` episodes at each row.

    NaN while fewer have ended.
    """
    steps = np.array([row["steps"] for row in rows])
    episodes = np.array([row["episodes"] for row in rows])
    means = np.array([[0.0 if x is None else x for x in row["return"]] for row in rows])
    ended, sums = np.cumsum(episodes, axis=0), np.cumsum(episodes * means, axis=0)
    ended, sums = (np.pad(total, ((1, 0), (0, 0))) for total in (ended, sums))
    returns = np.full(means.shape, np.nan)
    for seed in range(means.shape[1]):
        # The last row before which all but EPISODES of the episodes so far had ended.
        begin = np.searchsorted(ended[:, seed], ended[1:, seed] - EPISODES, side="right") - 1
        enough = begin >= 0
        count = ended[1:, seed] - ended[begin, seed]
        total = sums[1:, seed] - sums[begin, seed]
        returns[enough, seed] = total[enough] / count[enough]
    return steps, returns


def draw(file: Path, rows: list[dict[str, Any]], title: str, first_seed: int) -> None:
    """Write the picture; without rows there is nothing to draw."""
    if not rows:
        return
    steps, returns = points(rows)
    figure = Figure(figsize=(7, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, line in enumerate(returns.T):
        axes.plot(steps, line, linewidth=1.4, marker="." if len(rows) < 3 else "")
        axes.lines[-1].set_label(f"seed {first_seed + i}")
    axes.set(
        title=title, xlabel="environment steps of a seed", ylabel="return of finished episodes"
    )
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g} M" if x >= 1e6 else f"{x / 1e3:g} k")
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if returns.shape[1] > 1:
        axes.legend(frameon=False, loc="best")
    figure.savefig(file, format="png")
