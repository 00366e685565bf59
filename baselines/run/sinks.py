"""Copies of the log next to log.jsonl: CSV, TensorBoard, Weights & Biases.

A sink writes one copy. It receives each record after the record is written to log.jsonl. In a run
of several seeds, the metric NAME is the mean over the seeds, and NAME/seedN is the value of seed N.
In a sweep, the name also has the settings, such as NAME/gamma=0.9 seedN.
"""

import csv
import dataclasses
import io
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxenvs.core.checks import suggestion
from jaxenvs.core.extras import require
from jaxenvs.core.files import replacing

from ..storage.runs import Config, Run, RunError

Rows = Sequence[dict[str, Any]]


class Sink:
    """Base class of log writers, whose methods raise `OSError` if writing fails."""

    def start(self, run: Run, rows: Rows) -> None:
        """Start the log of a run. `rows` are the records that log.jsonl already has."""
        raise NotImplementedError

    def log(self, rows: Rows) -> None:
        """Write further log records, one for each update, in the order of the updates."""
        raise NotImplementedError

    def close(self) -> None:
        """Write records that are still buffered, and close the log."""


def agents(config: Config) -> list[str]:
    """Return the suffix of each agent's metric names, such as `seed3`."""
    return [name.replace("seed ", "seed") for name in config.names]


def flat(row: dict[str, Any], agents: Sequence[str]) -> dict[str, float | None]:
    """Return the numbers in a record by column name, None where unknown; leave out texts.

    For a metric that is a list over several agents, return the mean and the number of each agent.
    """
    numbers: dict[str, float | None] = {}
    for name, value in ((k, x) for k, x in row.items() if not isinstance(x, str)):
        values = value if isinstance(value, list) else [value]
        known = [x for x in values if x is not None]
        numbers[name] = float(np.mean(known)) if isinstance(value, list) and known else values[0]
        if len(values) > 1:
            numbers |= {f"{name}/{agent}": x for agent, x in zip(agents, values, strict=True)}
    return numbers


class Csv(Sink):
    """Log in RUN/log.csv, which is rewritten when a record adds a column."""

    def start(self, run: Run, rows: Rows) -> None:
        self._run, self._agents, self._columns = run, agents(run.config), []
        self._write_all(rows)

    def log(self, rows: Rows) -> None:
        new = [flat(row, self._agents) for row in rows]
        if not self._columns or any(row.keys() - set(self._columns) for row in new):
            return self._write_all(self._run.records())
        # If appending fails, `_columns` stays empty, so that the next call rewrites the whole file.
        columns, self._columns = self._columns, []
        self._run.append("log.csv", self._lines(columns, new))
        self._columns = columns

    def _write_all(self, rows: Rows) -> None:
        found = [flat(row, self._agents) for row in rows]
        columns = list(dict.fromkeys(name for row in found for name in row))
        header = dict(zip(columns, columns, strict=True))
        with replacing(self._run.path / "log.csv") as temporary:
            temporary.write_text(self._lines(columns, [header, *found] if found else []), "utf-8")
        self._columns = columns

    def _lines(self, columns: list[str], rows: Sequence[dict[str, Any]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
        return text.getvalue()


class TensorBoard(Sink):
    """Log in RUN/tensorboard; every record is in the file when `log` returns.

    (`SummaryWriter` of tensorboardX would write records later.) A resumed run begins a new file,
    and so does a run after a failed write. The new file names its first step, from which on
    TensorBoard ignores the records in older files.
    """

    def start(self, run: Run, rows: Rows) -> None:
        self._folder, self._agents = run.path / "tensorboard", agents(run.config)
        self._writer = None
        begun = self._folder.is_dir()
        self._folder.mkdir(exist_ok=True)
        self._open(rows[-1]["steps"] + 1 if begun and rows else 1)
        self.log([] if begun else rows)

    def log(self, rows: Rows) -> None:
        from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined]
        from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[attr-defined]

        writer = self._writer or self._open(rows[0]["steps"])
        self._writer = None  # if writing fails below, the next call opens a new file
        for row in rows:
            numbers = flat(row, self._agents).items()
            values = [Summary.Value(tag=k, simple_value=x) for k, x in numbers if x is not None]
            event = Event(wall_time=time.time(), step=row["steps"], summary=Summary(value=values))
            writer.write_event(event)
        writer.flush()
        self._writer = writer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, step: int) -> Any:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog  # type: ignore[attr-defined]

        # The suffix ends in the step, so that this file sorts after files made earlier in the same
        # second.
        self._writer = EventsWriter(str(self._folder / "events"), f".{step:012d}")
        begin = SessionLog(status=SessionLog.START)
        self._writer.write_event(Event(wall_time=time.time(), step=step, session_log=begin))
        return self._writer


class Wandb(Sink):
    """Log in Weights & Biases, with files in RUN/wandb; a resumed run continues the same log."""

    def start(self, run: Run, rows: Rows) -> None:
        import wandb  # type: ignore[import-not-found]

        self._error = wandb.Error
        known = sorted(path.name for path in run.path.glob("wandb/*run-*-*"))
        try:
            self._run: Any = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "jaxenvs"),
                name=run.path.name,
                id=known[-1].rpartition("-")[2] if known else None,
                resume="allow",
                dir=run.path,
                config=dataclasses.asdict(run.config),
                settings=wandb.Settings(console="off"),
            )
        except wandb.Error as error:
            raise RunError(
                f"--log wandb: {error}; log in with `wandb login`, or set WANDB_MODE=offline"
            ) from error
        self._agents = agents(run.config)
        self.log([] if known else rows)

    def log(self, rows: Rows) -> None:
        for row in rows:
            numbers = flat(row, self._agents).items()
            try:
                self._run.log({k: x for k, x in numbers if x is not None}, step=row["steps"])
            except self._error as error:
                raise OSError(str(error)) from error

    def close(self) -> None:
        self._run.finish()


SINKS = {"csv": Csv, "tensorboard": TensorBoard, "wandb": Wandb}
NEEDED = {"tensorboard": "tensorboardX", "wandb": "wandb"}  # log writer -> package that it needs


def check(log: str) -> list[str]:
    """Return the names of log writers in a comma-separated list, without repetitions.

    Raises `RunError` for unknown names and `MissingExtraError` if the package of a log writer is
    missing.
    """
    names = [name.strip() for name in log.split(",") if name.strip()]
    for name in names:
        if name not in SINKS:
            raise RunError(
                f"--log {log}: there is no {name!r}; give {', '.join(SINKS)}, joined by commas"
                f"{suggestion(name, SINKS)}"
            )
        if name in NEEDED:
            require([NEEDED[name]], name)
    return list(dict.fromkeys(names))


def started(log: str, run: Run) -> dict[str, Sink]:
    """Start the log writers of a run; return them by name. `RunError` if one cannot start."""
    made: dict[str, Sink] = {name: SINKS[name]() for name in check(log)}
    for name, sink in made.items():
        try:
            sink.start(run, run.records())
        except OSError as error:
            raise RunError(
                f"--log {name}: {run.path} cannot be written ({error}); free some space, or omit it"
            ) from error
    return made
