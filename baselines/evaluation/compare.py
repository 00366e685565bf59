"""Command `jaxenvs compare`: compare methods by the final evaluations of their runs.

The command prints scores with bootstrap intervals, which core/statistics.py computes. A method is a
name under which runs are pooled, by default the name of their algorithm. A task is an environment
with given values of its fields and params.
"""

import argparse
import functools
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxenvs.benchmarks.tables.plain import plain
from jaxenvs.commands.page import reference
from jaxenvs.commands.parser import Parser, UsageError, check_outputs, guarded, unwritable
from jaxenvs.core.files import read_text, replacing
from jaxenvs.core.typed import program

from ..core import statistics
from ..core.policy_statement import as_phrase
from ..storage.runs import Config, Run, RunError
from . import compared_measures
from .curve import figure

SUMMARY = """\
Compare methods by the final evaluations of their runs.

Each seed of a run is one sample. Prints the interquartile mean (the mean of the middle half) with
its 95 % interval from a stratified bootstrap, and the probability that a run of one method scores
more than a run of another. All methods need a run in every task. If the runs' logs have measures of
episodes, such as Craft's achievements and causes of death, a table compares their latest means."""
EXAMPLES = (
    "compare runs/ppo runs/ppo-rnn",
    "compare flat=runs/a wide=runs/b wide=runs/c --plot wide.png",
    "compare runs/* --score success --json compared.json",
    "compare old=runs/a new=runs/b --achievements rates.png",
)
SCORES = {"return": "mean_return", "success": "success_rate", "length": "mean_length"}
FEW = 5  # number of seeds of a method in a task below which an interval is unreliable
LARGEST = 2**24  # largest eval.json that is read, in bytes
# Errors that reading a damaged eval.json may raise, for example if its numbers are too large or its
# lists are nested too deeply.
DAMAGE = (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError, StopIteration)
POINTS = 101  # number of score thresholds at which a performance profile is computed


class Evaluated(NamedTuple):
    """Final evaluation of a run, read from its eval.json."""

    path: Path
    config: Config
    seeds: tuple[int, ...]
    scores: np.ndarray  # score of each seed, (seeds,)
    policy: str  # description of the evaluated policy


class Comparison(NamedTuple):
    """Scores of each method in each task."""

    score: str  # a key of SCORES, or "normalised return"
    tasks: tuple[str, ...]
    methods: dict[str, list[np.ndarray]]  # method -> for each task, the scores (seeds,)
    policies: dict[str, list[str]]  # method -> for each task, a description of the policy
    paths: dict[str, list[list[Path]]]  # method -> for each task, the folders of its runs

    def measures(self, task: int) -> dict[str, compared_measures.Measures]:
        """Return the latest measures of the training episodes of each method in a task."""
        return {name: compared_measures.latest(paths[task]) for name, paths in self.paths.items()}


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return guarded("compare", _run, argv)


def _run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    try:
        found = _checked(args)
        print(summary(found))
    except RunError as error:
        raise UsageError(str(error)) from error
    try:
        if args.json:
            _write_json(Path(args.json), found)
        if args.plot:
            _draw(Path(args.plot), found)
        if args.achievements:
            _draw_achievements(Path(args.achievements), found)
    except OSError as error:
        raise unwritable(error) from error
    return 0


def _checked(args: argparse.Namespace) -> Comparison:
    """Return the comparison of the runs; raise `UsageError` if a picture cannot be drawn."""
    pictures = {"--plot": args.plot, "--achievements": args.achievements}
    check_outputs({"--json": args.json, **pictures})
    for flag, file in pictures.items():
        if file:
            _format(flag, Path(file))
    found = comparison(args.runs, args.score, args.normalize)
    if args.achievements and len(found.tasks) > 1:
        raise UsageError(
            f"--achievements draws one environment, and the runs have {len(found.tasks)}: "
            f"{', '.join(found.tasks)}; give the runs of one"
        )
    return found


