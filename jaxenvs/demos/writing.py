"""`Writer`: write episodes as a dataset that Minari opens."""

import contextlib
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.env import Env
from ..core.extras import version
from ..core.spaces import Dict, Space
from . import layout
from .data import Episode
from .layout import DemosError

# Maximum size, in bytes, of a text in `Episode.options`. Longer texts are not stored, because each
# option becomes an HDF5 attribute, which must be smaller than 64 KiB.
MOST_ATTRIBUTE = 60_000


class Writer:
    """Writer of a dataset in Minari's layout.

    The files are in a hidden folder next to the dataset's folder until `finish` is called. A
    dataset that is not finished therefore never appears under its name.
    """

    def __init__(
        self,
        name: str,
        env: Env,
        id: str,
        keywords: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Begin a dataset of `env`, which `jaxenvs.make(id, **keywords)` makes.

        name: name of the dataset, such as jaxenvs/mine/oracle-v0.
        folder: folder of all datasets; None: the folder in which Minari stores its datasets.
        overwrite: whether `finish` replaces a dataset of this name.

        Raises `DemosError` if the name is taken or not allowed, and `OSError` if a file cannot be
        written.
        """
        layout.h5py()  # raises an error if h5py is missing, before any folder is made
        self.path = layout.root(folder) / layout.checked_name(name)
        self._name, self._env, self._overwrite = name, env, overwrite
        self._check_free()
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._old = self._part.with_suffix(".old")
        shutil.rmtree(self._part, ignore_errors=True)
        (self._part / layout.DATA).mkdir(parents=True)
        self._main = _File(self._part / layout.DATA / layout.MAIN, "w+")
        # The newest file format has much smaller headers, which saves space if episodes are short.
        self._file = layout.h5py().File(self._main, "w", libver="latest")
        self.episodes = self.steps = 0
        spec = layout.env_json(id, dict(keywords or {}))
        self._metadata = {
            "dataset_id": name,
            "data_format": "hdf5",
            "jpeg_encoding": False,
            "observation_space": json.dumps(layout.space_json(env.observation_space)),
            "action_space": json.dumps(layout.space_json(env.action_space)),
            "env_spec": spec,
            "eval_env_spec": spec,
            "minari_version": layout.VERSION,
        }

    def add(self, episode: Episode) -> None:
        """Append an episode.

        Raises `ValueError` if its arrays do not have the right lengths, and `OSError` if the disk
        is full.
        """
        length = len(episode)
        group = self._file.create_group(f"episode_{self.episodes}")
        group.attrs.update({"id": self.episodes, "total_steps": length})
        for name, value in episode.options.items():
            if not isinstance(value, str) or len(value.encode()) <= MOST_ATTRIBUTE:
                group.attrs[f"options/{name}"] = value
        self._put(group, "observations", self._env.observation_space, episode.obs, length + 1)
        self._put(group, "actions", self._env.action_space, episode.action, length)
        group["rewards"] = np.asarray(episode.reward, np.float32)
        group["terminations"] = np.asarray(episode.terminated, bool)
        group["truncations"] = np.asarray(episode.truncated, bool)
        infos = group.create_group("infos")
        for name, values in episode.infos.items():
            infos[name] = _checked(name, np.asarray(values), length + 1)
        self._main.check()
        self.episodes += 1
        self.steps += length

    def finish(self, **metadata: Any) -> Path:
        """Write metadata.json, with the entries `metadata` added, and give the dataset its name.

        Until this call, the files are in a hidden folder. Returns the dataset's folder. Raises
        `DemosError` if there is no episode, and `OSError` if a file cannot be written.
        """
        if not self.episodes:
            self.discard()
            raise DemosError(f"{self._name} has no episode, so nothing was written")
        self._file.close()
        self._main.close()
        self._main.check()
        counts = {"total_episodes": self.episodes, "total_steps": self.steps}
        size = {"dataset_size": round(os.path.getsize(self._main.name) / 1e6, 1)}
        made_by = {"jaxenvs_version": version("jaxenvs"), "requirements": ["jaxenvs"]}
        content = self._metadata | counts | size | made_by | metadata
        (self._part / layout.DATA / layout.METADATA).write_text(json.dumps(content, indent=1))
        self._check_free()
        if self.path.exists():
            # Move the old dataset aside before deleting it: if the process is killed, no
            # half-deleted dataset has the dataset's name.
            os.replace(self.path, self._old)
        os.replace(self._part, self.path)
        shutil.rmtree(self._old, ignore_errors=True)
        self._name_spaces()
        return self.path

    def discard(self) -> None:
        """Close the file and remove everything that was written."""
        try:
            self._file.close()
            self._main.close()
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove the files of an unfinished dataset, even while another thread writes them."""
        # `_old` exists only while `finish` replaces an old dataset. The files in `_part` must then
        # stay, because they become the new dataset.
        if self._old.exists():
            return
        shutil.rmtree(self._part, ignore_errors=True)
        for folder in self._namespaces:
            with contextlib.suppress(OSError):  # raised if the folder is not empty
                folder.rmdir()

    @property
    def _namespaces(self) -> Sequence[Path]:
        """Folders between the root and the dataset, innermost first.

        There is one for each part of the dataset's name except the last: `a/b` and `a` for the name
        a/b/c-v0.
        """
        return self.path.parents[: self._name.count("/")]

    def _check_free(self) -> None:
        for folder in self._namespaces:
            if _is_dataset(folder):
                raise DemosError(
                    f"{folder} is a dataset, and {self._name} would lie inside it; give another "
                    f"name"
                )
        if not os.path.lexists(self.path):
            return
        if self.path.is_symlink() or not _is_dataset(self.path):
            raise DemosError(f"{self.path} is no dataset, so it is not replaced; give another name")
        inner = [file.parent.parent for file in self.path.rglob(f"{layout.DATA}/{layout.METADATA}")]
        if inner != [self.path]:
            inside = next(folder for folder in inner if folder != self.path)
            raise DemosError(
                f"{self.path} is not replaced, because the dataset {inside} lies inside it; give "
                f"another name"
            )
        if not self._overwrite:
            raise DemosError(
                f"{self._name} exists in {self.path}; give --overwrite (overwrite=True) to replace "
                f"it, or another name"
            )

    def _put(self, group: Any, name: str, space: Space, values: Any, length: int) -> None:
        """Store elements of a space: one array, or a group with one array per entry of a Dict."""
        if isinstance(space, Dict):
            inner = group.create_group(name)
            for key, part in space.spaces.items():
                self._put(inner, key, part, values[key], length)
            return
        group[name] = _checked(name, np.asarray(values, layout.stored_dtype(space)), length)

    def _name_spaces(self) -> None:
        """Write an empty description to each folder between the root and the dataset.

        Minari recognises these folders, called namespaces, by their descriptions.
        """
        for folder in self._namespaces:
            file = folder / layout.OF_NAMESPACE
            if not file.exists():
                file.write_text("{}")


class _File(io.FileIO):
    """File that HDF5 writes to; a failed write does not raise, and `check` raises the first error.

    The error is hidden from HDF5, because after a failed write HDF5 crashes when Python exits.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or none after an earlier error; return the length of `data`."""
        rest = memoryview(data)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = OSError(error.errno, error.strerror, self.name)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file, unless a write has failed; return the size."""
        try:
            if self.error is None:
                return super().truncate(size)
        except OSError as error:
            self.error = OSError(error.errno, error.strerror, self.name)
        return size or 0

    def check(self) -> None:
        """Raise the first error that a write caused, if there is one."""
        if self.error is not None:
            raise self.error


def _is_dataset(folder: Path) -> bool:
    return (folder / layout.DATA / layout.METADATA).is_file()


def _checked(name: str, values: np.ndarray, length: int) -> np.ndarray:
    if values.ndim < 1 or len(values) != length:
        raise ValueError(f"{name}: the episode needs {length} entries, got shape {values.shape}")
    return values
