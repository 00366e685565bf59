"""Comparison of learners: each has a separate process, and the learners train in turns."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

VARIABLES = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
# Every process compiles from scratch, so that compile times are comparable.
VARIABLES["JAX_ENABLE_COMPILATION_CACHE"] = "false"


class Learner:
    """A learner in a separate process that trains on request, see `peers.off_policy.serve`.

    Raises `LookupError` if the learner's package is missing, `RuntimeError` if the process dies.
    """

    def __init__(self, label: str, command: Sequence[str], asked: dict[str, Any]) -> None:
        self.label = label
        self.trainings: list[dict[str, Any]] = []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process: Any = subprocess.Popen(command, env={**os.environ, **VARIABLES}, **pipes)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self._send(asked)
            if reason := self._answer()["missing"]:
                raise LookupError(reason)
            stack.pop_all()

    def train(self, seed: int) -> None:
        """Train with `seed` in the process; append the figures of the run to `trainings`."""
        self._send(seed)
        self.trainings.append({"seed": seed, **self._answer()})

    def close(self) -> None:
        """Close the input of the process, which then ends, and wait for its end."""
        with contextlib.suppress(BrokenPipeError):  # raised if the process has ended
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, asked: Any) -> None:
        # If the process has ended, writing fails. Ignore the error: the next `_answer` raises a
        # clearer one.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"{self.label}: its process ended with {code}")
        return json.loads(line)


def take_turns(
    builders: Mapping[str, Callable[[str], Learner]], seeds: int, missing: list[dict[str, str]]
) -> dict[str, list[dict[str, Any]]]:
    """Train learners in turns, seed by seed; return label -> figures of the learner's runs.

    `builders` map each label to a function that starts the learner's process. A learner that cannot
    start is added to `missing`, with the reason.
    """
    learners: list[Learner] = []
    try:
        for label, build in builders.items():
            try:
                learners.append(build(label))
            except (LookupError, OSError, RuntimeError) as error:
                missing.append({"learner": label, "reason": str(error)})
        for seed in range(seeds):
            for learner in learners:
                learner.train(seed)
    finally:
        for learner in learners:
            learner.close()
    return {learner.label: learner.trainings for learner in learners}
