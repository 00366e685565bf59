"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def target(path: str | os.PathLike[str]) -> Path:
    """Where a file is to be written, links followed; `OSError` for anything but an ordinary file.

    Writing would replace a device, a pipe or a socket by a file.
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

    If `path` is a link, the file it points to is replaced. `OSError` as in `target`; it names the
    path, not the temporary one.
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
    """Temporary files in a folder, left by processes that died while writing."""
    return sorted(folder.glob(".*.part"))


def read_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """Read a text file (UTF-8) of at most `most` bytes, a pipe as well; else `ValueError`."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file")
    return content.decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")
