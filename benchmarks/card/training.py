"""Jobs of the command `card` that train: speed of training, and a run of a billion steps.

The run of a billion steps is `jaxenvs train Craft-Classic-Ids-v0 --preset gpu`, split into slices
of a few minutes. Each slice resumes the previous one: on the same machine from its run folder, on
another machine from the checkpoint file that the previous slice has written next to its JSON.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..harness import device_lock
from .results import BROUGHT_HOME, OutOfTimeError, Records, Work

CRAFT, DOORKEY = "Craft-Classic-Ids-v0", "Grid-DoorKey-8x8-v0"
WHOLE = "Craft-Ids-v0"
FULL = 8192  # usual number of environments in training runs on the full game of Craft (`WHOLE`)
MANY = 16_384  # number of environments with which PPO trains fastest on the full game of Craft
# Layer widths of a network with a million parameters, most of them in the first layer.
A_MILLION = (128, 128, 128)
RECURRENT = {"rollout_steps": 32, "bfloat16": True, "minibatches": 8, "epochs": 2}
RECURRENT |= {"chunk": 4, "unroll": 1, "reset_source": "stock"}
SHORT = {"rollout_steps": 2, "minibatches": 1, "epochs": 1, "chunk": 1, "hidden": (8,)}
# Upper estimate in seconds of the time that a slice (part of a long run) needs to end: finish the
# current chunk of updates, save a checkpoint, and copy the checkpoint into one file.
SAVING = 45.0
FREE = 20.0  # least training time in seconds; a slice does not start if less is left
POINTS = 200  # learning curves are thinned to between `POINTS` and 2 * `POINTS` points
# Options of `jaxenvs train` for every slice, resumed ones included.
LATER = ("--eval-episodes", "1024", "--checkpoint-every", "1024")
RUN = (CRAFT, "--preset", "gpu", *LATER)
TINY = ("Classic-CartPole-v0", "--num-envs", "4", "--rollout-steps", "8", "--minibatches", "2")
TINY += ("--chunk", "1", "--total-steps", "96", "--hidden", "8", "--eval-episodes", "4")


class Training(NamedTuple):
    """A training run to time.

    `preset` is None for the default settings of the algorithm. `settings` override the settings of
    the preset, or the default settings.
    """

    id: str
    num_envs: int
    preset: str | None
    algorithm: str = "ppo"
    settings: Mapping[str, Any] = MappingProxyType({})


def job(cases: Sequence[Training], tiny: Training) -> Callable[[Work], None]:
    """Return the function of a job that measures training speed in steps per second.

    The job times the training runs `cases`, one after another. A tiny run, which only tests the
    job, times only the training run `tiny`.
    """

    def run(work: Work) -> None:
        for case in (tiny,) if work.tiny else cases:
            key: dict[str, Any] = {"id": case.id, "num_envs": case.num_envs}
            if case.settings:
                key |= {"reset_source": case.settings["reset_source"], "algorithm": case.algorithm}
            work.measure(functools.partial(_trained, work, case), **key)

    return run


def _trained(work: Work, case: Training) -> Records:
    from .. import scaling

    seconds = 0.01 if work.tiny else 6.0
    record = scaling.measure(*case[:2], 1, seconds, *case[2:4], **case.settings)
    del record["devices"], record["device"]
    made = {"algorithm": case.algorithm, "preset": case.preset or "usual"}
    if case.settings:
        made["reset_source"] = case.settings["reset_source"]
    settings = ", ".join(f"{name} {value}" for name, value in case.settings.items())
    return [{**record, **made, "settings": settings}]


def _whole_game(num_envs: int, source: str, **more: Any) -> Training:
    return Training(WHOLE, num_envs, "gpu", "ppo", {"chunk": 4, "reset_source": source} | more)


speeds = job(
    [
        Training(id, num_envs, preset)
        for num_envs in (4096, 1024, 16_384)
        for id, preset in ((CRAFT, "gpu"), (DOORKEY, None))
    ],
    tiny=Training(DOORKEY, 8, None),
)
full = job(
    [
        _whole_game(MANY, "stock", hidden=A_MILLION),
        *(_whole_game(FULL, source) for source in ("stock", "exact", "pool")),
    ],
    tiny=_whole_game(2, "exact", **SHORT),
)
recurrent = job(
    [Training(id, FULL, None, "ppo-rnn", RECURRENT) for id in (WHOLE, CRAFT)],
    tiny=Training(CRAFT, 2, None, "ppo-rnn", RECURRENT | SHORT),
)


def sliced(
    words: Sequence[str],
    later: Sequence[str],
    tiny: Sequence[str],
    judged: Callable[[Path], Records] | None = None,
) -> Callable[[Work], None]:
    """Return the function of a job that trains one slice of a long run.

    A slice starts from the newest checkpoint and lasts until the run ends or the time is up.
    `words` are the arguments of `jaxenvs train` for the first slice, `later` those for slices that
    resume the run. A tiny run, which only tests the job, starts with the arguments `tiny` and
    resumes with the last two of them. `judged` maps the directory of the finished run to additional
    records.
    """

    def run(work: Work) -> None:
        path = work.scratch / work.file.stem
        given, again = (tiny, tiny[-2:]) if work.tiny else (words, later)
        if not (path / "eval.json").is_file():
            _train_slice(work, path, given, again)
        if judged is not None:
            work.measure(functools.partial(judged, path), part="judged")

    return run


def _train_slice(work: Work, path: Path, words: Sequence[str], again: Sequence[str]) -> None:
    """Train until the run ends or the time is up.

    `words` are the arguments of `jaxenvs train` for a new run, `again` those to resume the run.

    Raises `OutOfTimeError` if the run has not ended.
    """
    from jaxenvs.baselines.run import train
    from jaxenvs.baselines.storage.checkpoints import RunError, newest
    from jaxenvs.baselines.storage.runs import Run

    from . import carried

    carrier = work.file.with_suffix(".checkpoint")
    before = _found(path, carrier)
    words = [*words, "--out", str(path), "--overwrite"]
    if before:
        words = ["--resume", str(path), *again]
    with device_lock.held():
        if work.left() < SAVING + FREE:
            raise OutOfTimeError
        begun = time.monotonic()
        with _stopping(work.left() - SAVING):
            ended = train.main(words)
    if ended not in (0, 130):
        raise RuntimeError(f"jaxenvs train {' '.join(words)}: exit code {ended}; see above")
    try:
        carried.pack(Run.open(path), carrier)
    except (OSError, RunError) as error:
        work.fail(error, part="checkpoint to carry")
    after = newest(path / "checkpoints")
    work.keep(_slice(path, before, after, time.monotonic() - begun, str(work.header["commit"])))
    if ended:
        raise OutOfTimeError


billion = sliced(RUN, LATER, TINY)


def setup_run(id: str, setup: str, steps: int) -> Callable[[Work], None]:
    """Return the function of a job that trains recurrent PPO in a setup of Craft, in slices."""
    by_memory = ("--algo", "ppo-rnn")
    words = (id, *by_memory, "--preset", "gpu", "--set", f"setup={setup}")
    tiny = (TINY[0], *by_memory, *TINY[1:], "--memory", "4")
    return sliced((*words, "--total-steps", str(steps), *LATER), LATER, tiny)


def _found(path: Path, carrier: Path) -> int:
    """Return the number of the update to resume from, or 0 to start a new run.

    If the newest packed checkpoint (see carried.py) has more updates than the run in `path`,
    replace the run in `path` by the content of this checkpoint.
    """
    from jaxenvs.baselines.storage import checkpoints

    from . import carried

    here = checkpoints.newest(path / "checkpoints")
    candidates = (carrier, BROUGHT_HOME / carrier.name)
    newest = max(candidates, key=carried.update_of)
    if carried.update_of(newest) <= here:
        return here
    shutil.rmtree(path, ignore_errors=True)
    carried.unpack(newest, path)
    return carried.update_of(newest)


@contextlib.contextmanager
def _stopping(seconds: float) -> Iterator[None]:
    """Send SIGINT after `seconds`, unless the `with` block ends earlier.

    The signal makes the training save a checkpoint and stop.
    """
    timer = threading.Timer(max(seconds, 0.0), os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _slice(path: Path, before: int, after: int, seconds: float, commit: str) -> Records:
    """Return the records of a slice (part of a long run): its speed and its learning curve.

    The slice consists of the updates from `before` + 1 to `after`, and took `seconds`.
    The record `diagnostics` has the measures of episodes in the last tenth of the slice, such as
    rates of achievements and causes of death. If the run has ended, the last record is the
    evaluation of the whole run.
    """
    from jaxenvs.baselines.evaluation import compared_measures, episode_measures
    from jaxenvs.baselines.registry import ALGORITHMS
    from jaxenvs.baselines.storage.runs import Run

    run = Run.open(path)
    log = [record for record in run.records() if before < record["update"] <= after]
    settings = run.config.settings
    each = ALGORITHMS[run.config.algorithm].load().Settings(**settings).steps_per_update
    spans = {"from_steps": before * each, "to_steps": after * each}
    # learners of puzzles train on random walks instead of environments
    batch = "num_envs" if "num_envs" in settings else "walks"
    case: dict[str, Any] = {"id": run.config.id, batch: settings[batch]}
    if "setup" in run.config.fields:
        case["setup"] = run.config.fields["setup"]
    speed = next((record["steps_per_second"] for record in reversed(log)), None)
    records: Records = [
        case
        | spans
        | {"part": "slice", "steps_per_second": speed, "times_s": [seconds], "commit": commit}
    ]
    for record in log[:: max(1, len(log) // POINTS)]:
        point = {name: _mean(record[name]) for name in ("return", "length", "episodes")}
        if point["return"] is not None:  # None if no episode has ended
            records.append({**case, "part": "curve", "steps": record["steps"], **point})
    if ends := compared_measures.averages(episode_measures.latest(log)):
        records.append({**case, "part": "diagnostics", "steps": after * each, **ends})
    if (path / "eval.json").is_file():
        found = json.loads((path / "eval.json").read_text("utf-8"))
        figures = {name: value for name, value in found.items() if name != "per_seed"}
        records.append({**case, "part": "evaluation", "steps": after * each, **figures})
    return records


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean over the seeds that have a value; None if no seed has one."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
