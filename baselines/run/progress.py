"""Progress of a run: log records, and a progress line with speed, return and time left."""

import collections
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from ..core import processes
from ..core.metrics import SUM, counted_by, is_sum, row
from ..core.terminal import COMPILING, bar, clock, say
from ..storage.runs import Config

INTERVAL = 5.0  # seconds between progress lines if the output is not a terminal
OLDEST = "oldest"  # name of a metric: steps of the longest unfinished episode


class ProgressLine:
    """Progress bar in a terminal; any other output gets a new line every few seconds."""

    def __init__(
        self,
        config: Config,
        steps_per_update: int,
        updates: int,
        done: int,
        console: Console | None = None,
        unit: str = "steps",
        shown: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        """Start the line of a run that has made `done` of `updates` updates.

        `unit` is the name of the steps. `shown` formats a log record as the text in the line; if it
        is None, the line shows the return.
        """
        self._console = console or Console(quiet=not processes.first())
        self._config, self._steps_per_update = config, steps_per_update
        self._updates, self._done = updates, done
        self._unit, self._shown = unit, shown
        self._returns = Returns(config.settings.get("rollout_steps", 1))
        self._words = ""  # text that `shown` returned for the latest log record
        self._note = ""  # further text of the line, such as the result of an evaluation
        self._begun = time.perf_counter()
        # Time (s) and number of updates at the end of the first chunk (a call of the compiled
        # program), whose time includes compilation.
        self._compiled: tuple[float, int] | None = None
        self._last_print = self._begun
        self._bar = bar(self._console)
        self._task = self._bar.add_task(config.id, total=updates, completed=done, text="", left="")

    def __enter__(self) -> "ProgressLine":
        self._bar.start()
        self._print(f"{COMPILING} ...")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, metrics: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Count the updates of a chunk (a call of the compiled program); return their log records.

        `metrics` are the metrics of these updates, (seeds, updates).
        """
        oldest = metrics.get(OLDEST)
        rest = {name: values for name, values in metrics.items() if name != OLDEST}
        records = []
        for i in range(metrics["episodes"].shape[1]):
            sums = (metrics["episodes"][:, i], metrics["return_sum"][:, i])
            self._returns.take(*sums, None if oldest is None else int(oldest[:, i].max()))
            records.append(self._record(rest, i))
        now = time.perf_counter()
        self._compiled = self._compiled or (now, self._done)
        for record in records:
            record |= {"seconds": round(now - self._begun, 3), "steps_per_second": self._rate()}
        if self._shown is not None and records:
            self._words = self._shown(records[-1])
        return records

    def show(self, note: str = "") -> None:
        """Update the progress line; call this after the latest records are written to the log."""
        self._note, now = note, time.perf_counter()
        text, left = self._text(), self._left()
        self._bar.update(self._task, completed=self._done, text=text, left=left)
        if now - self._last_print >= INTERVAL or self._done >= self._updates:
            self._last_print = now
            self._print("   ".join(part for part in (text, left) if part))

    def _record(self, metrics: dict[str, np.ndarray], i: int) -> dict[str, Any]:
        """Return the log record of update i of a chunk; each metric is a list over the seeds."""
        self._done += 1
        sums = row(metrics, i)
        means = {
            name: [
                total / count if count else None
                for total, count in zip(
                    sums.pop(f"{name}{SUM}"), sums[counted_by(name)], strict=True
                )
            ]
            for name in [key.removesuffix(SUM) for key in sums if is_sum(key)]
        }
        steps = self._done * self._steps_per_update
        return {"update": self._done, "steps": steps, **means, **sums}

    def _rate(self) -> float | None:
        """Return the steps per second of all seeds together; None until the second chunk ends.

        A chunk is a call of the compiled program. The first chunk is not counted, because its time
        includes compilation.
        """
        if self._compiled is None or self._done == self._compiled[1]:
            return None
        made = (self._done - self._compiled[1]) * self._steps_per_update * self._config.seeds
        return round(made / max(time.perf_counter() - self._compiled[0], 1e-9), 1)

    def _text(self) -> str:
        """Return the text of the progress line; its steps and speed are sums over the seeds."""
        each, score = self._steps_per_update * self._config.seeds, self._returns.mean
        parts = [f"{self._done * each:,} of {self._updates * each:,} {self._unit}"]
        returned = "return -" if score is None else f"return {score:.3f}"
        parts.append(self._words if self._shown else returned)
        parts += [self._note] if self._note else []
        parts += [f"{rate:,.0f} {self._unit.split()[-1]}/s"] if (rate := self._rate()) else []
        return "   ".join(parts)

    def _left(self) -> str:
        """Return the time left as text.

        The text is "" until the first chunk (call of the compiled program) ends, and "- left" until
        the second chunk ends.
        """
        if self._done >= self._updates:
            return "0:00 left"
        each, rate = self._steps_per_update * self._config.seeds, self._rate()
        if not rate:
            return "- left" if self._compiled else ""
        return f"{clock((self._updates - self._done) * each / rate)} left"

    def _print(self, text: str) -> None:
        if not self._console.is_terminal and processes.first():
            say(f"{self._config.id}: {text}")


class Returns:
    """Mean return of the latest episodes, without a bias towards short episodes.

    Short episodes end first, and may have other returns than long episodes. Therefore the mean is
    over a number of latest updates: the smallest number with more steps than the longest unfinished
    episode. In these updates, every environment has finished an episode. As long as the run has
    made fewer updates, the mean is None.
    """

    def __init__(self, rollout_steps: int) -> None:
        """Start without episodes; each update has `rollout_steps` steps of every environment."""
        self._steps = rollout_steps
        self._sums: collections.deque[tuple[np.ndarray, np.ndarray]] = collections.deque()
        self.mean: float | None = None

    def take(self, episodes: np.ndarray, total: np.ndarray, oldest: int | None) -> None:
        """Add the episodes that ended in an update, and compute the mean return, `mean`, again.

        `episodes` is the number of these episodes and `total` the sum of their returns, both
        (seeds,). `oldest` is the length of the longest unfinished episode. If `oldest` is None
        (unknown), the mean is over the episodes of this update only, and unchanged if none ended.
        """
        if oldest is None:
            some = episodes > 0
            self.mean = float((total[some] / episodes[some]).mean()) if some.any() else self.mean
            return
        self._sums.append((episodes, total))
        while (len(self._sums) - 1) * self._steps > oldest:
            self._sums.popleft()
        if len(self._sums) * self._steps <= oldest:
            self.mean = None
            return
        counts, totals = (np.sum(list(part), axis=0) for part in zip(*self._sums, strict=True))
        self.mean = float((totals / counts).mean()) if (counts > 0).all() else None
