"""What a run of the benchmark leaves behind: a table, `bench.json` and `bench.png`."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .peers import GAMES
from .tables import text
from .tables.text import Column, fixed, layout, seconds, short, whole
from .timing import Row, ratio

OWN = "jaxenvs"  # the contestant that the ratios are about
PANELS = 4  # of a picture, side by side


def progress(rows: Sequence[Row]) -> None:
    """Print one line about a batch size that is done."""
    figures = ", ".join(f"{label(row)} {short(row.steps_per_second)}" for row in rows)
    batch = max(row.num_envs for row in rows)
    print(f"{rows[0].id} x {batch:,}: {figures} steps/s", flush=True)


def ratios(groups: Sequence[Sequence[Row]]) -> list[dict[str, Any]]:
    """How many times faster each of our rows is than each peer's row of the same turns."""
    found = []
    for rows in groups:
        for own in _own(rows):
            batch = {"id": own.id, "num_envs": own.num_envs, "reset_source": own.reset_source}
            batch |= {"obs": own.obs}
            for other in rows:
                if other.contestant != OWN:
                    times = {"ratio": ratio(own, other)}
                    times["per_core"] = ratio(own, other, "processor_seconds")
                    known = {name: round(factor, 2) for name, factor in times.items() if factor}
                    found.append({**batch, "against": other.contestant, **known})
    return found


def _own(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.contestant == OWN]


def show(groups: Sequence[Sequence[Row]], missing: Sequence[dict[str, str]]) -> None:
    """Print a table for each id, and the contestants that are missing."""
    for env_id in dict.fromkeys(group[0].id for group in groups):
        pairs = [(row, group) for group in groups for row in group if row.id == env_id]
        print(f"{env_id}\n{layout(pairs, COLUMNS).plain()}")
    for absent in missing:
        print(f"{absent['contestant']}, {absent['id']}: {absent['reason']}")


def write(results: dict[str, Any], groups: Sequence[Sequence[Row]], folder: Path) -> None:
    """Write `bench.json`, and `bench.png` where matplotlib is installed."""
    save(results, folder)
    print(f"wrote {folder / 'bench.json'}")
    try:
        rows = [row for group in groups for row in group]
        draw(rows, folder / "bench.png", subtitle(results))
    except ImportError:
        print('no bench.png: matplotlib is not installed (pip install "jaxenvs[bench]")')
    else:
        print(f"wrote {folder / 'bench.png'}")


def subtitle(results: dict[str, Any]) -> str:
    """Machine, versions and date on one line."""
    versions = results["versions"]
    machine = f"{results['processor']}, {results['cpus']} cores"
    if not results["device"].startswith("cpu"):
        machine = results["device"]
    return f"{machine}; jax {versions['jax']}; {results['date']}; random actions"


def save(results: dict[str, Any], folder: Path) -> None:
    """Write `bench.json`."""
    (folder / "bench.json").write_text(json.dumps(results, indent=1) + "\n")


def draw(rows: Sequence[Row], path: Path, about: str) -> None:
    """Draw steps per second over batch size, one panel for each id."""
    figure_class = importlib.import_module("matplotlib.figure").Figure
    ids = list(dict.fromkeys(row.id for row in rows))
    columns = min(len(ids), PANELS)
    lines = -(-len(ids) // columns)
    size = (4.6 * columns + 0.6, 3.6 * lines + 0.8)
    figure = figure_class(figsize=size, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for panel, env_id in zip(panels.flat, ids, strict=False):
        _panel(panel, [row for row in rows if row.id == env_id])
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


def _panel(panel: Any, rows: Sequence[Row]) -> None:
    """Draw one line per contestant; a NumPy game steps one environment and is a level."""
    for name in dict.fromkeys(label(row) for row in rows):
        line = [row for row in rows if label(row) == name]
        figures = [row.steps_per_second for row in line]
        if line[0].contestant in GAMES.values():
            panel.axhline(sum(figures) / len(figures), ls="--", c="gray", label=f"{name} (1 env)")
        else:
            own = line[0].contestant == OWN
            width = 2.4 if own else 1.4
            panel.plot([row.num_envs for row in line], figures, "o-", lw=width, label=name)
    batches = sorted({r.num_envs for r in rows if r.contestant not in GAMES.values()})
    panel.set(xscale="log", yscale="log", xlabel="environments in the batch")
    panel.set_xticks(batches, [f"{batch:,}" for batch in batches])
    panel.minorticks_off()
    panel.grid(alpha=0.3)


def label(row: Row) -> str:
    """Name of a contestant; ours with the reset source and an observation that is not the image."""
    if row.contestant != OWN:
        return row.contestant
    obs = "" if row.obs == "image" else f", {row.obs}"
    return f"{row.contestant} ({row.reset_source}{obs})"


def _factor(spent: str) -> Column:
    """How many times faster our first row is than another's of the same turns."""

    def cell(pair: tuple[Row, Sequence[Row]]) -> str:
        row, own = pair[0], _own(pair[1])
        return text.ratio(ratio(own[0], row, spent)) if own and row.contestant != OWN else ""

    return cell


COLUMNS: dict[str, Column] = {  # of a row and those who took turns with it
    "envs": lambda pair: whole(pair[0].num_envs),
    "contestant": lambda pair: label(pair[0]),
    "steps/s": lambda pair: short(pair[0].steps_per_second),
    "slowest turn": lambda pair: short(pair[0].steps / max(pair[0].seconds)),
    "us per step": lambda pair: fixed(1)(pair[0].microseconds),
    "speed-up": _factor("seconds"),
    "per core": _factor("processor_seconds"),
    "compile": lambda pair: seconds(pair[0].compile_seconds),
}
