"""Write the unsaved levels of an interrupted editor to a new file next to the edited file."""

import contextlib
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .editor import Editor

# Suffix of rescued files. If their suffix were .txt, commands that read all level files of a folder
# would read the rescued files, too.
SUFFIX = ".unsaved"


@contextlib.contextmanager
def rescuing(editors: Sequence[Editor]) -> Iterator[None]:
    """Context manager that writes the unsaved levels of open editors to files when its block ends.

    SIGTERM and SIGHUP end the block, too: inside it, they raise `KeyboardInterrupt`.
    """
    before = {number: _handle(number, _interrupt) for number in _signals()}
    try:
        yield
    finally:
        for editor in editors:
            written = rescue(editor)
            if written is not None:
                with contextlib.suppress(OSError):  # the terminal may be closed
                    print(f"The unsaved levels are in {written}", file=sys.stderr, flush=True)
        for number, handler in before.items():
            _handle(number, handler)


def rescue(editor: Editor) -> Path | None:
    """Write the unsaved levels of an open editor to a new file; return the file's path.

    Returns None if there are no unsaved levels, or if no file can be written.
    """
    model = editor.model
    if not editor.open or not model.is_changed or len(model.history) == 1:
        return None
    name = editor.file.path.name
    for folder in (editor.file.path.parent, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            path = _unused(folder / f"{name}{SUFFIX}")
            editor.file.copy(path, [model.text_of(page) for page in model.document.pages])
            return path
    return None


def _unused(path: Path) -> Path:
    """Return `path` if it does not exist, else `path` followed by the first unused number."""
    numbered = (path.with_name(f"{path.name}{number}") for number in itertools.count(2))
    return next(p for p in itertools.chain([path], numbered) if not os.path.lexists(p))


def _signals() -> list[int]:
    """Return the signals among SIGTERM and SIGHUP whose handler may be replaced.

    A handler may be replaced only if it is the default one. `nohup`, for example, ignores SIGHUP.
    """
    found = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    return [n for n in found if n is not None and signal.getsignal(n) == signal.SIG_DFL]


def _handle(number: int, handler: Any) -> Any:
    """Set the handler of a signal and return the previous handler."""
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        return signal.signal(number, handler)
    return signal.SIG_DFL


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
