"""Table of PuzzleScript runs: trained on some levels, evaluated on other levels and other games."""

import statistics
from typing import Any

from .registry import RUNS, table
from .text import Column, Table, percent, short, tabulated

Line = tuple[dict[str, Any], str]  # a run and the name of one of its evaluations


def _set(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _trained(line: Line) -> str:
    """Return the environment's fields that the training command sets with `--set`."""
    return "`" + line[0]["command"].partition(" --set ")[2].partition(" --")[0] + "`"


def _wins(line: Line, of: str) -> list[float]:
    run, name = line
    return [seed[of]["terminated_rate"] for seed in run["evaluations"][name]["seeds"]]


def _played(line: Line) -> str:
    """Return the environment's fields that differ between evaluation and training."""
    run, name = line
    fields = run["evaluations"][name]["fields"]
    trained = run["evaluations"]["train"]["fields"]
    changed = _set({k: v for k, v in fields.items() if trained.get(k) != v})
    return f"`{changed}`" if changed else "the same"


COLUMNS: dict[str, Column] = {
    "trained with `--set`": _trained,
    "steps per seed": lambda line: short(line[0]["steps"]),
    "evaluated with `--set`": _played,
    "wins of each seed": lambda line: ", ".join(map(percent, _wins(line, "here"))),
    "mean": lambda line: percent(statistics.fmean(_wins(line, "here"))),
    "random play": lambda line: percent(statistics.fmean(_wins(line, "random"))),
}


@table("runs-held-out", f"{RUNS}/puzzlescript.json")
def held_out(runs: list[dict[str, Any]]) -> Table:
    """Build a table of each run's win rates in training levels, other levels and other games."""
    names = ("train", "levels", "games")
    lines = [(run, name) for run in runs for name in names if name in run["evaluations"]]
    return tabulated(lines, COLUMNS)