def _parser() -> Parser:
    made = Parser("jaxenvs compare", SUMMARY, EXAMPLES)
    made.add_argument(
        "runs",
        nargs="+",
        metavar="[NAME=]RUN",
        help="folder that `jaxenvs train` wrote, with the name of its method "
        "(default: its algorithm); runs of one name and task are pooled",
    )
    made.add_argument(
        "--score", choices=SCORES, default="return", help="score to compare (default: return)"
    )
    made.add_argument(
        "--normalize",
        action="store_true",
        help="scale returns per task: 0 is random play, 1 the best method",
    )
    made.add_argument(
        "--plot", metavar="FILE", help="draw intervals and performance profiles (.png, .svg, .pdf)"
    )
    made.add_argument(
        "--achievements",
        metavar="FILE",
        help="draw rates of achievements, and of success by kind of level, over the steps of "
        "training; for runs in one environment (.png, .svg, .pdf)",
    )
    made.add_argument("--json", metavar="FILE", help="write all figures")
    return made


def comparison(runs: Sequence[str], score: str = "return", normalize: bool = False) -> Comparison:
    """Read the runs, each given as a path or `NAME=path`, and pool them by method and task.

    With `normalize`, scale returns so that random play is 0 and the best method 1. Raises
    `RunError` or `UsageError` for invalid runs.
    """
    methods: dict[str, dict[str, list[Evaluated]]] = {}
    for text in runs:
        name, path = _named(text)
        run = _evaluated(path, score)
        tasks = methods.setdefault(name or run.config.algorithm, {})
        same = tasks.setdefault(run.config.title, [])
        _check_pooled(run, same, named=bool(name))
        same.append(run)
    titles = tuple(dict.fromkeys(itertools.chain.from_iterable(methods.values())))
    _check_complete(methods, titles)
    scores = {
        name: [np.concatenate([run.scores for run in tasks[title]]) for title in titles]
        for name, tasks in methods.items()
    }
    policies = {
        name: [tasks[title][0].policy for title in titles] for name, tasks in methods.items()
    }
    paths = {
        name: [[run.path for run in tasks[title]] for title in titles]
        for name, tasks in methods.items()
    }
    if not normalize:
        return Comparison(score, titles, scores, policies, paths)
    if score != "return":
        raise UsageError(f"--normalize is for returns; leave it out with --score {score}")
    ids = [next(iter(methods.values()))[title][0].config for title in titles]
    return Comparison("normalised return", titles, _normalised(scores, ids), policies, paths)


def _named(text: str) -> tuple[str, Path]:
    """Split `NAME=path` into name and path; without `NAME=`, the name is "".

    If `text` is an existing path, it is not split, although it may contain "=".
    """
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text):
        return "", Path(text)
    if not name or not path:
        raise UsageError(f"{text!r} must be RUN or NAME=RUN")
    return name, Path(path)


def _evaluated(path: Path, score: str) -> Evaluated:
    run = Run.open(path)
    file = path / "eval.json"
    if not file.is_file():
        raise UsageError(
            f"{path} has no eval.json: finish it with {program()} train --resume {path}"
        )
    try:
        if run.config.sweep:
            raise UsageError(
                f"{path} is a sweep, whose agents have different settings; train the settings to "
                f"compare one by one, with several seeds each"
            )
        result = json.loads(read_text(file, LARGEST))
        seeds = result["per_seed"]
        values = [seed[SCORES[score]] for seed in seeds]
        if values and all(value is None for value in values):
            known = next(name for name, key in SCORES.items() if seeds[0][key] is not None)
            raise UsageError(f"{run.config.id} does not define {score}; use --score {known}")
        scores = np.array([float(value) for value in values])
        if not seeds or not np.isfinite(scores).all():
            raise ValueError(f"no finite {score}")
        played = tuple(int(seed["seed"]) for seed in seeds)
        return Evaluated(path, run.config, played, scores, _policy(result))
    except DAMAGE as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{file} is no evaluation of a policy ({error!r})") from error


def _policy(result: dict[str, Any]) -> str:
    """Return the description of the policy in an eval.json; older files get a substitute text."""
    if "policy" in result:
        return as_phrase(result["policy"])
    search = "greedy actions of a search" if "without_search" in result else "not stated"
    return f"{search} (by an older version)"


