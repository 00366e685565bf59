"""Compiled programs on disk, so that a command starts quickly the second time.

Only the command line keeps them; `import jaxenvs` changes no setting of JAX. JAX's limit,
`jax_compilation_cache_max_size`, is not used: it needs `filelock`; it writes at every read, which
fails in a read-only folder; and a process killed between its two writes of an entry blocks all
later ones. Instead a command trims the folder when it starts.
"""

import contextlib
import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "JAXENVS_CACHE"
OFF = ("off", "0", "no", "false")
PROGRAM = "-cache"  # suffix of the files of programs
MOST_BYTES = 512 * 2**20
FULL = 0.75  # share of it that is left after trimming
SHORTEST = 0.05  # seconds: programs that compile faster are not kept
TROUBLE = "persistent compilation cache entry"  # in JAX's warnings


def start() -> None:
    """Keep what this process compiles, where that is possible. Never fails.

    JAX's variable JAX_COMPILATION_CACHE_DIR takes precedence.
    """
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    path = folder(os.environ)
    if path is None or not _is_ours(path):
        return
    trim(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # no limit on these
    _watch(path)


def folder(variables: Mapping[str, str]) -> Path | None:
    """Return where programs are kept by the environment variables; None for nowhere."""
    given = variables.get(VARIABLE, "")
    if given.lower() in OFF:
        return None
    with contextlib.suppress(RuntimeError, OSError):  # a user without a home; a removed folder
        if given:
            return Path(given).expanduser().absolute()
        base = Path(variables.get("XDG_CACHE_HOME", ""))
        return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "jaxenvs"
    return None


def trim(path: Path, most: int = MOST_BYTES) -> None:
    """If the programs take more than `most` bytes, remove the least recently used.

    Empty ones, left by killed processes, are removed too: JAX neither warns about them nor rewrites
    them. Other files in the folder stay.
    """
    files = []
    for file in path.glob(f"*{PROGRAM}"):
        with contextlib.suppress(OSError):  # another process removes files, too
            found = file.stat()
            if not found.st_size:
                file.unlink()
                continue
            files.append((max(found.st_atime, found.st_mtime), found.st_size, file))
    size = sum(length for _, length, _ in files)
    if size <= most:
        return
    for _, length, file in sorted(files):
        if size <= most * FULL:
            return
        with contextlib.suppress(OSError):
            file.unlink()
        size -= length


def _is_ours(path: Path) -> bool:
    """Whether the folder exists, or can be made, and nobody else can write to it.

    Its files are executed: whoever can write to it can run programs as this user.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _watch(path: Path) -> None:
    """Empty the folder instead of warning when JAX cannot read or write an entry.

    JAX writes an entry in place and only once: one cut short by a full disk or a kill would fail at
    every later read.
    """
    show = warnings.showwarning

    def shown(message: Warning | str, *given: Any, **more: Any) -> None:
        if TROUBLE not in str(message):
            show(message, *given, **more)
            return
        trim(path, 0)

    warnings.filterwarnings("always", f".*{TROUBLE}")
    warnings.showwarning = shown
