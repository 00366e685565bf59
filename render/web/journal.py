"""Journals of sessions. A killed server's session is resumed by running its commands again.

A session is a deterministic function of its command line and of the commands in the journal. A
journal is a file in the cache folder: a line of JSON about the server, then a line per command.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs.core.files import cache_folder, is_private

from .. import shown, viewer
from ..edit import model

FOLDER = "web"  # subfolder of the cache folder
MAX_BYTES = 2**20  # maximum length of a journal
MAX_FILES = 50  # journals that are kept; the oldest ones are removed
MAX_NUMBER = 10**6  # largest number of a command
EVERY = 1.0  # seconds between lines about automatic steps
FULL = "the journal is full"
OPENED = model.OPENED  # command with which a journal of the editor of levels begins
# Name of each command in a journal, with the types of its arguments.
COMMANDS = {
    shown.PRESS: (str,),
    viewer.PLACE: (int, int),
    viewer.SCRUB: (float,),
    viewer.ZOOM: (int,),
    viewer.FORWARD: (int,),
    **model.COMMANDS,
}


class Earlier(NamedTuple):
    """A journal that was read."""

    path: Path
    about: dict[str, Any]  # its first line
    commands: list[tuple[Any, ...]]  # (name, *arguments)
    length: int  # bytes of the complete lines; a killed server may leave a partial line


class Journal:
    """A journal that is being written; after an error of the disk it writes nothing more."""

    def __init__(self, path: Path, about: Mapping[str, Any], length: int = 0) -> None:
        """Open a new file, or continue a file after its first `length` bytes."""
        self.problem = ""  # why nothing more is written; "" while all is well
        self._steps, self._wrote = 0, 0.0
        flags = os.O_WRONLY | os.O_CREAT | (0 if length else os.O_TRUNC)
        self._file = os.open(path, flags, 0o600)
        _lock(self._file)
        os.ftruncate(self._file, length)
        os.lseek(self._file, 0, os.SEEK_END)
        self._length = length
        self._about = about
        if not length:
            self._line(about)

    def write(self, name: str, *given: Any) -> None:
        """Write a command. Automatic steps are counted, and written at most once per second."""
        if name == viewer.FORWARD:
            self._steps += given[0]
            if time.monotonic() - self._wrote > EVERY:
                self.flush()
            return
        self.flush()
        self._line([name, *given])

    def restart(self) -> None:
        """Forget all commands: a file contains their result."""
        if self.problem.startswith(FULL):
            self.problem = ""
        if not self.problem:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            self._length = self._steps = 0
            self._line(self._about)

    def flush(self) -> None:
        """Write the automatic steps that were counted."""
        if self._steps:
            self._line([viewer.FORWARD, self._steps])
        self._steps, self._wrote = 0, time.monotonic()

    def close(self) -> None:
        """Write the remaining steps, and close the file."""
        self.flush()
        self.problem = "the journal is closed"
        os.close(self._file)

    def _line(self, content: Any) -> None:
        line = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        if self.problem:
            return
        if self._length + len(line) > MAX_BYTES:
            self.problem = f"{FULL} ({MAX_BYTES >> 20} MiB)"
            return
        try:
            os.write(self._file, line)
        except OSError as error:
            self.problem = f"the journal cannot be written: {error.strerror}"
        self._length += len(line)


def folder() -> Path | None:
    """Return the folder of the journals; None if the cache is off or not private."""
    cache = cache_folder(os.environ)
    found = None if cache is None else cache / FOLDER
    return found if found is not None and is_private(found) else None


def new(place: Path, identity: str) -> Path:
    """Return the path of a new journal, and remove the oldest journals of the folder."""
    old = sorted(place.glob("*.jsonl"), key=_changed)
    for path in old[: max(0, len(old) + 1 - MAX_FILES)]:
        with contextlib.suppress(OSError):
            path.unlink()
    return place / f"{_digest(identity)}-{time.time_ns():x}-{os.getpid()}.jsonl"


def latest(place: Path, identity: str) -> Earlier | None:
    """Read the latest journal with this identity that no server is writing; None if none is."""
    paths = sorted(place.glob(f"{_digest(identity)}-*.jsonl"), key=_changed, reverse=True)
    found = (_read(path) for path in paths if not _is_locked(path))
    return next((journal for journal in found if journal is not None), None)


def _read(path: Path) -> Earlier | None:
    """Return the complete lines of a journal; None if not even its first line is complete."""
    with contextlib.suppress(OSError):
        lines = [*_lines(path.read_bytes()[:MAX_BYTES])]
        if lines and isinstance(lines[0][0], dict):
            commands = [line for line, _ in lines[1:]]
            good = next((i for i, c in enumerate(commands) if not _is_command(c)), len(commands))
            return Earlier(path, lines[0][0], [tuple(c) for c in commands[:good]], lines[good][1])
    return None


def _lines(content: bytes) -> Iterator[tuple[Any, int]]:
    """Yield the JSON of each complete line and the position of its end."""
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not line.endswith(b"\n"):
            return
        yield parsed, end


def _is_command(line: Any) -> bool:
    if not isinstance(line, list) or not line or not isinstance(line[0], str):
        return False
    kinds = COMMANDS.get(line[0])
    if kinds is None or [type(value) for value in line[1:]] != [*kinds]:
        return False
    # False for NaN, too.
    return all(isinstance(value, str) or 0 <= value <= MAX_NUMBER for value in line[1:])


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _lock(file: int) -> bool:
    """Lock a file for this process; return False if another process has it. Windows has no lock."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return not _lock(file.fileno())
    return True