def _check_pooled(run: Evaluated, others: Sequence[Evaluated], named: bool) -> None:
    """Raise `UsageError` if `run` cannot be pooled with `others`, runs of its method and task."""
    for other in others:
        if not named and run.config.settings != other.config.settings:
            raise UsageError(
                f"{other.path} and {run.path} are both {run.config.algorithm} with different "
                f"settings; name their methods: NAME={other.path} OTHER={run.path}"
            )
        if run.policy != other.policy:
            raise UsageError(
                f"{other.path} and {run.path} were evaluated by different policies "
                f"({other.policy}; {run.policy}): evaluate one again with jaxenvs train --resume "
                f"RUN, or name their methods: NAME={other.path} OTHER={run.path}"
            )
        if set(run.seeds) & set(other.seeds):
            raise UsageError(
                f"{other.path} and {run.path} have the same seed "
                f"{min(set(run.seeds) & set(other.seeds))} of one method and task; leave one out, "
                f"or name their methods: NAME={other.path} OTHER={run.path}"
            )


def _check_complete(methods: dict[str, dict[str, list[Evaluated]]], titles: Sequence[str]) -> None:
    for name, tasks in methods.items():
        for title in titles:
            if title not in tasks:
                raise UsageError(
                    f"{name} has no run in {title}; add one, or compare without that task"
                )


def _normalised(
    scores: dict[str, list[np.ndarray]], configs: Sequence[Config]
) -> dict[str, list[np.ndarray]]:
    random = reference()["random"]
    scaled: dict[str, list[np.ndarray]] = {name: [] for name in scores}
    for task, config in enumerate(configs):
        known = random.get(config.id)
        # `obs` may have any value, because random play does not depend on the observations. Random
        # play of Craft was recorded with masks.
        fields = config.env_fields
        unusual = fields.keys() - {"obs", "setup"} or fields.get("setup", "masked") != "masked"
        if known is None or config.params or unusual:
            raise UsageError(f"no random play of {config.title} is recorded; leave --normalize out")
        best = max(float(each[task].mean()) for each in scores.values())
        if best <= known["return"]:
            raise UsageError(
                f"no method beats random play in {config.title}, so nothing is 1 there"
            )
        for name, each in scores.items():
            scaled[name].append((each[task] - known["return"]) / (best - known["return"]))
    return scaled


def summary(found: Comparison) -> str:
    """Return the comparison as plain-text tables."""
    heading = ["task", "method", "runs", f"IQM of the {found.score}", "95 %", "mean", "all runs"]
    lines = [
        [title, *_row(name, [scores[task]], each=True)]
        for task, title in enumerate(found.tasks)
        for name, scores in found.methods.items()
    ]
    if len(found.tasks) > 1:
        every = ((name, scores) for name, scores in found.methods.items())
        lines += [["all tasks", *_row(name, scores)] for name, scores in every]
    parts = [plain([heading, *lines])]
    parts += ["", *_policies(found)]
    if len(found.methods) > 1:
        parts += ["", *_improvements(found)]
    runs = min(len(task) for scores in found.methods.values() for task in scores)
    if runs < FEW:
        parts += ["", f"With {runs} of at least {FEW} runs an interval means little."]
    for task, title in enumerate(found.tasks):
        if measured := compared_measures.table(title, found.measures(task)):
            parts += ["", measured]
    return "\n".join(parts)


def _row(name: str, scores: statistics.Scores, each: bool = False) -> list[str]:
    low, high = statistics.interval(statistics.interquartile_mean, scores)
    return [
        name,
        str(sum(map(len, scores))),
        f"{statistics.interquartile_mean(scores):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{statistics.mean(scores):.3f}",
        ", ".join(f"{run:.3f}" for run in np.sort(scores[0])) if each else "",
    ]


def _policies(found: Comparison) -> list[str]:
    """Return one line per method that describes its policy, or one per task if policies differ."""
    lines = []
    for name, policies in found.policies.items():
        same = len(set(policies)) == 1
        tasks = [""] if same else [f" in {task}" for task in found.tasks]
        lines += [f"{name}{task}: {words}" for task, words in zip(tasks, policies, strict=False)]
    return lines


