"""What a job of `card` measures with: records kept after each case, the time left, what is missing.

A job leaves one JSON, `<device>-<job>.json`: a header, `state`, `missing`, `failed` and `rows`,
which are flat dictionaries with raw times under `times_s`. It is written after every case, so that
whatever ends the job leaves the records before it, and is continued from them.
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

import jaxenvs
from jaxenvs.core.files import replacing

from . import exclusive

HERE = Path(__file__).resolve().parent
BROUGHT_HOME = HERE / "results" / "card"  # by earlier runs
RUNNING, DONE, CUT, FAILED, LEFT_OUT = "running", "done", "cut", "failed", "left out"
NO_MEMORY = "RESOURCE_EXHAUSTED"  # in XLA's errors
DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")

Records = list[dict[str, Any]]


class OutOfTimeError(Exception):
    """The next case would not fit into the time that the job may take."""


class Work:
    """One job under way."""

    def __init__(
        self,
        file: Path,
        header: dict[str, Any],
        seconds: float,
        scratch: Path,
        most: float = math.inf,
    ) -> None:
        """Resume from the records of an earlier run in `header`.

        The job may take `seconds` without its waits for the device, and `most` with them.
        """
        self.file, self.header, self.scratch = file, header, scratch
        self.tiny = bool(header["tiny"])
        self.begun, self.seconds, self.most = time.monotonic(), seconds, most
        self.records: Records = header.pop("rows", [])
        failed: Records = header.pop("failed", [])
        # Other jobs may have used the memory: such a case is tried again.
        self.failed = [record for record in failed if NO_MEMORY not in record["reason"]]
        self.missing: dict[str, str] = {}
        self.longest = 0.0  # seconds of a case
        self.unwritten: OSError | None = None  # why the newest records are not in the file

    def left(self) -> float:
        """Seconds until the job must have ended."""
        limit = min(self.seconds + exclusive.DEVICE.waited, self.most)
        return self.begun + limit - time.monotonic()

    def has(self, **case: Any) -> bool:
        """Whether a record of this case, or why there is none, is known."""
        wanted = case.items()
        return any(wanted <= _hashable(record) for record in [*self.records, *self.failed])

    def measure(self, figures: Callable[[], Records], **case: Any) -> None:
        """Add the records of a case unless it is known; what XLA refuses is noted with its reason.

        Raises `OutOfTimeError` where a case as long as the longest would not fit.
        """
        if self.has(**case):
            return
        if self.left() < self.longest:
            raise OutOfTimeError
        start = time.monotonic() - exclusive.DEVICE.waited
        try:
            self.keep(figures())
        except (LookupError, RuntimeError, ValueError) as error:  # jax's errors are RuntimeErrors
            self.fail(error, **case)
        taken = time.monotonic() - exclusive.DEVICE.waited - start
        self.longest = max(self.longest, taken)

    def keep(self, records: Iterable[dict[str, Any]]) -> None:
        """Add records and write the file."""
        self.records += records
        self.write(RUNNING)

    def fail(self, error: Exception, **case: Any) -> None:
        """Note why a case has no records."""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        self.failed.append({**case, "reason": reason})
        print(f"no figures for {case}: {reason}", flush=True)

    def miss(self, name: str, reason: str) -> None:
        """Note a package, or a set of tests, that is missing here."""
        if name not in self.missing:
            print(f"{name}: {reason}", flush=True)
        self.missing[name] = reason

    def write(self, state: str, **more: Any) -> None:
        """Write the file; report a failure once, and let the next write make up for it."""
        figures = {"missing": self.missing, "failed": self.failed, "rows": self.records}
        try:
            save(self.file, {**self.header, "state": state, **more, **figures})
            self.unwritten = None
        except OSError as error:
            if self.unwritten is None:
                print(f"{self.file} cannot be written ({error}); measuring goes on", flush=True)
            self.unwritten = error


def _hashable(record: dict[str, Any]) -> set[tuple[str, Any]]:
    return {(k, v) for k, v in record.items() if isinstance(v, (str, int, float, type(None)))}


def save(file: Path, content: dict[str, Any]) -> None:
    """Write a result whole or not at all; `OSError` where that fails."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def load(file: Path) -> dict[str, Any] | None:
    """Read a result; None where there is none to read."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("rows"), list) else None


def absent(packages: Iterable[str]) -> list[str]:
    """Which of these packages cannot be imported."""
    return [name for name in packages if not _there(name)]


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # of the package that it is in
        return False


def about(commit: str) -> dict[str, Any]:
    """The device at hand and what else figures depend on; starts JAX."""
    import jax

    from . import throughput

    device, found = jax.devices()[0], throughput.about()
    named = {
        "device": device.device_kind,
        "platform": device.platform,
        "driver": _said(*DRIVER),  # empty where there is none of NVIDIA
        **{name: found["versions"][name] for name in ("jax", "jaxlib", "python")},
        "commit": commit or committed(),
        "code": code(),
    }
    return {**found, **named}


def slug(device: str) -> str:
    """The device as part of a file's name: `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def committed() -> str:
    """The commit of the checkout, marked where the code differs from it; empty outside of one."""
    where = ("git", "-C", str(HERE.parent))
    sources = ("jaxenvs", "baselines", "benchmarks/*.py")
    changed = _said(*where, "status", "--porcelain", "--", *sources)
    found = _said(*where, "rev-parse", "HEAD")
    return f"{found}, changed" if changed else found


def _said(*words: str) -> str:
    """Output of a command, empty if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def code() -> str:
    """Digest of the sources of environments, learners and benchmarks, on every machine the same.

    A commit would not do: the results of a run are committed, too, and a copy may have no git.
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
