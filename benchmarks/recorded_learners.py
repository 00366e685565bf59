"""The recorded run of each learner, for a table of `baselines/README.md`."""

import json
import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jaxenvs
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.commands.learned import BONUSES

RAY = Path(__file__).with_name("results") / "ray.json"
MODES = {"sync": "ppo-ray", "async": "ppo-ray", "apex": "apex"}  # of `scaling_ray.py`
GYM_CARTPOLE = "gym:CartPole-v1"  # with a step of 5 ms, see `scaling_ray.py`
_SEED = re.compile(r" --seed [\d{},]+")


def learners(
    records: Iterable[dict[str, Any]], trained: dict[str, Any], ray: Path = RAY
) -> list[dict[str, Any]]:
    """Return a row for each learner of `--algo`, then for each bonus of `--novelty`.

    `records` come from `baselines/results`, `trained` the runs of `reference.json`. A learner
    without a recorded run has a row of its option, its title and no ids.
    """
    known = [record for record in records if "jaxenvs" in record["versions"]]
    known += _on_ray(json.loads(ray.read_text("utf-8")))
    rows = [
        _row(name, row.title, [r for r in known if r.get("algorithm", "ppo") == name])
        for name, row in ALGORITHMS.items()
    ]
    runs = [run for of_an_id in trained.values() for run in of_an_id]
    for name, title in BONUSES.items():
        commands = {run["command"] for run in runs if title in run["apart"]}
        found = [record for record in known if record["command"] in commands]
        rows.append(_row(f"--novelty {name}", f"{title}, a bonus", found))
    return rows


def _row(option: str, title: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    row = {"option": option, "learner": title, "ids": len({record["id"] for record in records})}
    if not records:
        return row
    run = _largest(records)
    return {
        **row,
        "id": run["id"],
        "observation": observation(run),
        "seeds": run["seeds"],
        "steps": run["steps"],
        "return": _mean_return(records, run),
        "made": f"{run['device']}, {run['date']}",
    }


def _largest(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the most seeds, and of those the one with the most steps.

    Seeds that were recorded one by one are counted together.
    """
    groups: dict[str, dict[str, Any]] = {}
    for record in records:
        group = groups.setdefault(_of_any_seed(record), {**record, "seeds": 0})
        group["seeds"] += record["seeds"]
    return max(groups.values(), key=lambda run: (run["seeds"], run["steps"]))


def _of_any_seed(record: dict[str, Any]) -> str:
    return _SEED.sub("", record["command"])


def _mean_return(records: list[dict[str, Any]], run: dict[str, Any]) -> float | None:
    """Return the mean over the seeds of a run; None for DAVI and worlds, which have none."""
    found: list[float] = []
    for record in records:
        if _of_any_seed(record) == _of_any_seed(run):
            evaluation = record["evaluation"]
            if evaluation is None:
                found += record["last_returns"]
            else:
                found += [seed["mean_return"] for seed in evaluation.get("per_seed", [])]
    return round(statistics.fmean(found), 4) if found else None


def observation(run: dict[str, Any]) -> str:
    """Return the observation of a run: its field `obs`, or its shape without such a field."""
    if run["id"] == GYM_CARTPOLE:
        return "4 float32"
    if asked := re.search(r"\bobs=(\w+)", run["command"]):
        return f"`{asked[1]}`"
    env = jaxenvs.make(run["id"])
    if known := getattr(env, "obs", None):
        return f"`{known}`"
    space = env.observation_space
    return f"{' x '.join(map(str, space.shape))} {space.dtype}"


def _on_ray(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the undisturbed runs on Ray that were evaluated, as records."""
    for run in found["faults"]:
        if not run["killing"]:
            yield {
                "id": GYM_CARTPOLE,
                "algorithm": MODES[run["mode"]],
                "command": f"--mode {run['mode']} --seed {run['seed']}",
                "seeds": 1,
                "steps": run["steps"],
                "device": f"{found['machine']['cores']} cores",
                "date": found["recorded"].partition(";")[0],
                "evaluation": {"per_seed": [run["evaluation"]]},
            }
