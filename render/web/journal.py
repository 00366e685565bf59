"""Journals of sessions. After a server was killed, a new one resumes its session from the journal.

A journal is a file in the cache folder: a line of JSON about the server, then a line per command of
the session. Running the commands of the journal again restores the session.
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
MAX_BYTES = 2**20  # maximum size of a journal, in bytes
MAX_FILES = 50  # maximum number of journals; the oldest ones are removed
MAX_NUMBER = 10**6  # largest number that a command may have as an argument
# While the game plays automatically, its steps are added to the journal about this often, in
# seconds.
EVERY = 1.0
FULL = "the journal is full"
OPENED = model.OPENED  # command with which a journal of the level editor begins
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
    """The journal of an earlier server, read from its file."""

    path: Path
    about: dict[str, Any]  # first line of the journal: the server's command, port and token
    commands: list[tuple[Any, ...]]  # commands (name, *arguments)
    length: int  # bytes before the first partial or invalid line


class Journal:
    """A journal that is being written, until it is full or a disk error occurs."""

    def __init__(self, path: Path, about: Mapping[str, Any], length: int = 0) -> None:
        """Open a new file, or continue a file after its first `length` bytes."""
        self.problem = ""  # why the journal is no longer written; "" without a problem
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
        """Write a command of the session.

        Steps of automatic play (`FORWARD`) are only counted. Their number is written about once per
        second, and before any other command.
        """
        if name == viewer.FORWARD:
            self._steps += given[0]
            if time.monotonic() - self._wrote > EVERY:
                self.flush()
            return
        self.flush()
        self._line([name, *given])

    def restart(self) -> None:
        """Remove all commands from the journal, after their result has been saved in a file."""
        if self.problem.startswith(FULL):
            self.problem = ""
        if not self.problem:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            self._length = self._steps = 0
            self._line(self._about)

    def flush(self) -> None:
        """Write the number of automatic steps since the last written line, unless it is 0."""
        if self._steps:
            self._line([viewer.FORWARD, self._steps])
        self._steps, self._wrote = 0, time.monotonic()

    def close(self) -> None:
        """Write the automatic steps that are not written yet, and close the file."""
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
    """Return the path of a new journal of session `identity`; keep at most `MAX_FILES` journals."""
    old = sorted(place.glob("*.jsonl"), key=_changed)
    for path in old[: max(0, len(old) + 1 - MAX_FILES)]:
        with contextlib.suppress(OSError):
            path.unlink()
    return place / f"{_digest(identity)}-{time.time_ns():x}-{os.getpid()}.jsonl"


def latest(place: Path, identity: str) -> Earlier | None:
    """Return the latest journal of session `identity` that no server is writing, or None."""
    paths = sorted(place.glob(f"{_digest(identity)}-*.jsonl"), key=_changed, reverse=True)
    found = (_read(path) for path in paths if not _is_locked(path))
    return next((journal for journal in found if journal is not None), None)


def _read(path: Path) -> Earlier | None:
    """Read a journal up to its first invalid command; return None if its first line is invalid."""
    with contextlib.suppress(OSError):
        lines = [*_lines(path.read_bytes()[:MAX_BYTES])]
        if lines and isinstance(lines[0][0], dict):
            commands = [line for line, _ in lines[1:]]
            good = next((i for i, c in enumerate(commands) if not _is_command(c)), len(commands))
            return Earlier(path, lines[0][0], [tuple(c) for c in commands[:good]], lines[good][1])
    return None


def _lines(content: bytes) -> Iterator[tuple[Any, int]]:
    """Yield (JSON value, byte offset of its end) per line; stop at an invalid or partial line."""
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
    # The range check also rejects NaN, because comparisons with NaN are False.
    return all(isinstance(value, str) or 0 <= value <= MAX_NUMBER for value in line[1:])


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _lock(file: int) -> bool:
    """Lock a file for this process; return False if another process has locked it.

    Always returns True on Windows, where Python has no `fcntl`.
    """
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
