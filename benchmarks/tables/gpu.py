"""GPU tables: older measurements on an H200, kernels and bytes in HLO, errors of the time model."""

from collections.abc import Callable, Mapping
from typing import Any

from .registry import RESULTS, of_rows, table
from .text import (
    Column,
    Table,
    fixed,
    listed,
    of,
    percent,
    ratio,
    seconds,
    short,
    tabulated,
    whole,
)
from .turns import ENVS, ID, factor, speed, turns

LEVELS = ("empty", "fourrooms", "lavacrossing")
FULL = 65_536  # number of environments that is enough to use the whole GPU
SLOWEST = 4  # number of kernels that a cell lists: the slowest kernels of a step
MIB = 1 << 20
# Reset source in a record -> text in the table. The records of some packages have the reset source
# in brackets after the package's name, as in `craftax (own reset)`.
RESETS = {"none": "no reset", "own": "own auto-reset", "own reset": "own auto-reset"}


@table("h200-speed", *(f"{RESULTS}/h200_bench_{level}.json" for level in LEVELS))
def h200_speed(*benches: dict[str, Any]) -> Table:
    """Build a table of steps per second by level, batch size and reset source or package."""
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
    """Build a table with the microseconds of a step for each time limit and reset source."""
    return resets([row for file in files for row in file["rows"]])


def resets(rows: list[dict[str, Any]]) -> Table:
    """Build a table with one line per id and time limit, from rows of the command `resets`."""
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
    """Format a number with one decimal if it is below ten, else without decimals."""
    return fixed(1 if (number or 0) < 10 else 0)(number)


@table("h200-kernels", f"{RESULTS}/h200_kernels.json")
def h200_kernels(profiles: dict[str, Any]) -> Table:
    """Build a table of the slowest kernels of a step of `FULL` environments.

    A cell lists the slowest kernels with their microseconds.
    """

    def slowest(row: dict[str, Any]) -> str:
        found = sorted(row["microseconds"].items(), key=lambda pair: -pair[1])[:SLOWEST]
        return ", ".join(f"`{name}` {time:.1f}" for name, time in found)

    columns = {
        "id": of("id"),
        "levels from": of("reset_source"),
        "step": of("step", fixed(1)),
        "in kernels": of("busy", fixed(1)),
        "kernels": lambda row: whole(len(row["microseconds"])),
        "the slowest of them": slowest,
    }
    return tabulated([row for row in profiles["rows"] if row["num_envs"] == FULL], columns)


@table("h200-learning", f"{RESULTS}/h200_ppo_doorkey.json")
def h200_learning(found: dict[str, Any]) -> Table:
    """Build a table of PPO runs on DoorKey-8x8 with different numbers of seeds."""
    columns = {
        "command": lambda run: f"`{run['command']}`",
        "an update": lambda run: f"{1000 * run['seconds_per_update']:.0f} ms",
        "steps per second between updates": of("steps_per_second", short),
        "all updates, compilation included": of("seconds_of_all_updates", seconds),
        "command, start to end": of("seconds_of_command", "{} s".format),
        "evaluation": _evaluation,
    }
    return tabulated(found["runs"], columns)


def _evaluation(run: dict[str, Any]) -> str:
    """List each seed's evaluation return; with more than eight seeds, return a summary.

    The summary counts the seeds with a return of at least 0.95, of at least 0.9, and below 0.5.
    """
    found = [seed["mean_return"] for seed in run["eval"]["per_seed"]]
    if len(found) <= 8:
        return listed(found)
    best, good = (sum(number >= least for number in found) for least in (0.95, 0.9))
    poor = sum(number < 0.5 for number in found)
    return f"{best} of {len(found)} seeds at 0.95 or better, {good} at 0.9, {poor} below 0.5"


# Below: tables of the kernels and bytes that `gpu_work`, `update_work` and `memory` count.


