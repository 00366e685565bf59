"""Rows of `jaxenvs bench`: who took turns on one id at one batch size, side by side."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .text import Column, ratio, short, whole

OWN = "jaxenvs"


class Turns(NamedTuple):
    """One id at one batch size."""

    id: str
    num_envs: int
    rows: dict[str, dict[str, Any]]  # ours by reset source, the others by name
    ratios: dict[tuple[str, str], float]  # by our reset source and the other's name


def turns(bench: dict[str, Any]) -> list[Turns]:
    """Group the rows of a file, in order of ids as they come and of batch sizes."""
    found: list[Turns] = []
    for row in bench["rows"]:
        own = row["contestant"] == OWN
        key = (row["id"], row["num_envs"])
        if own and (not found or found[-1][:2] != key):
            found.append(Turns(*key, {}, {}))
        found[-1].rows[row["reset_source"] if own else row["contestant"]] = row
    places = {(group.id, group.num_envs): group for group in found}
    for told in bench["ratios"]:
        group = places[told["id"], told["num_envs"]]
        group.ratios[told["reset_source"], told["against"]] = told["ratio"]
    ids = list(dict.fromkeys(group.id for group in found))
    return sorted(found, key=lambda group: (ids.index(group.id), group.num_envs))


ID: dict[str, Column] = {"id": lambda group: group.id}
ENVS: dict[str, Column] = {"envs": lambda group: whole(group.num_envs)}


def speed(name: str) -> Column:
    """Steps per second of ours from a reset source, or of another."""
    return lambda group: short(group.rows.get(name, {}).get("steps_per_second"))


def factor(source: str, other: str) -> Column:
    """How many times faster ours from a source is than another."""
    return lambda group: ratio(group.ratios.get((source, other)))


def lead(group: Turns, source: str, others: Iterable[str]) -> float | None:
    """How many times faster ours is than the fastest of the others that took part."""
    return min(
        (group.ratios[source, o] for o in others if (source, o) in group.ratios), default=None
    )


def compilation(name: str) -> Column:
    """Seconds that a contestant took to compile."""
    return lambda group: f"{group.rows[name]['compile_seconds']:.1f} s"
