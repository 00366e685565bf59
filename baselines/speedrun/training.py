"""Timed training of a speedrun's entry, which stops when evaluations reach the bar."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxenvs.commands.parser import UsageError

from ..core.planning import search_of
from ..evaluation import upstream
from ..registry import ALGORITHMS
from ..run import loop, options
from ..run.interrupt import EXIT_CODE
from ..run.keeping import Keeper
from ..run.tracking import ERROR, Look
from ..run.train import chosen
from ..storage.checkpoints import RunError
from .entries import HEURISTIC, POLICY, Entry

DAVI = "davi"  # the learner of a cost-to-go
DEVIATIONS = 1.959964  # half the width of a 95 % interval, in standard errors
# Flags of `jaxenvs train` that would change the task, the seeds or the evaluations, or would give
# the learner something to start from.
FIXED = (
    *("--seed", "--seeds", "--sweep", "--set", "--setup", "--param", "--levels", "--total-steps"),
    *("--out", "--overwrite", "--resume", "--eval-episodes", "--eval-every", "--eval-greedy"),
    *("--coordinator", "--processes", "--process", "--ray", "--demos", "-h", "--help"),
)


class Timing(NamedTuple):
    """Length of an attempt."""

    seconds: float  # from the start until the last update, with compilation
    training_seconds: float  # after the first call of the compiled program
    steps: int  # steps of the last update


class Watch:
    """Callback of training: notes times and steps, and stops when the bar is reached.

    It is reached when the 95 % interval of an evaluation lies at or above it. Without the interval,
    training would often stop after a lucky evaluation.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry, self._begun = entry, time.perf_counter()
        self._first: float | None = None  # seconds in the log at the end of the first call
        self.timing: Timing | None = None

    def __call__(self, record: dict[str, Any]) -> bool:
        """Read a log record; return whether training shall stop."""
        self._first = record["seconds"] if self._first is None else self._first
        self.timing = Timing(
            seconds=time.perf_counter() - self._begun,
            training_seconds=record["seconds"] - self._first,
            steps=record["steps"],
        )
        if not self._entry.every or "eval_return" not in record:
            return False
        low = record["eval_return"][0] - DEVIATIONS * record[ERROR][0]
        return low >= self._entry.bar


def check_flags(flags: Sequence[str]) -> None:
    """Raise `UsageError` if a flag is one of `FIXED`."""
    for flag in flags:
        name = flag.partition("=")[0].replace("_", "-")
        if name in FIXED:
            raise UsageError(f"{name} is fixed by the entry; give only settings of the learner")


def arguments(entry: Entry, seed: int, flags: Sequence[str], folder: Path) -> list[str]:
    """Return the arguments of `jaxenvs train` for an attempt; `flags` are the user's."""
    argv = [entry.id, *entry.flags, *flags, "--seed", str(seed), "--out", str(folder)]
    return [*argv, "--total-steps", str(entry.budget), "--overwrite"]


def prepared(
    entry: Entry, seed: int, flags: Sequence[str], folder: Path
) -> tuple[str, list[str], Any]:
    """Return the learner's name, the arguments of `jaxenvs train`, and the learner's settings.

    The arguments contain the evaluations of a policy. Raises `RunError` for a flag that does not
    exist, and for a learner that has its own training loop.
    """
    algorithm, rest = chosen(arguments(entry, seed, flags, folder))
    if ALGORITHMS[algorithm].command:
        raise RunError(f"--algo {algorithm} trains in other processes; choose another learner")
    settings = options.parse(rest, algorithm).settings
    if entry.every and entry.kind == POLICY:
        rest += ["--eval-every", str(interval(entry, settings))]
        rest += ["--eval-episodes", str(entry.episodes)]
    return algorithm, rest, settings


def check_learner(entry: Entry, flags: Sequence[str], replays: bool) -> None:
    """Build the learner; raise `ValueError` if an attempt with `flags` cannot succeed.

    The original package must accept the learner's policy, if `replays`.
    """
    algorithm, rest, _ = prepared(entry, 0, flags, Path("unused"))
    if entry.kind == HEURISTIC and algorithm != DAVI:
        raise UsageError(
            f"{entry.name} searches with a learned cost-to-go, but {algorithm} learns none; give "
            f"--algo {DAVI}"
        )
    read = options.with_source(options.parse(rest, algorithm), algorithm)
    config = options.config(read, algorithm)
    learner = options.build_learner(read, config)
    if entry.package and replays:
        env = learner.algorithm.wrapped(config.env, config.settings)
        upstream.check(env, config.id, entry.package, search_of(learner))


def interval(entry: Entry, settings: Any) -> int:
    """Return the number of updates between evaluations, nearest to `entry.every` steps.

    At least one evaluation fits into the run, whatever the size of an update.
    """
    return min(max(1, round(entry.every / settings.steps_per_update)), settings.updates)


def trained(
    entry: Entry,
    seed: int,
    flags: Sequence[str],
    folder: Path,
    look: Callable[[Any], Look] | None = None,
) -> Timing:
    """Train until the bar or the end of the budget; write a run into `folder`.

    `look(learner)` returns further evaluations, for learners whose evaluations are not episodes of
    a policy. Nothing compiled earlier is used again. Raises `UsageError` if training fails, and
    `KeyboardInterrupt` after Ctrl-C.
    """

    def train(run: Any, learner: Any, done: int, runners: Any, keeper: Keeper) -> Any:
        if look is not None:
            keeper.add(look(learner))
        return loop.train(run, learner, done, runners, keeper)

    algorithm, rest, _ = prepared(entry, seed, flags, folder)
    with uncached():
        watch = Watch(entry)
        report = lambda *_: None  # noqa: E731 - `speedrun` makes its own final check
        code = loop.command(ALGORITHMS[algorithm], rest, None, train, report, watch)
    if code == EXIT_CODE:
        raise KeyboardInterrupt
    if code or watch.timing is None:
        raise UsageError(f"training ended with exit code {code}; see the message above")
    return watch.timing


@contextlib.contextmanager
def uncached() -> Iterator[None]:
    """Forget compiled programs, and turn the compilation cache on disk off for a while."""
    name = "jax_enable_compilation_cache"
    was = jax.config.values[name]
    jax.clear_caches()
    jax.config.update(name, False)
    try:
        yield
    finally:
        jax.config.update(name, was)
