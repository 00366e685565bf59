"""What a step launches and moves on a GPU, as `gpu_work` and `memory` count it."""

from collections.abc import Mapping
from typing import Any

from .registry import RESULTS, of_rows, table
from .text import Column, Table, filled, of, ratio, short, tabulated, whole

MIB = 1 << 20
# By the name of a peer in brackets, or by a reset source.
RESETS = {"none": "no reset", "own": "own auto-reset", "own reset": "own auto-reset"}


def kernels(row: Mapping[str, Any]) -> str:
    """Launches of a step, and of each trip of a loop of unknown trips."""
    trips = row["kernels_per_trip"]
    return f"{row['kernels']:,}" + (f" + {trips} per trip" if trips else "")


def model_time(row: Mapping[str, Any]) -> str:
    """Microseconds of a step by the model, and of each trip of a loop of unknown trips."""
    if "model_us" not in row:
        return ""  # counted before the model
    trips = row["model_us_per_trip"]
    return whole(row["model_us"]) + (f" + {whole(trips)} per trip" if trips else "")


def moved(row: Mapping[str, Any]) -> str:
    """Bytes written + read for each environment."""
    text = f"{row['written']:,.0f} + {row['read']:,.0f}"
    if row.get("kernels_per_trip"):
        text += f", and {row['written_per_trip']:,.0f} + {row['read_per_trip']:,.0f} per trip"
    return text


def state(row: Mapping[str, Any]) -> str:
    """Bytes of state, with those of the pool."""
    return whole(row["state"]) + (f" (pool {whole(row['pool'])})" if row["pool"] else "")


def who(row: Mapping[str, Any]) -> tuple[str, str]:
    """Name of a contestant, and where its worlds come from."""
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
    "worlds from": lambda row: who(row)[1],
    "observation": of("obs"),
}
WHO_AND_FROM: dict[str, Column] = {"what, worlds from": lambda row: ", ".join(who(row))}
ID: dict[str, Column] = {"id": lambda row: row["env_id"]}


def counted(rows: list[dict[str, Any]]) -> Table:
    """Everything, as `gpu_work` prints it."""
    return tabulated(rows, {**ID, **WHO, **COUNTS})


UPDATES: dict[str, Column] = {  # whole updates of PPO with `--preset gpu`
    "id": of("id"),
    "envs x steps": lambda row: f"{row['num_envs']:,} x {row['rollout_steps']}",
    "epochs x minibatches": lambda row: f"{row['epochs']} x {row['minibatches']}",
    "layers": lambda row: ", ".join(map(str, row["hidden"])),
    "worlds from": of("reset_source"),
    "kernels": of("kernels", whole),
    "GB": lambda row: f"{row['bytes'] / 1e9:.2f}",
    "conditions": of("conditions", whole),
}
MEMORY: dict[str, Column] = {  # of a batch
    **ID,
    "envs": of("num_envs", whole),
    "worlds from": of("reset_source"),
    "state, MiB": lambda row: whole(row["state"] / MIB),
    "pool": lambda row: whole(row["pool"] / MIB),
    "while stepping": lambda row: whole(row["step"] / MIB),
    "while making all worlds": lambda row: whole(row["reset"] / MIB),
}
RULES: dict[str, Column] = {"rules, at most": of("rules"), **WHO_AND_FROM, **COUNTS}


def _counts(name: str, file: str, columns: Mapping[str, Column]) -> None:
    """Register a table of counts; records older than the model have no model time."""
    table(name, file)(lambda found: filled(tabulated(found["rows"], columns)))


of_rows("work-update", f"{RESULTS}/update_work.json", UPDATES)
of_rows("memory-craft", f"{RESULTS}/memory_craft.json", MEMORY)
_counts("work-doorkey", f"{RESULTS}/gpu_work_doorkey.json", {**WHO_AND_FROM, **COUNTS})
_counts("work-obs", f"{RESULTS}/gpu_work_obs.json", {"observation": of("obs"), **COUNTS})
_counts("work-craft", f"{RESULTS}/gpu_work_craft.json", {**WHO, **COUNTS})
_counts("work-rules", f"{RESULTS}/rule_worlds_work.json", RULES)


@table("work-puzzles", f"{RESULTS}/gpu_work_puzzles.json")
def work_puzzles(work: dict[str, Any]) -> Table:
    """Puzzles; in brackets the kernels that are not of the measuring loop."""
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


@table("before-after", f"{RESULTS}/gpu_before_after.json")
def before_after(work: dict[str, Any]) -> Table:
    """Programs of Craft and DoorKey before and after the change of their GPU forms."""
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    for row in work["rows"]:
        pairs.setdefault((row["id"], row["reset_source"]), {})[row["code"]] = row

    def both(cell: Column) -> Column:
        def shown(pair: dict[str, Any]) -> str:
            return " → ".join(cell(pair[code]) for code in ("before", "after") if code in pair)

        return shown

    def measured(row: dict[str, Any]) -> str:
        return whole(row["measured_us"]) if row["measured_us"] else "-"

    columns: dict[str, Column] = {
        "id": lambda pair: pair["after"]["id"],
        "envs": lambda pair: whole(pair["after"]["num_envs"]),
        "worlds from": lambda pair: pair["after"]["reset_source"],
        "kernels": both(kernels),
        "model time, us": both(model_time),
        "measured, us": both(measured),
        "selects over the state": both(lambda row: str(row["state_selects"])),
        "branching stacks": both(lambda row: str(row["column_stacks"])),
        "copies of the state": both(lambda row: str(row["copies"])),
    }
    return tabulated(pairs.values(), columns)


@table("rule-worlds", f"{RESULTS}/rule_worlds.json")
def rule_worlds(speed: dict[str, Any]) -> Table:
    """Steps per processor-second of rule worlds and XLand-MiniGrid, and seconds of compilation."""
    pairs = zip(speed["rows"][::2], speed["rows"][1::2], strict=True)
    columns: dict[str, Column] = {
        "tasks": lambda pair: pair[0]["set"],
        "environments": lambda pair: whole(pair[0]["num_envs"]),
        "jaxenvs": lambda pair: short(pair[0]["per_processor_second"]),
        "XLand-MiniGrid": lambda pair: short(pair[1]["per_processor_second"]),
        "ratio": lambda pair: ratio(
            pair[0]["per_processor_second"] / pair[1]["per_processor_second"]
        ),
        "compiled in, s": lambda pair: f"{pair[0]['compile_seconds']:.1f}",
        "XLand-MiniGrid in": lambda pair: f"{pair[1]['compile_seconds']:.1f}",
    }
    return tabulated(pairs, columns)
