"""Ray cluster, started by this process or joined, and a pool of actors that replaces dead ones.

A call fails if its process has died or takes too long; a new process then replaces it.
"""

import collections
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError

from ..core.processes import reached
from ..storage.runs import RunError

AUTO = "auto"  # value of --address: join the cluster that this machine is a node of
DEATHS = 3  # number of deaths per actor, without a result in between, beyond which a run fails


ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # not needed: a cluster started here is private
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # `Pool` itself reports errors
}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


class Cluster:
    """The Ray cluster of this process."""

    def __init__(self) -> None:
        """Do nothing; `start` starts or joins a cluster."""
        self._ours = False

    def start(self, address: str | None, workers: int, timeout: int) -> None:
        """Start a cluster on this machine with `workers` CPUs, or join the one at `address`.

        Does nothing if this process has joined a cluster already. Raises `RunError` if there is no
        answer within `timeout` seconds, or if the cluster has fewer CPUs than workers.
        """
        if ray.is_initialized():
            return
        if address is None:
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            self._ours = True  # set before `init`, so that Ctrl-C stops a half-started cluster
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **QUIET)
            return
        if address != AUTO:
            _knock(address, timeout)
        try:
            ray.init(address=address, **QUIET)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RunError(f"--address {address}: {_last_line(error)}; see `ray status`") from error
        self._ours = True
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < workers:
            raise RunError(
                f"--address {address}: the cluster has {cpus} CPUs, and each of {workers} actors "
                f"and learners takes one; give fewer --actors, or add nodes with `ray start`"
            )

    def stop(self) -> None:
        """Stop the cluster that was started, or leave the one that was joined."""
        if self._ours:
            ray.shutdown()
            self._ours = False


def _knock(address: str, timeout: int) -> None:
    """Raise `RunError` unless the address answers; Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise RunError(f"--address {address}: give HOST:PORT of the cluster's head, or {AUTO}")
    try:
        reached(host, int(port), time.monotonic() + timeout).close()
    except OSError as error:
        raise RunError(
            f"--address {address}: no answer after {timeout} s ({error.__cause__}); "
            f"start the head with `ray start --head --port {port}`, or give the address it names"
        ) from error


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C while processes are stopped, which takes a second or two."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Call(NamedTuple):
    """A pending call of an actor."""

    slot: int
    handle: Any
    result: Any  # reference to the second return value, which is not fetched
    deadline: float


class Made(NamedTuple):
    """Result of a call: its first return value, and a reference to the second."""

    slot: int
    about: dict[str, Any]
    result: Any


class Pool:
    """Pool of `count` Ray actors, each with at most one call at a time."""

    def __init__(self, make: Callable[[int, int], Any], count: int, patience: float) -> None:
        """Start the actors `make(slot, generation)`; a call may take `patience` seconds."""
        self._make, self.patience, self.count = make, patience, count
        self.lost = 0  # number of dead actors so far
        self._in_a_row = 0
        self.idle = collections.deque((slot, make(slot, 0)) for slot in range(count))
        self.busy: dict[Any, Call] = {}

    def ask(self, method: str, *arguments: Any) -> None:
        """Call a method with two return values on the actor that has been idle longest."""
        slot, handle = self.idle.popleft()
        first, second = getattr(handle, method).options(num_returns=2).remote(*arguments)
        deadline = time.monotonic() + self.patience
        self.busy[first] = Call(slot, handle, second, deadline)

    def finish(self, reference: Any) -> Made | None:
        """Return the result of a finished call; if its actor died, replace it and return None."""
        call = self.busy.pop(reference)
        try:
            about: Any = ray.get(reference)
        except RayError as error:
            self._replace(call, reason(error))
            return None
        self._in_a_row = 0
        self.idle.append((call.slot, call.handle))
        return Made(call.slot, about, call.result)

    def check(self) -> None:
        """Kill and replace actors whose calls take too long."""
        for reference, call in list(self.busy.items()):
            if time.monotonic() > call.deadline:
                del self.busy[reference]
                ray.kill(call.handle)
                self._replace(call, f"no answer in {self.patience:.0f} s (--patience)")

    def _replace(self, call: Call, why: str) -> None:
        self.lost += 1
        self._in_a_row += 1
        if self._in_a_row > DEATHS * self.count:
            raise RunError(f"{self._in_a_row} actors died without a result in between: {why}")
        print(f"Actor {call.slot} is replaced, its fragment dropped: {why}", file=sys.stderr)
        self.idle.append((call.slot, self._make(call.slot, self.lost)))

    def end(self) -> None:
        """Kill all actors."""
        for handle in [*(h for _, h in self.idle), *(call.handle for call in self.busy.values())]:
            ray.kill(handle)
        self.idle.clear()
        self.busy.clear()


def reason(error: RayError) -> str:
    """Return the line of Ray's error message that names the cause."""
    return _last_line(error.cause if isinstance(error, RayTaskError) and error.cause else error)


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].partition(" Worker exit type")[0].strip()  # omit Ray's guesses at the cause
