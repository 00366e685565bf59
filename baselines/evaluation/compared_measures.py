"""Measures of the episodes of several runs, which `jaxenvs compare` prints and draws.

They are read from the runs' logs: means over the episodes that ended in the last tenth of a run,
and rates over environment steps.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxenvs.benchmarks.tables.plain import plain
from jaxenvs.core.files import replacing

from ..core.metrics import SUCCESS, counted_by
from ..storage.runs import Run, RunError
from . import episode_measures
from .curve import figure, step_axis
from .episode_measures import ACHIEVED, BINS, DIED

# Metrics of an update that are compared, too; they are averaged over updates, not over episodes.
METRICS = ("explained_variance", "clipped_targets")
COLUMNS = 6  # number of panels in a row of the picture

Measures = dict[str, float]  # mean of each measure by its name in the log


@functools.cache
def log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a run's log.

    Raises `RunError` if a record has no steps, or if its measures are not lists of numbers.
    """
    records = Run.open(path).records()
    for number, record in enumerate(records, 1):
        lists = [name for name in record if is_measure(name) or name in METRICS]
        lists += [counted_by(name) for name in lists if is_measure(name)]
        bad = [name for name in lists if not _is_numbers(record.get(name))]
        if bad or not isinstance(record.get("steps"), int):
            name = bad[0] if bad else "steps"
            raise RunError(
                f"{path}: record {number} of the log has {name}={record.get(name)!r}; "
                f"{'a list of numbers' if bad else 'an integer'} is needed, so leave out this run"
            )
    return records


def _is_numbers(value: Any) -> bool:
    """Return whether a value of a record is a list with a number or None for each seed."""
    return isinstance(value, list) and all(x is None or isinstance(x, int | float) for x in value)


def latest(paths: Sequence[Path]) -> Measures:
    """Return the means over the last tenth of the logs of runs, which are pooled."""
    return averages([record for path in paths for record in episode_measures.latest(log(path))])


def averages(records: Sequence[dict[str, Any]]) -> Measures:
    """Return the means of all measures and of `METRICS` over log records."""
    names = dict.fromkeys(name for record in records for name in record)
    found = episode_measures.means(records, filter(is_measure, names))
    for name in METRICS:
        values = [x for record in records for x in record.get(name, ()) if x is not None]
        if values and np.isfinite(values).all():
            found[name] = float(np.mean(values))
    return found


def is_measure(name: str) -> bool:
    """Return whether a log has a measure of episodes, or their length, under this name."""
    return is_rate(name) or name in ("deepest_floor", "length")


def is_rate(name: str) -> bool:
    """Return whether a log has a share of the episodes under this name."""
    return name.split("/")[0] == DIED or name.startswith((ACHIEVED, SUCCESS))


def table(title: str, methods: Mapping[str, Measures]) -> str:
    """Return the measures of each method in a task as a table, or "" if there are none.

    Shares of episodes are in percent. A row is left out if it is 0 for all methods, and the text
    then counts these rows.
    """
    names = list(dict.fromkeys(name for found in methods.values() for name in found))
    if not any(is_measure(name) for name in set(names) - {"length"}):
        return ""
    most = {name: max(found.get(name, 0.0) for found in methods.values()) for name in names}
    names.sort(key=lambda name: (_group(name), name != DIED, -most[name] if is_rate(name) else 0.0))
    shown = [name for name in names if any(found.get(name) for found in methods.values())]
    lines = [
        [name, *(_cell(name, found.get(name)) for found in methods.values())] for name in shown
    ]
    parts = [f"Training in the last tenth of each run, {title}:"]
    parts += [plain([["measure", *methods], *lines])]
    if left := len(names) - len(shown):
        parts += [f"{left} more {'measure is' if left == 1 else 'measures are'} 0 for all methods."]
    return "\n".join(parts)


def _group(name: str) -> int:
    """Return the place of a measure's group in the table."""
    groups = (SUCCESS, ACHIEVED, "deepest_floor", DIED)
    return next((i for i, group in enumerate(groups) if name.startswith(group)), len(groups))


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if is_rate(name) else f"{value:.3f}"


def draw(file: Path, title: str, methods: Mapping[str, Sequence[Path]]) -> bool:
    """Draw the rate of each achievement, and of success by kind, over environment steps.

    A panel has a line per method, the mean over its runs and seeds. Rates that are always 0 are
    left out. Return False, and draw nothing, if there are no others. The file's suffix is its
    format.
    """
    logs = {name: [log(path) for path in paths] for name, paths in methods.items()}
    lasts = [record for runs in logs.values() for run in runs for record in run[-1:]]
    names = dict.fromkeys(name for record in lasts for name in record)
    names = [name for name in names if name.startswith((ACHIEVED, SUCCESS))]
    rates = {name: _rates(runs, names) for name, runs in logs.items()}
    most = {name: max(_highest(found[1][name]) for found in rates.values()) for name in names}
    names = sorted((name for name in names if most[name] > 0), key=lambda name: -most[name])
    if not names:
        return False
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    picture, axes = figure((1.9 * columns + 0.6, 1.45 * rows + 0.9), rows, columns)
    for panel, name in zip(axes, names, strict=False):
        for place, (method, (steps, found)) in enumerate(rates.items()):
            shown = method.replace("$", r"\$")  # matplotlib would read $ as the start of a formula
            panel.plot(steps, found[name], f"C{place % 10}", linewidth=1.2, label=shown)
        panel.set_title(name.partition("/")[2].replace("_", " "), fontsize=8)
        panel.set_ylim(-0.03, 1.03)
        panel.tick_params(labelsize=6.5)
        step_axis(panel)
    for panel in axes[len(names) :]:
        panel.set_axis_off()
    lines, labels = axes[0].get_legend_handles_labels()
    picture.legend(lines, labels, frameon=False, loc="outside upper center", ncols=5, fontsize=8)
    picture.supxlabel(f"environment steps of a seed, {title}", fontsize=8)
    picture.supylabel("share of training episodes", fontsize=8)
    with replacing(file) as temporary:
        picture.savefig(temporary, format=file.suffix.lower().removeprefix("."))
    return True


def _rates(
    logs: Sequence[Sequence[dict[str, Any]]], names: Sequence[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the middle of each of up to `BINS` intervals of steps, and the rates there.

    The rates are means over all episodes of all runs; NaN where none ended.
    """
    records = [record for log in logs for record in log]
    count = min(BINS, max(map(len, logs), default=0))
    edges = np.linspace(0, max((record["steps"] for record in records), default=0), count + 1)
    place = np.searchsorted(edges, [record["steps"] for record in records], side="left") - 1
    parts = [[records[i] for i in np.flatnonzero(place == bin)] for bin in range(count)]
    columns = [episode_measures.means(part, names) for part in parts]
    rates = {name: np.array([c.get(name, np.nan) for c in columns], float) for name in names}
    return (edges[1:] + edges[:-1]) / 2, rates


def _highest(rates: np.ndarray) -> float:
    return float(np.nan_to_num(rates).max(initial=0.0))
