"""Tables of the results of `python -m jaxenvs.benchmarks.card`, for each device it ran on.

The command runs a list of benchmarks, its jobs. A job writes `results/card/<device>-<job>.json`:
a header, and `rows`, a list of flat dictionaries. Not every job measures every figure, so a table
leaves out the columns without any value.
"""

import collections
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from . import turns
from .registry import RESULTS, table
from .text import Column, Table, filled, fixed, of, percent, ratio, short, tabulated, whole
from .turns import OWN

SCORES = ("pvl", "maxmc", "l1", "learnability", "regret")
# Name of a curriculum over mazes (the job's name without `maze-`) -> title of its table.
MAZES = {
    "dr": "Domain randomisation",
    **{f"plr-{score}": f"Robust PLR by {score}" for score in SCORES},
    "accel-maxmc": "ACCEL by maxmc",
    "sfl": "SFL",
}
# Name of a job that learns to solve a puzzle -> title of its table.
HEURISTICS = {
    "cube": "Last move on the 3x3x3 cube",
    "cube-q": "DAVI and Q* on the 3x3x3 cube",
    "tiles": "Last move on the 24-puzzle",
    "tiles-q": "DAVI and Q* on the 24-puzzle",
}

SLOWEST = 4  # number of kernels that a cell lists: the slowest kernels of a step
COMMAND = "python -m jaxenvs.benchmarks.card"
DONE = "done"  # state of a job that ran to its end
HEADER = ("driver", "jax", "commit", "date")  # header entries that the note below a table shows

Row = dict[str, Any]
Documents = list[dict[str, Any]]  # contents of one job's result files, one for each device


class Section(NamedTuple):
    """Title of a table, the job of the command `card` that it shows, and how to build it."""

    job: str
    title: str
    build: Callable[[Documents], Table]


@table("card", f"{RESULTS}/card/*.json", command=COMMAND)
def card(documents: Documents) -> str:
    """Return the Markdown of all tables: for each job that has results, a title and a table."""
    shown = []
    for section in SECTIONS:
        found = [document for document in documents if document["job"] == section.job]
        if found:
            shown.append(f"**{section.title}**\n\n{section.build(found)}")
    return "\n\n".join(shown)


def rows_of(documents: Documents) -> Iterator[Row]:
    """Yield every row of the result files, with the name of its device.

    The figures of `_derived`, such as steps per second, are added to the row.
    """
    for document in documents:
        for row in document["rows"]:
            yield {"device": document["device"], **row, **_derived(row)}


