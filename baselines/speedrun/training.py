"""Timed training of a speedrun's entry, which stops when evaluations reach the bar."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxenvs.commands.parser import UsageError

from ..registry import ALGORITHMS
from ..run import loop
from ..run.interrupt import EXIT_CODE
from ..run.keeping import Keeper
from ..run.tracking import ERROR, Look
from ..run.train import chosen
from .entries import POLICY, Entry

DEVIATIONS = 1.959964  # half the width of a 95 % interval, in standard errors
# Flags of `jaxenvs train` that would change the task, the seeds or the evaluations, or would give
# the learner something to start from.
FIXED = (
    *("--seed", "--seeds", "--sweep", "--set", "--param", "--levels", "--total-steps"),
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
    argv += ["--total-steps", str(entry.budget), "--overwrite"]
    if entry.every and entry.kind == POLICY:
        argv += ["--eval-every", str(entry.every), "--eval-episodes", str(entry.episodes)]
    return argv


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

    algorithm, rest = chosen(arguments(entry, seed, flags, folder))
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