def kernels(row: Mapping[str, Any]) -> str:
    """Format a step's kernel launches: `12`, or `12 + 3 per trip` (iteration of a loop).

    The second number counts the kernels in one iteration of loops whose number of iterations is
    unknown at compile time.
    """
    trips = row["kernels_per_trip"]
    return f"{row['kernels']:,}" + (f" + {trips:,} per trip" if trips else "")


def model_time(row: Mapping[str, Any]) -> str:
    """Format a step's predicted microseconds: `12`, or `12 + 3 per trip` (loop iteration)."""
    if "model_us" not in row:
        return ""  # this row was counted before predicted times existed
    trips = row["model_us_per_trip"]
    return whole(row["model_us"]) + (f" + {whole(trips)} per trip" if trips else "")


def moved(row: Mapping[str, Any]) -> str:
    """Format the bytes that a step writes and reads per environment as `written + read`."""
    text = f"{row['written']:,.0f} + {row['read']:,.0f}"
    if row.get("kernels_per_trip"):
        text += f", and {row['written_per_trip']:,.0f} + {row['read_per_trip']:,.0f} per trip"
    return text


def state(row: Mapping[str, Any]) -> str:
    """Format the state's bytes per environment, and the level pool's bytes if there is a pool."""
    return whole(row["state"]) + (f" (pool {whole(row['pool'])})" if row["pool"] else "")


