"""What was measured on an H200."""

from collections.abc import Callable
from typing import Any

from .registry import RESULTS, table
from .text import Column, Table, fixed, listed, of, seconds, short, tabulated, whole
from .turns import ENVS, ID, factor, speed, turns

LEVELS = ("empty", "fourrooms", "lavacrossing")
FULL = 65_536  # environments that fill the card
SLOWEST = 4  # kernels of a step that are named


@table("h200-speed", *(f"{RESULTS}/h200_bench_{level}.json" for level in LEVELS))
def h200_speed(*benches: dict[str, Any]) -> Table:
    """Steps per second by level, batch and reset source."""
    columns = {
        **ID,
        **ENVS,
        "fresh (the default)": speed("fresh"),
        "pool": speed("pool"),
        "exact": speed("exact"),
        "NAVIX": speed("NAVIX"),
        "XLand-MiniGrid": speed("XLand-MiniGrid"),
        "fresh / NAVIX": factor("fresh", "NAVIX"),
        "fresh / XLand": factor("fresh", "XLand-MiniGrid"),
    }
    return tabulated([group for bench in benches for group in turns(bench)], columns)


@table(
    "h200-resets",
    f"{RESULTS}/h200_resets_doorkey.json",
    f"{RESULTS}/h200_resets_fourrooms_lavacrossing.json",
)
def h200_resets(*files: dict[str, Any]) -> Table:
    """Microseconds of a step by reset source and time limit."""
    return resets([row for file in files for row in file["rows"]])


def resets(rows: list[dict[str, Any]]) -> Table:
    """One line for each id and limit, of rows as `resets` writes them."""
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        lines.setdefault((row["id"], row["limit"]), {})[row["reset_source"]] = row

    def of(source: str, name: str, shown: Callable[[float | None], str]) -> Column:
        return lambda line: shown(line.get(source, {}).get(name))

    first = lambda line: next(iter(line.values()))  # noqa: E731
    columns = {
        "id": lambda line: first(line)["id"],
        "time limit": lambda line: whole(first(line)["limit"]) if first(line)["limit"] else "none",
        "ended per step": lambda line: _few(first(line)["ended_per_step"]),
        "fresh": of("fresh", "microseconds", fixed(1)),
        "pool": of("pool", "microseconds", fixed(1)),
        "exact": of("exact", "microseconds", fixed(1)),
        "its trips per step": of("exact", "trips_per_step", fixed(1)),
    }
    return tabulated(lines.values(), columns)


def _few(number: float | None) -> str:
    """One decimal, and none from ten on."""
    return fixed(1 if (number or 0) < 10 else 0)(number)


@table("h200-kernels", f"{RESULTS}/h200_kernels.json")
def h200_kernels(profiles: dict[str, Any]) -> Table:
    """Where a step of a full card goes."""
    return kernels([row for row in profiles["rows"] if row["num_envs"] == FULL])


def kernels(rows: list[dict[str, Any]]) -> Table:
    """The slowest kernels of a step in microseconds, of rows as `kernels` writes them."""

    def slowest(row: dict[str, Any]) -> str:
        found = sorted(row["microseconds"].items(), key=lambda pair: -pair[1])[:SLOWEST]
        return ", ".join(f"`{name}` {time:.1f}" for name, time in found)

    columns = {
        "id": of("id"),
        "worlds from": of("reset_source"),
        "step": of("step", fixed(1)),
        "in kernels": of("busy", fixed(1)),
        "kernels": lambda row: whole(len(row["microseconds"])),
        "the slowest of them": slowest,
    }
    return tabulated(rows, columns)


@table("h200-learning", f"{RESULTS}/h200_ppo_doorkey.json")
def h200_learning(found: dict[str, Any]) -> Table:
    """PPO on DoorKey-8x8, by number of seeds."""
    columns = {
        "command": lambda run: f"`{run['command']}`",
        "an update": lambda run: f"{1000 * run['seconds_per_update']:.0f} ms",
        "steps per second between updates": lambda run: short(run["steps_per_second"]),
        "all updates, compilation included": lambda run: seconds(run["seconds_of_all_updates"]),
        "command, start to end": lambda run: f"{run['seconds_of_command']} s",
        "evaluation": _evaluation,
    }
    return tabulated(found["runs"], columns)


def _evaluation(run: dict[str, Any]) -> str:
    """Returns of a few seeds, or how many of many came how far."""
    found = [seed["mean_return"] for seed in run["eval"]["per_seed"]]
    if len(found) <= 8:
        return listed(found)
    best, good = (sum(number >= least for number in found) for least in (0.95, 0.9))
    poor = sum(number < 0.5 for number in found)
    return f"{best} of {len(found)} seeds at 0.95 or better, {good} at 0.9, {poor} below 0.5"
