"""Training under Ray with 1, 2, 4 and 8 actors: samples/s, learning curves, effect of `kill -9`.

    python -m jaxenvs.benchmarks.scaling_ray --out results/ray.json --picture docs/learn-ray.png

It needs `pip install ".[ray,train]" crafter==1.8.3`. Runs follow one another; each is a command
`jaxenvs train` that is interrupted (SIGINT) when its time is up. The batch of an update is equally
large for any number of actors: fewer actors collect longer fragments of experience. Seconds count
from the first update.
"""

import contextlib
import itertools
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.baselines.evaluation.curve import figure, points
from jaxenvs.commands.parser import Parser
from jaxenvs.core.extras import version

from .harness import instrument

TITLES = {
    "SlowCartPole-v0": "CartPole whose step takes 5 ms",
    "Crafter-v0": "crafter, whose step computes",
}
ACTORS = (1, 2, 4, 8)
ENVS = 4  # number of environments per Ray actor
BATCH = 512  # number of environment steps per update, over all actors
COMMON = (
    *("--hidden", "64", "64", "--embed", "8", "--learning-rate", "1e-3", "--gamma", "0.98"),
    *("--eval-episodes", "32", "--checkpoint-every", "20"),
)
PPO = (
    *("--minibatches", "4", "--gae-lambda", "0.95", "--entropy", "0"),
    # The weight of the value loss is small, because values near 100 cause large losses. With a
    # larger weight, the value loss would dominate the gradient of the layers that actor and critic
    # share.
    *("--value-weight", "0.01"),
)
APEX = ("--algo", "apex", "--replays", "2", "--warm-up", "2000", "--gradient-steps", "16")
SETTINGS = {  # mode of training on Ray -> options of `jaxenvs train` that select it
    "sync": (*COMMON, *PPO, "--mode", "sync"),
    "async": (*COMMON, *PPO, "--mode", "async"),
    "apex": (*COMMON, *APEX),
}
KINDS = {  # mode -> names of Ray actors; in a run with `kill -9`, one of each name is killed
    "sync": ("ray::Actor", "ray::Learner"),
    "apex": ("ray::Explorer", "ray::Replay", "ray::ReplayLearner"),
}
EPISODES = 20  # number of episodes over which a point of a learning curve averages
# Environment steps of the runs with and without `kill -9`: enough that the learner has compiled and
# learns while processes are killed.
FAULT_STEPS = 100_000
FAULT_SEEDS = (0, 1)


