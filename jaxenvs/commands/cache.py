"""Compiled programs on disk, so that a command starts quickly the second time.

Only the command line keeps them; `import jaxenvs` changes no setting of JAX. JAX's limit,
`jax_compilation_cache_max_size`, is not used: it needs `filelock`; it writes at every read, which
fails in a read-only folder; and a process killed between its two writes of an entry blocks all
later ones. Instead a command trims the folder when it starts.
"""

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any

from ..core.files import cache_folder, is_private

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
    path = cache_folder(os.environ)
    if path is None or not is_private(path):  # others could put programs there for us to run
        return
    trim(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # no limit on these
    _watch(path)


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
