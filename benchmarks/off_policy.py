"""Off-policy learners beside Stable-Baselines3 and SBX: returns of each seed, and steps per second.

    python -m jaxenvs.benchmarks.off_policy --sbx-python venv/bin/python --json off_policy.json

`--sbx-python` is a Python that has stable-baselines3, sb3-contrib and sbx-rl. SAC, TD3, TQC and
CrossQ learn Pendulum; DQN and QR-DQN learn CartPole and MountainCar, with equal settings and steps:
those of RL Baselines3 Zoo, but two layers of 64 (`--sizes`), and 8,000 steps of Pendulum.

Each learner runs in a separate process, and they train in turns, one at a time, all on the same
core. Steps per second are those of the processor after everything is compiled, from a quarter of
the training on; wall time is recorded, too. With 16 environments a round makes 16 steps, and there
are as many gradient steps for a round as with one.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxenvs.commands.parser import number

from . import contestants, instrument, off_policy_peers, throughput
from .tables.training import off_policy

PEERS = Path(off_policy_peers.__file__)
NAMES = ("jaxenvs", "sb3", "sbx")
PACKAGES = ("flax", "optax")
ASK_VERSIONS = """
import importlib.metadata as found, json
names = ("stable-baselines3", "sb3-contrib", "sbx-rl", "torch", "gymnasium", "jax", "flax", "numpy")
there = {each.metadata["Name"].lower().replace("_", "-"): each.version
         for each in found.distributions()}
