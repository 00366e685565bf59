"""Training: beside other people's learners, and on several devices."""

import json
import statistics
from collections.abc import Callable
from typing import Any

from . import turns
from .registry import RESULTS, table
from .text import Column, Table, fixed, of, ratio, tabulated, whole

OURS = "jaxenvs"  # whose first row of a setting the others are compared with


def faster(row: dict[str, Any], other: dict[str, Any]) -> float | None:
    """How many times faster `row` trains: median over the turns, neighbours compared."""
    ours, theirs = ({**each, "steps": each["setting"]["steps"]} for each in (row, other))
    return turns.faster(ours, theirs)


@table("learners", f"{RESULTS}/learners.json")
def learners(found: dict[str, Any]) -> Table:
    """PPO on CartPole by learner."""
    return compared(found["rows"])


def factor(rows: list[dict[str, Any]]) -> Column:
    """How many times faster ours is, by the first of our rows with the same setting."""

    def cell(row: dict[str, Any]) -> str:
        group = [other for other in rows if other["setting"]["name"] == row["setting"]["name"]]
        ours = next((other for other in group if other["learner"].startswith(OURS)), row)
        return "" if row["learner"].startswith(OURS) else ratio(faster(ours, row))

    return cell


def compared(rows: list[dict[str, Any]]) -> Table:
    """Ours against each other learner of the same setting, as `learners` prints it."""

    def returns(row: dict[str, Any]) -> str:
        return ", ".join(f"{told:.0f}" for told in row["last_returns"] if told is not None)

    columns = {
        "setting": lambda row: row["setting"]["name"],
        "learner": of("learner"),
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": factor(rows),
        "compile, s": of("compile_seconds", fixed(1)),
        "steps/s of the first training, compilation included": of("first_steps_per_second", whole),
        "return of the last episodes": returns,
    }
    return tabulated(rows, columns)


@table("learners-seeds", f"{RESULTS}/learners_16_seeds.json")
def seeds(found: dict[str, Any]) -> Table:
    """What CartPole's policies are worth over 16 seeds, by what the learners do differently."""
    return evaluated(found["rows"], {"variant": lambda row: row["variant"]})


@table("learners-beside", f"{RESULTS}/learners_beside.json", f"{RESULTS}/learners_64_seeds.json")
def beside(*files: dict[str, Any]) -> Table:
    """PPO on CartPole by learner: time of a training, and worth of the policies of all seeds."""
    parts = [summed(found["rows"]) for found in files]  # neighbours in time are of one file
    return Table(parts[0].head, [row for part in parts for row in part.rows])


def summed(rows: list[dict[str, Any]]) -> Table:
    """Speed and evaluations of each learner in one line."""

    def told(reduce: Callable[[list[float]], float]) -> Column:
        return lambda row: fixed(1)(reduce(row["evaluations"]))

    columns = {
        "setting": lambda row: row["setting"]["name"],
        "learner": of("learner"),
        "seeds": lambda row: str(len(row["evaluations"])),
        "training, s by the clock": lambda row: fixed(1)(statistics.median(row["walls"])),
        "s of processor time": lambda row: fixed(1)(statistics.median(row["seconds"])),
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": factor(rows),
        "compile, s": of("compile_seconds", fixed(1)),
        "return: mean": told(statistics.fmean),
        "± (95 %)": lambda row: margin(row["evaluations"]),
        "median": told(statistics.median),
        "worst": told(min),
    }
    return tabulated(rows, columns)


def margin(returns: list[float]) -> str:
    """Half of the 95 % interval of the mean over seeds, as if means were normally distributed."""
    if len(returns) == 1:
        return ""
    deviations = statistics.NormalDist().inv_cdf(0.975)
    return fixed(1)(deviations * statistics.stdev(returns) / len(returns) ** 0.5)


def scores(rows: list[dict[str, Any]]) -> Table:
    """What the policies are worth that each learner ends with, as `learners` prints it."""
    return evaluated(rows, {"setting": lambda row: row["setting"]["name"]})


def evaluated(rows: list[dict[str, Any]], more: dict[str, Any]) -> Table:
    """Evaluations of every seed; rows without any are left out."""

    def told(row: dict[str, Any]) -> list[float]:
        return [one for one in row["evaluations"] if one is not None]

    columns = {
        "learner": of("learner"),
        **more,
        "seeds": lambda row: str(len(told(row))),
        "mean": lambda row: fixed(1)(statistics.fmean(told(row))),
        "± (95 %)": lambda row: margin(told(row)),
        "median": lambda row: fixed(1)(statistics.median(told(row))),
        "worst": lambda row: fixed(1)(min(told(row))),
        "return of each seed": lambda row: ", ".join(f"{one:.0f}" for one in told(row)),
    }
    return tabulated([row for row in rows if told(row)], columns)


