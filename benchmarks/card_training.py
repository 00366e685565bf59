"""Jobs of `card` that train: speed over environments, and a run of a billion steps in slices.

The run is that of `jaxenvs train Craft-Classic-Ids-v0 --preset gpu`. A slice goes on from where the
last one ended, on this machine or, by the checkpoint that it leaves beside its JSON, on another.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import exclusive
from .card_steps import with_stock
from .card_work import BROUGHT_HOME, OutOfTimeError, Records, Work

CRAFT, DOORKEY = "Craft-Classic-Ids-v0", "Grid-DoorKey-8x8-v0"
WHOLE = "Craft-Ids-v0"
SPEEDS = ((CRAFT, "gpu"), (DOORKEY, None))
FULL = 8192  # environments of the whole game
MANY = 16_384  # with which PPO is fastest there
A_MILLION = (128, 128, 128)  # widths of layers: of the parameters most read the observation
RECURRENT = {"rollout_steps": 32, "bfloat16": True, "minibatches": 8, "epochs": 2}
RECURRENT |= {"chunk": 4, "unroll": 1}
SHORT = {"rollout_steps": 2, "minibatches": 1, "epochs": 1, "chunk": 1, "hidden": (8,)}
SAVING = 45.0  # seconds that the end of a slice takes at most: a chunk, a checkpoint, its copy
FREE = 20.0  # seconds without which a slice is not begun
POINTS = 200  # of the learning curve that a slice leaves
LATER = ("--eval-episodes", "1024", "--checkpoint-every", "1024")  # of a slice, updates
RUN = (CRAFT, "--preset", "gpu", *LATER)
TINY = ("Classic-CartPole-v0", "--num-envs", "4", "--rollout-steps", "8", "--minibatches", "2")
TINY += ("--chunk", "1", "--total-steps", "96", "--hidden", "8", "--eval-episodes", "4")


def speeds(work: Work) -> None:
    """PPO with the preset of each id, over environments: steps of training per second."""
    for num_envs in (8,) if work.tiny else (4096, 1024, 16_384):
        for id, preset in SPEEDS[1:] if work.tiny else SPEEDS:
            figures = functools.partial(_trained, work, id, num_envs, "ppo", preset, {})
            work.measure(figures, id=id, num_envs=num_envs)


def full(work: Work) -> None:
    """PPO in the whole game, by reset source, with its preset for a GPU."""
    given = {"chunk": 4, "reset_source": "exact" if work.tiny else "stock"}
    _by_settings(work, WHOLE, "ppo", "gpu", {**given, "hidden": A_MILLION}, MANY)
    for source in () if work.tiny else with_stock("pool", "exact")[::-1]:
        _by_settings(work, WHOLE, "ppo", "gpu", {**given, "reset_source": source})


def recurrent(work: Work) -> None:
    """Recurrent PPO in the whole game and in Craft-Classic, with large batches."""
    source = with_stock("pool")[-1]
    for id in (CRAFT,) if work.tiny else (WHOLE, CRAFT):
        _by_settings(work, id, "ppo-rnn", None, {**RECURRENT, "reset_source": source})


def _by_settings(
    work: Work,
    id: str,
    algorithm: str,
    preset: str | None,
    given: dict[str, Any],
    num_envs: int = FULL,
) -> None:
    """Measure a learner with settings besides its preset."""
    num_envs, given = (2, {**given, **SHORT}) if work.tiny else (num_envs, given)
    case = {"id": id, "num_envs": num_envs, "reset_source": given["reset_source"]}
    figures = functools.partial(_trained, work, id, num_envs, algorithm, preset, given)
    work.measure(figures, **case, algorithm=algorithm)


def _trained(
    work: Work, id: str, num_envs: int, algorithm: str, preset: str | None, given: dict[str, Any]
) -> Records:
    from . import scaling

    seconds = 0.01 if work.tiny else 6.0
    record = scaling.measure(id, num_envs, 1, seconds, preset, algorithm, **given)
    del record["devices"], record["device"]
    told = {"algorithm": algorithm, "preset": preset or "usual"}
    told |= {"reset_source": given["reset_source"]} if "reset_source" in given else {}
    settings = ", ".join(f"{name} {value}" for name, value in given.items())
    return [{**record, **told, "settings": settings}]


def billion(work: Work) -> None:
    """Train from the newest checkpoint until the end of the run or of the time."""
    from jaxenvs.baselines.run import train
    from jaxenvs.baselines.storage.checkpoints import RunError, newest
    from jaxenvs.baselines.storage.runs import Run

    from . import carried

    carrier = work.file.with_suffix(".checkpoint")
    path = work.scratch / work.file.stem
    if (path / "eval.json").is_file():
        return
    before = _found(path, carrier)
    words = [*(TINY if work.tiny else RUN), "--out", str(path), "--overwrite"]
    if before:
        words = ["--resume", str(path), *(TINY[-2:] if work.tiny else LATER)]
    with exclusive.held():
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


def _found(path: Path, carrier: Path) -> int:
    """The update to go on from; what was carried here takes the place of a run that is behind."""
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
    """Ask the training to save and stop after `seconds`, as Ctrl-C does."""
    timer = threading.Timer(max(seconds, 0.0), os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _slice(path: Path, before: int, after: int, seconds: float, commit: str) -> Records:
    """What a slice did, points of its learning curve and, at the end, the evaluation."""
    from jaxenvs.baselines.storage.runs import Run

    run = Run.open(path)
    log = [record for record in run.records() if before < record["update"] <= after]
    settings = run.config.settings
    each = settings["num_envs"] * settings["rollout_steps"]
    spans = {"from_steps": before * each, "to_steps": after * each}
    case: dict[str, Any] = {"id": run.config.id, "num_envs": settings["num_envs"]}
    speed = next((record["steps_per_second"] for record in reversed(log)), None)
    records: Records = [
        case
        | spans
        | {"part": "slice", "steps_per_second": speed, "times_s": [seconds], "commit": commit}
    ]
    for record in log[:: max(1, len(log) // POINTS)]:
        point = {name: record[name][0] for name in ("return", "length", "episodes")}
        if point["return"] is not None:  # as long as no episode has ended
            records.append({**case, "part": "curve", "steps": record["steps"], **point})
    if (path / "eval.json").is_file():
        found = json.loads((path / "eval.json").read_text("utf-8"))
        figures = {name: value for name, value in found.items() if name != "per_seed"}
        records.append({**case, "part": "evaluation", "steps": after * each, **figures})
    return records