def who(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the package that a row measures, and the table's text for the row's reset source."""
    name, _, reset = row["name"].removesuffix(")").partition(" (")
    reset = str(reset or row["reset_source"])
    return str(name), RESETS.get(reset) or reset


COUNTS: dict[str, Column] = {
    "kernels": kernels,
    "of these loop / copies": lambda row: f"{row['loop_kernels']} / {row['copies']}",
    "bytes written + read per env": moved,
    "bytes of state per env": state,
    "model time, us per step": model_time,
}
WHO: dict[str, Column] = {
    "what": lambda row: who(row)[0],
    "levels from": lambda row: who(row)[1],
    "observation": of("obs"),
}
WHO_AND_FROM: dict[str, Column] = {"what, levels from": lambda row: ", ".join(who(row))}
ENV_ID: dict[str, Column] = {"id": of("env_id")}


def counted(rows: list[dict[str, Any]]) -> Table:
    """Return the table of kernels, bytes and predicted times that the command `gpu_work` prints."""
    return tabulated(rows, {**ENV_ID, **WHO, **COUNTS})


def _changed(row: Mapping[str, Any]) -> str:
    """Return the environments and steps of an update, in bold if they differ from the preset."""
    text = f"{row['num_envs']:,} x {row['rollout_steps']}"
    return f"**{text}**" if row.get("changed") else text


def _milliseconds(name: str) -> Column:
    return lambda row: fixed(1)(row[name] / 1000) if name in row else ""


def _update_speed(row: Mapping[str, Any]) -> str:
    steps = row["num_envs"] * row["rollout_steps"]
    return short(steps / row["model_us"] * 1e6) if "model_us" in row else ""


UPDATES: dict[str, Column] = {  # columns of the table of whole updates with `--preset gpu`
    "learner": of("algorithm"),
    "id": of("id"),
    "envs x steps": _changed,
    "kernels": lambda row: kernels({"kernels_per_trip": 0, **row}) if "kernels" in row else "",
    "GB": of("bytes", lambda count: f"{count / 1e9:,.2f}"),
    "model time, ms": _milliseconds("model_us"),
    "of this acting": _milliseconds("acting_us"),
    "per trip": _milliseconds("model_us_per_trip"),
    "model steps/s": _update_speed,
    "peak GiB": of("peak_bytes", lambda size: f"{size / 2**30:.2f}"),
    "date": of("date"),
}


def _mebibytes(count: float) -> str:
    return whole(count / MIB)


MEMORY: dict[str, Column] = {  # columns of the table of a batch's device memory
    **ENV_ID,
    "envs": of("num_envs", whole),
    "levels from": of("reset_source"),
    "state, MiB": of("state", _mebibytes),
    "pool": of("pool", _mebibytes),
    "while stepping": of("step", _mebibytes),
    "while making all levels": of("reset", _mebibytes),
}
RULES: dict[str, Column] = {"rules, at most": of("rules"), **WHO_AND_FROM, **COUNTS}

MICRO_STEPS: dict[str, Column] = {  # columns of the table of PuzzleScript's micro-steps
    "size": of("size"),
    "environments": of("num_envs", whole),
    "kernels of a micro-step": of("kernels", whole),
    "of the end of a turn": of("end_kernels", whole),
    "bytes written + read per env": lambda row: f"{row['written']:,.0f} + {row['read']:,.0f}",
    "model time, us per micro-step": of("model_us", whole),
}

of_rows("work-puzzlescript", f"{RESULTS}/puzzlescript_work.json", MICRO_STEPS)
of_rows("work-update", f"{RESULTS}/update_work.json", UPDATES, full=False)
of_rows("memory-craft", f"{RESULTS}/memory_craft.json", MEMORY)
# `full=False` leaves out columns without any figures, such as predicted times in files that were
# counted before the time model existed.
for _name, _file, _columns in (
    ("work-doorkey", "gpu_work_doorkey", {**WHO_AND_FROM, **COUNTS}),
    ("work-obs", "gpu_work_obs", {"observation": of("obs"), **COUNTS}),
    ("work-craft", "gpu_work_craft", {**WHO, **COUNTS}),
    ("work-rules", "rule_worlds_work", RULES),
):
    of_rows(_name, f"{RESULTS}/{_file}.json", _columns, full=False)


@table("work-puzzles", f"{RESULTS}/gpu_work_puzzles.json")
def work_puzzles(work: dict[str, Any]) -> Table:
    """Build a table of the kernels and bytes that were counted in a step of each puzzle.

    The number in brackets leaves out the kernels of the scan around the step (`loop_kernels`).
    """
    pairs: dict[str, dict[str, Any]] = {}
    for row in work["rows"]:
        pairs.setdefault(row["env_id"], {})[row["reset_source"]] = row

    def launches(row: dict[str, Any]) -> str:
        bare = f" ({row['kernels'] - row['loop_kernels']})"
        once, plus, trips = kernels(row).partition(" + ")
        return once + bare + plus + trips

    columns = {
        "id": lambda pair: pair["pool"]["env_id"],
        "kernels: fresh": lambda pair: launches(pair["fresh"]),
        "pool": lambda pair: launches(pair["pool"]),
        "bytes written + read per env, pool": lambda pair: moved(pair["pool"]),
        "bytes of state": lambda pair: whole(pair["pool"]["state"]),
    }
    return tabulated(pairs.values(), columns)


# Below: tables that compare the kernel time model with programs to which it was not fitted.


def _step(name: str) -> Column:
    return lambda row: ratio(row[name] / row["busy"])


# Columns of the table of the time model's errors; a row is a program, the last row all programs.
ERRORS: dict[str, Column] = {
    "program": lambda row: row["program"] or "all",
    "kernels": of("kernels", whole),
    "step, us": of("step", fixed(0)),
    "in kernels": of("busy", fixed(0)),
    "model / measured": _step("model"),
    "without its environment": _step("model_family"),
    "former model": _step("old"),
    "time within 1.5": of("model_near", percent),
    "without its environment, too": of("model_family_near", percent),
    "former": of("old_near", percent),
}
# Columns of the table of the kernels that are mispredicted and take the most time.
WORST: dict[str, Column] = {
    "program": of("program"),
    "kernel": of("kernel", "`{}`".format),
    "result": of("shape", "`{}`".format),
    "us": of("microseconds", fixed(1)),
    "model": of("model", fixed(1)),
    "of all time": of("share", percent),
}
of_rows("kernel-model", f"{RESULTS}/kernel_model.json", ERRORS)
table("kernel-model-worst", f"{RESULTS}/kernel_model.json")(
    lambda figures: tabulated(figures["worst"], WORST)
)
