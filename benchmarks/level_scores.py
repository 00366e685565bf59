"""Correlation of each score of `--algo plr` with the true regret of levels, for trained policies.

    python -m jaxenvs.benchmarks.level_scores RUN ... --json scores.json --picture scores.png

The program draws new levels for each seed of each run. The policy plays every level for one
rollout, and each score is computed from this rollout, as in the first update that plays a level.
Learnability is also computed from many episodes, as in `--algo sfl`. Further episodes measure the
policy's mean return and success on each level. The true regret of a level is the return of its
shortest plan minus this mean return.

The result has, for each score, Spearman's rank correlation with the true regret and with success
over all levels. It also has the mean true regret of the 10 % of levels with the highest scores.

A run must be in an environment that computes optimal returns inside the compiled program, such as
`Grid-AMaze-13x13-v0`. `docs/learners/plr.md` has the figures of the runs of curricula.py.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from scipy import stats

from jaxenvs.baselines import registry
from jaxenvs.baselines.core import level_scores
from jaxenvs.baselines.core.episodes import EVALUATION
from jaxenvs.baselines.core.given_levels import new_levels
from jaxenvs.baselines.core.learner import over_seeds
from jaxenvs.baselines.core.level_scores import Score
from jaxenvs.baselines.evaluation.curve import figure
from jaxenvs.baselines.on_policy import curricula, plr, ppo
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Run, RunError, load_policy
from jaxenvs.commands.parser import number
from jaxenvs.core.random import Key

from .harness import instrument

# Learnability from many episodes, none of which measures the true regret and success. Learnability
# from one rollout is often 0: in a maze a failed episode lasts until the time limit, so a rollout
# as long as the time limit never has both a success and a failure on the same level.
MANY = "learnability, many episodes"
SCORES = (*get_args(Score), MANY)
TOP = 0.1  # share of levels with the highest scores whose mean regret is reported


def measure(path: Path, levels: int, steps: int) -> list[dict[str, Any]]:
    """Return a row for each seed of a run.

    The episodes that measure true regret and success play each level for `steps` steps.
    """
    run = Run.open(path)
    made = {each["update"]: each["steps"] for each in run.records()}
    learner = scoring(run, levels)
    played = jax.jit(over_seeds(lambda given: outcomes(learner, given[0], given[1], steps)))
    rows = []
    for seed, label in enumerate(run.config.labels):
        key = jax.random.fold_in(jax.random.key(label["seed"]), EVALUATION)
        given = jax.tree.map(lambda leaf: leaf[None], (load_policy(path, seed).weights, key))
        found = jax.tree.map(lambda leaf: leaf[0], jax.device_get(played(given)))
        done = made[checkpoints.newest(run.checkpoints)]
        rows.append({"id": run.config.id, "steps": done, **label, **compared(found)})
    return rows


def scoring(run: Run, levels: int) -> Any:
    """Return a learner that plays and scores `levels` levels with policies of a run.

    Raises `RunError` if the run has no policy of PPO, or if its environment cannot compute the
    best return of a level.
    """
    config = run.config
    if config.algorithm not in ("ppo", "ppo-rnn", "plr", "sfl"):
        raise RunError(f"{run.path} was trained by {config.algorithm}; give one of ppo or plr")
    # The learner resets each environment to the level to score, so omit the run's `reset_source`.
    known = {field.name for field in dataclasses.fields(plr.Settings)} - {"reset_source"}
    given = {"memory": 0, **config.settings, "num_envs": levels}
    settings = plr.Settings(**{name: value for name, value in given.items() if name in known})
    learner = registry.build("plr", plr.training_env(config.env, settings), settings)
    curricula.check_env(learner, settings.rollout_steps, "rollout_steps")
    if not curricula.has_optima(learner.env.env):
        raise RunError(
            f"{run.path}: {config.id} does not compute the best return of a level; give a run in "
            f"a grid with only walls, lava and a goal, such as Grid-AMaze-13x13-v0"
        )
    return learner


def outcomes(learner: Any, weights: PyTree[Array], key: Key, steps: int) -> dict[str, Any]:
    """Return the scores of new levels, their success rates, regrets and best returns."""
    key_levels, key_begin, key_play, key_try = jax.random.split(key, 4)
    drawn = new_levels(learner.env.env, key_levels, learner.env.num_envs)
    runner, _ = curricula.begin(learner, key_begin, 1)
    runner = runner._replace(weights=weights)
    again, tried = (
        curricula.tried(learner, runner, each, drawn, steps) for each in jax.random.split(key_try)
    )
    _, optimum = curricula.optima(learner, drawn)
    assert isinstance(optimum, jax.Array)
    runner, play = curricula.play(learner, runner, key_play, drawn)
    _, advantage, _ = ppo.targets(learner, runner, play.rollout)
    given = play.rollout, advantage, play.episodes, play.episodes.best, optimum
    scores = {kind: level_scores.score(kind, *given) for kind in get_args(Score)}
    scores[MANY] = again.success * (1.0 - again.success)
    regret = jnp.where(optimum > 0.0, optimum - tried.returned, 0.0)
    return {"scores": scores, "regret": regret, "success": tried.success, "optimum": optimum}


def compared(found: dict[str, Any]) -> dict[str, Any]:
    """Return each score's correlations with regret and success, and means over the levels.

    `found` is the result of `outcomes`.
    """
    regret, success, optimum = (found[name] for name in ("regret", "success", "optimum"))
    solvable = optimum > 0.0
    count = max(1, round(TOP * len(regret)))
    scores = {}
    for kind, score in found["scores"].items():
        top = np.argsort(-score, kind="stable")[:count]
        scores[kind] = {
            "regret": _correlation(score, regret),
            "success": _correlation(score, success),
            "regret_of_top": _rounded(regret[top].mean()),
            "unsolvable_of_top": _rounded(1.0 - solvable[top].mean()),
        }
    return {
        "levels": len(regret),
        "unsolvable": _rounded(1.0 - solvable.mean()),
        "mean_success": _rounded(success.mean()),
        "mean_regret": _rounded(regret.mean()),
        "scores": scores,
    }


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return Spearman's rank correlation, or None if one of the arrays is constant."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return _rounded(stats.spearmanr(a, b)[0])


def _rounded(value: Any) -> float:
    return round(float(value), 4)


def picture(file: Path, rows: list[dict[str, Any]]) -> None:
    """Draw the correlations over the steps of training: mean and range over the seeds."""
    drawn, panels = figure((9.0, 3.2), 1, 3)
    titles = {
        "regret": "correlation with the true regret",
        "success": "correlation with success",
        "regret_of_top": "true regret of the top 10 %",
    }
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        for kind in SCORES:
            steps, values = _by_steps(rows, kind, name)
            mean = [np.mean(each) for each in values]
            (line,) = axes.plot(steps, mean, marker="o", markersize=3, label=kind)
            low, high = [min(each) for each in values], [max(each) for each in values]
            axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set(title=title, xscale="log")
        axes.title.set_fontsize(9)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g} M")
        axes.axhline(0.0, color="grey", linewidth=0.6)
    stages = sorted({row["steps"] for row in rows})
    overall = [np.mean([r["mean_regret"] for r in rows if r["steps"] == s]) for s in stages]
    panels[-1].plot(stages, overall, "--", color="grey", label="all levels")
    # The middle panel has room for the legend of all panels.
    panels[1].legend(*panels[-1].get_legend_handles_labels(), loc=(0.2, 0.3), fontsize=7)
    drawn.supxlabel("environment steps of domain randomisation", fontsize=8)
    drawn.savefig(file, format="png")


def _by_steps(
    rows: list[dict[str, Any]], kind: str, name: str
) -> tuple[list[int], list[list[float]]]:
    """Return the numbers of steps in `rows`, and the seeds' values of a score at each of them."""
    found: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["steps"]):
        if (value := row["scores"][kind][name]) is not None:
            found.setdefault(row["steps"], []).append(value)
    return list(found), list(found.values())


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Measure the runs with the options in `argv`; print, write and draw the rows."""
    parser = instrument.parser("level_scores", __doc__)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--levels", type=number(10, 10**6), default=1000, metavar="N")
    more = "steps that measure the true regret of each level (default: 2000)"
    parser.add_argument("--steps", type=number(1, 10**6), default=2000, metavar="N", help=more)
    merge = "also take the rows of these files, which `--json` wrote"
    parser.add_argument("--merge", type=Path, nargs="*", default=[], metavar="FILE", help=merge)
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw all rows")
    args = parser.parse_intermixed_args(argv)
    if not args.runs and not args.merge:
        parser.error("give a RUN, or --merge FILE")
    rows = [row for file in args.merge for row in json.loads(file.read_text("utf-8"))["rows"]]
    for run in args.runs:
        rows += measure(run, args.levels, args.steps)
        instrument.write(args.json, instrument.dated(rows))
    for row in rows:
        each = ", ".join(f"{kind} {found['regret']}" for kind, found in row["scores"].items())
        print(f"seed {row['seed']}, {row['steps']:,} steps: correlation with regret: {each}")
    instrument.write(args.json, instrument.dated(rows))
    if args.picture:
        picture(args.picture, rows)
