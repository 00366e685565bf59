"""Atomic file replacement, and the cache folder."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

CACHE = "JAXENVS_CACHE"  # environment variable
OFF = ("off", "0", "no", "false")


def cache_folder(variables: Mapping[str, str]) -> Path | None:
    """Return the cache folder that the environment variables name; None if caching is off."""
    given = variables.get(CACHE, "")
    if given.lower() in OFF:
        return None
    with contextlib.suppress(RuntimeError, OSError):  # no home folder, or no working folder
        if given:
            return Path(given).expanduser().absolute()
        base = Path(variables.get("XDG_CACHE_HOME", ""))
        return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "jaxenvs"
    return None


def is_private(path: Path) -> bool:
    """Return whether only this user can write to the folder; create it if it is missing."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def target(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write, links followed.

    Raises `FileExistsError` for a device, pipe, socket or folder, which writing would replace.
    """
    found = Path(path)
    if found.is_symlink():
        found = Path(os.path.realpath(found))
    if os.path.lexists(found) and not found.is_file():
        raise FileExistsError(f"{path} is not a regular file; name a regular or a new one")
    return found


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` if nothing is raised.

    If `path` is a link, the file it points to is replaced. Raises `OSError` as `target` does; the
    error names `path`, not the temporary file.
    """
    path = target(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename, error.filename2 = str(path), None
        raise


def unfinished(folder: Path) -> list[Path]:
    """Return the temporary files in a folder, left by processes that died while writing."""
    return sorted(folder.glob(".*.part"))


def read_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """Read a text file or pipe (UTF-8); raise `ValueError` if it has more than `most` bytes."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file")
    return content.decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")
