"""README's figures: the short table of one GPU, and the sentences of two CPU cores."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import turns
from .card import COMMAND, OURS, Documents, faster, rows_of
from .registry import RESULTS, table
from .text import Table, ratio, short, whole

SOURCES = ("stock", "exact", "fresh", "auto")  # with a separate level for each episode


class Line(NamedTuple):
    """One line: the rows that it is made of, and their names for a reader."""

    label: str
    job: str
    where: Mapping[str, Any]  # values of the row
    unit: str = "steps/s"
    others: Mapping[str, str] = {}  # contestants, and their names for a reader


GRIDS = {"NAVIX": "NAVIX", "XLand-MiniGrid": "XLand-MiniGrid"}
CRAFTAX = {"craftax (optimistic 16)": "craftax"}
LINES = (
    Line("MiniGrid, DoorKey-8x8", "doorkey", {"num_envs": 65_536}, others=GRIDS),
    Line("the same", "doorkey", {"num_envs": 1_048_576}, others=GRIDS),
    Line("BabyAI, GoToLocal", "babyai", {"id": "BabyAI-GoToLocal-v0", "num_envs": 65_536}),
    Line("XLand rule worlds, 13x13", "rules", {"num_envs": 4096}, others=GRIDS),
    Line(
        "Craftax-Classic, symbolic",
        "craft",
        {"id": "Craft-Classic-Symbolic-v0", "num_envs": 4096},
        others=CRAFTAX,
    ),
    Line("Craftax-Classic, ids", "craft", {"id": "Craft-Classic-Ids-v0", "num_envs": 65_536}),
    Line("Craftax, symbolic", "full-symbolic", {"num_envs": 4096}, others=CRAFTAX),
    Line("Craftax, ids", "full", {"num_envs": 65_536}),
    Line("PPO, trained on DoorKey-8x8", "training", {"id": "Grid-DoorKey-8x8-v0"}),
    Line("PPO, trained on Craftax-Classic", "training", {"id": "Craft-Classic-Ids-v0"}),
    Line("A* on the 15-puzzle", "puzzles", {"id": "Puzzle-SlidingTile-4x4-v0"}, "nodes/s"),
)


@table("readme-gpu", f"{RESULTS}/card/*.json", command=COMMAND)
def first(documents: Documents) -> Table:
    """A line for each case that was measured, by the newest file of its job."""
    rows = [cells for line in LINES if (cells := _line(line, documents))]
    devices = list(dict.fromkeys(row[0] for row in rows))
    head = ["GPU", "", "environments", "levels", "per second", "others on the same GPU"]
    if len(devices) == 1:  # name it once
        head, rows = [f"one {devices[0]}", *head[2:]], [row[1:] for row in rows]
    return Table(head, rows)


def _line(line: Line, documents: Documents) -> list[str]:
    """The cells of a line; none where it was not measured."""
    made = [document for document in documents if document["job"] == line.job]
    for document in sorted(made, key=lambda document: document["date"], reverse=True):
        rows = [r for r in rows_of([document]) if line.where.items() <= r.items()]
        best = _ours(rows)
        if best:
            told = [_other(best, r, line.others[r["contestant"]]) for r in rows if _is(r, line)]
            return [
                document["device"],
                line.label,
                whole(best.get("num_envs")),
                best.get("reset_source") or "",
                f"{short(_speed(best))} {line.unit}",
                ", ".join(told),
            ]
    return []


def _ours(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The fastest row of ours whose episodes are independent."""
    ours = [
        row
        for row in rows
        if row.get("contestant", OURS) == OURS and row.get("reset_source") in (*SOURCES, None)
    ]
    return max(ours, key=_speed, default=None)


def _speed(row: dict[str, Any]) -> float:
    return row.get("steps_per_second") or row["nodes_per_second"]


def _is(row: dict[str, Any], line: Line) -> bool:
    return row.get("contestant") in line.others


def _other(ours: dict[str, Any], row: dict[str, Any], name: str) -> str:
    """The speed of another package, and how many times faster ours is."""
    return f"{name} {short(_speed(row))} ({ratio(faster(ours, row))} x)"


@table(
    "readme-cpu",
    f"{RESULTS}/bench_doorkey.json",
    f"{RESULTS}/bench_craft_symbolic.json",
    f"{RESULTS}/bench_craft_pixels.json",
)
def cpu(grid: dict[str, Any], craft: dict[str, Any], pictures: dict[str, Any]) -> str:
    """Compare 1,024 environments on a CPU with the original packages."""
    doorkey, symbolic, pixels = (_of_1024(file) for file in (grid, craft, pictures))
    return (
        f"On {grid['cpus']} CPU cores 1,024 DoorKey-8x8 environments make "
        f"{short(_speed(doorkey.rows['auto']))} steps/s including resets, "
        f"{_times(doorkey, 'auto', 'minigrid')} times the speed of minigrid in one process. 1,024 "
        f"Craft-Classic environments with symbolic observations make "
        f"{short(_speed(symbolic.rows['exact']))} steps/s with a new world for every episode, "
        f"{_times(symbolic, 'exact', 'crafter')} times the speed of crafter; with pictures they "
        f"are {_times(pixels, 'exact', 'craftax (optimistic 16)')} times the speed of craftax."
    )


def _of_1024(bench: dict[str, Any]) -> turns.Turns:
    return next(group for group in turns.turns(bench) if group.num_envs == 1024)


def _times(group: turns.Turns, ours: str, other: str) -> str:
    """How many times faster ours is, to two digits: times of a shared machine vary."""
    times = turns.faster(group.rows[ours], group.rows[other])
    return "" if times is None else f"{float(f'{times:.2g}'):,.0f}"
