"""Tables of what `python -m jaxenvs.benchmarks.card` measures, for each device it ran on.

A job leaves `results/card/<device>-<job>.json`: a header and `rows`, flat dictionaries. A job may
add columns or lack some: a column that no row fills is left out.
"""

import collections
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from . import turns
from .registry import RESULTS, table
from .text import Column, Table, filled, fixed, of, percent, ratio, short, tabulated, whole

OURS = "jaxenvs"
SLOWEST = 4  # kernels of a step that are named
COMMAND = "python -m jaxenvs.benchmarks.card"
DONE = "done"  # the state of a job that was not cut short
HEADER = ("driver", "jax", "commit", "date")  # of a file, named below its table

Documents = list[dict[str, Any]]


class Section(NamedTuple):
    """A table of one job: the name in the header of its documents, and what the table shows."""

    job: str
    title: str
    build: Callable[[Documents], Table]


SECTIONS: list[Section] = []


def job(name: str, title: str) -> Callable:
    """Register a function of the documents of a job, one for each device."""

    def keep(build: Callable[[Documents], Table]) -> Callable[[Documents], Table]:
        SECTIONS.append(Section(name, title, build))
        return build

    return keep


@table("card", f"{RESULTS}/card/*.json", command=COMMAND)
def card(documents: Documents) -> str:
    """Return a titled table for each job that was measured."""
    shown = []
    for section in SECTIONS:
        found = [document for document in documents if document["job"] == section.job]
        if found:
            shown.append(f"**{section.title}**\n\n{section.build(found)}")
    return "\n\n".join(shown)


