"""Reference returns for the page of each id: random play and recorded runs.

    python -m jaxenvs.benchmarks.reference                 every id; about an hour on one core
    python -m jaxenvs.benchmarks.reference --ids Grid-v0   only these ids; others are kept
    python -m jaxenvs.benchmarks.reference --ids           only recorded runs and learners
    python -m jaxenvs.benchmarks.reference --train 300000  PPO on ids without a recorded PPO run
    python -m jaxenvs.benchmarks.reference --retry 1000000  on ids where no run has learned

Random play draws uniformly from the legal actions, like an untrained policy. It plays the first
episode of each of 1,024 environments, so long and short episodes have equal weight. `--train` runs
`jaxenvs train` with one seed on each id. A run lasts STEPS steps, or the steps of the id's preset
if these are fewer, and is recorded when it ends; a restart continues with the remaining ids. These
are short runs, not the best possible ones. `--retry` trains again on ids where no recorded run has
learned (as `jaxenvs/commands/learned.py` defines it): with a novelty bonus (`--preset noveld`) or,
if the id has no such preset, with scaled rewards.
"""

import argparse
import concurrent.futures
import itertools
import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxenvs
from jaxenvs.baselines.core.playing import random_episodes
from jaxenvs.baselines.evaluation import record
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.presets import names, preset
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.commands.fields import FLAG
from jaxenvs.commands.learned import BONUSES, SCALED, is_learned, is_plain, is_same_task
from jaxenvs.commands.page import REFERENCE
from jaxenvs.commands.parser import Parser, number

from .harness import instrument

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "baselines" / "results"
SHORT_RUNS = RESULTS / "short.json"
RETRIES = RESULTS / "retries.json"
NOVELTY = "noveld"  # preset that `--retry` uses if the id has it
COMMAND = "python -m jaxenvs.benchmarks.reference"
EPISODES = 1024
# Without an evaluation, a run's return is the mean over this many last training episodes per seed.
LAST = 200
SEED = 0
RAY = Path(__file__).with_name("results") / "ray.json"
# `--mode` of the benchmark `scaling_ray` -> the learner (`--algo`) that it trains.
MODES = {"sync": "ppo-ray", "async": "ppo-ray", "apex": "apex"}
# Id under which the table lists runs on Ray. They were trained in `SlowCartPole-v0`, which is
# CartPole with a pause, so that a step takes 5 ms of real time.
GYM_CARTPOLE = "gym:CartPole-v1"
_SEED = re.compile(r" --seed [\d{},]+")


def _train(ids: Iterable[str], random: dict[str, Any], options: argparse.Namespace) -> int:
    """Train and record a short run for each id that needs one; return the exit code.

    With `--train`, an id needs a run if it has no run of PPO without a bonus or other changes. With
    `--retry`, it needs one if `is_unlearned` is true. The exit code is 1 if a run failed.
    """
    again, most = bool(options.retry), options.retry or options.train
    found = recorded(RESULTS)

    def is_left(id: str) -> bool:
        runs = found.get(id, [])
        return is_unlearned(runs, random.get(id)) if again else not any(map(is_plain, runs))

    code = 0
    left = filter(is_left, ids)
    for id, run, said in short_runs(left, most, options.runs, options.jobs, again):
        if said:
            print(f"{id:<40} failed: {said}", file=sys.stderr, flush=True)
            code = 1
            continue
        kept = RETRIES if again else SHORT_RUNS
        record.main([str(kept), str(run), "--device", options.device])
        write(options.out, random)
        known = filter(is_same_task, recorded(RESULTS)[id])
        row = next(row for row in known if is_plain(row) != again)
        print(f"{id:<40} {np.mean(row['returns']):10.4f} {row['steps']:10,}", flush=True)
    return code


def is_unlearned(runs: Iterable[dict[str, Any]], random: dict[str, Any] | None) -> bool:
    """Return whether all runs of an id are plain PPO and none of them has learned.

    Plain PPO has neither a bonus nor scaled rewards. Runs that changed the task are ignored. The
    result is False if no runs remain.
    """
    same = [run for run in runs if is_same_task(run)]
    return bool(same) and not any(not is_plain(run) or is_learned(run, random) for run in same)


def short_runs(
    ids: Iterable[str], most: int, folder: Path, jobs: int, again: bool = False
) -> Iterator[tuple[str, Path, str]]:
    """Train PPO on ids, `jobs` at a time; yield (id, run folder, error message) when a run ends.

    A run has `most` environment steps, or the preset's steps if these are fewer. With
    `again`, a run has a novelty bonus (if the id has the preset `NOVELTY`) or scaled rewards.
    """

    def train(id: str) -> tuple[str, Path, str]:
        run = folder / id
        name = NOVELTY if again and NOVELTY in names(id) else None
        usual = ppo.Settings(**preset(id, name).settings).total_steps
        command = [sys.executable, "-m", "jaxenvs.baselines.run.train", id, "--overwrite"]
        if again:
            command += ["--preset", name] if name else ["--reward-scaling"]
        command += ["--out", str(run), "--total-steps", str(min(most, usual))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return id, run, done.stderr.strip()[-500:] if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(train, id) for id in ids]
        for ended in concurrent.futures.as_completed(waiting):
            yield ended.result()