def by_size(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, sorted by batch size within each device and id; ids keep their order."""
    listed = list(rows)
    ids = list(dict.fromkeys((row["device"], row.get("id")) for row in listed))
    place = lambda row: (ids.index((row["device"], row.get("id"))), row.get("num_envs") or 0)  # noqa: E731
    return sorted(listed, key=place)


def _derived(row: Row) -> dict[str, float]:
    """Return figures that are not stored in a row, computed from the median of its raw times.

    They are `steps_per_second`, `nodes_per_second`, and `microseconds` per step of the batch.
    """
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
    """Return one sentence for each device: versions, date, command, and missing measurements."""
    sentences = []
    for document in documents:
        facts = [f"{name} {document[name]}" for name in HEADER if document.get(name)]
        facts += [f"`{document['command']}`"] if document.get("command") else []
        lacking = document.get("missing")
        ends = [f"without {', '.join(lacking)}"] if lacking else []
        ends += [document["state"]] if document.get("state", DONE) != DONE else []
        ends += [f"{count} rows of commit {name[:7]}" for name, count in _earlier(document).items()]
        sentences.append(f"{document['device']}: {'; '.join([', '.join(facts), *ends])}.")
    return " ".join(sentences)


def _earlier(document: dict[str, Any]) -> dict[str, int]:
    """Return commit -> number of rows measured at it, for all commits but the document's own."""
    kept = (row["commit"] for row in document["rows"] if "commit" in row)
    others = (name for name in kept if name != document.get("commit"))
    return dict(collections.Counter(others))


WHERE: dict[str, Column] = {"device": of("device"), "id": of("id"), "envs": of("num_envs", whole)}


def _noted(documents: Documents, lines: Iterable[Any], columns: dict[str, Column]) -> Table:
    """Return a table with a row for each of `lines`, without the columns whose cells are empty.

    The note below the table is the text of `notes`: how the measurements were made.
    """
    return filled(tabulated(lines, columns)._replace(note=notes(documents)))


def plain(
    columns: dict[str, Column], wanted: Callable[[Row], bool] = lambda row: True
) -> Callable[[Documents], Table]:
    """Return a function that builds a table with `columns` from a job's result files.

    The table has a line for each row of the files for which `wanted` returns True.
    """
    return lambda documents: _noted(documents, filter(wanted, by_size(rows_of(documents))), columns)


def beside(documents: Documents) -> Table:
    """Build a table that compares this library with other packages.

    The table has a line for each device, id and batch size. It has a column for each package, and
    for each reset source of this library.
    """
    lines: dict[tuple, dict[str, Row]] = {}
    # Label of a compared library or reset source -> whether it belongs to this library.
    labels: dict[str, bool] = {}
    for row in by_size(rows_of(documents)):
        name = row.get("contestant") or OWN
        label = str(row.get("reset_source") or OWN) if name == OWN else name
        labels.setdefault(label, name == OWN)
        key = (row["device"], row.get("id"), row.get("num_envs"))
        lines.setdefault(key, {})[label] = row
    first = lambda cell: lambda line: cell(next(iter(line.values())))  # noqa: E731
    columns = {head: first(cell) for head, cell in WHERE.items()}
    ours = [label for label, is_ours in labels.items() if is_ours]
    others = [label for label, is_ours in labels.items() if not is_ours]
    speed, seconds = of("steps_per_second", short), of("compile_seconds", fixed(1))
    columns |= {label: _of(label, speed) for label in (*ours, *others)}
    columns |= {f"{our} / {other}": _factor(our, other) for our in ours[:1] for other in others}
    columns |= {f"kernels, {our}": _of(our, _kernels) for our in ours}
    compared = [*ours[:1], *others] if others else []
    columns |= {f"compile s, {label}": _of(label, seconds) for label in compared}
    return _noted(documents, lines.values(), columns)


def _of(label: str, cell: Column) -> Column:
    """Return a column that applies `cell` to the row of contestant `label`.

    Each line of the table is a dictionary: label of a contestant -> row with its results.
    """
    return lambda line: cell(line.get(label, {}))


def _kernels(row: Row) -> str:
    """Format a step's kernel launches: `12`, or `12 + 3` if the step contains loops.

    The second number counts the kernels in one iteration of loops whose number of iterations is
    known only at run time.
    """
    trips = f" + {row['kernels_per_trip']}" if row.get("kernels_per_trip") else ""
    return whole(row.get("kernels")) + trips


def _factor(ours: str, other: str) -> Column:
    """Return a column: how many times faster contestant `ours` is than contestant `other`."""
    return lambda line: (
        ratio(faster(line[ours], line[other])) if {ours, other} <= line.keys() else ""
    )


def faster(row: Row, other: Row) -> float | None:
    """Return how many times faster `row` is than `other`; None if it is unknown.

    Rows with equally many times were measured in turns. Their result is the median, over the turns,
    of the ratio of their speeds. Otherwise the result is the ratio of the two reported speeds.
    """
    taken = {len(each.get("times_s", ())) for each in (row, other)}
    if "steps" in row and "steps" in other and len(taken) == 1:
        return turns.faster(row, other, "times_s")
    if row.get("steps_per_second") and other.get("steps_per_second"):
        return row["steps_per_second"] / other["steps_per_second"]
    return None


def kernels(documents: Documents) -> Table:
    """Build a table with a line for each profiled program: its step time and longest kernels."""
    lines: dict[tuple, list[Row]] = {}
    for row in rows_of(documents):
        if row.get("part") == "kernels":
            key = (row["device"], *(row.get(n) for n in ("id", "num_envs", "reset_source")))
            lines.setdefault(key, []).append(row)
    whole_step = {
        **WHERE,
        "levels from": of("reset_source"),
        "us per step": of("microseconds", fixed(1)),
        "in kernels": of("busy", fixed(1)),
    }
    columns = {head: lambda line, cell=cell: cell(line[0]) for head, cell in whole_step.items()}
    return _noted(documents, lines.values(), {**columns, "the slowest of them": _slowest})


def _slowest(line: list[Row]) -> str:
    found = sorted((row for row in line if "kernel" in row), key=lambda row: -row["microseconds"])
    return ", ".join(f"`{row['kernel']}` {row['microseconds']:.1f}" for row in found[:SLOWEST])


def _setup(row: Row) -> str:
    """Return the setup of a run; Craft had only `masked` before runs recorded one."""
    return row.get("setup", "masked" if row["id"].startswith("Craft") else "")


def billion(documents: Documents) -> Table:
    """Build a table of the training run of a billion steps, with a line for each slice.

    A slice is the part of the run that one call of `card` trained. The line shows the returns at
    the end of the slice.
    """
    rows = list(rows_of(documents))

    def parts(row: Row, name: str) -> list[Row]:
        return [r for r in rows if r.get("part") == name and r["device"] == row["device"]]

    def reached(row: Row) -> str:
        made = [r["return"] for r in parts(row, "curve") if r["steps"] <= row["to_steps"]]
        return fixed(2)(made[-1]) if made else ""

    def evaluated(row: Row) -> str:
        ends = parts(row, "evaluation")
        here = [r["mean_return"] for r in ends if r["steps"] == row["to_steps"]]
        return fixed(2)(here[0]) if here else ""

    columns = {
        **WHERE,
        "setup": _setup,
        "steps at its end": of("to_steps", short),
        "took": lambda row: f"{statistics.median(row['times_s']):,.0f} s",
        "steps/s": of("steps_per_second", short),
        "training return": reached,
        "evaluation": evaluated,
    }
    return plain(columns, lambda row: row.get("part") == "slice")(documents)


searches = plain(
    {
        "device": of("device"),
        "id": of("id"),
        "learner": of("learner"),
        "search": of("search"),
        "beam or batch": of("width", whole),
        "boards": of("boards", whole),
        "solved": of("solved", percent),
        "mean length": of("mean_length", fixed(2)),
        "seconds": of("seconds", fixed(1)),
    },
    lambda row: row.get("part") == "judged",
)
mazes = plain(
    {
        **WHERE,
        "seed": of("seed", whole),
        "return": of("mean_return", fixed(3)),
        "success": of("mean", fixed(3)),
        "worst 10 %": of("worst_10_percent", fixed(3)),
        "worst 1 %": of("worst_1_percent", fixed(3)),
    },
    lambda row: row.get("part") == "judged",
)


def tests(documents: Documents) -> Table:
    """Build a table of test outcomes by device: counts, and the names of failed tests."""

    def count(outcome: str) -> Column:
        return lambda document: whole(sum(r["outcome"] == outcome for r in document["rows"]))

    def failed(document: dict[str, Any]) -> str:
        return ", ".join(f"`{r['test']}`" for r in document["rows"] if r["outcome"] == "failed")

    columns = {
        "device": lambda document: document["device"],
        **{outcome: count(outcome) for outcome in ("passed", "skipped", "failed")},
        "which failed": failed,
    }
    return _noted(documents, documents, columns)


training = plain(
    {
        **WHERE,
        "learner": of("algorithm"),
        "preset": of("preset"),
        "levels from": of("reset_source"),
        "settings": of("settings"),
        "seeds": of("seeds", whole),
        "steps/s": of("steps_per_second", short),
        "compile, s": of("compile_seconds", fixed(1)),
    }
)
resets = plain(
    {
        **WHERE,
        "levels from": of("reset_source"),
        "time limit": of("limit", lambda limit: whole(limit) if limit else "none"),
        "ended per step": of("ended_per_step", fixed(1)),
        "trips per step": of("trips_per_step", fixed(1)),
        "us per step": of("microseconds", fixed(1)),
    },
    lambda row: row.get("part") != "kernels",
)
puzzles = plain(
    {
        **WHERE,
        "search": of("algorithm"),
        "batch size": of("batch_size", whole),
        "steps/s": of("steps_per_second", short),
        "nodes/s": of("nodes_per_second", short),
        "solved": of("solved", lambda n: percent(n) if isinstance(n, float) else whole(n)),
        "compile, s": of("compile_seconds", fixed(1)),
    }
)
torch = plain(
    {
        **WHERE,
        "adapter": of("contestant"),
        "steps/s": of("steps_per_second", short),
        "us per step": of("microseconds", fixed(1)),
    }
)
korf = plain(
    {
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
)
SECTIONS = (
    Section("craft", "Craft-Classic, steps per second by reset source", beside),
    Section("full", "The whole game of Craft, steps per second by reset source", beside),
    Section("full-symbolic", "The whole game, symbolic, compared with craftax", beside),
    Section("doorkey", "DoorKey compared with NAVIX and XLand-MiniGrid", beside),
    Section("rules", "Rule worlds compared with XLand-MiniGrid", beside),
    Section("training", "Training, steps per second", training),
    Section("training-full", "Training in the whole game, steps per second", training),
    Section("training-rnn", "Recurrent PPO, steps per second", training),
    Section("resets", "Resets of Craft, microseconds per step", resets),
    Section("resets", "Kernels of Craft, microseconds", kernels),
    Section("profiles", "Kernels of the most used programs, microseconds", kernels),
    Section("families", "One id of each class, steps per second", beside),
    Section("puzzles", "Puzzles and search", puzzles),
    Section("korf", "Korf's hundred 15-puzzles by A*", korf),
    Section("babyai", "BabyAI, steps per second by reset source", beside),
    Section("graphs", "Without flags for XLA, steps per second", beside),
    Section("torch", "A loop in PyTorch, steps per second by adapter", torch),
    Section("billion", "PPO on Craft-Classic-Ids, in slices", billion),
    Section("classic-1b", "Recurrent PPO on Craft-Classic-Ids, setup original", billion),
    Section("craft-1b", "Recurrent PPO on Craft-Ids, setup original", billion),
    Section("craft-2b-eased", "Recurrent PPO on Craft-Ids, setup eased", billion),
    *(Section(name, title, searches) for name, title in HEURISTICS.items()),
    *(Section(f"maze-{n}", f"{title}, AMaze 13 x 13", mazes) for n, title in MAZES.items()),
    Section("tests", "Tests that need a GPU", tests),
)
