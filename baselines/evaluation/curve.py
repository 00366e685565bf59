"""Learning curves: mean return of finished episodes over environment steps, one per seed."""

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from jaxenvs.core.files import replacing

# Number of latest episodes whose returns a point of a curve averages, rounded up to whole updates.
# The mean over a single update would be biased, because short episodes end first.
EPISODES = 200
# If a run has fewer than SHARE * EPISODES episodes per seed, a point averages 1 / SHARE of them.
SHARE = 10
# Largest number of seeds whose curves are drawn in separate colours and named in a legend. Outside
# of sweeps, the curves of more seeds are pale and have one colour, and their median is drawn, too.
NAMED = 8


class Curve(NamedTuple):
    """Learning curves that one panel shows, one per seed."""

    title: str
    steps: np.ndarray  # environment steps at each point, (points,)
    returns: np.ndarray  # mean returns, (points, seeds); NaN where unknown


def points(
    records: list[dict[str, Any]], latest: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of learning curves: steps (records,) and mean returns (records, seeds).

    Each mean is over the episodes that ended in the latest updates: as few updates as contain at
    least `latest` episodes. Until a seed has finished `latest` episodes, its
    points are NaN. By default, `latest` is 1 / `SHARE` of the episodes of the run (the median over
    its seeds), at least 1 and at most `EPISODES`.
    """
    steps = np.array([r["steps"] for r in records])
    episodes = np.array([r["episodes"] for r in records])
    means = np.array([[0.0 if x is None else x for x in r["return"]] for r in records])
    ended, sums = np.cumsum(episodes, axis=0), np.cumsum(episodes * means, axis=0)
    ended, sums = (np.pad(total, ((1, 0), (0, 0))) for total in (ended, sums))
    if latest is None:
        latest = int(np.clip(np.median(ended[-1]) // SHARE, 1, EPISODES))
    returns = np.full(means.shape, np.nan)
    for seed in range(means.shape[1]):
        # For each record, find the latest earlier record such that at least `latest` episodes ended
        # between the two.
        begin = np.searchsorted(ended[:, seed], ended[1:, seed] - latest, side="right") - 1
        enough = begin >= 0
        count = ended[1:, seed] - ended[begin, seed]
        total = sums[1:, seed] - sums[begin, seed]
        returns[enough, seed] = total[enough] / count[enough]
    return steps, returns


def draw(file: Path, records: list[dict[str, Any]], title: str, names: list[str]) -> None:
    """Draw the curves of a run's agents into a PNG file. Do nothing if there are no records."""
    if not records:
        return
    picture, (axes,) = figure((7.0, 4.2), 1, 1)
    steps, returns = points(records)
    _lines(axes, steps, returns, names)
    axes.set(title=title, ylabel="return of finished episodes")
    evaluated = [r for r in records if "eval_return" in r]
    if evaluated:
        axes.set_prop_cycle(None)
        found = np.array([r["eval_return"] for r in evaluated], float)
        axes.plot([r["steps"] for r in evaluated], found, "o", markersize=3, alpha=0.6)
        axes.set_ylabel("return of finished episodes; dots: evaluations")
    axes.set_xlabel("environment steps of a seed")
    if returns.shape[1] > 1:
        axes.legend(frameon=False, loc="best", fontsize=None if len(names) <= NAMED else 5)
    with replacing(file) as temporary:
        picture.savefig(temporary, format="png")


def panels(file: Path, curves: list[Curve], columns: int = 6) -> None:
    """Draw the learning curves of several runs into one PNG file, with a small panel per run."""
    columns = min(columns, max(len(curves), 1))
    rows = -(-len(curves) // columns)
    picture, axes = figure((2.0 * columns, 1.55 * rows), rows, columns)
    for panel, curve in zip(axes, curves, strict=False):
        _lines(panel, curve.steps, curve.returns, [""] * curve.returns.shape[1])
        lines = textwrap.wrap(curve.title, 26, break_on_hyphens=False, break_long_words=False)
        panel.set_title("\n".join(lines), fontsize=7)
        panel.tick_params(labelsize=6.5)
        lowest, highest = np.nanmin(curve.returns, initial=0), np.nanmax(curve.returns, initial=1)
        panel.set_ylim(float(lowest) - 0.03, float(highest) + 0.03)
    for panel in axes[len(curves) :]:
        panel.set_axis_off()
    picture.supxlabel("environment steps of a seed", fontsize=8)
    picture.supylabel("return of finished episodes", fontsize=8)
    picture.savefig(file, format="png")


def figure(size: tuple[float, float], rows: int, columns: int) -> tuple[Figure, list[Any]]:
    """Return a figure of `size` inches (width, height), and a list of its axes, row by row."""
    made = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(made)
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for panel in axes:
        panel.grid(alpha=0.3)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return made, axes


def step_axis(axes: Any) -> None:
    """Label the x axis of a panel in thousands or millions of environment steps."""
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g} M" if x >= 1e6 else f"{x / 1e3:g} k")


def _lines(axes: Any, steps: np.ndarray, returns: np.ndarray, names: list[str]) -> None:
    """Draw one curve per agent.

    For more than `NAMED` seeds outside of a sweep, also draw the median of the curves.
    """
    step_axis(axes)
    marker = "." if len(steps) < 3 else ""
    swept = any("=" in name for name in names)
    if len(names) <= NAMED or swept:
        colours = [None] * len(names)
        if swept:  # give neighbouring values of a setting similar colours
            colours = [colormaps["viridis"](share) for share in np.linspace(0, 0.9, len(names))]
        for name, line, colour in zip(names, returns.T, colours, strict=True):
            axes.plot(steps, line, linewidth=1.2, marker=marker, label=name, color=colour)
        return
    axes.plot(steps, returns, color="tab:blue", linewidth=0.6, alpha=0.3, marker=marker)
    known = np.isfinite(returns).any(axis=1)
    median = np.full(len(steps), np.nan)
    median[known] = np.nanmedian(returns[known], axis=1)
    axes.plot(steps, median, color="tab:blue", linewidth=2, label=f"median of {len(names)} seeds")