PEERS = {"sb3": "SB3", "sbx": "SBX"}  # as tables show them
COMPARED = {
    "learner and task": lambda row: row["setting"]["name"],
    "environments": lambda row: str(row["setting"]["num_envs"]),
    "layers": lambda row: " x ".join(map(str, row["setting"]["hidden"])),
    "batch": lambda row: str(row["setting"]["batch_size"]),
}


@table(
    "off-policy",
    f"{RESULTS}/off_policy.json",
    command="python -m jaxenvs.benchmarks.off_policy --sbx-python PATH "
    f"--json {RESULTS}/off_policy.json",
)
def off_policy(found: dict[str, Any]) -> Table:
    """Off-policy learners beside Stable-Baselines3 and SBX, as `off_policy` prints it."""
    rows = found["rows"]

    def returns(row: dict[str, Any]) -> list[float]:
        return [told["evaluation"] for told in row["trainings"]]

    def times(row: dict[str, Any]) -> str:
        ours = next(
            (each for each in rows if (each["learner"], each["setting"]) == (OURS, row["setting"])),
            None,
        )
        if ours is None or row is ours:
            return ""
        return ratio(ours["steps_per_second"] / row["steps_per_second"])

    columns = {
        **COMPARED,
        "by": of("learner"),
        "steps": lambda row: whole(row["setting"]["steps"]),
        "seeds": lambda row: str(len(row["trainings"])),
        "return: mean": lambda row: fixed(1)(statistics.fmean(returns(row))),
        "± (95 %)": lambda row: margin(returns(row)),
        "worst": lambda row: fixed(1)(min(returns(row))),
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": times,
    }
    return tabulated(rows, columns)


@table(
    "off-policy-speed",
    f"{RESULTS}/off_policy_speed.json",
    command="python -m jaxenvs.benchmarks.off_policy --sbx-python PATH --seeds 1 --sizes 32x64 "
    f"64x64 64x256 256x256 --json {RESULTS}/off_policy_speed.json",
)
def off_policy_speed(found: dict[str, Any]) -> Table:
    """How fast off-policy learners are beside the others', by the size of their gradient steps."""
    speeds: dict[str, dict[str, float]] = {}
    for row in found["rows"]:
        speeds.setdefault(json.dumps(row["setting"]), {})[row["learner"]] = row["steps_per_second"]

    def among(row: dict[str, Any]) -> dict[str, float]:
        return speeds[json.dumps(row["setting"])]

    def speed(name: str) -> Column:
        return lambda row: whole(among(row)[name]) if name in among(row) else ""

    def times(name: str) -> Column:
        return lambda row: ratio(among(row)[OURS] / among(row)[name]) if name in among(row) else ""

    peers = {
        name: shown
        for name, shown in PEERS.items()
        if any(name in each for each in speeds.values())
    }
    columns = {
        **COMPARED,
        "steps/s": of("steps_per_second", whole),
        **{shown: speed(name) for name, shown in peers.items()},
        **{f"ours over {shown}": times(name) for name, shown in peers.items()},
    }
    return tabulated([row for row in found["rows"] if row["learner"] == OURS], columns)


@table(
    "off-policy-speed-16",
    f"{RESULTS}/off_policy_speed_16.json",
    command="python -m jaxenvs.benchmarks.off_policy --sbx-python PATH --seeds 5 --envs 16 "
    f"--sizes 32x64 64x64 --learners jaxenvs sb3 --json {RESULTS}/off_policy_speed_16.json",
)
def off_policy_speed_16(found: dict[str, Any]) -> Table:
    """The same of all of them with 16 environments."""
    return off_policy_speed(found)


DEVICES = {
    "devices": of("devices"),
    "environments, of all": of("num_envs", whole),
}


def exchanged(rows: list[dict[str, Any]]) -> Table:
    """Kernels and exchanges of an update, as `scaling --described` prints them."""
    columns = {
        **DEVICES,
        "kernels of an update": of("kernels", whole),
        "all-reduce of an update": lambda row: str(row["update"].get("all-reduce", 0)),
        "of a minibatch": lambda row: str(row["minibatch"].get("all-reduce", 0)),
        "all-gather": lambda row: str(row["update"].get("all-gather", 0)),
    }
    return tabulated(rows, columns)


def scaled(rows: list[dict[str, Any]]) -> Table:
    """Steps per second of each number of devices, as `scaling` prints them."""
    one = {row["num_envs"]: row["steps_per_second"] for row in rows if row["devices"] == 1}

    def relative(row: dict[str, Any]) -> str:
        alone = one.get(row["num_envs"])
        return fixed(2)(row["steps_per_second"] / alone) if alone else "-"

    columns = {
        **DEVICES,
        f"steps/s of training, median of {len(rows[0]['all'])}": of("steps_per_second", whole),
        "of one device": relative,
        "compile, s": of("compile_seconds", fixed(1)),
    }
    return tabulated(rows, columns)


_SCALING = f"{RESULTS}/scaling.json"
table("scaling-described", _SCALING)(lambda found: exchanged(found["described"]["rows"]))
table("scaling-simulated", _SCALING)(lambda found: scaled(found["simulated"]["rows"]))
