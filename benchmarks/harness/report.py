"""Output of `jaxenvs bench`: a table, `bench.json` and `bench.png`."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxenvs.core.typed import installation

from ..tables import text
from ..tables.text import Column, fixed, seconds, short, tabulated, whole
from ..tables.turns import OWN, SINGLE, faster
from . import instrument

PANELS = 4  # largest number of panels side by side in the figure

# Records of contestants that were measured in turns on the same id and batch size.
Group = Sequence[dict[str, Any]]


def progress(group: Group) -> None:
    """Print one line after the contestants of a group (one id and batch size) were measured."""
    figures = ", ".join(f"{label(each)} {short(each['steps_per_second'])}" for each in group)
    batch = max(each["num_envs"] for each in group)
    print(f"{group[0]['id']} x {batch:,}: {figures} steps/s", flush=True)


def ratios(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the speed-up of each of this library's batches over each peer of its group.

    `ratio` is the speed-up in wall time, `per_core` in CPU time.
    """
    found = []
    for group in groups:
        for ours in _ours(group):
            batch = {name: ours[name] for name in ("id", "num_envs", "reset_source", "obs")}
            for other in group:
                if other["contestant"] != OWN:
                    times = {"ratio": faster(ours, other)}
                    times["per_core"] = faster(ours, other, "processor_seconds")
                    known = {name: round(factor, 2) for name, factor in times.items() if factor}
                    found.append({**batch, "against": other["contestant"], **known})
    return found


def _ours(group: Group) -> list[dict[str, Any]]:
    return [each for each in group if each["contestant"] == OWN]


def show(groups: Sequence[Group], missing: Sequence[dict[str, str]]) -> None:
    """Print a table of the results for each id, and a list of the packages that are missing."""
    for env_id in dict.fromkeys(group[0]["id"] for group in groups):
        pairs = [(each, group) for group in groups for each in group if each["id"] == env_id]
        print(f"{env_id}\n{tabulated(pairs, COLUMNS).plain()}")
    for absent in missing:
        print(f"{absent['contestant']}, {absent['id']}: {absent['reason']}")


def write(results: dict[str, Any], folder: Path) -> None:
    """Write `bench.json`, and `bench.png` if matplotlib is installed."""
    instrument.write(folder / "bench.json", results)
    print(f"wrote {folder / 'bench.json'}")
    try:
        draw(results["rows"], folder / "bench.png", subtitle(results))
    except ImportError:
        print(f"no bench.png: matplotlib is not installed ({installation('bench')})")
    else:
        print(f"wrote {folder / 'bench.png'}")


def subtitle(results: dict[str, Any]) -> str:
    """Return the figure's subtitle: machine, JAX version, date and policy in one line."""
    versions = results["versions"]
    machine = f"{results['processor']}, {results['cpus']} cores"
    if not results["device"].startswith("cpu"):
        machine = results["device"]
    return f"{machine}; jax {versions['jax']}; {results['date']}; random actions"


def draw(measured: Group, path: Path, about: str) -> None:
    """Draw steps per second against batch size, one panel for each id."""
    figure_class = importlib.import_module("matplotlib.figure").Figure
    ids = list(dict.fromkeys(each["id"] for each in measured))
    columns = min(len(ids), PANELS)
    lines = -(-len(ids) // columns)
    size = (4.6 * columns + 0.6, 3.6 * lines + 0.8)
    figure = figure_class(figsize=size, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for panel, env_id in zip(panels.flat, ids, strict=False):
        _panel(panel, [each for each in measured if each["id"] == env_id])
        panel.set_title(env_id)
    for panel in panels.flat[len(ids) :]:
        panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel("environment steps per second")
    names = {}
    for panel in panels.flat:
        lines, labels = panel.get_legend_handles_labels()
        names |= dict(zip(labels, lines, strict=True))
    figure.legend(names.values(), names, loc="outside lower center", ncols=3, fontsize=8)
    figure.suptitle(about, fontsize=9)
    figure.savefig(path, dpi=120)


def _panel(panel: Any, measured: Group) -> None:
    """Draw a line for each contestant.

    A contestant that steps a single environment gets a horizontal line.
    """
    for name in dict.fromkeys(map(label, measured)):
        line = [each for each in measured if label(each) == name]
        figures = [each["steps_per_second"] for each in line]
        if line[0]["contestant"] in SINGLE:
            panel.axhline(sum(figures) / len(figures), ls="--", c="gray", label=f"{name} (1 env)")
        else:
            width = 2.4 if line[0]["contestant"] == OWN else 1.4
            panel.plot([each["num_envs"] for each in line], figures, "o-", lw=width, label=name)
    batches = sorted({each["num_envs"] for each in measured if each["contestant"] not in SINGLE})
    panel.set(xscale="log", yscale="log", xlabel="environments in the batch")
    panel.set_xticks(batches, [f"{batch:,}" for batch in batches])
    panel.minorticks_off()
    panel.grid(alpha=0.3)


def label(one: dict[str, Any]) -> str:
    """Return the name of a record's contestant for the table and the figure.

    For this library, the reset source follows in brackets, with the observation unless it is the
    image of a grid.
    """
    if one["contestant"] != OWN:
        return one["contestant"]
    obs = "" if one["obs"] in ("", "image") else f", {one['obs']}"
    return f"{OWN} ({one['reset_source']}{obs})"


def _factor(spent: str) -> Column:
    """Return a column: how many times faster this library's first batch is than the row's peer.

    `spent` is the entry of a record that lists the times to compare, such as CPU times.
    """

    def cell(pair: tuple[dict[str, Any], Group]) -> str:
        one, ours = pair[0], _ours(pair[1])
        return text.ratio(faster(ours[0], one, spent)) if ours and one["contestant"] != OWN else ""

    return cell


# Heading -> column of the table. A row is a pair of a record and the group in which it was
# measured.
COLUMNS: dict[str, Column] = {
    "envs": lambda pair: whole(pair[0]["num_envs"]),
    "contestant": lambda pair: label(pair[0]),
    "steps/s": lambda pair: short(pair[0]["steps_per_second"]),
    "slowest turn": lambda pair: short(pair[0]["steps"] / max(pair[0]["seconds"])),
    "us per step": lambda pair: fixed(1)(pair[0]["microseconds"]),
    "speed-up": _factor("seconds"),
    "per core": _factor("processor_seconds"),
    "compile": lambda pair: seconds(pair[0]["compile_seconds"]),
}
