"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def target(path: str | os.PathLike[str]) -> Path:
    """Where a file is to be written, links followed; `OSError` for what is no ordinary file.

    A device, a pipe or a socket would be gone, with a file in its place.
    """
    found = Path(path)
    if found.is_symlink():
        found = Path(os.path.realpath(found))
    if os.path.lexists(found) and not found.is_file():
        raise FileExistsError(f"{path} is not a regular file; name a regular or a new one")
    return found


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a name to write to; what is there takes the place of `path` if nothing is raised.

    Of a link, it takes the place of what the link points to; for `OSError` see `target`.
    """
    path = target(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def unfinished(folder: Path) -> list[Path]:
    """What processes left in a folder that were killed while they wrote."""
    return sorted(folder.glob(".*.part"))


def read_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """Read a text file (UTF-8) of at most `most` bytes, a pipe as well; else `ValueError`."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file")
    return content.decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")
