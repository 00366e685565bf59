"""Tables of the speedruns: their bars, and the recorded attempts in `baselines/results/speedruns`.

The command `jaxenvs speedrun` prints the same rows.
"""

import ast
import statistics
from collections.abc import Sequence
from typing import Any

from .registry import RUNS, table
from .text import Column, Table, of, short, tabulated, whole

SEEDS = 5  # least number of seeds of a ranked row
FILES = f"{RUNS}/speedruns/*.json"
ENTRIES = "baselines/speedrun/entries.py"

Attempt = dict[str, Any]
File = dict[str, Any]  # content of a results file


def attempts_of(file: File) -> list[Attempt]:
    """Return the attempts of a results file."""
    return file["attempts"]


def seconds_of(file: File) -> float:
    """Return the median time of a file's attempts, in seconds with compilation."""
    return statistics.median(each["seconds"] for each in attempts_of(file))


def is_ranked(file: File) -> bool:
    """Return whether a file has enough seeds, all of which reached the bar and were replayed."""
    made = attempts_of(file)
    return len(made) >= SEEDS and all(each["reached"] and each["there"] for each in made)


def ordered(files: Sequence[File], names: Sequence[str]) -> list[File]:
    """Return files in the order of the entries `names`, fastest first, unranked files last."""
    return sorted(
        files, key=lambda file: (names.index(file["entry"]), not is_ranked(file), seconds_of(file))
    )


def standing(file: File, files: Sequence[File]) -> str:
    """Return the rank of a file among the files of its entry, or why it has none."""
    made = attempts_of(file)
    if is_ranked(file):
        others = (each for each in files if each["entry"] == file["entry"] and is_ranked(each))
        return str(1 + sum(seconds_of(each) < seconds_of(file) for each in others))
    reached = sum(each["reached"] for each in made)
    if reached < len(made):
        return f"{reached} of {len(made)} seeds reached the bar"
    if not all(each["there"] for each in made):
        return "not replayed"
    return f"{len(made)} of {SEEDS} seeds"


def _range(name: str, shown: Any) -> Column:
    """Return a column: the median of the attempts' entry `name`, with the least and the largest."""

    def cell(file: File) -> str:
        found = [each[name] for each in attempts_of(file)]
        return f"{shown(statistics.median(found))} ({shown(min(found))} to {shown(max(found))})"

    return cell


def _mean(place: str) -> Column:
    """Return a column: the mean result over all attempts, with the least and the largest."""

    def cell(file: File) -> str:
        found = [each[place]["mean"] for each in attempts_of(file) if each[place]]
        if not found:
            return ""
        least, most = min(found), max(found)
        return f"{statistics.fmean(found):.4g} ({least:.4g} to {most:.4g})"

    return cell


def _replay(file: File) -> str:
    there = attempts_of(file)[0]["there"] or {"package": "", "version": ""}
    return f"{there['package']} {there['version']}".strip()


def _seconds(number: float) -> str:
    return f"{number:,.1f}"


def device_of(file: File) -> str:
    """Return the device of a file's attempts: the accelerator, or the processor."""
    first = attempts_of(file)[0]
    on_cpu = first["device"].startswith("cpu")
    return f"{first['processor']}, {first['cpus']} cores" if on_cpu else first["device"]


def rows(files: Sequence[File], names: Sequence[str]) -> Table:
    """Build the table of results files; `names` are the entries in order."""
    columns: dict[str, Column] = {
        "entry": of("entry", "`{}`".format),
        "rank": lambda file: standing(file, files),
        "device": device_of,
        "flags": lambda file: " ".join(attempts_of(file)[0]["flags"]),
        "seeds": lambda file: str(len(attempts_of(file))),
        "seconds with compilation": _range("seconds", _seconds),
        "seconds of training": _range("training_seconds", _seconds),
        "steps": _range("steps", short),
        "result here": _mean("here"),
        "result in the replay": _mean("there"),
        "replay": _replay,
        "date": lambda file: attempts_of(file)[-1]["date"][:10],
    }
    return tabulated(ordered(files, names), columns)


def entries(source: str) -> list[dict[str, Any]]:
    """Return the keyword arguments of each `Entry(...)` in a module's source text."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    made = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Entry")
    return [{str(k.arg): ast.literal_eval(k.value) for k in call.keywords} for call in made]


@table("speedruns", FILES, ENTRIES, command="jaxenvs speedrun NAME --seeds 5")
def speedruns(files: list[File], module: dict[str, str]) -> Table:
    """Build the table of recorded rows."""
    return rows(files, [entry["name"] for entry in entries(module["source"])])


@table("speedrun-entries", ENTRIES)
def bars(module: dict[str, str]) -> Table:
    """Build the table of entries and bars."""
    return tabulated(entries(module["source"]), BARS)


BARS: dict[str, Column] = {
    "entry": of("name", "`{}`".format),
    "environment": of("id", "`{}`".format),
    "bar": lambda entry: f"{entry['measure']} {entry['bar']:g}",
    "learner": lambda entry: " ".join(entry.get("flags", ())),
    "budget": of("budget", short),
    "replayed in": lambda entry: entry["package"] or "plain Python",
    "episodes or boards": lambda entry: whole(entry.get("episodes", 256)),
}
