"""Lock on the device: processes compile in parallel, but only one at a time measures.

A benchmark that runs alone has no lock file and never waits.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

POLL = 0.02  # seconds between two attempts to take the lock


class Device:
    """The accelerator or CPU that JAX uses, which other processes may use too.

    The context `held` waits for the lock on the device and holds it until the context ends. `held`
    contexts may be nested.
    """

    def __init__(self) -> None:
        # File that all processes lock; None if no other process uses the device.
        self.lock: Path | None = None
        self.depth = 0
        self._waited = 0.0  # seconds of all finished waits for the lock
        self._waiting_since: float | None = None

    @property
    def waited(self) -> float:
        """Seconds that this process has waited for the lock, the current wait included."""
        since = self._waiting_since
        return self._waited + (0.0 if since is None else time.monotonic() - since)

    def share(self, lock: Path) -> None:
        """Share the device with the processes that lock the same file."""
        lock.parent.mkdir(parents=True, exist_ok=True)
        self.lock = lock

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until other processes have released the device; hold it during the context."""
        file = self.lock.open("a") if self.lock and not self.depth else contextlib.nullcontext()
        with file as opened:  # closing the file releases the lock
            if opened:
                self._take(opened)
            self.depth += 1
            try:
                yield
            finally:
                self.depth -= 1

    def _take(self, file: IO[str]) -> None:
        # Import `fcntl` here, because Windows has no `fcntl`. Windows never reaches this line:
        # there jobs run one at a time and need no lock.
        import fcntl

        self._waiting_since = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Poll, because a blocking call to `flock` would delay Python's signal handlers.
                time.sleep(POLL)
            else:
                break
        self._waited, self._waiting_since = self.waited, None


DEVICE = Device()
held = DEVICE.held
