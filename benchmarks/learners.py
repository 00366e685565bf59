"""PPO on CartPole: steps per second of training, beside PureJaxRL, rejax and Stable-Baselines3.

    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --json learners.json

And what is learned, with 16 seeds each, and with 64 where seeds differ much:

    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --settings "4 x 128" "64 x 128" \
        --learners jaxenvs purejaxrl rejax --repeats 15 --json learners_beside.json
    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --settings "64 x 128" \
        --learners jaxenvs purejaxrl rejax --repeats 63 --json learners_64_seeds.json

Each learner runs in a separate process, and they train in turns, one at a time, all on the same
core. A training is everything from a seed to trained weights; the first of each process also
compiles, and stands apart. Seconds are processor time, which equals wall time on a core that
nothing else uses; wall time is recorded, too. A ratio is the median over neighbouring
turns. Learners that are missing are named.
"""

import dataclasses
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from jaxenvs.commands.parser import number

from . import contestants, instrument, learner_peers, throughput
from .learner_peers import EQUAL, OWN, Setting
from .tables.training import compared, scores

TORCH = "stable-baselines3"  # whose trainings are shorter
NAMES = ("jaxenvs", "jaxenvs, shared", "purejaxrl", "rejax", TORCH)
SETTINGS = (*(setting.name for setting in EQUAL), "own")
PACKAGES = ("flax", "optax", "distrax", "gymnax", "rejax", "stable-baselines3", "torch")


@dataclasses.dataclass
class Record:
    """One learner with one setting."""

    learner: str
    setting: Setting
    first_seconds: float  # the first training, with all that is compiled
    seconds: list[float] = dataclasses.field(default_factory=list)  # of each other one
    walls: list[float] = dataclasses.field(default_factory=list)  # the same by the clock
    last_returns: list[float | None] = dataclasses.field(default_factory=list)  # of each seed
    evaluations: list[float | None] = dataclasses.field(default_factory=list)  # of each seed

    def add(self, told: dict[str, Any]) -> None:
        """Note what was learned in one more training."""
        self.last_returns.append(told["last_return"])
        self.evaluations.append(told["evaluation"])

    def as_dict(self) -> dict[str, Any]:
        """Everything, the raw times included; the first training also compiled."""
        usual, steps = statistics.median(self.seconds), self.setting.steps
        return dataclasses.asdict(self) | {
            "steps_per_second": round(steps / usual),
            "first_steps_per_second": round(steps / self.first_seconds),
            "compile_seconds": round(self.first_seconds - usual, 1),
        }


class Learner:
    """A process that trains on request; it has trained once when it is made.

    Raises `ImportError` or `LookupError` where the learner is missing, `BrokenProcessPool` where
    the process dies.
    """

    def __init__(self, name: str, setting: Setting, clone: Path | None) -> None:
        self.process = ProcessPoolExecutor(1, get_context("spawn"), learner_peers.on_cpu)
        self._asked, self.seed = (name, setting, clone), 0
        first = self.train()
        self.record = Record(name, setting, first["seconds"])
        self.record.add(first)

    def train(self) -> dict[str, Any]:
        """Train with the next seed; return the seconds and the return of the last episodes."""
        told = self.process.submit(learner_peers.train, *self._asked, self.seed)
        self.seed += 1
        return told.result()

    def close(self) -> None:
        """End the process."""
        self.process.shutdown()


def measure(
    group: dict[str, Setting], clone: Path | None, repeats: int, missing: list[dict[str, str]]
) -> list[Record]:
    """Let the learners of a group train in turns; note who was missing."""
    learners: list[Learner] = []
    try:
        for name, setting in group.items():
            try:
                learners.append(Learner(name, setting, clone))
            except (BrokenProcessPool, ImportError, LookupError) as error:
                missing.append({"learner": name, "reason": str(error.args[0])})
        for _ in range(repeats):
            for learner in learners:
                told = learner.train()
                learner.record.seconds.append(told["seconds"])
                learner.record.walls.append(told["wall"])
                learner.record.add(told)
    finally:
        for learner in learners:
            learner.close()
    return [learner.record for learner in learners]


def groups(
    settings: Sequence[str], names: Sequence[str], steps: int, torch_steps: int
) -> Iterator[dict[str, Setting]]:
    """Of the chosen settings those that are equal for all, then what each comes with."""

    def lasting(name: str, setting: Setting) -> Setting:
        return setting.lasting(torch_steps if name == TORCH else steps)

    for setting in EQUAL:
        if setting.name in settings:
            yield {name: lasting(name, setting) for name in names}
    if "own" in settings:
        yield {name: lasting(name, setting) for name, setting in OWN.items() if name in names}


def about(clone: Path | None) -> dict[str, Any]:
    """What the figures depend on beside their settings; of a clone its commit."""
    versions = contestants.versions(PACKAGES)
    if clone is not None:
        asked = ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        versions["purejaxrl"] = told.stdout.strip() or "unknown"
    trainings = {"device": "cpu", "compilation_cache": False, "versions": versions}
    return {**throughput.about(), **trainings}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = instrument.parser("learners", __doc__)
    add = parser.add_argument
    add("--learners", nargs="+", default=NAMES, choices=NAMES, help="default: all")
    add("--settings", nargs="+", default=SETTINGS, choices=SETTINGS, help="default: all")
    add("--purejaxrl", type=Path, metavar="PATH", help="a clone of luchris429/purejaxrl")
    some = number(1, 2**31 - 1)
    add("--steps", type=some, default=500_000, help="steps of a training (default: %(default)s)")
    add("--torch-steps", type=some, default=25_000, help="those of torch (default: %(default)s)")
    add("--repeats", type=some, default=3, help="trainings after the first (default: %(default)s)")
    args = parser.parse_args(argv)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # for the processes, too
    records: list[Record] = []
    missing: list[dict[str, str]] = []
    told = about(args.purejaxrl)
    for group in groups(args.settings, args.learners, args.steps, args.torch_steps):
        records += measure(group, args.purejaxrl, args.repeats, missing)
        told |= {"load_after": os.getloadavg()[0], "missing": missing}
        figures = {**told, "rows": [record.as_dict() for record in records]}
        instrument.write(args.json, figures)  # now: a run that is cut short leaves what it has
    figures = [record.as_dict() for record in records]
    print(compared(figures).plain(), scores(figures).plain(), sep="\n\n")
    for learner in {note["learner"]: note for note in missing}.values():
        print(f"{learner['learner']}: {learner['reason']}", file=sys.stderr)
