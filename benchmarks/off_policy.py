"""Off-policy learners compared with Stable-Baselines3 and SBX: returns by seed, steps per second.

    python -m jaxenvs.benchmarks.off_policy --sbx-python venv/bin/python --json off_policy.json

`--sbx-python` is a Python with stable-baselines3, sb3-contrib and sbx-rl. SAC, TD3, TQC and CrossQ
learn Pendulum; DQN and QR-DQN learn CartPole and MountainCar. All learners have the same settings
and number of steps. These settings come from RL Baselines3 Zoo, except for the two layers of 64
units (`--sizes`) and the 8,000 steps of Pendulum.

Each learner has a separate process. The learners train in turns, one at a time, all on the same
core. Steps per second are per second of CPU time, measured after the first quarter of the training,
when everything is compiled; wall time is recorded too. With 16 environments an iteration makes 16
environment steps; its number of gradient steps is the same as with one environment.
"""

import argparse
import dataclasses
import functools
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

from .harness import contestants, instrument, trainings
from .peers import off_policy as off_policy_peers
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
    """Task and hyperparameters with which all compared learners train."""

    algorithm: str
    env: str  # Gymnasium's id, which this library accepts as an alias
    steps: int
    learning_rate: float
    gamma: float
    batch_size: int
    capacity: int
    hidden: tuple[int, ...] = (64, 64)
    warm_up: int = 1_000
    num_envs: int = 1
    # Number of iterations per update. In each iteration, every environment makes one step.
    rollout_steps: int = 1
    gradient_steps: int = 1  # gradient steps per update
    # Environment steps between two updates of the target network (DQN and QR-DQN only).
    target_steps: int = 0
    epsilon_end: float = 0.0
    epsilon_share: float = 0.0
    quantiles: int = 0

    @property
    def name(self) -> str:
        """Name of the setting in command-line options and tables: its algorithm and environment."""
        return f"{self.algorithm} {self.env}"

    @property
    def mark(self) -> int:
        """Number of environment steps after which the measurement of speed starts."""
        return max(2 * self.warm_up, self.steps // 4)

    def among(self, num_envs: int, steps: int | None) -> "Setting":
        """Return the setting with `num_envs` environments and `steps` steps.

        If `steps` is None, the number of steps does not change. The warm-up becomes at most a
        quarter of the steps, but at least one step per environment.
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


def measure(
    setting: Setting,
    names: Sequence[str],
    python: str | None,
    seeds: int,
    missing: list[dict[str, str]],
) -> list[dict[str, Any]]:
    """Train the learners in turns, seed by seed; return a row of figures for each learner.

    Learners that are not available are added to `missing`.
    """

    def start(label: str, name: str) -> trainings.Learner:
        if name != "jaxenvs" and python is None:
            raise LookupError("give --sbx-python, a Python with this package")
        command = [sys.executable if name == "jaxenvs" else python or "", str(PEERS)]
        asked = {"learner": name, "setting": {**vars(setting), "mark": setting.mark}}
        return trainings.Learner(label, command, asked)

    labels = {f"{name}, {setting.name}": name for name in names}
    builders = {label: functools.partial(start, name=name) for label, name in labels.items()}
    made = trainings.take_turns(builders, seeds, missing)
    return [row(labels[label], setting, found) for label, found in made.items()]


def row(name: str, setting: Setting, made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a learner's row of the results.

    The row has the figures `made` of all training runs, one for each seed, and their median speed.
    """
    speeds = [training["warm_steps"] / training["warm_seconds"] for training in made]
    return {
        "learner": name,
        "setting": {**dataclasses.asdict(setting), "name": setting.name},
        "steps_per_second": round(statistics.median(speeds), 1),
        "trainings": made,
    }


def about(python: str | None) -> dict[str, Any]:
    """Return the header of the results: machine and package versions.

    `python` is the interpreter in which the peers are installed, or None. Raises `LookupError` if
    the interpreter fails.
    """
    made = {"compilation_cache": False, "versions": contestants.versions(PACKAGES)}
    if python is not None:
        found = subprocess.run([python, "-c", ASK_VERSIONS], capture_output=True, text=True)
        if found.returncode:
            raise LookupError(f"--sbx-python {python}: {found.stderr.strip().splitlines()[-1]}")
        made["peers"] = json.loads(found.stdout)
    return {**instrument.about(), **made}


def size(text: str) -> dict[str, Any]:
    """Parse WIDTHxBATCH (layer width, batch size) into fields of a setting."""
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a width and a batch, such as 64x256")
    width, batch = map(int, text.split("x"))
    return {"hidden": (width, width), "batch_size": batch}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("off_policy", __doc__)
    add, some = parser.add_argument, number(1, 2**31 - 1)
    names = [setting.name for setting in SETTINGS]
    add("--sbx-python", metavar="PATH", help="a Python with stable-baselines3, sb3-contrib, sbx-rl")
    add("--learners", nargs="+", default=NAMES, choices=NAMES, help="default: all")
    add("--settings", nargs="+", default=names, choices=names, help="default: all")
    add("--envs", nargs="+", type=some, default=[1, 16], help="environments (default: 1 16)")
    add("--seeds", type=some, default=10, help="trainings of each (default: %(default)s)")
    sizes = "width of both layers and batch size (default: those of the setting)"
    add("--sizes", nargs="+", type=size, metavar="WIDTHxBATCH", default=[{}], help=sizes)
    add("--steps", type=some, help="steps of each training (default: those of the setting)")
    args = parser.parse_args(argv)
    instrument.use_one_core()
    figures, rows, missing = about(args.sbx_python), [], []
    for setting in (each for each in SETTINGS if each.name in args.settings):
        for sized, num_envs in itertools.product(args.sizes, args.envs):
            chosen = dataclasses.replace(setting, **sized).among(num_envs, args.steps)
            rows += measure(chosen, args.learners, args.sbx_python, args.seeds, missing)
            figures |= {"load_after": os.getloadavg()[0], "missing": missing, "rows": rows}
            # Write the file after every comparison, so that an interrupted run keeps the complete
            # ones.
            instrument.write(args.json, figures)
    print(off_policy({"rows": rows}).plain())
    for note in missing:
        print(f"{note['learner']}: {note['reason']}", file=sys.stderr)
