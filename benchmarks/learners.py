"""PPO on CartPole compared with PureJaxRL, rejax and Stable-Baselines3: speed and returns.

    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --json learners.json

These commands measure returns over 16 seeds, and over 64 seeds for the setting in which returns
differ much between seeds:

    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --settings "4 x 128" "64 x 128" \
        --learners jaxenvs purejaxrl rejax --repeats 15 --json learners_beside.json
    python -m jaxenvs.benchmarks.learners --purejaxrl CLONE --settings "64 x 128" \
        --learners jaxenvs purejaxrl rejax --repeats 63 --json learners_64_seeds.json

Each learner has a separate process. The learners train in turns, one at a time, all on the same
core. A training run takes a seed and returns weights. The first run of each process includes
compilation and is reported separately. Seconds are CPU time, which equals wall time on an otherwise
idle core; wall time is recorded too. The ratio of two learners is the median of the ratios of
neighbouring turns. Learners that are not installed are listed as missing.
"""

import dataclasses
import functools
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.commands.parser import number

from .harness import contestants, instrument, trainings
from .peers.ppo import EQUAL, OWN, Setting
from .tables.training import compared, scores

# Slow learner, which trains for fewer steps (`--torch-steps`) than the other learners (`--steps`).
TORCH = "stable-baselines3"
NAMES = ("jaxenvs", "jaxenvs, shared", "purejaxrl", "rejax", TORCH)
SETTINGS = (*(setting.name for setting in EQUAL), "own")
PACKAGES = ("flax", "optax", "distrax", "gymnax", "rejax", "stable-baselines3", "torch")
COMMAND = (sys.executable, str(Path(__file__).parent), "peers.ppo")


def measure(
    group: dict[str, Setting], clone: Path | None, repeats: int, missing: list[dict[str, str]]
) -> list[dict[str, Any]]:
    """Train the learners of a group in turns; return a row of figures for each learner.

    Learners that are not available are added to `missing`.
    """

    def start(label: str, setting: Setting) -> trainings.Learner:
        asked = {"learner": label, "setting": vars(setting), "clone": clone and str(clone)}
        return trainings.Learner(label, COMMAND, asked)

    builders = {name: functools.partial(start, setting=s) for name, s in group.items()}
    made = trainings.take_turns(builders, 1 + repeats, missing)
    return [row(name, group[name], found) for name, found in made.items()]


def row(name: str, setting: Setting, made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a learner's row of figures, from the figures `made` of its training runs.

    The first run, which includes compilation, is reported separately.
    """
    first, *others = made
    seconds = [training["seconds"] for training in others]
    usual = statistics.median(seconds)
    return {
        "learner": name,
        "setting": dataclasses.asdict(setting),
        "first_seconds": first["seconds"],
        "seconds": seconds,
        "walls": [training["wall"] for training in others],
        "last_returns": [training["last_return"] for training in made],
        "evaluations": [training["evaluation"] for training in made],
        "steps_per_second": round(setting.steps / usual),
        "first_steps_per_second": round(setting.steps / first["seconds"]),
        "compile_seconds": round(first["seconds"] - usual, 1),
    }


def groups(
    settings: Sequence[str], names: Sequence[str], steps: int, torch_steps: int
) -> Iterator[dict[str, Setting]]:
    """Yield groups of learners to compare; a group maps each learner to its setting.

    For each chosen setting of `EQUAL` there is one group, in which all learners have this setting.
    For the choice `own` there is one group, in which each learner has its own defaults.
    """

    def lasting(name: str, setting: Setting) -> Setting:
        return setting.lasting(torch_steps if name == TORCH else steps)

    for setting in EQUAL:
        if setting.name in settings:
            yield {name: lasting(name, setting) for name in names}
    if "own" in settings:
        yield {name: lasting(name, setting) for name, setting in OWN.items() if name in names}


def about(clone: Path | None) -> dict[str, Any]:
    """Return the header of the results: machine, versions and the commit of PureJaxRL's `clone`."""
    versions = contestants.versions(PACKAGES)
    if clone is not None:
        command = ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        versions["purejaxrl"] = done.stdout.strip() or "unknown"
    apart = {"device": "cpu", "compilation_cache": False, "versions": versions}
    return {**instrument.about(), **apart}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("learners", __doc__)
    add = parser.add_argument
    add("--learners", nargs="+", default=NAMES, choices=NAMES, help="default: all")
    add("--settings", nargs="+", default=SETTINGS, choices=SETTINGS, help="default: all")
    add("--purejaxrl", type=Path, metavar="PATH", help="a clone of luchris429/purejaxrl")
    some = number(1, 2**31 - 1)
    add("--steps", type=some, default=500_000, help="steps of a training (default: %(default)s)")
    add("--torch-steps", type=some, default=25_000, help="steps with torch (default: %(default)s)")
    add("--repeats", type=some, default=3, help="trainings after the first (default: %(default)s)")
    args = parser.parse_args(argv)
    instrument.use_one_core()
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    figures = about(args.purejaxrl)
    for group in groups(args.settings, args.learners, args.steps, args.torch_steps):
        rows += measure(group, args.purejaxrl, args.repeats, missing)
        figures |= {"load_after": os.getloadavg()[0], "missing": missing, "rows": rows}
        # Write the file after every group, so that an interrupted run keeps the complete groups.
        instrument.write(args.json, figures)
    print(compared(rows).plain(), scores(rows).plain(), sep="\n\n")
    for learner in {note["learner"]: note for note in missing}.values():
        print(f"{learner['learner']}: {learner['reason']}", file=sys.stderr)
