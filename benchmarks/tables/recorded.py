"""The table of learners with a recorded run of each."""

import re
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from .registry import REFERENCE, RESULTS, RUNS, table
from .runs import returns_of
from .text import Column, Table, short, tabulated

NONE = "none exists"
GYM_CARTPOLE = "gym:CartPole-v1"  # with a step of 5 ms, see `benchmarks/scaling_ray.py`

_SEED = re.compile(r" --seed [\d{},]+")


class Recorded(NamedTuple):
    """A learner, or a bonus for novelty, with its recorded runs."""

    name: str  # on the command line
    title: str
    runs: list[dict[str, Any]]

    @property
    def largest(self) -> dict[str, Any]:
        """The run with the most seeds, and of those the one with the most steps.

        Seeds that were recorded one by one are counted together.
        """
        groups: dict[str, dict[str, Any]] = {}
        for run in self.runs:
            group = groups.setdefault(_SEED.sub("", run["command"]), {**run, "seeds": 0})
            group["seeds"] += run["seeds"]
        return max(groups.values(), key=lambda run: (run["seeds"], run["steps"]))


def learners(
    results: list[Any], ray: dict[str, Any], reference: dict[str, Any]
) -> Iterator[Recorded]:
    """Every learner of `--algo`, then every bonus of `--novelty`."""
    # Imported here: every other table needs nothing but Python.
    from jaxenvs.baselines.algorithms import ALGORITHMS
    from jaxenvs.commands.learned import BONUSES

    found = [run for file in results for run in file if "jaxenvs" in run["versions"]]
    found += list(_on_ray(ray))
    for name, row in ALGORITHMS.items():
        runs = [run for run in found if run.get("algorithm", "ppo") == name]
        yield Recorded(f"`{name}`", row.title, runs)
    trained = [run for runs in reference["trained"].values() for run in runs]
    for name, title in BONUSES.items():
        commands = {run["command"] for run in trained if title in run["apart"]}
        runs = [run for run in found if run["command"] in commands]
        yield Recorded(f"`--novelty {name}`", f"{title}, a bonus", runs)


def _on_ray(ray: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The undisturbed runs on Ray that were evaluated, as one record for each learner."""
    names = {"sync": "ppo-ray", "async": "ppo-ray", "apex": "apex"}
    for mode, name in names.items():
        known = [run for run in ray["faults"] if run["mode"] == mode and not run["killing"]]
        if known:
            yield {
                "id": GYM_CARTPOLE,
                "algorithm": name,
                "command": f"--mode {mode}",
                "seeds": len(known),
                "steps": known[0]["steps"],
                "device": f"{ray['machine']['cores']} cores",
                "date": ray["recorded"].partition(";")[0],
                "evaluation": {"per_seed": [run["evaluation"] for run in known]},
            }


def observation(run: dict[str, Any]) -> str:
    """Return the observation of a run: its field `obs`, or its shape without such a field."""
    import jaxenvs

    if run["id"] == GYM_CARTPOLE:
        return "4 float32"
    if asked := re.search(r"\bobs=(\w+)", run["command"]):
        return f"`{asked[1]}`"
    env = jaxenvs.make(run["id"])
    if known := getattr(env, "obs", None):
        return f"`{known}`"
    return f"{' x '.join(map(str, env.observation_space.shape))} {env.observation_space.dtype}"


def _returns(run: dict[str, Any]) -> str:
    """The mean return over the seeds; plans of a learned heuristic have none."""
    if run["evaluation"] and "per_seed" not in run["evaluation"]:
        return "see below"
    return f"{statistics.fmean(returns_of(run)):.3f}"


@table("runs-learners", f"{RUNS}/*.json", f"{RESULTS}/ray.json", REFERENCE)
def recorded(results: list[Any], ray: dict[str, Any], reference: dict[str, Any]) -> Table:
    """A row for each learner: its run with the most seeds, or that there is none."""

    def of_run(cell: Column, missing: str = "") -> Column:
        return lambda row: cell(row.largest) if row.runs else missing

    columns: dict[str, Column] = {
        "option": lambda row: row.name,
        "learner": lambda row: row.title,
        "ids with a recorded run": lambda row: str(len({run["id"] for run in row.runs})),
        "its run with the most seeds": of_run(lambda run: f"`{run['id']}`", NONE),
        "observation": of_run(observation),
        "seeds": of_run(lambda run: str(run["seeds"])),
        "steps of each": of_run(lambda run: short(run["steps"])),
        "mean return": of_run(_returns),
        "made on": of_run(lambda run: f"{run['device']}, {run['date']}"),
    }
    return tabulated(learners(results, ray, reference), columns)
