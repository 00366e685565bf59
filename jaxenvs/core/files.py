"""Safe reading and writing of files, and the location of the cache folder.

`replacing` writes to a temporary file and renames it, so readers never see a half-written file.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

CACHE = "JAXENVS_CACHE"  # environment variable that names the cache folder, or turns caching off
OFF = ("off", "0", "no", "false")


def cache_folder(variables: Mapping[str, str]) -> Path | None:
    """Return the cache folder that the environment variables in `variables` select.

    The variable `JAXENVS_CACHE` names the folder; the default is `jaxenvs` in `XDG_CACHE_HOME` or
    `~/.cache`. The result is None if the variable turns caching off, or if there is no home folder.
    """
    given = variables.get(CACHE, "")
    if given.lower() in OFF:
        return None
    # RuntimeError means that there is no home folder, OSError that there is no current folder.
    with contextlib.suppress(RuntimeError, OSError):
        if given:
            return Path(given).expanduser().absolute()
        base = Path(variables.get("XDG_CACHE_HOME", ""))
        return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "jaxenvs"
    return None


def is_private(path: Path) -> bool:
    """Return whether the current user owns the folder `path`, and no other user can write to it.

    Creates the folder if it is missing. On Windows, owner and write access are not checked.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows has no user ids
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def target(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that `replacing` will write, with symbolic links followed.

    Raises `FileExistsError` if the path is a device, pipe, socket or folder, which a replacement
    would destroy.
    """
    found = Path(path)
    if found.is_symlink():
        found = Path(os.path.realpath(found))
    if os.path.lexists(found) and not found.is_file():
        raise FileExistsError(f"{path} is not a regular file; name a regular or a new one")
    return found


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to; afterwards the written file replaces `path`.

    If the `with` block raises, the temporary file is deleted and `path` stays unchanged. If `path`
    is a symbolic link, the file to which the link points is replaced. Raises the errors of
    `target`. In an `OSError` about the temporary file, the name of this file is replaced by `path`.
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
    """Return the temporary files of `replacing` that remain in `folder` if a process is killed."""
    return sorted(folder.glob(".*.part"))


def read_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """Read a UTF-8 text file or pipe; drop a byte order mark, and turn all line ends into newlines.

    Raises `ValueError` if the file has more than `most` bytes. `errors` is the argument of
    `bytes.decode`: what happens to bytes that are not UTF-8.
    """
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file")
    return content.decode("utf-8-sig", errors).replace("\r\n", "\n").replace("\r", "\n")
