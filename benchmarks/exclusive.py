"""A lock on the device: processes compile side by side, and one at a time measures.

An instrument that runs alone shares nothing and never waits.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

POLL = 0.02  # seconds between two attempts to take the lock


class Device:
    """The device as this process sees it; `held` may be nested."""

    def __init__(self) -> None:
        self.lock: Path | None = None  # file that all processes lock; None: no other process
        self.report: Path | None = None  # file in which the time waited is reported
        self.depth = 0
        self.waited = 0.0  # seconds, all waits together

    def share(self, lock: Path, report: Path) -> None:
        """Take turns with the processes that lock the same file."""
        lock.parent.mkdir(parents=True, exist_ok=True)
        self.lock, self.report = lock, report
        self._tell(None)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the device for this process; wait until the others have released it."""
        if self.lock is None or self.depth:
            self.depth += 1
            try:
                yield
            finally:
                self.depth -= 1
            return
        with self.lock.open("a") as file:  # closing it releases the lock
            self._take(file)
            self.depth = 1
            try:
                yield
            finally:
                self.depth = 0

    def _take(self, file: IO[str]) -> None:
        import fcntl  # not on Windows, where jobs run one after another

        begun = time.monotonic()
        self._tell(begun)
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL)  # a blocking call would keep signals from their handlers
            else:
                break
        self.waited += time.monotonic() - begun
        self._tell(None)

    def _tell(self, since: float | None) -> None:
        """Report the time waited so far, and since when this process has been waiting."""
        assert self.report is not None
        with contextlib.suppress(OSError):
            self.report.write_text(json.dumps({"waited": self.waited, "since": since}), "utf-8")


def waited(report: Path) -> float:
    """Seconds that the process with this report has waited until now."""
    try:
        found = json.loads(report.read_text("utf-8"))
        since = found["since"]
        return found["waited"] + (time.monotonic() - since if since is not None else 0.0)
    except (OSError, ValueError, LookupError, TypeError):  # not written yet, or half
        return 0.0


DEVICE = Device()
held = DEVICE.held