def train(env: str, actors: int, mode: str, out: Path, flags: Sequence[str]) -> subprocess.Popen:
    """Start `jaxenvs train` with Ray actors; return the process.

    `env` is the name of an environment in `slow_worlds`.
    """
    sizes = ("--num-envs", ENVS * actors, "--rollout-steps", BATCH // (ENVS * actors))
    given: tuple[Any, ...] = ("--actors", actors, *sizes, *SETTINGS[mode], *flags, "--out", out)
    command = [f"gym:jaxenvs.benchmarks.slow_worlds:{env}", "--ray", *map(str, given)]
    module = [sys.executable, "-m", "jaxenvs.baselines.run.train"]
    pipe = subprocess.PIPE
    return subprocess.Popen([*module, *command], stdout=pipe, stderr=subprocess.STDOUT, text=True)


def records(out: Path) -> list[dict[str, Any]]:
    """Return a run's log so far, one record per update.

    In the log, some entries are lists with a value for each seed. The run has a single seed, so
    each list is replaced by its value.
    """
    file = out / "log.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [{k: v[0] if isinstance(v, list) else v for k, v in record.items()} for record in found]


def wait_for(
    ready: Callable[[], bool],
    process: subprocess.Popen,
    seconds: float,
    printed: Sequence[str] = (),
) -> None:
    """Wait until `ready()` is true; raise `RuntimeError` if the run ends or `seconds` pass first.

    The error message contains the output of the run. This output is `printed`, to which another
    thread may append lines, or, if `printed` is empty, the content of the process's pipe.
    """
    limit = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            rest = process.communicate()[0] if not printed else ""
            raise RuntimeError(f"not ready after {seconds} s: {''.join(printed)}{rest}")
        time.sleep(0.05)


def measured(world: str, actors: int, mode: str, seconds: float) -> dict[str, Any]:
    """Train for `seconds` and return samples per second and the learning curve.

    `world` is the name of the environment, in the arguments as in the records of older files.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        flags = ("--no-anneal", "--total-steps", "100000000")
        process = train(world, actors, mode, out, flags)
        wait_for(lambda: bool(records(out)), process, 300)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        log = records(out)
    settled = [record for record in log if record["seconds"] - log[0]["seconds"] > seconds / 5]
    first, last = settled[0], settled[-1]
    rate = (last["steps"] - first["steps"]) / (last["seconds"] - first["seconds"])
    return {
        "world": world,
        "actors": actors,
        "mode": mode,
        "seconds": seconds,
        "samples_per_second": round(rate, 1),
        **exchanged(settled),
        "curve": curve(log),
    }


def exchanged(log: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the bytes that actors and learner exchange, updates per second, and policy lag.

    Policy lag is the age of the actors' weights in updates.
    """
    seconds = log[-1]["seconds"] - log[0]["seconds"]
    lag, learn_seconds = (
        statistics.fmean(record[name] for record in log) for name in ("lag", "learn_seconds")
    )
    return {
        "updates_per_second": round((len(log) - 1) / seconds, 3),
        "fragment_bytes_per_update": log[-1]["fragment_bytes"],
        "weight_bytes": log[-1]["weight_bytes"],
        "lag_mean": round(lag, 3),
        "lag_max": max(record["lag_max"] for record in log),
        "learn_seconds": round(learn_seconds, 4),
    }


def curve(log: list[dict[str, Any]]) -> list[list[float]]:
    """Return the learning curve as a list of points; a long curve is thinned to 200 to 400 points.

    A point is [seconds since the first update, environment steps, mean return of recent episodes].
    """
    by_seed = [record | {name: [record[name]] for name in ("return", "episodes")} for record in log]
    found = [
        [round(record["seconds"] - log[0]["seconds"], 2), record["steps"], round(float(mean), 3)]
        for record, (mean,) in zip(log, points(by_seed, EPISODES)[1], strict=True)
        if not math.isnan(mean)
    ]
    return found[:: max(len(found) // 200, 1)]


def below(root: int) -> Iterator[tuple[int, str]]:
    """Yield the process id and the command line of each descendant of process `root`."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # raised if the process has ended in the meantime
            process = int(folder.name)
            parents[process] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[process] = (folder / "cmdline").read_text().replace("\0", " ")
    for process in names:
        above = process
        while above in parents and above != root:
            above = parents[above]
        if above == root and process != root:
            yield process, names[process]


def running(processes: set[int]) -> list[int]:
    """Return the processes that still run; zombies do not count."""
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            found += [process] if state != "Z" else []
    return found


def is_called(title: str, name: str) -> bool:
    """Return whether the title of a process is `name` or `name.method`, as Ray names its actors."""
    return title.split()[:1] != [] and title.split()[0].partition(".")[0] == name


def faults(actors: int, killing: bool, seed: int, mode: str = "sync") -> dict[str, Any]:
    """Train for `FAULT_STEPS` steps; return the evaluation, lost actors and leftover processes.

    With `killing`, kill an actor of Ray for each name in `KINDS[mode]`, one after another.
    """
    events, started, begun = [], set(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        length = ("--no-anneal", "--total-steps", str(FAULT_STEPS))
        flags = ("--seed", str(seed), *length)
        process = train("SlowCartPole-v0", actors, mode, out, flags)
        printed: list[str] = []
        reader = threading.Thread(target=lambda: printed.extend(process.stdout or ()), daemon=True)
        reader.start()
        for i, name in enumerate(KINDS[mode], 1):
            target = i / (len(KINDS[mode]) + 1) * FAULT_STEPS
            wait_for(
                lambda t=target: bool(records(out)) and records(out)[-1]["steps"] > t,
                process,
                400,
                printed,
            )
            started |= {child for child, _ in below(process.pid)}
            if killing:
                victim = next(c for c, title in below(process.pid) if is_called(title, name))
                os.kill(victim, signal.SIGKILL)
                events.append({"killed": name, "after_update": records(out)[-1]["update"]})
        while process.poll() is None:
            started |= {child for child, _ in below(process.pid)}
            time.sleep(0.2)
        reader.join()
        log, result = records(out), json.loads((out / "eval.json").read_text())
    ended = time.monotonic()
    while (left := running(started)) and time.monotonic() - ended < 60:
        time.sleep(0.1)
    return {
        "killing": killing,
        "seed": seed,
        "mode": mode,
        "actors": actors,
        "events": events,
        "exit_code": process.returncode,
        "evaluation": {name: result[name] for name in ("episodes", "mean_return")},
        "steps": log[-1]["steps"],
        "actors_lost": log[-1]["actors_lost"],
        "learners_lost": log[-1]["learners_lost"],
        "replays_lost": log[-1].get("replays_lost", 0),
        "seconds_with_start_and_evaluation": round(ended - begun, 1),
        "processes_seen": len(started),
        "processes_left": len(left),
        "seconds_until_all_had_ended": round(time.monotonic() - ended, 1),
        "told": [line.strip() for line in printed if "is replaced" in line],
    }


def draw(file: Path, runs: list[dict[str, Any]]) -> None:
    """Draw learning curves: a panel for each environment, a line for each number of actors."""
    picture, panels = figure((9.0, 3.6), 1, 2)
    for panel, (env, title) in zip(panels, TITLES.items(), strict=True):
        shown = [run for run in runs if run["world"] == env and run["mode"] == "async"]
        for run in shown:
            seconds, _, returns = zip(*run["curve"], strict=True)
            plural = "" if run["actors"] == 1 else "s"
            label = f"{run['actors']} actor{plural}: {run['samples_per_second']:,.0f} samples/s"
            panel.plot(seconds, returns, linewidth=1.4, label=label)
        panel.set(title=title, xlabel="seconds of training", ylabel="return of finished episodes")
        panel.legend(frameon=False, fontsize=8)
    picture.savefig(file, format="png")


def measure(out: Path, seconds: float, envs: Sequence[str], modes: Sequence[str]) -> None:
    """Make the runs whose records the file `out` lacks, one after another."""
    packages = ("jax", "jaxlib", "numpy", "gymnasium", "ray", "crafter")
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in packages},
        "seconds": seconds,
        "runs": [],
        "faults": [],
    }
    if out.is_file():
        found |= json.loads(out.read_text())

    def keep(where: str, make: Callable[..., dict[str, Any]], **asked: Any) -> None:
        if any(asked.items() <= record.items() for record in found[where]):
            return
        what = make(**asked) | {"load_average": round(os.getloadavg()[0], 1)}
        found[where].append(what)
        out.write_text(json.dumps(found) + "\n")
        print({name: value for name, value in what.items() if name != "curve"}, flush=True)

    for env, mode, actors in itertools.product(envs, modes, ACTORS):
        keep("runs", measured, world=env, actors=actors, mode=mode, seconds=seconds)
    if "SlowCartPole-v0" in envs:
        of_faults = ("sync" if mode == "async" else mode for mode in modes)
        for mode, seed, killing in itertools.product(of_faults, FAULT_SEEDS, (False, True)):
            keep("faults", faults, actors=max(ACTORS), killing=killing, seed=seed, mode=mode)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Make the runs that the file of `--out` lacks; write results after each run; draw if asked."""
    parser = Parser("python -m jaxenvs.benchmarks.scaling_ray", __doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=60.0, help="seconds of each run")
    add("--envs", nargs="*", choices=list(TITLES), default=list(TITLES))
    add("--modes", nargs="*", choices=["async", "apex"], default=["async", "apex"])
    add("--out", type=Path, default=Path("ray.json"))
    add("--picture", type=Path)
    add("--only-draw", action="store_true", help="only draw the results in --out")
    given = parser.parse_args(argv)
    if not given.only_draw:
        measure(given.out, given.seconds, given.envs, given.modes)
    if given.picture:
        draw(given.picture, json.loads(given.out.read_text())["runs"])
