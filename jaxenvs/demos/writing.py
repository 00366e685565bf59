"""`Writer`: write episodes as a dataset that Minari opens."""

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.env import Env
from ..core.extras import version
from ..core.spaces import Dict, Space
from . import layout
from .data import Episode
from .layout import DemosError

MOST_ATTRIBUTE = 60_000  # HDF5 attributes have less than 64 KiB


class Writer:
    """Writer of a dataset, which appears under its name only when `finish` is called.

    Until then, its files are in a hidden folder next to it.
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
        folder: root of all datasets; None: Minari's.
        overwrite: whether `finish` replaces a dataset of this name.

        Raises `DemosError` if the name is taken or not allowed, and `OSError`.
        """
        self._h5py = layout.h5py()
        self.path = layout.root(folder) / layout.checked_name(name)
        self._name, self._env, self._overwrite = name, env, overwrite
        self._check_free()
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        shutil.rmtree(self._part, ignore_errors=True)
        (self._part / layout.DATA).mkdir(parents=True)
        main = self._part / layout.DATA / layout.MAIN
        # The newest format has much smaller headers, which matter for short episodes.
        self._file = self._h5py.File(main, "w", libver="latest")
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
        """Append an episode. Raises `ValueError` if its arrays do not have the right lengths."""
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
        self.episodes += 1
        self.steps += length

    def finish(self, **metadata: Any) -> Path:
        """Write metadata.json with further entries, and give the dataset its name.

        Returns the dataset's folder. Raises `DemosError` if there is no episode.
        """
        if not self.episodes:
            self.discard()
            raise DemosError(f"{self._name} has no episode, so nothing was written")
        self._file.close()
        main = self._part / layout.DATA / layout.MAIN
        counts = {"total_episodes": self.episodes, "total_steps": self.steps}
        size = {"dataset_size": round(main.stat().st_size / 1e6, 1)}
        made_by = {"jaxenvs_version": version("jaxenvs"), "requirements": ["jaxenvs"]}
        content = self._metadata | counts | size | made_by | metadata
        (self._part / layout.DATA / layout.METADATA).write_text(json.dumps(content, indent=1))
        self._check_free()
        old = self._part.with_suffix(".old")
        if self.path.exists():
            os.replace(self.path, old)  # so that a kill never leaves half of a dataset
        os.replace(self._part, self.path)
        shutil.rmtree(old, ignore_errors=True)
        self._name_spaces()
        return self.path

    def discard(self) -> None:
        """Remove what was written, without a dataset."""
        try:
            # Closing writes what is still in memory, and fails again if the disk is full.
            with contextlib.suppress(OSError, RuntimeError):
                self._file.close()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def _check_free(self) -> None:
        if not os.path.lexists(self.path):
            return
        if not self._overwrite:
            raise DemosError(
                f"{self._name} exists in {self.path}; give --overwrite (overwrite=True) to replace "
                f"it, or another name"
            )
        if self.path.is_symlink() or not (self.path / layout.DATA / layout.METADATA).is_file():
            raise DemosError(f"{self.path} is no dataset, so it is not replaced; give another name")

    def _put(self, group: Any, name: str, space: Space, values: Any, length: int) -> None:
        """Store the elements of a space, as one array for each of its parts."""
        if isinstance(space, Dict):
            inner = group.create_group(name)
            for key, part in space.spaces.items():
                self._put(inner, key, part, values[key], length)
            return
        group[name] = _checked(name, np.asarray(values, layout.stored_dtype(space)), length)

    def _name_spaces(self) -> None:
        """Write the empty descriptions by which Minari knows the folders above the dataset."""
        folder = self.path
        for _ in self._name.split("/")[1:]:
            folder = folder.parent
            file = folder / layout.OF_NAMESPACE
            if not file.exists():
                file.write_text("{}")


def _checked(name: str, values: np.ndarray, length: int) -> np.ndarray:
    if values.ndim < 1 or len(values) != length:
        raise ValueError(f"{name}: the episode needs {length} entries, got shape {values.shape}")
    return values
