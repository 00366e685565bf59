"""Curricula over levels on a CPU: domain randomisation, PLR with each score, ACCEL and SFL.

python -m jaxenvs.benchmarks.curricula --out runs/curricula

The command trains each method in mazes of 9 x 9 cells with 20 walls and a time limit of 100 steps.
All methods use the same feed-forward network. The command then evaluates the policies on solvable
levels, see `jaxenvs eval --worst`. A method whose directory has an evaluation is left out, so the
command continues an interrupted series. Record the runs with
`python -m jaxenvs.baselines.evaluation.record`.
"""

import sys
from pathlib import Path

from jaxenvs.commands.parser import Parser, number

MAZES = "Grid-AMaze-13x13-v0 --set size=11 walls=20 --param max_steps_in_episode=100"
COMMON = "--rollout-steps 100 --num-envs 32 --minibatches 4 --hidden 64 64 --embed 16 --chunk 4"
COMMON += " --learning-rate 5e-4 --no-anneal"
PLR = "--algo plr --memory 0 --buffer 500"
SFL = "--algo sfl --memory 0 --candidates 500 --candidate-envs 100 --candidate-steps 200 --kept 100"
SCORES = ("pvl", "maxmc", "l1", "learnability", "regret")
# Name of the method -> flags of `jaxenvs train`.
METHODS = {
    "dr": "",
    **{f"plr-{score}": f"{PLR} --score {score}" for score in SCORES},
    "accel-maxmc": f"{PLR} --score maxmc --edits 5 --replay-prob 0.8",
    "sfl": f"{SFL} --every 50",
}


def main(argv: list[str]) -> int:
    """Train and evaluate the methods; return the exit code."""
    from jaxenvs.baselines.evaluation import command
    from jaxenvs.baselines.run import train

    parser = Parser("python -m jaxenvs.benchmarks.curricula", str(__doc__))
    parser.add_argument("--out", type=Path, default=Path("runs/curricula"), metavar="DIR")
    parser.add_argument("--steps", type=number(1, 10**9), default=800_000, metavar="N")
    parser.add_argument("--seeds", type=number(1, 100), default=5, metavar="N")
    parser.add_argument("--levels", type=number(100, 10**6), default=1000, metavar="N")
    parser.add_argument("--only", choices=METHODS, nargs="*", default=list(METHODS))
    args = parser.parse_args(argv)
    for name in args.only:
        run = args.out / name
        sizes = f"--seeds {args.seeds} --total-steps {args.steps} --overwrite"
        if not (run / "eval.json").is_file():
            words = f"{MAZES} {COMMON} {METHODS[name]} {sizes} --out {run}".split()
            if code := train.main(words):
                return code
        found = run / "eval-worst.json"
        if not found.is_file():
            words = [str(run), "--worst", str(args.levels), "--json", str(found)]
            if code := command.main(words):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
