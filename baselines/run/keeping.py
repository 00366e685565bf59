"""Writer of a run's files.

Checkpoints are written while training continues. If the disk is full, the writer prints a warning,
training continues, and the writer tries again later.
"""

import contextlib
import functools
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from ..core import processes
from ..evaluation import episode_measures
from ..evaluation.curve import draw
from ..storage.checkpoints import RunError
from ..storage.runs import Run
from .sinks import Sink
from .tracking import Look

Callback = Callable[[dict[str, Any]], object]


class Keeper:
    """Writer of a run's log, checkpoints and curve; it warns of failures and retries later.

    A checkpoint is due every `every` updates or, if `every` is None, every `seconds` seconds. A
    thread writes it. Log records that could not be written are written with the next records.
    `sinks` receive records once they are in the log. `callback` is called with each record;
    if it returns a true value, `stopped` becomes True. `looks` are the evaluations and videos of
    tracking.py. Only process 0 writes.
    """

    def __init__(
        self,
        run: Run,
        every: int | None = None,
        seconds: float = 60.0,
        sinks: Mapping[str, Sink] = types.MappingProxyType({}),
        callback: Callback | None = None,
        looks: Sequence[Look] = (),
    ) -> None:
        self._run, self._every, self._seconds = run, every, seconds
        self._sinks, self._callback, self._looks = sinks, callback, list(looks)
        self.stopped = False
        self._records: list[dict[str, Any]] = []  # records that are not in the log yet
        self._unsaved: RunError | None = None  # why saving the newest checkpoint failed
        self._writer, self._saving = ThreadPoolExecutor(1), Future[None]()
        self._saving.set_result(None)
        self._begun = time.monotonic()  # time in s at which the latest checkpoint was begun

    def add(self, look: Look) -> None:
        """Add an evaluation during training, before training begins."""
        self._looks.append(look)

    def log(self, records: list[dict[str, Any]]) -> None:
        """Append records to the log; add the results of finished evaluations to the last record."""
        if not processes.first():
            return
        for look in self._looks if records else ():
            look.finish(records[-1])
        self._records += records
        self._write(self._run.path / "log.jsonl", self._append)
        if self._callback is not None:
            for record in records:
                self.stopped |= bool(self._callback(record))

    @property
    def note(self) -> str:
        """Text for the progress line, such as the result of the latest evaluation."""
        return " ".join(look.note for look in self._looks if look.note)

    def look(self, before: int, update: int, weights: PyTree[Array]) -> None:
        """Begin the evaluations and videos that have become due since the previous call.

        `update` is the number of updates made so far, and `before` this number at the previous
        call.
        """
        for look in self._looks:
            if look.every is not None and update // look.every > before // look.every:
                begin = functools.partial(look.begin, update, weights)
                self._write(self._run.path / "videos", begin)

    def is_due(self, before: int, update: int) -> bool:
        """Return whether a checkpoint has become due since the previous call.

        `update` is the number of updates made so far, and `before` this number at the previous
        call. Processes other than 0 always return False.
        """
        if not processes.first():
            return False
        if self._every is not None:
            return update // self._every > before // self._every
        return self._saving.done() and time.monotonic() - self._begun >= self._seconds

    def save(self, update: int, trees: dict[str, PyTree]) -> None:
        """Copy the training state after `update`; a thread writes the copy as a checkpoint.

        First wait until the previous checkpoint is written.
        """
        if not processes.first():
            return
        self.wait()
        self._begun = time.monotonic()
        copies = jax.tree.map(np.array, trees)  # copy: the next update overwrites `trees`
        for look in self._looks:
            copies |= look.parts()
        self._saving = self._writer.submit(self._save, update, copies)

    def wait(self) -> None:
        """Wait until the last checkpoint has been written."""
        self._saving.result()

    def end(self) -> None:
        """Finish writing and draw the curve; `RunError` if the last checkpoint was not written."""
        self.wait()
        if processes.first():
            self.log([])
            self._write(self._run.path / "curve.png", self._draw)
            for look in self._looks:
                self._write(self._run.path / "videos", look.end)
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
        records = self._run.records()
        draw(self._run.path / "curve.png", records, config.id, config.names)
        episode_measures.draw(self._run.path / "achievements.png", records, config.id)

    def _append(self) -> None:
        self._run.log(self._records)
        rows, self._records = self._records, []
        for name, sink in self._sinks.items():
            self._write(f"--log {name}", functools.partial(sink.log, rows))

    def _write(self, name: object, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            _warn(f"{name} could not be written ({error}). Training continues")

    def close(self) -> None:
        """Close the additional logs, such as TensorBoard's."""
        for name, sink in self._sinks.items():
            self._write(f"--log {name}", sink.close)


def _warn(sentence: str) -> None:
    """Print a warning to stderr; do nothing if stderr cannot be written."""
    with contextlib.suppress(OSError):
        print(f"warning: {sentence}", file=sys.stderr, flush=True)
