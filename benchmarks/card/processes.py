"""Processes of the command `card`: each job runs in a separate process with a time limit."""

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

from ..harness import device_lock
from . import jobs, results
from .jobs import Job

MARGIN = 10.0  # a job starts no measurement in the last `MARGIN` seconds before its time limit
OUTPUT = 40  # number of last output lines that are kept from a failed job
POLL = 0.2  # seconds between two checks of a process
OVERRUN = 124  # exit code of a process that reaches its time limit, as in timeout(1)
LOCK = "device.lock"
# XLA flags that shorten compilation; used in tiny runs on a CPU, where speed does not matter.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


class StoppedError(Exception):
    """Raised in the thread of a job if another thread has asked all jobs to stop."""


class Limits(NamedTuple):
    """Time limits of a job in seconds.

    `seconds` limits the time without waits for the device, `most` the time with these waits.
    """

    seconds: float
    most: float


class Order(NamedTuple):
    """Input of a job's process: job name, result file, scratch folder, header and time limits."""

    job: str
    file: Path
    scratch: Path
    header: dict[str, Any]
    limits: Limits

    def as_json(self) -> str:
        """Return the input as JSON, except the job's name, which the option `--job` passes."""
        seconds, most = (limit - MARGIN for limit in self.limits)
        paths = {"file": str(self.file), "scratch": str(self.scratch)}
        return json.dumps({**paths, "header": self.header, "seconds": seconds, "most": most})


def child(*arguments: str) -> list[str]:
    """Return the command line that runs `card` in a separate process.

    It works in an installed package and in a checkout.
    """
    return [sys.executable, str(Path(__file__).parents[1]), "card", *arguments]


def environment(
    asked: Mapping[str, str], header: dict[str, Any], shared: bool = False
) -> dict[str, str]:
    """Return the environment variables of a job's process.

    All variables of this process are passed on. On a GPU, the job's own variables `asked` are
    added; the XLA flags in `asked` (by default, flags of `gpu_flags`) are appended to
    `XLA_FLAGS`. On a CPU, `asked` is ignored, and tiny runs append the flags `QUICK`. If jobs share
    a GPU (`shared`), JAX does not preallocate the GPU's memory.
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
    """Run a job in a separate process and echo its output.

    Return the last output lines, and an error message that is empty if the process succeeded.
    Raises `StoppedError` when `stop` is set.
    """
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
    output: deque[str] = deque(maxlen=OUTPUT)
    reader = threading.Thread(target=_echo, args=(order.job, process, output), daemon=True)
    with _killed(process, reader):
        reader.start()
        # Writing raises BrokenPipeError if the process has already ended. Ignore this error: the
        # output of the process shows why it ended.
        with contextlib.suppress(BrokenPipeError):
            assert process.stdin is not None
            process.stdin.write(order.as_json())
            process.stdin.close()
        trouble = _wait(process, order.limits, stop)
    return list(output), trouble


def _wait(process: subprocess.Popen, limits: Limits, stop: threading.Event) -> str:
    """Wait until a job's process ends; return an error message, or "" if the process succeeded.

    This function enforces `limits.most`. The process itself enforces `limits.seconds`, because only
    the process knows how long it waited for the device.
    """
    end = time.monotonic() + limits.most
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(POLL)
            if code == OVERRUN:
                return f"killed at its limit of {limits.seconds / 60:.1f} min"
            return "" if code == 0 else f"its process ended with {code}"
        if time.monotonic() > end:
            return f"killed at its limit of {limits.most / 60:.1f} min"
    raise StoppedError


def _echo(name: str, process: subprocess.Popen, output: deque[str]) -> None:
    for line in process.stdout or ():
        output.append(line.rstrip())
        print(f"  {name}: {output[-1]}", flush=True)


@contextlib.contextmanager
def _killed(process: subprocess.Popen, reader: threading.Thread) -> Iterator[None]:
    """When the context ends, kill the process of a job and its child processes."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()  # `reader` ends, because no process is left that could write to its pipe
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()


def work(job: Job) -> int:
    """Run a job in this process, with an `Order` read from stdin; return the exit code."""
    order = json.loads(sys.stdin.read())
    file, scratch = Path(order["file"]), Path(order["scratch"])
    scratch.mkdir(parents=True, exist_ok=True)
    device_lock.DEVICE.share(scratch / LOCK)
    todo = results.Work(file, order["header"], order["seconds"], scratch, order["most"])
    threading.Thread(target=_watch, args=(todo, os.getppid()), daemon=True).start()
    if todo.tiny:
        jobs.shorten()
    todo.write(state_after(job, todo))
    return 0


def state_after(job: Job, todo: results.Work) -> str:
    """Run a job in this process; return the state in which the job ended, such as `DONE`."""
    absent = results.absent(job.needs)
    for name in absent:
        todo.miss(name, "not installed, and this job needs it")
    if absent:
        return results.LEFT_OUT
    todo.write(results.RUNNING)
    try:
        job.run(todo)
    except results.OutOfTimeError:
        return results.CUT
    except ModuleNotFoundError as error:
        todo.miss(str(error.name), "not installed, and this job needs it")
        return results.LEFT_OUT
    return results.DONE if todo.records or not todo.failed else results.FAILED


def _watch(todo: results.Work, parent: int) -> None:
    """End this process when its time is up or its parent has ended, so that the device is free."""
    while todo.left() > -MARGIN:
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(POLL)
    os._exit(OVERRUN)
