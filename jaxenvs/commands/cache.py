"""On-disk cache of compiled programs, so that a command starts quickly the second time.

Only the command line uses it; `import jaxenvs` changes no setting of JAX. JAX's own size limit,
`jax_compilation_cache_max_size`, is not used for three reasons: it needs `filelock`; it writes at
every read, which fails in a read-only folder; and a process killed between its two writes of an
entry blocks all later writes. Instead each command trims the folder when it starts.
"""

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any

from ..core.files import cache_folder, is_private

SUFFIX = "-cache"  # suffix of JAX's cache files
MAX_BYTES = 512 * 2**20
TRIMMED = 0.75  # fraction of MAX_BYTES that remains after trimming
MIN_COMPILE_SECONDS = 0.05  # programs that compile faster are not cached
WARNING = "persistent compilation cache entry"  # part of JAX's warnings about its cache


def start() -> None:
    """Cache the programs that this process compiles, if possible. Never raises.

    JAX's variable JAX_COMPILATION_CACHE_DIR takes precedence.
    """
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    path = cache_folder(os.environ)
    if path is None or not is_private(path):  # other users could plant programs there
        return
    trim(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    # `trim` would never remove the files of XLA's own caches.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    _watch(path)


def trim(path: Path, most: int = MAX_BYTES) -> None:
    """Remove the least recently used programs if all take more than `most` bytes.

    Also remove empty files, left by killed processes: JAX neither warns about them nor rewrites
    them. Other files in the folder stay.
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
    """Empty the folder instead of warning if JAX cannot read or write an entry.

    JAX writes an entry in place and only once, so an entry truncated by a full disk or a kill would
    fail at every later read.
    """
    show = warnings.showwarning

    def shown(message: Warning | str, *given: Any, **more: Any) -> None:
        if WARNING not in str(message):
            show(message, *given, **more)
            return
        trim(path, 0)

    warnings.filterwarnings("always", f".*{WARNING}")
    warnings.showwarning = shown
