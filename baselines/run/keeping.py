"""Writing a run's files: training goes on meanwhile, and where the disk is full."""

import contextlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..runs import Run
from . import processes
from .checkpoints import RunError
from .curve import draw


class Keeper:
    """Writes log, checkpoints and curve of a run; warns of failures, and makes up for them later.

    Checkpoints are due every `every` updates or, if that is None, every `seconds`; a thread writes
    them. Rows that could not be written are written with the next ones. Only process 0 writes.
    """

    def __init__(self, run: Run, every: int | None = None, seconds: float = 60.0) -> None:
        self._run, self._every, self._seconds = run, every, seconds
        self._records: list[dict[str, Any]] = []  # not yet in the log
        self._unsaved: RunError | None = None  # why the newest checkpoint is missing
        self._writer, self._saving = ThreadPoolExecutor(1), Future[None]()
        self._saving.set_result(None)
        self._begun = time.monotonic()  # the clock when the last checkpoint was begun

    def log(self, records: list[dict[str, Any]]) -> None:
        """Append records to the log."""
        if processes.first():
            self._records += records
            self._write("log.jsonl", self._append)

    def is_due(self, before: int, update: int) -> bool:
        """Whether to save after `update`; `before` is the update that was asked about last.

        Always false in processes that do not write.
        """
        if not processes.first():
            return False
        if self._every is not None:
            return update // self._every > before // self._every
        return self._saving.done() and time.monotonic() - self._begun >= self._seconds

    def save(self, update: int, trees: dict[str, PyTree]) -> None:
        """Copy the state after `update` and begin to write its checkpoint, after the one before."""
        if not processes.first():
            return
        self.wait()
        self._begun = time.monotonic()
        copies = jax.tree.map(np.array, trees)  # the next update is given the memory of `trees`
        self._saving = self._writer.submit(self._save, update, copies)

    def wait(self) -> None:
        """Return when the last checkpoint has been written."""
        self._saving.result()

    def end(self) -> None:
        """Draw the curve; raise `RunError` where the last state is not saved."""
        self.wait()
        if processes.first():
            self.log([])
            self._write("curve.png", self._draw)
        if self._unsaved is not None:
            raise RunError(f"{self._unsaved}, then use --resume {self._run.path}")

    def _save(self, update: int, trees: dict[str, PyTree]) -> None:
        try:
            self._run.save(update, trees)
            self._unsaved = None
        except RunError as error:
            self._unsaved = error
            _warn(f"{error}. Training continues and saves again at the next checkpoint")

    def _draw(self) -> None:
        config = self._run.config
        draw(self._run.path / "curve.png", self._run.records(), config.id, config.names)

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
