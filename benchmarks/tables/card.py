"""Tables of what `python -m jaxenvs.benchmarks.card` measures, for each device it ran on.

A job leaves `results/card/<device>-<job>.json`: a header and `rows`, flat dictionaries. A job may
add columns or lack some: a column that no row fills is left out.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from . import turns
from .registry import RESULTS, table
from .text import Column, Table, filled, fixed, layout, percent, ratio, short, whole

OURS = "jaxenvs"
COMMAND = "python -m jaxenvs.benchmarks.card --only"
HEADER = ("driver", "jax", "commit", "date")  # of a file, named below its table
# A value by the first of these names that a row has.
NAMES = {
    "id": ("id", "env_id", "puzzle"),
    "num_envs": ("num_envs", "envs", "batch"),
    "contestant": ("contestant", "learner", "name"),
    "reset_source": ("reset_source", "source"),
    "compile": ("compile_s", "compile_seconds"),
}

Documents = list[dict[str, Any]]


def job(name: str) -> Callable:
    """Register a function of the documents of a job, one for each device."""
    return table(f"card-{name}", f"{RESULTS}/card/*-{name}.json", command=f"{COMMAND} {name}")


def value(row: dict[str, Any], name: str) -> Any:
    """Return what a row calls by one of several names, or None."""
    return next((row[key] for key in NAMES.get(name, (name,)) if row.get(key) is not None), None)


def rows_of(documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield every row with the name of its device and what its raw times say."""
    for document in documents:
        for row in document["rows"]:
            yield {"device": document["device"], **row, **_derived(row)}


def _derived(row: dict[str, Any]) -> dict[str, float]:
    """Medians over the raw times, where the row does not state them itself."""
    times, found = row.get("times_s"), {}
    if not times:
        return found
    middle = statistics.median(times)
    for unit in ("steps", "nodes"):
        if unit in row and f"{unit}_per_second" not in row:
            found[f"{unit}_per_second"] = row[unit] / middle
    if "steps" in row and value(row, "num_envs") and "microseconds" not in row:
        found["microseconds"] = 1e6 * middle * value(row, "num_envs") / row["steps"]
    return found


def notes(documents: Documents) -> str:
    """What the figures of each device depend on, a sentence for each."""
    told = []
    for document in documents:
        facts = [f"{name} {document[name]}" for name in HEADER if document.get(name)]
        command = f", `{document['command']}`" if document.get("command") else ""
        told.append(f"{document['device']}: {', '.join(facts)}{command}.")
    return " ".join(told)


def of(name: str, shown: Callable[[Any], str] = str) -> Column:
    """A column of one value."""
    return lambda row: "" if value(row, name) is None else shown(value(row, name))


WHERE: dict[str, Column] = {
    "device": of("device"),
    "id": of("id"),
    "envs": of("num_envs", whole),
}


def plain(documents: Documents, columns: dict[str, Column]) -> Table:
    """One line for each row."""
    made = layout(rows_of(documents), columns)
    return filled(made._replace(note=notes(documents)))


def beside(documents: Documents) -> Table:
    """One line for each device, id and batch: steps per second of all who ran, side by side."""
    lines: dict[tuple, dict[str, dict[str, Any]]] = {}
    labels: dict[str, bool] = {}  # of each contestant, whether it is ours
    for row in rows_of(documents):
        name = value(row, "contestant") or OURS
        label = str(value(row, "reset_source") or OURS) if name == OURS else name
        labels.setdefault(label, name == OURS)
        key = (row["device"], value(row, "id"), value(row, "num_envs"))
        lines.setdefault(key, {})[label] = row
    first = lambda cell: lambda line: cell(next(iter(line.values())))  # noqa: E731
    columns = {head: first(cell) for head, cell in WHERE.items()}
    columns |= {label: _speed(label) for label in labels}
    ours = next((label for label, own in labels.items() if own), OURS)
    others = [label for label, own in labels.items() if not own]
    columns |= {f"{ours} / {other}": _factor(ours, other) for other in others}
    made = layout(lines.values(), columns)
    return filled(made._replace(note=notes(documents)))


def _speed(label: str) -> Column:
    return lambda line: short(line[label].get("steps_per_second")) if label in line else ""


def _factor(ours: str, other: str) -> Column:
    """How many times faster, the turns compared one by one where there are as many."""

    def cell(line: dict[str, dict[str, Any]]) -> str:
        if ours not in line or other not in line:
            return ""
        return ratio(_faster(line[ours], line[other]))

    return cell


def _faster(row: dict[str, Any], other: dict[str, Any]) -> float | None:
    if "steps" in row and "steps" in other and _turns(row) == _turns(other):
        return turns.faster(row, other, "times_s")
    if row.get("steps_per_second") and other.get("steps_per_second"):
        return row["steps_per_second"] / other["steps_per_second"]
    return None


def _turns(row: dict[str, Any]) -> int:
    return len(row.get("times_s", ()))


@job("craft")
def craft(documents: Documents) -> Table:
    """Steps per second of Craft by batch and reset source, beside craftax."""
    return beside(documents)


@job("training")
def training(documents: Documents) -> Table:
    """Steps per second of training."""
    columns = {
        **WHERE,
        "learner": of("algorithm"),
        "seeds": of("seeds", whole),
        "steps/s": of("steps_per_second", short),
        "compile, s": of("compile", fixed(1)),
    }
    return plain(documents, columns)


@job("resets")
def resets(documents: Documents) -> Table:
    """Time of a step by reset source and by how many episodes end in it."""
    columns = {
        **WHERE,
        "worlds from": of("reset_source"),
        "time limit": of("limit", lambda limit: whole(limit) if limit else "none"),
        "ended per step": of("ended_per_step", fixed(1)),
        "trips per step": of("trips_per_step", fixed(1)),
        "us per step": of("microseconds", fixed(1)),
        "kernel": of("kernel", "`{}`".format),
        "launches": of("launches", fixed(1)),
    }
    return plain(documents, columns)


@job("families")
def families(documents: Documents) -> Table:
    """Steps per second of one id of each class."""
    return beside(documents)


@job("puzzles")
def puzzles(documents: Documents) -> Table:
    """Steps per second of puzzles, nodes per second of search."""
    columns = {
        **WHERE,
        "search": of("algorithm"),
        "batch size": of("batch_size", whole),
        "steps/s": of("steps_per_second", short),
        "nodes/s": of("nodes_per_second", short),
        "solved": of("solved", _solved),
        "compile, s": of("compile", fixed(1)),
    }
    return plain(documents, columns)


def _solved(number: float) -> str:
    """A share, or how many."""
    return percent(number) if isinstance(number, float) else whole(number)
