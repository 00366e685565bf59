"""Detection of NaN losses: warn of each agent that diverged, and end the run once all have."""

import math
import sys
from typing import Any

from ..core import processes
from ..storage.checkpoints import RunError
from ..storage.runs import Run

CURE = "try a smaller --learning-rate or --max-grad-norm"


class Divergence:
    """Monitor that reports agents with NaN in the log.

    An agent is trained with one seed and, in a sweep, one combination of swept settings.
    """

    def __init__(self, run: Run) -> None:
        self._run, self._lost = run, set[int]()

    def look(self, records: list[dict[str, Any]]) -> None:
        """Read new log records; warn once per diverged agent; `RunError` if all diverged."""
        names = self._run.config.names
        for record in records:
            for i in sorted(set(range(len(names))) - self._lost):
                bad = [name for name, value in record.items() if _of(value, i)]
                if bad:
                    self._lost.add(i)
                    _warn(
                        f"{names[i]}: {', '.join(bad)} is NaN at step {record['steps']:,}; {CURE}"
                    )
        if len(self._lost) == len(names):
            raise RunError(
                f"no agent of {self._run.path} learns any more, so it has ended without a new "
                f"checkpoint; {CURE}, in a new run"
            )


def _of(value: Any, i: int) -> bool:
    """Return whether `value`, a field of a log record, is NaN for agent i."""
    number = value[i] if isinstance(value, list) and i < len(value) else None
    return isinstance(number, float) and math.isnan(number)


def _warn(text: str) -> None:
    if processes.first():
        print(text, file=sys.stderr)