def rows_of(documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield every row with the name of its device and the medians of its raw times."""
    for document in documents:
        for row in document["rows"]:
            yield {"device": document["device"], **row, **_derived(row)}


def by_size(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort the rows of an id by the size of the batch; ids stay in the order of the job."""
    listed = list(rows)
    ids = list(dict.fromkeys((row["device"], row.get("id")) for row in listed))
    place = lambda row: (ids.index((row["device"], row.get("id"))), row.get("num_envs") or 0)  # noqa: E731
    return sorted(listed, key=place)


def _derived(row: dict[str, Any]) -> dict[str, float]:
    """Medians over the raw times, where the row does not state them itself."""
    times, found = row.get("times_s"), {}
    if not times:
        return found
    middle = statistics.median(times)
    for unit in ("steps", "nodes"):
        if unit in row and f"{unit}_per_second" not in row:
            found[f"{unit}_per_second"] = row[unit] / middle
    if "steps" in row and row.get("num_envs") and "microseconds" not in row:
        found["microseconds"] = 1e6 * middle * row["num_envs"] / row["steps"]
    return found


def notes(documents: Documents) -> str:
    """What the figures of each device depend on, a sentence for each."""
    told = []
    for document in documents:
        facts = [f"{name} {document[name]}" for name in HEADER if document.get(name)]
        facts += [f"`{document['command']}`"] if document.get("command") else []
        lacking = document.get("missing")
        ends = [f"without {', '.join(lacking)}"] if lacking else []
        ends += [document["state"]] if document.get("state", DONE) != DONE else []
        ends += [f"{count} rows of commit {name[:7]}" for name, count in _earlier(document).items()]
        told.append(f"{document['device']}: {'; '.join([', '.join(facts), *ends])}.")
    return " ".join(told)


def _earlier(document: dict[str, Any]) -> dict[str, int]:
    """Count the rows of cases that were measured at other commits and not since."""
    kept = (row["commit"] for row in document["rows"] if "commit" in row)
    others = (name for name in kept if name != document.get("commit"))
    return dict(collections.Counter(others))


WHERE: dict[str, Column] = {"device": of("device"), "id": of("id"), "envs": of("num_envs", whole)}


def plain(
    documents: Documents,
    columns: dict[str, Column],
    wanted: Callable[[dict[str, Any]], bool] = lambda row: True,
) -> Table:
    """One line for each row that is wanted."""
    made = tabulated(filter(wanted, by_size(rows_of(documents))), columns)
    return filled(made._replace(note=notes(documents)))


def beside(documents: Documents) -> Table:
    """One line for each device, id and batch: steps per second of all who ran, side by side."""
    lines: dict[tuple, dict[str, dict[str, Any]]] = {}
    labels: dict[str, bool] = {}  # of each contestant, whether it is ours
    for row in by_size(rows_of(documents)):
        name = row.get("contestant") or OURS
        label = str(row.get("reset_source") or OURS) if name == OURS else name
        labels.setdefault(label, name == OURS)
        key = (row["device"], row.get("id"), row.get("num_envs"))
        lines.setdefault(key, {})[label] = row
    first = lambda cell: lambda line: cell(next(iter(line.values())))  # noqa: E731
    columns = {head: first(cell) for head, cell in WHERE.items()}
    ours = [label for label, is_ours in labels.items() if is_ours]
    others = [label for label, is_ours in labels.items() if not is_ours]
    columns |= {label: _speed(label) for label in (*ours, *others)}
    columns |= {f"{our} / {other}": _factor(our, other) for our in ours[:1] for other in others}
    columns |= {f"kernels, {our}": _kernels(our) for our in ours}
    compared = [*ours[:1], *others] if others else []
    columns |= {f"compile s, {label}": _compiled(label) for label in compared}
    made = tabulated(lines.values(), columns)
    return filled(made._replace(note=notes(documents)))


def _speed(label: str) -> Column:
    return lambda line: short(line[label].get("steps_per_second")) if label in line else ""


def _compiled(label: str) -> Column:
    return lambda line: fixed(1)(line.get(label, {}).get("compile_seconds"))


def _kernels(label: str) -> Column:
    """Launches of a step, and of each trip of a loop whose trips vary."""

    def cell(line: dict[str, dict[str, Any]]) -> str:
        row = line.get(label, {})
        trips = f" + {row['kernels_per_trip']}" if row.get("kernels_per_trip") else ""
        return whole(row.get("kernels")) + trips

    return cell


def _factor(ours: str, other: str) -> Column:
    """How many times faster, the turns compared one by one where there are as many."""

    def cell(line: dict[str, dict[str, Any]]) -> str:
        if ours not in line or other not in line:
            return ""
        return ratio(faster(line[ours], line[other]))

    return cell


def faster(row: dict[str, Any], other: dict[str, Any]) -> float | None:
    """How many times faster a row is, by neighbouring turns if both have the same number."""
    taken = {len(each.get("times_s", ())) for each in (row, other)}
    if "steps" in row and "steps" in other and len(taken) == 1:
        return turns.faster(row, other, "times_s")
    if row.get("steps_per_second") and other.get("steps_per_second"):
        return row["steps_per_second"] / other["steps_per_second"]
    return None


craft = job("craft", "Craft-Classic, steps per second by reset source")(beside)
full = job("full", "The whole game of Craft, steps per second by reset source")(beside)
full_symbolic = job("full-symbolic", "The whole game, symbolic, compared with craftax")(beside)
doorkey = job("doorkey", "DoorKey compared with NAVIX and XLand-MiniGrid")(beside)
rules = job("rules", "Rule worlds compared with XLand-MiniGrid")(beside)


@job("training-rnn", "Recurrent PPO, steps per second")
@job("training-full", "Training in the whole game, steps per second")
@job("training", "Training, steps per second")
def training(documents: Documents) -> Table:
    """Steps per second of training."""
    columns = {
        **WHERE,
        "learner": of("algorithm"),
        "preset": of("preset"),
        "levels from": of("reset_source"),
        "settings": of("settings"),
        "seeds": of("seeds", whole),
        "steps/s": of("steps_per_second", short),
        "compile, s": of("compile_seconds", fixed(1)),
    }
    return plain(documents, columns)


@job("resets", "Resets of Craft, microseconds per step")
def resets(documents: Documents) -> Table:
    """Time of a step by reset source and by how many episodes end in it."""
    columns = {
        **WHERE,
        "worlds from": of("reset_source"),
        "time limit": of("limit", lambda limit: whole(limit) if limit else "none"),
        "ended per step": of("ended_per_step", fixed(1)),
        "trips per step": of("trips_per_step", fixed(1)),
        "us per step": of("microseconds", fixed(1)),
    }
    return plain(documents, columns, lambda row: row.get("part") != "kernels")


@job("profiles", "Kernels of the most used programs, microseconds")
@job("resets", "Kernels of Craft, microseconds")
def kernels(documents: Documents) -> Table:
    """Where a step goes: a line for each program, with its longest kernels."""
    lines: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows_of(documents):
        if row.get("part") == "kernels":
            key = (row["device"], *(row.get(n) for n in ("id", "num_envs", "reset_source")))
            lines.setdefault(key, []).append(row)
    columns = {
        head: lambda line, cell=cell: cell(line[0])
        for head, cell in {
            **WHERE,
            "worlds from": of("reset_source"),
            "us per step": of("microseconds", fixed(1)),
            "in kernels": of("busy", fixed(1)),
        }.items()
    }
    made = tabulated(lines.values(), {**columns, "the slowest of them": _slowest})
    return filled(made._replace(note=notes(documents)))


def _slowest(line: list[dict[str, Any]]) -> str:
    found = sorted((row for row in line if "kernel" in row), key=lambda row: -row["microseconds"])
    return ", ".join(f"`{row['kernel']}` {row['microseconds']:.1f}" for row in found[:SLOWEST])


families = job("families", "One id of each class, steps per second")(beside)


@job("puzzles", "Puzzles and search")
def puzzles(documents: Documents) -> Table:
    """Steps per second of puzzles, nodes per second of search."""
    columns = {
        **WHERE,
        "search": of("algorithm"),
        "batch size": of("batch_size", whole),
        "steps/s": of("steps_per_second", short),
        "nodes/s": of("nodes_per_second", short),
        "solved": of("solved", _solved),
        "compile, s": of("compile_seconds", fixed(1)),
    }
    return plain(documents, columns)


@job("korf", "Korf's hundred 15-puzzles by A*")
def korf(documents: Documents) -> Table:
    """How many levels were solved with proof, and at what cost."""
    columns = {
        "device": of("device"),
        "batch size": of("batch_size", whole),
        "levels": of("levels", whole),
        "solved with proof": of("solved", whole),
        "of the known length": of("as_known", whole),
        "passes": of("passes", whole),
        "nodes": of("nodes", short),
        "expanded": of("expanded", short),
        "seconds": lambda row: fixed(1)(statistics.median(row["times_s"])),
        "nodes/s": of("nodes_per_second", short),
        "compile, s": of("compile_seconds", fixed(1)),
    }
    return plain(documents, columns)


def _solved(number: float) -> str:
    """A share, or how many."""
    return percent(number) if isinstance(number, float) else whole(number)


babyai = job("babyai", "BabyAI, steps per second by reset source")(beside)
graphs = job("graphs", "Without flags for XLA, steps per second")(beside)


@job("billion", "PPO on Craft-Classic-Ids, in slices")
def billion(documents: Documents) -> Table:
    """Slices of the long run, with the return at the end of each."""
    rows = list(rows_of(documents))

    def reached(row: dict[str, Any]) -> str:
        points = [r for r in rows if r.get("part") == "curve" and r["device"] == row["device"]]
        made = [r["return"] for r in points if r["steps"] <= row["to_steps"]]
        return fixed(2)(made[-1]) if made else ""

    def evaluated(row: dict[str, Any]) -> str:
        ends = [r for r in rows if r.get("part") == "evaluation" and r["device"] == row["device"]]
        here = [r["mean_return"] for r in ends if r["steps"] == row["to_steps"]]
        return fixed(2)(here[0]) if here else ""

    columns = {
        **WHERE,
        "steps at its end": of("to_steps", short),
        "took": lambda row: f"{statistics.median(row['times_s']):,.0f} s",
        "steps/s": of("steps_per_second", short),
        "training return": reached,
        "evaluation": evaluated,
    }
    return plain(documents, columns, lambda row: row.get("part") == "slice")


@job("tests", "Tests that need a GPU")
def tests(documents: Documents) -> Table:
    """How many tests passed on each device, and which did not."""

    def count(outcome: str) -> Column:
        return lambda document: whole(sum(r["outcome"] == outcome for r in document["rows"]))

    def failed(document: dict[str, Any]) -> str:
        return ", ".join(f"`{r['test']}`" for r in document["rows"] if r["outcome"] == "failed")

    columns = {
        "device": lambda document: document["device"],
        **{outcome: count(outcome) for outcome in ("passed", "skipped", "failed")},
        "which failed": failed,
    }
    return filled(tabulated(documents, columns)._replace(note=notes(documents)))
