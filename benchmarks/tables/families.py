"""Table of all environment classes: GPU work of a step, cost of a new level, speed on a CPU."""

from typing import Any

from .cpu import JAX_PEERS
from .registry import RESULTS, table
from .text import Column, Table, fixed, of, ratio, short, tabulated
from .turns import Turns, lead, turns

# Values of NAME in the files `bench_families_NAME.json`, which have measured speeds. For an id that
# is in several files, the first file is used.
_SPEEDS = ("grid", "grid_2", "grid_3", "babyai", "rest")


def _exact(row: dict[str, Any]) -> str:
    work = row["work"].get("exact")
    return f"{work['kernels']} + {work['kernels_per_trip']}" if work else ""


def _first(row: dict[str, Any]) -> dict[str, Any]:
    """Return a step's kernels and bytes with reset source `fresh` or, if not counted, `pool`."""
    return row["work"].get("fresh") or row["work"]["pool"]


def _moved(work: dict[str, Any]) -> str:
    return f"{work['written']:,.0f} + {work['read']:,.0f}"


def _kernels(source: str) -> Column:
    return lambda row: str(row["work"].get(source, {}).get("kernels", ""))


WORK: dict[str, Column] = {
    "id": of("id"),
    "levels from": of("default"),
    "kernels: fresh": _kernels("fresh"),
    "pool": _kernels("pool"),
    "exact + per trip": _exact,
    "bytes written + read per env": lambda row: _moved(_first(row)),
    "bytes of state": lambda row: fixed(0)(_first(row)["state"]),
    "candidates per level": lambda row: fixed(2)(row["world"]["candidates"]),
    "level / step": lambda row: fixed(1)(row["world"]["world_steps"]),
}


def counted(rows: list[dict[str, Any]]) -> Table:
    """Return the table that the command `families` prints, without measured speeds."""
    return tabulated(rows, WORK)


@table(
    "families",
    f"{RESULTS}/families.json",
    *(f"{RESULTS}/bench_families_{name}.json" for name in _SPEEDS),
)
def families(work: dict[str, Any], *benches: dict[str, Any]) -> Table:
    """Build a table of all environment classes: work of a step on a GPU, and speeds on a CPU.

    The work is the number of kernels, and the bytes that they read and write, counted in the
    compiled program. Speeds are measured, also of other packages. A cell is empty if its number is
    unknown, for example because a package lacks the level.
    """
    speeds: dict[str, Turns] = {}
    for bench in benches:
        for group in turns(bench):
            speeds.setdefault(group.id, group)

    def speed(row: dict[str, Any]) -> str:
        group = speeds.get(row["id"])
        return short(group.rows[group.ours()[0]]["steps_per_second"]) if group else ""

    def against(*others: str) -> Column:
        def cell(row: dict[str, Any]) -> str:
            group = speeds.get(row["id"])
            return ratio(lead(group, row["default"], others)) if group else ""

        return cell

    columns = {
        **WORK,
        "steps/s, CPU": speed,
        "/ minigrid": against("minigrid"),
        "/ better JAX peer": against(*JAX_PEERS),
    }
    return tabulated(work["rows"], columns)