def _improvements(found: Comparison) -> list[str]:
    lines = []
    for (name, scores), (other, others) in itertools.combinations(found.methods.items(), 2):
        low, high = statistics.interval(statistics.improvement, scores, others)
        lines.append(
            f"P({name} > {other}) = {statistics.improvement(scores, others):.2f} "
            f"(95 %: {low:.2f} to {high:.2f})"
        )
    return lines


def figures(found: Comparison) -> dict[str, Any]:
    """Return all numbers of a comparison, for `--json`."""

    def of(scores: statistics.Scores) -> dict[str, Any]:
        bounds = statistics.interval(statistics.interquartile_mean, scores)
        return {
            "iqm": float(statistics.interquartile_mean(scores)),
            "interval": bounds.tolist(),
            "mean": float(statistics.mean(scores)),
            "median": float(statistics.median(scores)),
        }

    pairs = itertools.permutations(found.methods.items(), 2)
    return {
        "score": found.score,
        "level": statistics.LEVEL,
        "resamples": statistics.RESAMPLES,
        "tasks": list(found.tasks),
        "methods": {
            name: {
                **of(scores),
                "scores": [task.tolist() for task in scores],
                "policies": found.policies[name],
                "measures": [compared_measures.latest(paths) for paths in found.paths[name]],
            }
            for name, scores in found.methods.items()
        },
        "improvement": [
            {
                "of": name,
                "over": other,
                "probability": float(statistics.improvement(scores, others)),
                "interval": statistics.interval(statistics.improvement, scores, others).tolist(),
            }
            for (name, scores), (other, others) in pairs
        ],
    }


def _write_json(file: Path, found: Comparison) -> None:
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(figures(found), indent=2) + "\n", "utf-8")
    print(f"wrote {file}")


def _draw(file: Path, found: Comparison) -> None:
    """Draw two panels: interquartile means and performance profiles, with 95 % intervals."""
    kind = _format("--plot", file)
    picture, (bars, curves) = figure((9.0, max(3.0, 0.5 * len(found.methods) + 1.5)), 1, 2)
    every = np.concatenate([task for scores in found.methods.values() for task in scores])
    thresholds = np.linspace(min(0.0, every.min()), every.max(), POINTS)
    shares = functools.partial(statistics.profile, thresholds=thresholds)
    for place, (name, scores) in enumerate(found.methods.items()):
        colour = f"C{place % 10}"
        shown = name.replace("$", r"\$")  # matplotlib would read $ as the start of a formula
        low, high = statistics.interval(statistics.interquartile_mean, scores)
        bars.barh(shown, high - low, left=low, color=colour, alpha=0.35, height=0.6)
        bars.plot([statistics.interquartile_mean(scores)] * 2, [place - 0.3, place + 0.3], colour)
        curves.plot(thresholds, shares(scores), colour, label=shown)
        curves.fill_between(
            thresholds, *statistics.interval(shares, scores), color=colour, alpha=0.2
        )
    bars.invert_yaxis()
    bars.margins(x=0.05)
    bars.set(title="interquartile mean, 95 % interval", xlabel=found.score)
    curves.set(title="performance profile", xlabel=f"{found.score}, x", ylabel="share of runs > x")
    curves.set_ylim(-0.02, 1.02)
    curves.legend(frameon=False)
    with replacing(file) as temporary:
        picture.savefig(temporary, format=kind)
    print(f"wrote {file}")


def _draw_achievements(file: Path, found: Comparison) -> None:
    """Draw the rates of achievements of all methods in the only task."""
    (task,) = found.tasks
    paths = {name: each[0] for name, each in found.paths.items()}
    if not compared_measures.draw(file, task, paths):
        raise UsageError(
            f"--achievements: the logs of these runs in {task} have no achievement and "
            f"no success by kind of level with a rate above 0; omit it"
        )
    print(f"wrote {file}")


def _format(flag: str, file: Path) -> str:
    """Return the format of a picture, the suffix of its file."""
    kind = file.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise UsageError(f"{flag} {file} must end in .png, .svg or .pdf")
    return kind
