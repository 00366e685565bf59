"""Tables of training speed and returns.

The tables compare this library's learners with learners of other libraries, and training on
different numbers of devices.
"""

import json
import statistics
from collections.abc import Callable
from typing import Any

from . import turns
from .registry import RESULTS, table
from .text import Column, Table, fixed, of, ratio, tabulated, whole
from .turns import OWN

Row = dict[str, Any]


def _of_setting(name: str, shown: Callable[[Any], str] = str) -> Column:
    """Return a column that shows entry `name` of a row's learner setting."""
    return lambda row: shown(row["setting"][name])


def faster(row: Row, other: Row) -> float | None:
    """Return how many times faster `row` trains than `other`.

    The two learners trained in turns. The result is the median over the turns of the speed ratio.
    """
    ours, theirs = ({**each, "steps": each["setting"]["steps"]} for each in (row, other))
    return turns.faster(ours, theirs)


def factor(rows: list[Row]) -> Column:
    """Return a column: how many times faster this library trains than the row's learner.

    Each row is compared with this library's first row of the same setting.
    """

    def cell(row: Row) -> str:
        group = [other for other in rows if other["setting"]["name"] == row["setting"]["name"]]
        ours = next((other for other in group if other["learner"].startswith(OWN)), row)
        return "" if row["learner"].startswith(OWN) else ratio(faster(ours, row))

    return cell


SETTING: dict[str, Column] = {"setting": _of_setting("name")}
LEARNER: dict[str, Column] = {"learner": of("learner")}


def compared(rows: list[Row]) -> Table:
    """Build the table that the command `learners` prints: the speed of each setting's learners."""

    def returns(row: Row) -> str:
        return ", ".join(f"{found:.0f}" for found in row["last_returns"] if found is not None)

    columns = {
        **SETTING,
        **LEARNER,
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": factor(rows),
        "compile, s": of("compile_seconds", fixed(1)),
        "steps/s of the first training, compilation included": of("first_steps_per_second", whole),
        "return of the last episodes": returns,
    }
    return tabulated(rows, columns)


table("learners", f"{RESULTS}/learners.json")(lambda found: compared(found["rows"]))


def evaluations(row: Row) -> list[float]:
    """Return the evaluation returns of a row's seeds, without seeds that were not evaluated."""
    return [one for one in row["evaluations"] if one is not None]


def statistic(
    reduce: Callable[[list[float]], float], returns: Callable[[Row], list[float]] = evaluations
) -> Column:
    """Return a column that shows `reduce` (such as the mean) of a row's returns, over seeds."""
    return lambda row: fixed(1)(reduce(returns(row)))


def margin(returns: list[float]) -> str:
    """Format half the width of the 95 % confidence interval of the mean (normal approximation).

    The result is empty for a single seed.
    """
    if len(returns) == 1:
        return ""
    deviations = statistics.NormalDist().inv_cdf(0.975)
    return fixed(1)(deviations * statistics.stdev(returns) / len(returns) ** 0.5)


SEEDS: dict[str, Column] = {"seeds": lambda row: str(len(evaluations(row)))}
MARGIN: dict[str, Column] = {"± (95 %)": lambda row: margin(evaluations(row))}
ENDS: dict[str, Column] = {"median": statistic(statistics.median), "worst": statistic(min)}


def summed(rows: list[Row]) -> Table:
    """Build a table with a line for each learner: speed, and a summary of the evaluations."""

    def median(name: str) -> Column:
        return lambda row: fixed(1)(statistics.median(row[name]))

    columns = {
        **SETTING,
        **LEARNER,
        **SEEDS,
        "training, s by the clock": median("walls"),
        "s of processor time": median("seconds"),
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": factor(rows),
        "compile, s": of("compile_seconds", fixed(1)),
        "return: mean": statistic(statistics.fmean),
        **MARGIN,
        **ENDS,
    }
    return tabulated(rows, columns)


@table("learners-beside", f"{RESULTS}/learners_beside.json", f"{RESULTS}/learners_64_seeds.json")
def beside(*files: dict[str, Any]) -> Table:
    """Build a table that compares PPO on CartPole between libraries.

    It has the training time, and the evaluations over all seeds.
    """
    # Summarise each file separately, because the column of ratios compares rows of one file.
    parts = [summed(found["rows"]) for found in files]
    return Table(parts[0].head, [row for part in parts for row in part.rows])


def scores(rows: list[Row], more: dict[str, Column] = SETTING) -> Table:
    """Build a table of every seed's evaluation return; rows without evaluations are left out.

    The command `learners` prints this table.
    """
    columns = {
        **LEARNER,
        **more,
        **SEEDS,
        "mean": statistic(statistics.fmean),
        **MARGIN,
        **ENDS,
        "return of each seed": lambda row: ", ".join(f"{one:.0f}" for one in evaluations(row)),
    }
    return tabulated([row for row in rows if evaluations(row)], columns)


