"""The processes of the jobs of `card`: how one is started, limited in time and ended."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs.core import gpu_flags

from . import exclusive

MARGIN = 10.0  # seconds before its limit in which a job begins no other case
SAID = 40  # last lines of a job that failed
POLL = 0.2  # seconds between two looks at a process
LOCK = "device.lock"
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # to compile


class StoppedError(Exception):
    """Another thread has asked for the end of all jobs."""


class Limits(NamedTuple):
    """Seconds that a job may take: without its waits for the device, and with them."""

    seconds: float
    most: float


class Order(NamedTuple):
    """Input of the process of a job."""

    job: str
    file: Path
    scratch: Path
    header: dict[str, Any]
    limits: Limits

    @property
    def report(self) -> Path:
        """File in which the process reports how long it waited for the device."""
        return self.scratch / f"{self.file.stem}.waited"

    def as_json(self) -> str:
        """The order as the process reads it."""
        seconds, most = self.limits
        told = {"file": str(self.file), "scratch": str(self.scratch), "header": self.header}
        told |= {"seconds": seconds - MARGIN, "most": most - MARGIN, "report": str(self.report)}
        return json.dumps(told)


def child(*words: str) -> list[str]:
    """The words of this command, installed or not, for a separate process."""
    return [sys.executable, str(Path(__file__).with_name("__main__.py")), "card", *words]


def environment(
    asked: Mapping[str, str], header: dict[str, Any], shared: bool = False
) -> dict[str, str]:
    """Variables of a job's process; its flags for XLA stand behind those that are set.

    On a GPU, `gpu_flags` gives them, unless the job asks for others. Processes that share a
    GPU allocate memory as they need it.
    """
    on_gpu = header["platform"] == "gpu"
    extra = {"XLA_FLAGS": " ".join(map(str, gpu_flags.known()))} | dict(asked) if on_gpu else {}
    quick = QUICK if header["tiny"] and not on_gpu else ""
    flags = (os.environ.get("XLA_FLAGS", ""), extra.pop("XLA_FLAGS", ""), quick)
    return {
        **os.environ,
        **({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if shared else {}),
        **extra,
        "XLA_FLAGS": " ".join(filter(None, flags)),
        "PYTHONUNBUFFERED": "1",
    }


def run(order: Order, variables: dict[str, str], stop: threading.Event) -> tuple[list[str], str]:
    """Run a job in a separate process and repeat its output; return the last lines and an error.

    The error is empty if the job recorded its own end. Raises `StoppedError` when `stop` is set.
    """
    order.report.unlink(missing_ok=True)
    process = subprocess.Popen(
        child("--job", order.job),
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    said: deque[str] = deque(maxlen=SAID)
    reader = threading.Thread(target=_repeat, args=(order.job, process, said), daemon=True)
    with _ended(process, reader):
        reader.start()
        with contextlib.suppress(BrokenPipeError):  # it says why it ended
            assert process.stdin is not None
            process.stdin.write(order.as_json())
            process.stdin.close()
        trouble = _wait(process, order, stop)
    return list(said), trouble


def _wait(process: subprocess.Popen, order: Order, stop: threading.Event) -> str:
    """Wait for the end of a process; return what went wrong.

    While it waits for the device its time stands still.
    """
    begun = time.monotonic()
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(POLL)
            return "" if code == 0 else f"its process ended with {code}"
        seconds, most = order.limits
        limit = min(seconds + exclusive.waited(order.report), most)
        if time.monotonic() - begun > limit:
            return f"killed at its limit of {limit / 60:.1f} min"
    raise StoppedError


def _repeat(name: str, process: subprocess.Popen, said: deque[str]) -> None:
    for line in process.stdout or ():
        said.append(line.rstrip())
        print(f"  {name}: {said[-1]}", flush=True)


@contextlib.contextmanager
def _ended(process: subprocess.Popen, reader: threading.Thread) -> Iterator[None]:
    """Leave no process of a job behind, nor any that it began."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()  # no process is left to write
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