def random_play(id: str) -> dict[str, Any]:
    """Return the results of random play: mean return, standard error, successes, mean length.

    `succeeded` is None if the environment does not define success.
    """
    env = jaxenvs.make(id)
    if env.setups:  # the recorded runs in Craft used masks, too
        env = jaxenvs.make(id, setup="masked")
    play = jax.jit(lambda key: random_episodes(env, key, EPISODES))
    episodes = play(jax.random.key(SEED))
    returns, succeeded = np.asarray(episodes.returns, np.float64), episodes.succeeded
    return {
        "return": round(float(returns.mean()), 5),
        "error": round(float(returns.std(ddof=1) / EPISODES**0.5), 5),
        "length": round(float(np.asarray(episodes.lengths).mean()), 1),
        "terminated": round(float(np.asarray(episodes.terminated).mean()), 4),
        "succeeded": None if succeeded is None else int(succeeded.sum()),
        "episodes": EPISODES,
        "seed": SEED,
        "command": COMMAND,
        "versions": {"jaxenvs": jaxenvs.__version__, "jax": jax.__version__},
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def table(random: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the contents of `reference.json`.

    The entry `random` has the results of random play by id, `trained` the recorded runs by id, and
    `learners` one recorded run of each learner.
    """
    known = [id for id in jaxenvs.registry.list() if id in random]
    trained = {
        id: [{**run, "learned": is_learned(run, random.get(id))} for run in runs]
        for id, runs in recorded(folder).items()
    }
    rows = learners(_records(folder), trained)
    return {"random": {id: random[id] for id in known}, "trained": trained, "learners": rows}


def recorded(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the recorded runs by id.

    For each id, runs of PPO come first: runs without changes to task or reward, then runs with
    changes. Learned search heuristics (DAVI), which have no return, and runs of other packages are
    left out.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in _records(folder):
        if "jaxenvs" in row["versions"] and "per_seed" in (row["evaluation"] or {"per_seed": ()}):
            known, run = runs.setdefault(row["id"], []), kept(row)
            if run not in known:  # the same run may be in two result files
                known.append(run)

    def place(run: dict[str, Any]) -> tuple[bool, bool]:
        return run["algorithm"] != "ppo", bool(run["apart"])

    return {id: sorted(runs[id], key=place) for id in sorted(runs)}


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a recorded run that the table shows.

    `returns` has one entry per seed: the mean over its evaluation or, without an evaluation, over
    its last 200 training episodes. `episodes` is the number of all these episodes, and `succeeded`
    the number of successful ones. `apart` lists the changes to task or reward.
    """
    algorithm, evaluation = row.get("algorithm", "ppo"), row["evaluation"]
    per_seed = evaluation["per_seed"] if evaluation else []
    returns = [round(s["mean_return"], 4) for s in per_seed] or row["last_returns"]
    played = evaluation["episodes"] if evaluation else LAST  # number of episodes per seed
    shares = [seed.get("success_rate") for seed in per_seed] or [None]
    return {
        "algorithm": algorithm,
        "returns": returns,
        "evaluated": evaluation is not None,
        "succeeded": None if None in shares else round(sum(shares) * played),
        "episodes": len(returns) * played,
        "apart": _apart(row["id"], algorithm, row["command"]),
        "steps": row["steps"],
        "command": row["command"],
        "versions": {name: row["versions"][name] for name in ("jaxenvs", "jax")},
        "date": row["date"],
    }


def _apart(id: str, algorithm: str, command: str) -> list[str]:
    """Return a list of the changes that a training command makes to the task or the reward.

    The list names a novelty bonus, scaled rewards, the flag `--clairvoyant`, and the environment's
    fields that the command sets.
    """
    words = shlex.split(command)
    given = words[words.index(FLAG) + 1 :] if FLAG in words else []
    fields = itertools.takewhile(lambda word: not word.startswith("--"), given)
    name = re.search(r"--preset (\w+)", command)
    chosen = preset(id, name[1] if name else None, algorithm).settings
    kind = re.search(r"--novelty (\w+)", command)
    novelty = kind[1] if kind else chosen.get("novelty", "rnd")
    has_bonus = re.search(r"--bonus\b", command) or chosen.get("bonus")
    added = [BONUSES[novelty]] if has_bonus else []
    added += [SCALED] * bool(re.search(r"--reward-scaling\b", command))
    added += ["clairvoyant"] * bool(re.search(r"--clairvoyant\b", command))
    same = ("setup=original", "setup=masked")  # setups with the same task and reward
    return [*added, *(field for field in fields if field not in same)]


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        rows = json.loads(path.read_text("utf-8"))
        if isinstance(rows, list):
            yield from rows


def learners(
    records: Iterable[dict[str, Any]], trained: dict[str, Any], ray: Path = RAY
) -> list[dict[str, Any]]:
    """Return a row for each learner (`--algo`), then a row for each novelty bonus (`--novelty`).

    `records` come from `baselines/results`; `trained` has the runs in `reference.json`. `ray` is
    the file with the runs of learners on Ray. A learner without a recorded run has no row.
    """
    known = [record for record in records if "jaxenvs" in record["versions"]]
    known += _on_ray(json.loads(ray.read_text("utf-8")))
    found = {
        (name, row.title): [r for r in known if r.get("algorithm", "ppo") == name]
        for name, row in ALGORITHMS.items()
    }
    runs = [run for of_an_id in trained.values() for run in of_an_id]
    for name, title in BONUSES.items():
        commands = {run["command"] for run in runs if title in run["apart"]}
        option = (f"--novelty {name}", f"{title}, a bonus")
        found[option] = [record for record in known if record["command"] in commands]
    return [_row(*option, records) for option, records in found.items() if records]


def _row(option: str, title: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    run = _largest(records)
    return {
        "option": option,
        "learner": title,
        "ids": len({record["id"] for record in records}),
        "id": run["id"],
        "observation": observation(run),
        "seeds": run["seeds"],
        "steps": run["steps"],
        "return": _mean_return(records, run),
        "made": f"{run['device']}, {run['date']}",
    }


def _largest(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the most seeds; of runs with equally many seeds, return the longest.

    Records whose commands differ only in the seed are one run.
    """
    groups: dict[str, dict[str, Any]] = {}
    for row in records:
        group = groups.setdefault(_of_any_seed(row), {**row, "seeds": 0})
        group["seeds"] += row["seeds"]
    return max(groups.values(), key=lambda run: (run["seeds"], run["steps"]))


def _of_any_seed(record: dict[str, Any]) -> str:
    return _SEED.sub("", record["command"])


def _mean_return(records: list[dict[str, Any]], run: dict[str, Any]) -> float | None:
    """Return the mean return over a run's seeds.

    The result is None for DAVI and world models, which have no return.
    """
    found: list[float] = []
    for row in records:
        if _of_any_seed(row) == _of_any_seed(run):
            evaluation = row["evaluation"]
            if evaluation is None:
                found += row["last_returns"]
            else:
                found += [seed["mean_return"] for seed in evaluation.get("per_seed", [])]
    return round(statistics.fmean(found), 4) if found else None


def observation(run: dict[str, Any]) -> str:
    """Return a text for a run's observation: its field `obs` or, without it, shape and dtype.

    For an environment with setups, the text also names the setup.
    """
    if run["id"] == GYM_CARTPOLE:
        return "4 float32"
    env: Any = jaxenvs.make(run["id"])
    setup = f", {_field(run, 'setup', env.setup)}" if env.setups else ""
    if known := _field(run, "obs", getattr(env, "obs", "")):
        return f"`{known}`{setup}"
    space = env.observation_space
    return f"{' x '.join(map(str, space.shape))} {space.dtype}"


def _field(run: dict[str, Any], name: str, usual: str) -> str:
    """Return the value of a constructor field in a run's command; `usual` if it is not there."""
    asked = re.search(rf"\b{name}=(\w+)", run["command"])
    return asked[1] if asked else usual


def _on_ray(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a record for each evaluated run on Ray, except runs in which processes were killed."""
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


def write(path: Path, random: dict[str, Any]) -> None:
    """Write `reference.json` to `path`, with one id or learner per line."""
    made = table(random, RESULTS)
    parts = [_object(name, made[name]) for name in ("random", "trained")]
    rows = ",\n".join(map(json.dumps, made["learners"]))
    parts.append(f'"learners": [\n{rows}\n]')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _object(name: str, rows: dict[str, Any]) -> str:
    lines = ",\n".join(f"{json.dumps(id)}: {json.dumps(row)}" for id, row in rows.items())
    return f"{json.dumps(name)}: {{\n{lines}\n}}"


@instrument.program
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; write the table after each id; return the exit code."""
    parser = Parser(COMMAND, __doc__)
    some = number(1, 2**31 - 1)
    add = parser.add_argument
    add("--ids", nargs="*", metavar="ID", help="these ids (default: all)")
    add("--out", type=Path, default=REFERENCE, help="table to write")
    add("--train", type=some, metavar="STEPS", help="train PPO instead of random play")
    add("--retry", type=some, metavar="STEPS", help="train again where no run has learned")
    add("--runs", type=Path, default=Path("runs/short"), help="folder of the trainings")
    add("--jobs", type=some, default=1, help="trainings at a time")
    add("--device", default="", help="description of the device of the trainings")
    options = parser.parse_args(argv)
    if not RESULTS.is_dir():
        raise ValueError(f"reference: {RESULTS} is missing; run from a checkout")
    ids = jaxenvs.registry.list() if options.ids is None else options.ids
    ids = [jaxenvs.spec(id).id for id in ids]
    table = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else {}
    random = table.get("random", {})
    if options.train or options.retry:
        return _train(ids, random, options)
    write(options.out, random)
    for id in ids:
        random[id] = random_play(id)
        write(options.out, random)
        print(f"{id:<40} {random[id]['return']:10.4f} {random[id]['length']:10.1f}", flush=True)
    return 0
