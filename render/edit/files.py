"""Files of levels that the level editor reads and writes.

A level that was not edited keeps its text when the file is saved.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from jaxenvs import levels
from jaxenvs.core import registry
from jaxenvs.core.env import Env
from jaxenvs.core.files import replacing, target
from jaxenvs.levels import LevelError, api, blocks
from jaxenvs.levels import files as level_files

from .model import Document, Page, page_of

NEW_SEED = 0  # seed of the first level of a new file


class File:
    """A file of levels. `digest` is the hash of the content that the editor last read or wrote.

    env: environment of all levels. If None, each level names its environment in a line `id:`.
    """

    def __init__(self, path: str | Path, env: Env | None) -> None:
        self.path, self.env = target(path), env
        self.tail = ""  # comments after the last level
        self._newline = "\n"
        self.digest = self.found()

    @property
    def exists(self) -> bool:
        """True if the file exists."""
        return self.path.exists()

    @property
    def has_changed(self) -> bool:
        """True if another program has changed the file since the editor read or wrote it."""
        return self.found() != self.digest

    def env_of(self, id: str) -> Env:
        """Return the environment with this id; for "", the one that the command line named."""
        if id:
            return registry.make(id)
        assert self.env is not None
        return self.env

    def read(self) -> Document:
        """Return all levels of the file.

        Raises `ValueError` for a file that is too large, is not UTF-8, has no level, or has unknown
        signs (texts of cells).
        """
        content = self.path.read_bytes()
        if len(content) > level_files.LARGEST:
            raise ValueError(f"{self.path} has more than {level_files.LARGEST:,} bytes")
        self._newline = "\r\n" if b"\r\n" in content else "\n"
        try:
            text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path} is no UTF-8 text ({error})") from None
        try:
            pages = tuple(self._pages(text))
        except LevelError as error:
            place = (error.line, error.column, str(self.path))
            raise LevelError(error.message, *place) from None
        if not pages:
            raise ValueError(f"{self.path} contains no level")
        self.tail = _tail(text, pages[-1].text or "")
        return Document(pages)

    def _pages(self, text: str) -> Iterator[Page]:
        split = blocks.split if self.env is None else api.splitter(self.env)
        for part, first in split(text):
            id = "" if self.env is not None else level_files.id_in(part, first)
            yield page_of(self.env_of(id), id, part, first)

    def first(self) -> Document:
        """Return the document of a new file: one random level that the environment generates."""
        assert self.env is not None
        text = drawn(self.env, NEW_SEED)
        return Document((page_of(self.env, "", text),))

    def write(self, texts: Sequence[str]) -> None:
        """Write the levels `texts` to the file; raise `OSError` on failure.

        The write is atomic: after a crash, the old file is still there.
        """
        if self.exists and not os.access(self.path, os.W_OK):
            raise PermissionError(f"{self.path} is read-only; allow writing, then save again")
        self.copy(self.path, texts)
        self.digest = self.found()

    def copy(self, path: Path, texts: Sequence[str]) -> None:
        """Write the levels `texts` to the file `path`; raise `OSError` on failure."""
        separator = f"\n{blocks.SEPARATOR}\n"
        if self.env is not None and api.splitter(self.env) is not blocks.split:
            separator = "\n\n"
        text = separator.join(text.strip("\n") for text in texts) + "\n"
        if self.tail:
            text += f"{self.tail}\n"
        with replacing(path) as temporary:
            temporary.write_text(text, "utf-8", newline=self._newline)
            if self.exists:
                shutil.copymode(self.path, temporary)

    def found(self) -> str:
        """Return the hash of the file's current content; "" if the file cannot be read."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        except OSError:
            return ""


def drawn(env: Env, seed: int, id: str = "") -> str:
    """Return the text of a random level that the environment generates.

    id: environment id to write into the text; "" writes the environment's registered id, if any.
    """
    level = jax.device_get(env.sample_level(jax.random.key(seed)))
    name, params = (id, {}) if id else level_files.id_of(env)
    notes = {"id": name} if name else {}
    return levels.write(env, levels.Entry(level, params, notes))


def _tail(text: str, last: str) -> str:
    """Return the comments that follow the last level of a file; `last` is that level's text."""
    end = last.strip("\n").split("\n")[-1]
    lines = text.rstrip("\n").split("\n")
    found = next((i for i in range(len(lines) - 1, -1, -1) if lines[i] == end), len(lines))
    rest = [line for line in lines[found + 1 :] if line.strip() != blocks.SEPARATOR]
    return "\n".join(rest).strip("\n")
