"""On-disk cache of compiled programs, so that a command starts quickly the second time.

Only the command line uses the cache; `import jaxenvs` changes no setting of JAX. When a command
starts, it removes old entries if the cache folder is too large. JAX's own size limit,
`jax_compilation_cache_max_size`, is not used, for three reasons. It needs the package `filelock`.
It makes JAX write a file at every read, which fails in a read-only folder. It makes JAX write an
entry in two steps, and a process that is killed between these steps blocks all later writes.
"""

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any

from ..core.files import cache_folder, is_private

SUFFIX = "-cache"  # suffix of the names of JAX's cache files
MAX_BYTES = 512 * 2**20
TRIMMED = 0.75  # `trim` removes programs until at most this fraction of its limit is left
MIN_COMPILE_SECONDS = 0.05  # programs that compile in less time are not cached
# Text in JAX's warnings about entries that it cannot read or write.
WARNING = "persistent compilation cache entry"


def start() -> None:
    """Make JAX cache the programs that this process compiles, if possible. Never raises.

    Does nothing if a cache is already set in JAX, for example by JAX_COMPILATION_CACHE_DIR.
    """
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    path = cache_folder(os.environ)
    # Do not use a folder that other users can write to: JAX would run programs that they put there.
    if path is None or not is_private(path):
        return
    trim(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    # XLA's own caches are turned off, because `trim` would never remove their files.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    _watch(path)


def trim(path: Path, most: int = MAX_BYTES) -> None:
    """Remove the least recently used programs if all programs together take more than `most` bytes.

    Also remove empty cache files, which killed processes leave, because JAX neither reports nor
    replaces them. Files whose names do not end with `SUFFIX` stay.
    """
    files = []
    for file in path.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may have removed the file
            found = file.stat()
            if not found.st_size:
                file.unlink()
                continue
            files.append((max(found.st_atime, found.st_mtime), found.st_size, file))
    size = sum(length for _, length, _ in files)
    if size <= most:
        return
    for _, length, file in sorted(files):
        if size <= most * TRIMMED:
            return
        with contextlib.suppress(OSError):
            file.unlink()
        size -= length


def _watch(path: Path) -> None:
    """From now on, empty the cache folder when JAX warns that it cannot read or write an entry.

    The user does not see these warnings. An entry is truncated if the disk was full or the process
    was killed while JAX wrote it. JAX writes each entry only once, so every later read of the entry
    would fail.
    """
    show = warnings.showwarning

    def shown(message: Warning | str, *given: Any, **more: Any) -> None:
        if WARNING not in str(message):
            show(message, *given, **more)
            return
        trim(path, 0)

    warnings.filterwarnings("always", f".*{WARNING}")
    warnings.showwarning = shown
