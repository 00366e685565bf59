"""`Background` runs work, such as a compilation, in a separate thread.

The main thread continues meanwhile.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")
NAME = "jaxenvs background"


class Background(Generic[T]):
    """Runs jobs in a separate thread, one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, NAME)
        self._job: Future[T] | None = None

    @property
    def idle(self) -> bool:
        """True if no job is running and the last result was fetched with `take`."""
        return self._job is None

    def begin(self, job: Callable[[], T]) -> None:
        """Start a job; the result of the previous job must have been fetched with `take`."""
        if self._job is not None:
            raise RuntimeError("the result of the previous job was not taken")
        self._job = self._pool.submit(job)

    def done(self, patience: float = 0.0) -> bool:
        """Wait up to `patience` seconds for the job, and return whether it has finished."""
        return self._job is not None and bool(wait([self._job], patience).done)

    def take(self) -> T:
        """Wait for the job and return its result, or raise its exception."""
        if self._job is None:
            raise RuntimeError("there is no job to take the result of")
        job, self._job = self._job, None
        return job.result()

    def close(self) -> None:
        """Let the thread end: now if no job is running, otherwise when the running job finishes.

        Does not wait for a running job.
        """
        self._pool.shutdown(wait=self._job is None or self._job.done(), cancel_futures=True)


def is_busy() -> bool:
    """Return whether a job may still be running: whether the thread of any `Background` exists.

    A thread without a job ends at `close`. The command line calls this function when a command has
    finished. If the result is True, the process exits with `os._exit`, because a normal exit of
    Python would wait for the job, such as a compilation of minutes.
    """
    return any(thread.name.startswith(NAME) for thread in threading.enumerate())
