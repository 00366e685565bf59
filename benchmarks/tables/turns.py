"""Results of `jaxenvs bench`, grouped by id and batch size.

A row has the results of one contestant: of this library with one reset source and observation, or
of another package. The contestants of a group were timed in turns.
"""

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from .text import Column, ratio, seconds, short, whole

OWN = "jaxenvs"
CORE = "processor_seconds"  # entry of a row with CPU times, whose ratio is a speed-up per core
# Packages that always step a single environment, whatever the batch size of the compared packages.
SINGLE = ("minigrid", "crafter", "gymnasium")
PACKAGES = {"EnvPool": "envpool", "NAVIX": "navix", "XLand-MiniGrid": "xminigrid"}


class Turns(NamedTuple):
    """Results of this library and other packages on one id at one batch size, measured in turns.

    `rows` maps the name of a row to its results. The row of another package has the package's name.
    A row of this library has the name of its reset source, followed by its observation if the
    observation differs from the first row's.
    """

    id: str
    num_envs: int
    rows: dict[str, dict[str, Any]]

    def ours(self) -> list[str]:
        """Return the names of those rows of the group that measure this library."""
        return [name for name, row in self.rows.items() if row["contestant"] == OWN]


def turns(bench: dict[str, Any]) -> list[Turns]:
    """Return the rows of a file of `jaxenvs bench`, grouped by id and batch size.

    Ids stay in the file's order; the batch sizes of an id ascend.
    """
    found: list[Turns] = []
    for row in bench["rows"]:
        name, key = row["contestant"], (row["id"], row["num_envs"])
        if name == OWN:
            if not found or found[-1][:2] != key:
                found.append(Turns(*key, {}))
            name = _name(row, found[-1])
        found[-1].rows[name] = row
    ids = list(dict.fromkeys(group.id for group in found))
    return sorted(found, key=lambda group: (ids.index(group.id), group.num_envs))


def _name(row: dict[str, Any], group: Turns) -> str:
    first = next(iter(group.rows.values()), row)
    same = row["obs"] == first["obs"]
    return row["reset_source"] if same else f"{row['reset_source']}, {row['obs']}"


def faster(row: dict[str, Any], other: dict[str, Any], spent: str = "seconds") -> float | None:
    """Return how many times faster `row` is than `other`; None if one of them has no times.

    The entry `spent` of a row has one time per turn. The result is the median over the turns of the
    speed ratio.
    """
    if not (row.get(spent) and other.get(spent)):
        return None
    steps = row["steps"] / other["steps"]
    both = zip(row[spent], other[spent], strict=True)
    return statistics.median(steps * theirs / ours for ours, theirs in both)


def conditions(bench: dict[str, Any]) -> str:
    """Return the conditions of a measurement in one line: date, machine, load, versions."""
    names: list[str] = [row["contestant"].split(" (")[0] for row in bench["rows"]]
    packages = ["jax", *sorted({PACKAGES.get(name, name) for name in names if name != OWN})]
    versions = bench["versions"]
    used = ", ".join(f"{package} {versions[package]}" for package in packages)
    machine = f"{bench['cpus']} cores of an {bench['processor']}, Python {versions['python']}"
    load = f"load {bench['load_before']:.1f} before and {bench['load_after']:.1f} after"
    medians = f"medians of {bench['repeats']} x {bench['seconds']} s"
    return f"{bench['date'].split()[0]}, {machine}, {load}, {medians}: {used}."


ID: dict[str, Column] = {"id": lambda group: group.id}
ENVS: dict[str, Column] = {"envs": lambda group: whole(group.num_envs)}


def speed(name: str) -> Column:
    """Return a column: the steps per second of the row called `name`."""
    return lambda group: short(group.rows.get(name, {}).get("steps_per_second"))


def factor(ours: str, other: str, spent: str = "seconds") -> Column:
    """Return a column: how many times faster the row called `ours` is than the one called `other`.

    `spent` is the entry of the times to compare: `seconds` for wall time, `CORE` for CPU time.
    """
    return lambda group: ratio(faster(group.rows.get(ours, {}), group.rows.get(other, {}), spent))


def lead(group: Turns, name: str, others: Iterable[str]) -> float | None:
    """Return how many times faster row `name` is than the fastest of the rows `others`.

    Return None if the group has no measured row of `others`.
    """
    ours = group.rows[name]
    known = (faster(ours, group.rows[other]) for other in others if other in group.rows)
    return min((times for times in known if times is not None), default=None)


def compilation(name: str) -> Column:
    """Return a column: the seconds that the program of the contestant `name` took to compile."""
    return lambda group: seconds(group.rows.get(name, {}).get("compile_seconds"))
