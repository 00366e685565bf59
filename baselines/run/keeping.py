"""Writing down what a run makes: where the disk is full, training goes on and nothing is spoilt."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from jaxtyping import PyTree

from ..runs import Run
from . import processes
from .checkpoints import RunError
from .curve import draw


class Keeper:
    """Writes log, checkpoints and curve of a run; warns of failures, and makes up for them later.

    Rows that could not be written are written with the next ones. Only process 0 writes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._records: list[dict[str, Any]] = []  # not yet in the log
        self._unsaved: RunError | None = None  # why the newest checkpoint is missing

    def log(self, records: list[dict[str, Any]]) -> None:
        """Append records to the log."""
        if processes.first():
            self._records += records
            self._write("log.jsonl", self._append)

    def save(self, update: int, trees: dict[str, PyTree]) -> None:
        """Write the checkpoint of `update`, then the learning curve."""
        if not processes.first():
            return
        try:
            self._run.save(update, trees)
            self._unsaved = None
        except RunError as error:
            self._unsaved = error
            _warn(f"{error}. Training continues and saves again at the next checkpoint")
        config = self._run.config
        curve = self._run.path / "curve.png"
        self._write("curve.png", lambda: draw(curve, self._run.records(), config.id, config.seed))

    def end(self) -> None:
        """Raise `RunError` where the last state is not saved."""
        if self._unsaved is not None:
            raise RunError(f"{self._unsaved}, then use --resume {self._run.path}")

    def _append(self) -> None:
        self._run.log(self._records)
        self._records = []

    def _write(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            _warn(f"{self._run.path / name} could not be written ({error}). Training continues")


def _warn(sentence: str) -> None:
    """Say it, where that can be written."""
    with contextlib.suppress(OSError):
        print(f"warning: {sentence}", file=sys.stderr, flush=True)
