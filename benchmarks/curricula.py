"""Train curricula over levels on a CPU: domain randomisation, PLR, ACCEL and SFL.

python -m jaxenvs.benchmarks.curricula --out runs/curricula

The command trains each method in mazes of 9 x 9 cells with 20 walls and a time limit of 100 steps;
PLR once with each of its level scores. All methods use the same feed-forward network. The command
then evaluates the policies on solvable levels, see `jaxenvs eval --worst`. After several numbers of
steps of domain randomisation, it also measures how well each level score of PLR predicts the true
regret of a level, see level_scores.py.

Each seed is a separate run in OUT/METHOD/STEPS/SEED. On a CPU, separate runs are faster than one
run of all seeds. Robust PLR makes no gradient steps in updates that only score new levels. Under
`vmap` over seeds, `lax.cond` computes both of its branches, so these steps would cost time.

The command continues interrupted runs. Two commands with different methods in --only can run at the
same time. Record the runs with `python -m jaxenvs.baselines.evaluation.record`. Pin the process to
one core (`taskset -c 0`) to repeat figures exactly: sums depend on the number of threads.
"""

import json
import sys
from pathlib import Path

from jaxenvs.commands.parser import Parser, number

MAZES = "Grid-AMaze-13x13-v0 --set size=11 walls=20 --param max_steps_in_episode=100"
COMMON = "--rollout-steps 100 --num-envs 32 --minibatches 4 --hidden 64 64 --embed 16 --chunk 20"
COMMON += " --learning-rate 5e-4 --no-anneal"
PLR = "--algo plr --memory 0 --buffer 500"
SFL = "--algo sfl --memory 0 --candidates 500 --candidate-envs 100 --candidate-steps 200 --kept 100"
# In a rollout of the time limit, no level has both a success and a failure, and the learnability of
# all levels is 0. So the rollouts of this score have 200 steps in 16 environments.
LONG = "--rollout-steps 200 --num-envs 16"
# Score of PLR -> further flags of `jaxenvs train`.
SCORES = {"pvl": "", "maxmc": "", "l1": "", "learnability": LONG, "regret": ""}
DR = "dr"  # domain randomisation
# Name of the method -> flags of `jaxenvs train`.
METHODS = {
    DR: "",
    "dr-long": LONG,  # with the rollouts of `plr-learnability`
    **{f"plr-{score}": f"{PLR} --score {score} {more}" for score, more in SCORES.items()},
    "accel-maxmc": f"{PLR} --score maxmc --edits 5 --replay-prob 0.8",
    "sfl": f"{SFL} --every 50",
}
# Numbers of steps of domain randomisation after which level scores are compared with true regret.
STAGES = (300_000, 1_000_000, 3_000_000, 10_000_000)


def main(argv: list[str]) -> int:
    """Train and evaluate the methods; return the exit code."""
    parser = Parser("python -m jaxenvs.benchmarks.curricula", str(__doc__))
    parser.add_argument("--out", type=Path, default=Path("runs/curricula"), metavar="DIR")
    parser.add_argument("--steps", type=number(1, 10**9), default=10_000_000, metavar="N")
    parser.add_argument("--seeds", type=number(1, 100), default=5, metavar="N")
    parser.add_argument("--levels", type=number(100, 10**6), default=1000, metavar="N")
    parser.add_argument("--only", choices=METHODS, nargs="*", default=list(METHODS))
    args = parser.parse_args(argv)
    for name in args.only:
        for seed in range(args.seeds):
            run = args.out / name / str(args.steps) / str(seed)
            if code := _made(name, seed, run, args.steps, args.levels):
                return code
    return 0


def _made(name: str, seed: int, run: Path, steps: int, levels: int) -> int:
    """Train and evaluate one seed of a method; return the exit code.

    Skips each training and evaluation whose result file exists already.
    """
    from jaxenvs.baselines.evaluation import command

    from . import level_scores

    stages = [stage for stage in STAGES if stage < steps] if name == DR else []
    for stage in [*stages, steps]:
        measured = run / f"scores-{stage}.json" if name == DR else run / "eval.json"
        if measured.is_file():
            continue
        if code := _trained(name, seed, run, stage):
            return code
        if name == DR and (code := level_scores.main([str(run), "--json", str(measured)])):
            return code
    found = run / "eval-worst.json"
    if found.is_file() and _levels(found) == levels:
        return 0
    return command.main([str(run), f"--worst={levels}", f"--json={found}"])


def _levels(evaluation: Path) -> int:
    """Return the number of levels in the result of `jaxenvs eval --worst`."""
    return json.loads(evaluation.read_text("utf-8"))["seeds"][0]["worst"]["levels"]


def _trained(name: str, seed: int, run: Path, steps: int) -> int:
    """Train one seed of a method up to `steps` steps, or continue; return the exit code."""
    from jaxenvs.baselines.run import train

    if (run / "config.json").is_file():
        return train.main(["--resume", str(run), f"--total-steps={steps}"])
    words = f"{MAZES} {COMMON} {METHODS[name]} --seeds 1 --seed {seed} --total-steps {steps}"
    return train.main([*words.split(), "--out", str(run)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
