"""Progress of a run: records for the log, and a line with speed, return and time left."""

import contextlib
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ..metrics import row
from ..runs import Config
from . import processes

INTERVAL = 5.0  # seconds between lines where there is no terminal


class ProgressLine:
    """A live line in a terminal, a plain line every few seconds elsewhere."""

    def __init__(
        self,
        config: Config,
        steps_per_update: int,
        updates: int,
        done: int,
        console: Console | None = None,
    ) -> None:
        """Begin after `done` of `updates` updates."""
        self._console = console or Console(quiet=not processes.first())
        self._config, self._steps_per_update = config, steps_per_update
        self._updates, self._done = updates, done
        self._score: float | None = None  # mean return of the latest episodes
        self._note = ""  # what else the line says
        self._begun = time.perf_counter()
        self._compiled: tuple[float, int] | None = None  # when, after which update
        self._last_print = self._begun
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(config.id, total=updates, completed=done, text="compiling")

    def __enter__(self) -> "ProgressLine":
        self._bar.start()
        self._print("compiling ...")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, metrics: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Take the metrics (seeds, updates) of a chunk, and return records for the log."""
        records = [self._record(metrics, i) for i in range(metrics["episodes"].shape[1])]
        now = time.perf_counter()
        self._compiled = self._compiled or (now, self._done)
        for record in records:
            record |= {"seconds": round(now - self._begun, 3), "steps_per_second": self._rate()}
        return records

    def show(self, note: str = "") -> None:
        """Show what was last taken; call it when that is in the log."""
        self._note, now = note, time.perf_counter()
        self._bar.update(self._task, completed=self._done, text=self._text())
        if now - self._last_print >= INTERVAL or self._done >= self._updates:
            self._last_print = now
            self._print(self._text())

    def _record(self, metrics: dict[str, np.ndarray], i: int) -> dict[str, Any]:
        """One record of the log, of update i of the chunk: each number is a list over the seeds."""
        self._done += 1
        sums = row(metrics, i)
        episodes = sums["episodes"]
        means = {
            name: [
                s / n if n else None for s, n in zip(sums.pop(f"{name}_sum"), episodes, strict=True)
            ]
            for name in ("return", "length")
        }
        known = [value for value in means["return"] if value is not None]
        self._score = float(np.mean(known)) if known else self._score
        steps = self._done * self._steps_per_update
        return {"update": self._done, "steps": steps, **means, **sums}

    def _rate(self) -> float | None:
        """Steps per second of all seeds since the end of the first chunk, which compiled."""
        if self._compiled is None or self._done == self._compiled[1]:
            return None
        made = (self._done - self._compiled[1]) * self._steps_per_update * self._config.seeds
        return round(made / max(time.perf_counter() - self._compiled[0], 1e-9), 1)

    def _text(self) -> str:
        """Steps and speed count all seeds."""
        each = self._steps_per_update * self._config.seeds
        parts = [f"{self._done * each:,} of {self._updates * each:,} steps"]
        parts.append("return -" if self._score is None else f"return {self._score:.3f}")
        parts += [self._note] if self._note else []
        rate = self._rate()
        if rate:
            left = (self._updates - self._done) * each / rate
            parts += [f"{rate:,.0f} steps/s", f"{left // 60:.0f}:{left % 60:02.0f} left"]
        return "   ".join(parts)

    def _print(self, text: str) -> None:
        if not self._console.is_terminal and processes.first():
            with contextlib.suppress(OSError):  # a full disk under the output ends no training
                print(f"{self._config.id}: {text}", flush=True)