print(json.dumps({name: there.get(name, "not installed") for name in names}))
"""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every learner is told."""

    algorithm: str
    env: str  # of Gymnasium, and an alias here
    steps: int
    learning_rate: float
    gamma: float
    batch_size: int
    capacity: int
    hidden: tuple[int, ...] = (64, 64)
    warm_up: int = 1_000
    num_envs: int = 1
    rollout_steps: int = 1  # rounds between two updates
    gradient_steps: int = 1  # of an update
    target_steps: int = 0  # between copies of the weights, where values are learned
    epsilon_end: float = 0.0
    epsilon_share: float = 0.0
    quantiles: int = 0

    @property
    def name(self) -> str:
        """Of the command line and the tables."""
        return f"{self.algorithm} {self.env}"

    @property
    def mark(self) -> int:
        """Steps after which the clock counts."""
        return max(2 * self.warm_up, self.steps // 4)

    def among(self, num_envs: int, steps: int | None) -> "Setting":
        """The same with other environments and steps; an update keeps its rounds.

        A short trial also begins to learn early.
        """
        steps = self.steps if steps is None else steps
        return dataclasses.replace(
            self,
            num_envs=num_envs,
            steps=steps,
            warm_up=max(num_envs, min(self.warm_up, steps // 4)),
        )


PENDULUM = {"env": "Pendulum-v1", "steps": 8_000, "learning_rate": 1e-3, "gamma": 0.99}
PENDULUM |= {"batch_size": 256, "capacity": 1_000_000}
CARTPOLE = {
    **{"env": "CartPole-v1", "steps": 50_000, "learning_rate": 2.3e-3, "gamma": 0.99},
    **{"batch_size": 64, "capacity": 100_000, "rollout_steps": 256, "gradient_steps": 128},
    **{"target_steps": 10, "epsilon_share": 0.16, "epsilon_end": 0.04, "quantiles": 10},
}
MOUNTAIN = {
    **{"env": "MountainCar-v0", "steps": 120_000, "learning_rate": 4e-3, "gamma": 0.98},
    **{"batch_size": 128, "capacity": 10_000, "rollout_steps": 16, "gradient_steps": 8},
    **{"target_steps": 600, "epsilon_share": 0.2, "epsilon_end": 0.07, "quantiles": 25},
}
SETTINGS = (
    *(Setting(algorithm=name, **PENDULUM) for name in ("sac", "td3", "tqc", "crossq")),
    *(Setting(algorithm=n, **task) for task in (CARTPOLE, MOUNTAIN) for n in ("dqn", "qr-dqn")),
)


class Learner:
    """A process that trains on request; `LookupError` where its package is missing."""

    def __init__(self, name: str, setting: Setting, python: str) -> None:
        self.name, self.setting = name, setting
        self.trainings: list[dict[str, Any]] = []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable if name == "jaxenvs" else python, str(PEERS)]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        self._process: Any = subprocess.Popen(command, env=environment, **pipes)
        self._send({"learner": name, "setting": {**vars(setting), "mark": setting.mark}})
        if reason := self._answer()["missing"]:
            self.close()
            raise LookupError(reason)

    def train(self, seed: int) -> None:
        """Train with a seed and keep what it tells."""
        self._send(seed)
        self.trainings.append({"seed": seed, **self._answer()})

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def as_dict(self) -> dict[str, Any]:
        """Everything, each training included; speed is the median over the seeds."""
        speeds = [told["warm_steps"] / told["warm_seconds"] for told in self.trainings]
        return {
            "learner": self.name,
            "setting": {**dataclasses.asdict(self.setting), "name": self.setting.name},
            "steps_per_second": round(statistics.median(speeds), 1),
            "trainings": self.trainings,
        }

    def _send(self, asked: Any) -> None:
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"{self.name}, {self.setting.name}: its process ended with {code}")
        return json.loads(line)


def measure(
    setting: Setting,
    names: Sequence[str],
    python: str | None,
    seeds: int,
    missing: list[dict[str, str]],
) -> list[dict[str, Any]]:
    """Let the learners train in turns, seed by seed; note who was missing."""
    learners: list[Learner] = []
    try:
        for name in names:
            try:
                if name != "jaxenvs" and python is None:
                    raise LookupError("give --sbx-python, a Python that has it")
                learners.append(Learner(name, setting, python or ""))
            except (LookupError, OSError) as error:
                missing.append({"learner": f"{name}, {setting.name}", "reason": str(error)})
        for seed in range(seeds):
            for learner in learners:
                learner.train(seed)
    finally:
        for learner in learners:
            learner.close()
    return [learner.as_dict() for learner in learners]


def about(python: str | None) -> dict[str, Any]:
    """What the figures depend on beside their settings; versions of the peers are of their own."""
    told = {"compilation_cache": False, "versions": contestants.versions(PACKAGES)}
    if python is not None:
        found = subprocess.run([python, "-c", ASK_VERSIONS], capture_output=True, text=True)
        if found.returncode:
            raise LookupError(f"--sbx-python {python}: {found.stderr.strip().splitlines()[-1]}")
        told["peers"] = json.loads(found.stdout)
    return {**throughput.about(), **told}


def size(text: str) -> dict[str, Any]:
    """Fields of a setting from WIDTHxBATCH."""
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a width and a batch, such as 64x256")
    width, batch = map(int, text.split("x"))
    return {"hidden": (width, width), "batch_size": batch}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = instrument.parser("off_policy", __doc__)
    add, some = parser.add_argument, number(1, 2**31 - 1)
    names = [setting.name for setting in SETTINGS]
    add("--sbx-python", metavar="PATH", help="a Python with stable-baselines3, sb3-contrib, sbx-rl")
    add("--learners", nargs="+", default=NAMES, choices=NAMES, help="default: all")
    add("--settings", nargs="+", default=names, choices=names, help="default: all")
    add("--envs", nargs="+", type=some, default=[1, 16], help="environments (default: 1 16)")
    add("--seeds", type=some, default=10, help="trainings of each (default: %(default)s)")
    sizes = "widths of both layers and steps of a gradient step (default: those of the setting)"
    add("--sizes", nargs="+", type=size, metavar="WIDTHxBATCH", default=[{}], help=sizes)
    add("--steps", type=some, help="steps of each training (default: those of the setting)")
    args = parser.parse_args(argv)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # for the processes, too
    told, rows, missing = about(args.sbx_python), [], []
    for setting in (each for each in SETTINGS if each.name in args.settings):
        for sized, num_envs in itertools.product(args.sizes, args.envs):
            chosen = dataclasses.replace(setting, **sized).among(num_envs, args.steps)
            rows += measure(chosen, args.learners, args.sbx_python, args.seeds, missing)
            told |= {"load_after": os.getloadavg()[0], "missing": missing}
            # Now: a run that is cut short leaves what it has.
            instrument.write(args.json, {**told, "rows": rows})
    print(off_policy({"rows": rows}).plain())
    for note in missing:
        print(f"{note['learner']}: {note['reason']}", file=sys.stderr)
