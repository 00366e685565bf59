"""Jobs of the command `card` for the standard experiment that compares curricula over mazes.

Each method trains ten seeds for 245.8 M steps in `Grid-AMaze-13x13-v0` with the preset `standard`,
in slices: parts of a run that take a few minutes each, see training.py. Then its policies play
10,000 solvable levels, see `jaxenvs eval --worst`.
"""

import json
from collections.abc import Callable
from pathlib import Path

from ..tables.card import SCORES
from .results import Records, Work
from .training import sliced

ID, SEEDS, LEVELS = "Grid-AMaze-13x13-v0", 10, 10_000
ACCEL = "--algo plr --score maxmc --edits 20 --replay-prob 0.8 --staleness 0.5"
# Name of a method -> flags of `jaxenvs train`.
METHODS = {
    "dr": "--algo ppo-rnn",
    **{f"plr-{score}": f"--algo plr --score {score}" for score in SCORES},
    "accel-maxmc": ACCEL,
    "sfl": "--algo sfl",
}
LATER = ["--eval-episodes", "1024", "--checkpoint-every", "1024"]
TINY = "--num-envs 4 --rollout-steps 16 --minibatches 2 --hidden 8 --memory 4 --chunk 1 --seeds 2"
TINY += " --set size=6 walls=4 --param max_steps_in_episode=16"
TINY_OF = {"plr": "--buffer 8", "sfl": "--candidates 4 --candidate-envs 4 --candidate-steps 16"}
TINY_OF["sfl"] += " --kept 2"
TINY_END = "--total-steps 256 --eval-episodes 4"


def job(name: str) -> Callable[[Work], None]:
    """Return the function of the job that trains a method and evaluates its policies."""
    flags = METHODS[name]
    words = f"{ID} {flags} --preset standard --seeds {SEEDS}".split()
    tiny = f"{ID} {flags} {TINY} {TINY_OF.get(flags.split()[1], '')} {TINY_END}".split()
    return sliced([*words, *LATER], LATER, tiny, judged)


def judged(path: Path) -> Records:
    """Evaluate the policies of a finished run on solvable levels; return a record for each seed."""
    from jaxenvs.baselines.evaluation import command
    from jaxenvs.baselines.storage.runs import Run

    config = Run.open(path).config
    count = LEVELS if config.seeds == SEEDS else 100
    file = path / "eval-worst.json"
    code = command.main([str(path), "--worst", str(count), "--json", str(file)])
    if code:
        raise RuntimeError(f"jaxenvs eval {path} --worst {count}: exit code {code}; see above")
    found = json.loads(file.read_text("utf-8"))
    case = {"part": "judged", "id": config.id, "num_envs": config.settings["num_envs"]}
    return [
        {**case, "seed": seed["seed"], "mean_return": seed["here"]["mean_return"], **seed["worst"]}
        for seed in found["seeds"]
    ]