table("learners-seeds", f"{RESULTS}/learners_16_seeds.json")(
    lambda found: scores(found["rows"], {"variant": of("variant")})
)

PEERS = {"sb3": "SB3", "sbx": "SBX"}  # name of a library in the file -> its name in the tables
COMPARED = {
    "learner and task": _of_setting("name"),
    "environments": _of_setting("num_envs"),
    "layers": _of_setting("hidden", lambda hidden: " x ".join(map(str, hidden))),
    "batch": _of_setting("batch_size"),
}
OFF_POLICY = "python -m jaxenvs.benchmarks.off_policy --sbx-python PATH"


@table(
    "off-policy",
    f"{RESULTS}/off_policy.json",
    command=f"{OFF_POLICY} --json {RESULTS}/off_policy.json",
)
def off_policy(found: dict[str, Any]) -> Table:
    """Build a table that compares off-policy learners with Stable-Baselines3 and SBX.

    The command `off_policy` prints this table.
    """
    rows = found["rows"]

    def returns(row: Row) -> list[float]:
        return [training["evaluation"] for training in row["trainings"]]

    def times(row: Row) -> str:
        wanted = (OWN, row["setting"])
        same = (each for each in rows if (each["learner"], each["setting"]) == wanted)
        ours = next(same, row)
        return "" if row is ours else ratio(ours["steps_per_second"] / row["steps_per_second"])

    columns = {
        **COMPARED,
        "by": of("learner"),
        "steps": _of_setting("steps", whole),
        "seeds": lambda row: str(len(row["trainings"])),
        "return: mean": statistic(statistics.fmean, returns),
        "± (95 %)": lambda row: margin(returns(row)),
        "worst": statistic(min, returns),
        "steps/s": of("steps_per_second", whole),
        "ours is faster by": times,
    }
    return tabulated(rows, columns)


@table(
    "off-policy-speed",
    f"{RESULTS}/off_policy_speed.json",
    command=f"{OFF_POLICY} --seeds 1 --sizes 32x64 64x64 64x256 256x256 "
    f"--json {RESULTS}/off_policy_speed.json",
)
@table(
    "off-policy-speed-16",
    f"{RESULTS}/off_policy_speed_16.json",
    command=f"{OFF_POLICY} --seeds 5 --envs 16 --sizes 32x64 64x64 --learners jaxenvs sb3 "
    f"--json {RESULTS}/off_policy_speed_16.json",
)
def off_policy_speed(found: dict[str, Any]) -> Table:
    """Build a table of the speed of off-policy learners by layer width and batch size."""
    speeds: dict[str, dict[str, float]] = {}
    for row in found["rows"]:
        speeds.setdefault(json.dumps(row["setting"]), {})[row["learner"]] = row["steps_per_second"]

    def of_peer(name: str, shown: Callable[[float, float], str]) -> Column:
        def cell(row: Row) -> str:
            group = speeds[json.dumps(row["setting"])]
            return shown(group[OWN], group[name]) if name in group else ""

        return cell

    found_peers = {name for group in speeds.values() for name in group}
    peers = {name: shown for name, shown in PEERS.items() if name in found_peers}
    columns = {
        **COMPARED,
        "steps/s": of("steps_per_second", whole),
        **{shown: of_peer(name, lambda _, speed: whole(speed)) for name, shown in peers.items()},
        **{
            f"ours over {shown}": of_peer(name, lambda ours, speed: ratio(ours / speed))
            for name, shown in peers.items()
        },
    }
    return tabulated([row for row in found["rows"] if row["learner"] == OWN], columns)


DEVICES = {
    "devices": of("devices"),
    "environments, of all": of("num_envs", whole),
}


def exchanged(rows: list[Row]) -> Table:
    """Build the table that `scaling --described` prints: kernels and collectives of an update."""

    def count(part: str, kind: str) -> Column:
        return lambda row: str(row[part].get(kind, 0))

    columns = {
        **DEVICES,
        "kernels of an update": of("kernels", whole),
        "all-reduce of an update": count("update", "all-reduce"),
        "of a minibatch": count("minibatch", "all-reduce"),
        "all-gather": count("update", "all-gather"),
    }
    return tabulated(rows, columns)


def scaled(rows: list[Row]) -> Table:
    """Build the table that `scaling` prints: steps per second for each number of devices."""
    one = {row["num_envs"]: row["steps_per_second"] for row in rows if row["devices"] == 1}

    def relative(row: Row) -> str:
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
