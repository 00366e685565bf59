"""Kill trainings with SIGKILL at random times, resume them, and compare how they end.

    python tests/proofs/kills.py                      # 20 kills, and 5 within a save

Each training is a separate process. Its last checkpoint (weights, optimiser, environments, keys)
and its log, except for times, are compared with a training that was not killed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Run
from jaxenvs.benchmarks.harness import contestants
from jaxenvs.benchmarks.tables.plain import plain
from jaxenvs.commands.parser import Parser

ID = "Classic-CartPole-v0"
UPDATES = 12
TRAINING = (
    *(ID, "--num-envs", "8", "--rollout-steps", "32", "--total-steps", f"{UPDATES * 8 * 32}"),
    *("--chunk", "1", "--seeds", "2", "--checkpoint-every", "1", "--eval-episodes", "16"),
)
TIMES = ("seconds", "steps_per_second")  # entries of a log record that measure time
HEAD = ("kill", "after s", "what it did", "updates saved", "same end")


def command(*words: str) -> list[str]:
    """Return the command that starts a training."""
    return [sys.executable, "-m", "jaxenvs.cli", "train", *words]


def outcome(folder: Path) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return all arrays of a run's last checkpoint, and its log without times."""
    run = Run.open(folder)
    newest = checkpoints.saved(run.checkpoints)[-1]
    if int(newest.name) != UPDATES or checkpoints.damage(newest):
        raise SystemExit(f"{newest} is not the whole end of the training")
    log = [{k: v for k, v in row.items() if k not in TIMES} for row in run.records()]
    return checkpoints.contents(newest), log


def phase(folder: Path) -> str:
    """Return the phase in which a training was killed, inferred from its files."""
    if not (folder / "config.json").is_file():
        return "starting"
    if (folder / "eval.json").is_file():
        return "leaving"
    if any((folder / "checkpoints").glob(".saving-*")):
        return "saving"
    if not checkpoints.saved(folder / "checkpoints"):
        return "compiling"
    return "training"


def killed(folder: Path, is_time: Callable[[float], bool]) -> dict[str, Any] | None:
    """Start a training, kill it when `is_time(seconds)` is true, and return a record of the kill.

    `seconds` is the time since the training made its folder. The record contains the time and phase
    of the kill, and the number of the update that was saved last. Returns None if the training
    ended before the kill.
    """
    process = _start(command(*TRAINING, "--out", str(folder)))
    begun = _begun(process, folder)
    while process.poll() is None and not is_time(time.monotonic() - begun):
        time.sleep(0.001)
    if process.poll() is not None:
        return None
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved = checkpoints.saved(folder / "checkpoints")
    return {
        "after_seconds": round(time.monotonic() - begun, 2),
        "phase": phase(folder),
        "saved": int(saved[-1].name) if saved else 0,
    }


def go_on(folder: Path) -> float:
    """Finish a training: resume it if it can be resumed, else start it from the beginning.

    Return its duration in seconds, measured from when its folder exists.
    """
    resumed = (folder / "config.json").is_file()
    words = ("--resume", str(folder)) if resumed else (*TRAINING, "--out", str(folder))
    process = _start(command(*words))
    begun = _begun(process, folder)
    if process.wait():
        raise SystemExit(f"jaxenvs train {' '.join(words)} ended with {process.returncode}")
    return time.monotonic() - begun


def compare(
    folder: Path,
    like: tuple[dict[str, np.ndarray], list[dict[str, Any]]],
    is_time: Callable[[float], bool],
) -> dict[str, Any] | None:
    """Kill and resume a training; return the record of the kill with an additional entry `same`.

    `same` is True if the outcome equals `like`, the outcome of a training that was not killed.
    Returns None if the training ended before the kill.
    """
    try:
        row = killed(folder, is_time)
        if row is None:
            return None
        go_on(folder)
        arrays, log = outcome(folder)
        same = arrays.keys() == like[0].keys() and all(
            np.array_equal(arrays[name], like[0][name]) for name in arrays
        )
        return row | {"same": bool(same and log == like[1])}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(
    kills: int,
    saving: int,
    seed: int,
    folder: Path,
    rows: list[dict[str, Any]],
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Kill the training `kills` times at random times, then `saving` times during a checkpoint.

    `rows` are the records of kills that an earlier, interrupted call has made; this call makes only
    the remaining ones, and adds their records to `rows`. `keep` is called with all results after
    each kill.
    """
    seconds = go_on(folder / "undisturbed")
    like = outcome(folder / "undisturbed")
    found = {
        "command": " ".join(["jaxenvs", "train", *TRAINING]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {contestants.processor()}",
        "versions": contestants.versions(("jax", "orbax-checkpoint")),
        "seconds_undisturbed": round(seconds, 1),
        "arrays": len(like[0]),
        "kills": rows,
    }
    dice = random.Random(seed + len(rows))
    while len(rows) < kills + saving:
        out = folder / f"{len(rows)}"
        moment = dice.uniform(0, seconds)
        number = dice.randrange(1, UPDATES + 1)
        part = out / "checkpoints" / f".saving-{number:08d}"
        within = len(rows) >= kills
        row = compare(out, like, (lambda _, p=part: p.exists()) if within else moment.__le__)
        if row is not None:
            rows.append(row)
            print(f"{len(rows)} of {kills + saving}: {row}", flush=True)
            keep(found)
    return found


def show(found: dict[str, Any]) -> None:
    """Print the kills as a table, and a summary."""
    rows = found["kills"]
    keys = ("after_seconds", "phase", "saved", "same")
    lines = [(f"{i}", *(str(row[key]) for key in keys)) for i, row in enumerate(rows, 1)]
    print(plain([HEAD, *lines]))
    same = sum(row["same"] for row in rows)
    print(f"{same} of {len(rows)} ended as the undisturbed one, in {found['arrays']} arrays")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 if a run ended differently."""
    parser = Parser("python tests/proofs/kills.py", __doc__)
    parser.add_argument(
        "--kills", type=int, default=20, help="kills at random moments (default 20)"
    )
    parser.add_argument("--saving", type=int, default=5, help="kills during a save (default 5)")
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed of the moments (default 0)"
    )
    parser.add_argument("--json", type=Path, help="file to write; rows in it are kept")
    given = parser.parse_args(argv)
    known = bool(given.json) and given.json.is_file()
    rows = json.loads(given.json.read_text())["kills"] if known else []

    def keep(found: dict[str, Any]) -> None:
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.kills, given.saving, given.seed, Path(folder), rows, keep)
    show(found)
    return 0 if all(row["same"] for row in found["kills"]) else 1


def _begun(process: subprocess.Popen, folder: Path) -> float:
    """Wait until a training has made its folder or ended; return the current time in seconds."""
    while process.poll() is None and not folder.exists():
        time.sleep(0.001)
    return time.monotonic()


def _start(words: Sequence[str]) -> subprocess.Popen:
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
