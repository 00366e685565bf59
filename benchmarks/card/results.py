"""Result file of a job of the command `card`: the job's state, records and failed measurements.

A job writes one JSON file, `<device>-<job>.json`, with a header, `state` (such as `done`),
`missing` (packages), `failed` (measurements) and `rows`. The rows are the records: flat
dictionaries with raw times in seconds under `times_s`. The file is written after every measurement,
so an interrupted job resumes from its records.
"""

import hashlib
import importlib.util
import json
import math
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

import jaxenvs
from jaxenvs.core.files import replacing

from ..harness import device_lock, instrument

HERE = Path(__file__).resolve().parents[1]
BROUGHT_HOME = HERE / "results" / "card"  # folder in the repository with results of earlier runs
RUNNING, DONE, CUT, FAILED, LEFT_OUT = "running", "done", "cut", "failed", "left out"
NO_MEMORY = "RESOURCE_EXHAUSTED"  # text in XLA's messages for out-of-memory errors
DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")

Records = list[dict[str, Any]]


class OutOfTimeError(Exception):
    """Raised if the time left is too short for the next measurement (case) of the job."""


class Work:
    """A running job: it collects records, knows the time left, and writes the result file."""

    def __init__(
        self,
        file: Path,
        header: dict[str, Any],
        seconds: float,
        scratch: Path,
        most: float = math.inf,
    ) -> None:
        """Start the job; if `header` contains records of an interrupted run, resume from them.

        The job may take `seconds`, not counting waits for the device, and `most` seconds in total.
        `header` is the start of the result file, `scratch` a folder for temporary files.
        """
        self.file, self.header, self.scratch = file, header, scratch
        self.tiny = bool(header["tiny"])
        self.begun, self.seconds, self.most = time.monotonic(), seconds, most
        self.records: Records = header.pop("rows", [])
        failed: Records = header.pop("failed", [])
        # Forget the cases that failed because memory ran out, so that they are tried again: at that
        # time another job may have used the memory.
        self.failed = [record for record in failed if NO_MEMORY not in record["reason"]]
        self.missing: dict[str, str] = {}
        self.longest = 0.0  # seconds that the longest case so far has taken
        # Error of the last attempt to write the result file, or None if it succeeded.
        self.unwritten: OSError | None = None

    def left(self) -> float:
        """Return the seconds until the job must end; negative after that."""
        limit = min(self.seconds + device_lock.DEVICE.waited, self.most)
        return self.begun + limit - time.monotonic()

    def has(self, **case: Any) -> bool:
        """Return whether a case has a record or has failed.

        `case` are the entries that identify the case's records, such as `id="Grid-v0"`.
        """
        wanted = case.items()
        return any(wanted <= _hashable(record) for record in [*self.records, *self.failed])

    def measure(self, figures: Callable[[], Records], **case: Any) -> None:
        """Measure a case: call `figures` and store the records that it returns.

        `case` identifies the case within the job, for example by an id and a number of
        environments. If the case already has a record or has failed, nothing is measured. If
        `figures` raises a `LookupError`, `RuntimeError` or `ValueError`, the case is stored as
        failed, with the reason.

        Raises `OutOfTimeError` if less time is left than the longest case so far has taken.
        """
        if self.has(**case):
            return
        if self.left() < self.longest:
            raise OutOfTimeError
        start = time.monotonic() - device_lock.DEVICE.waited
        try:
            self.keep(figures())
        # This also catches JAX's errors, which are RuntimeErrors.
        except (LookupError, RuntimeError, ValueError) as error:
            self.fail(error, **case)
        taken = time.monotonic() - device_lock.DEVICE.waited - start
        self.longest = max(self.longest, taken)

    def keep(self, records: Iterable[dict[str, Any]]) -> None:
        """Add records and write the result file."""
        self.records += records
        self.write(RUNNING)

    def fail(self, error: Exception, **case: Any) -> None:
        """Store a failed case with the reason, the first line of the error message."""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        self.failed.append({**case, "reason": reason})
        print(f"no figures for {case}: {reason}", flush=True)

    def miss(self, name: str, reason: str) -> None:
        """Store that the package `name`, or the folder `tests`, is missing.

        `reason` says why, or how to install the package.
        """
        if name not in self.missing:
            print(f"{name}: {reason}", flush=True)
        self.missing[name] = reason

    def write(self, state: str) -> None:
        """Write the result file; report an error once, and try again at the next call."""
        figures = {"missing": self.missing, "failed": self.failed, "rows": self.records}
        try:
            save(self.file, {**self.header, "state": state, **figures})
            self.unwritten = None
        except OSError as error:
            if self.unwritten is None:
                print(f"{self.file} cannot be written ({error}); measuring goes on", flush=True)
            self.unwritten = error


def _hashable(record: dict[str, Any]) -> set[tuple[str, Any]]:
    return {(k, v) for k, v in record.items() if isinstance(v, (str, int, float, type(None)))}


def save(file: Path, content: dict[str, Any]) -> None:
    """Write a result as JSON, replacing the file atomically; raise `OSError` on failure."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def load(file: Path) -> dict[str, Any] | None:
    """Read a result file; return None if it is missing or damaged."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("rows"), list) else None


def absent(packages: Iterable[str]) -> list[str]:
    """Return the names of the given packages that are not installed."""
    return [name for name in packages if not _there(name)]


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # raised if the parent package is missing
        return False


def about(commit: str) -> dict[str, Any]:
    """Return the device, package versions, commit and digest of the code; this starts JAX."""
    device, found = jax.devices()[0], instrument.about()
    named = {
        "device": device.device_kind,
        "platform": device.platform,
        "driver": _output(*DRIVER),  # driver version; empty without an NVIDIA GPU
        **{name: found["versions"][name] for name in ("jax", "jaxlib", "python")},
        "commit": commit or committed(),
        "code": code(),
    }
    return {**found, **named}


def slug(device: str) -> str:
    """Return a device's name as a part of a file name, such as `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def committed() -> str:
    """Return the commit of the checkout, with `, changed` if its sources have uncommitted changes.

    Sources are the code of environments, learners and benchmarks. The result is empty outside a
    checkout.
    """
    where = ("git", "-C", str(HERE.parent))
    sources = ("jaxenvs", "baselines", "benchmarks/*.py")
    changed = _output(*where, "status", "--porcelain", "--", *sources)
    found = _output(*where, "rev-parse", "HEAD")
    return f"{found}, changed" if changed else found


def _output(*words: str) -> str:
    """Return the output of a command, or an empty string if the command fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def code() -> str:
    """Return a digest of the Python sources of environments, learners and benchmarks.

    The digest tells whether an earlier result was measured with the same code. The commit hash
    cannot: it changes when results are committed, and a copied checkout may have no git directory.
    """
    learners = importlib.util.find_spec("jaxenvs.baselines")
    package = Path(str(jaxenvs.__file__)).resolve().parent
    folders = {"jaxenvs": package, "benchmarks": HERE}
    if learners and learners.origin:
        folders["baselines"] = Path(learners.origin).resolve().parent
    digest = hashlib.sha256()
    for name, folder in sorted(folders.items()):
        others = [other for other in folders.values() if other != folder]
        for path in sorted(folder.rglob("*.py")):
            if not any(path.is_relative_to(o) for o in others if o.is_relative_to(folder)):
                digest.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
