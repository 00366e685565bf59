"""Ray cluster that this process starts or joins, and a pool that replaces dead actors.

A call of an actor fails if the actor's process has died or takes too long. The pool then starts a
new process in place of the actor.
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

AUTO = "auto"  # value of --address: join the Ray cluster that this machine is part of
# A run ends with an error after more than this number of deaths in a row without progress. Groups
# of learners, replay shards and actors are counted separately. For actors, the limit is `DEATHS`
# times the number of actors.
DEATHS = 3


ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # no authentication: a cluster started here is private
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # `Pool` reports errors itself
}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


class Cluster:
    """The Ray cluster that this process has started or joined."""

    def __init__(self) -> None:
        """Create the object without a cluster; `start` starts or joins one."""
        self._ours = False

    def start(self, address: str | None, workers: int, timeout: int) -> None:
        """Start a cluster on this machine with `workers` CPUs, or join the cluster at `address`.

        Does nothing if this process is already connected to a cluster. Raises `RunError` if the
        address does not answer within `timeout` seconds, or if the cluster has fewer CPUs than
        `workers`.
        """
        if ray.is_initialized():
            return
        if address is None:
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            # Set `_ours` first: if Ctrl-C interrupts `init`, `stop` must still stop the cluster.
            self._ours = True
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
    """Raise `RunError` unless the address accepts a connection within `timeout` seconds.

    Without this check, Ray itself would try to connect for a minute.
    """
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
    """Ignore Ctrl-C in the `with` block, in which processes are stopped.

    Stopping processes takes a second or two and must not be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Call(NamedTuple):
    """A pending call of an actor's method."""

    slot: int  # index of the actor in the pool
    handle: Any  # Ray handle of the actor
    result: Any  # reference to the call's second return value, which stays in the object store
    deadline: float  # time, on the monotonic clock, after which the actor counts as dead


class Made(NamedTuple):
    """Result of a call of an actor's method, which returns two values.

    `slot` is the index of the actor. `about` is the first value. `result` is a Ray reference to the
    second value.
    """

    slot: int
    about: dict[str, Any]
    result: Any


class Pool:
    """Pool of `count` Ray actors, each with at most one call at a time."""

    def __init__(self, make: Callable[[int, int], Any], count: int, patience: float) -> None:
        """Start `count` actors by `make(slot, 0)`, where `slot` is the index of an actor.

        A dead actor is replaced by `make(slot, generation)`, where `generation` is the number of
        actors of the pool that have died so far. An actor counts as dead if a call takes longer
        than `patience` seconds.
        """
        self._make, self.patience, self.count = make, patience, count
        self.lost = 0  # number of dead actors so far
        self._in_a_row = 0
        self.idle = collections.deque((slot, make(slot, 0)) for slot in range(count))
        self.busy: dict[Any, Call] = {}

    def ask(self, method: str, *arguments: Any) -> None:
        """Call `method`, which returns two values, on the actor that has been idle longest."""
        slot, handle = self.idle.popleft()
        first, second = getattr(handle, method).options(num_returns=2).remote(*arguments)
        deadline = time.monotonic() + self.patience
        self.busy[first] = Call(slot, handle, second, deadline)

    def finish(self, reference: Any) -> Made | None:
        """Return a finished call's result; if the actor has died, replace it and return None."""
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
    # Cut off the text from this phrase on, in which Ray lists possible causes.
    return lines[-1].partition(" Worker exit type")[0].strip()
