"""`load`: read a dataset of jaxenvs or of Minari as arrays."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..core.env import Env
from ..core.extras import require
from ..core.files import read_text
from ..core.spaces import Dict, Space
from . import layout
from .data import Demos, Episode, joined
from .layout import DemosError

LARGEST_METADATA = 64 * 2**20  # maximum size of metadata.json, in bytes
MOST_COMPRESSED = 2000  # largest allowed ratio of the size of an array to the size of its file
# Errors that reading a damaged file can raise: types, shapes, names, sizes or links may be wrong.
DAMAGE = (OSError, LookupError, TypeError, ValueError, AttributeError, OverflowError)
DAMAGE += (MemoryError, RecursionError)


def load(
    name: str | os.PathLike[str],
    env: Env | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Demos:
    """Return a dataset as arrays.

    name: name of a dataset in `folder`, or the path of the dataset's own folder.
    env: environment of the dataset. Arrays are cast to the dtypes of its spaces. Observations with
        text, such as MiniGrid's with its mission, are converted by `env.upstream_obs`. None: arrays
        are returned as stored.
    folder: folder of all datasets; None: the folder in which Minari stores its datasets.

    If `env` is None, text observations become arrays of strings. Raises `DemosError` for a folder
    that is not a dataset or does not fit the environment.
    """
    path = _data_folder(name, folder)
    metadata = _metadata(path)
    h5py = layout.h5py()
    try:
        observed = json.loads(metadata.get("observation_space") or "null")
        with h5py.File(path / layout.MAIN, "r") as file:
            found = list(_episodes(file, observed, metadata))
        demos = joined(found, metadata) if found else None
    except DAMAGE as error:
        raise DemosError(f"{path} is damaged ({error}); record it again") from error
    if demos is None:
        raise DemosError(f"{path} has no episode")
    return demos if env is None else _fitted(demos, env, str(name))


def _data_folder(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder with metadata.json; raise `DemosError` if there is none."""
    below = layout.root(folder) / name
    for path in (Path(name) / layout.DATA, Path(name), below / layout.DATA):
        if os.path.isfile(path / layout.METADATA):
            return path
    raise DemosError(
        f"there is no dataset {name}, neither here nor in {layout.root(folder)}; record one with "
        f"`jaxenvs demos ID --out NAME-v0`, or set {layout.ROOT}"
    )


def _metadata(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path / layout.METADATA, LARGEST_METADATA))
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise DemosError(f"{path / layout.METADATA} cannot be read: {error}") from error
    if content.get("data_format", "hdf5") != "hdf5":
        raise DemosError(
            f"{path} has the format {content['data_format']}; only hdf5 is read. Convert it with "
            f"Minari"
        )
    return content


def _episodes(file: Any, observed: Any, metadata: Mapping[str, Any]) -> Iterator[Episode]:
    """Yield the episodes of an open file, in order."""
    encoded = bool(metadata.get("jpeg_encoding", True))
    for number in range(int(metadata.get("total_episodes", len(file)))):
        group = file[f"episode_{number}"]
        options = {
            key.partition("/")[2]: value
            for key, value in group.attrs.items()
            if key.startswith("options/")
        }
        infos = group.get("infos", {})
        episode = Episode(
            obs=_values(group["observations"], observed, encoded),
            action=_values(group["actions"], None, False),
            reward=_array(group["rewards"]),
            terminated=_array(group["terminations"]),
            truncated=_array(group["truncations"]),
            infos={key: _array(part) for key, part in infos.items() if hasattr(part, "shape")},
            options=options,
        )
        _check(episode, number)
        yield episode


def _values(stored: Any, space: Any, encoded: bool) -> Any:
    """Return stored observations or actions as arrays, or as dicts of arrays.

    space: the space as JSON. encoded: whether pictures are stored as JPEG.
    """
    if not hasattr(stored, "shape"):
        parts = (space or {}).get("subspaces", {})
        within = dict(enumerate(parts)) if isinstance(parts, list) else parts
        return {key: _values(part, within.get(key), encoded) for key, part in stored.items()}
    values = _array(stored)
    kind = (space or {}).get("type")
    if kind == "Text":
        return np.array([text.decode() if isinstance(text, bytes) else text for text in values])
    shape = tuple((space or {}).get("shape", values.shape[1:]))
    if encoded and kind == "Box" and values.shape[1:] != shape:
        return np.stack([_picture(each) for each in values])
    return values


def _array(stored: Any) -> np.ndarray:
    """Read an array; raise `ValueError` if its declared size far exceeds the size of its file."""
    if stored.nbytes > MOST_COMPRESSED * stored.file.id.get_filesize():
        raise ValueError(f"{stored.name} claims {stored.nbytes:,} bytes")
    return stored[()]


def _picture(encoded: np.ndarray) -> np.ndarray:
    require(["PIL"], "play")
    from PIL import Image

    return np.array(Image.open(io.BytesIO(bytes(bytearray(encoded)))), np.uint8)


def _check(episode: Episode, number: int) -> None:
    """Raise `ValueError` unless all arrays of an episode fit its number of steps."""
    length = len(episode)
    ends = (episode.terminated, episode.truncated)
    if any(part.ndim != 1 for part in (episode.reward, *ends)):
        raise ValueError(f"episode {number} needs one reward and two ends for each step")
    if not np.isfinite(episode.reward.astype(np.float32)).all():
        raise ValueError(f"episode {number} has rewards that are not finite")
    lengths = {len(leaf) for leaf in jax.tree.leaves((episode.action, ends))}
    seen = {len(leaf) for leaf in jax.tree.leaves(episode.obs)}
    if not length or lengths != {length} or seen != {length + 1}:
        raise ValueError(
            f"episode {number} has {length} rewards, {sorted(lengths)} actions and ends, and "
            f"{sorted(seen)} observations"
        )
    for name, values in episode.infos.items():
        if values.shape[:1] != (length + 1,):
            raise ValueError(
                f"episode {number} needs {length + 1} entries of the info {name}, got shape "
                f"{values.shape}"
            )


def _fitted(demos: Demos, env: Env, name: str) -> Demos:
    """Cast a dataset to the dtypes of an environment; raise `DemosError` if it does not fit."""
    obs = demos.obs
    if isinstance(obs, dict) and any(each.dtype.kind == "U" for each in jax.tree.leaves(obs)):
        obs = _translated(obs, env, name)
    given: dict[str, Any] = {
        "obs": _cast(obs, env.observation_space, f"{name}: observation"),
        "action": _cast(demos.action, env.action_space, f"{name}: action"),
    }
    return Demos(**{**vars(demos), **given})


def _translated(obs: dict[str, np.ndarray], env: Env, name: str) -> Any:
    """Convert observations with texts, such as MiniGrid's mission, to observations of `env`."""
    rows = [dict(zip(obs, row, strict=True)) for row in zip(*obs.values(), strict=True)]
    try:
        converted = [env.upstream_obs(row) for row in rows]
    except (KeyError, NotImplementedError, ValueError) as error:
        raise DemosError(
            f"{name} has text observations that do not fit {env.name}: {error}"
        ) from error
    return jax.tree.map(lambda *leaves: np.stack(leaves), *converted)


def _cast(values: Any, space: Space, where: str) -> Any:
    if isinstance(space, Dict):
        if not isinstance(values, dict) or set(values) != set(space.spaces):
            has = sorted(values) if isinstance(values, dict) else "one array"
            raise DemosError(f"{where}: the environment has {sorted(space.spaces)}, got {has}")
        return {
            key: _cast(values[key], part, f"{where} {key}") for key, part in space.spaces.items()
        }
    if isinstance(values, dict) or values.shape[1:] != space.shape:
        has = sorted(values) if isinstance(values, dict) else values.shape[1:]
        raise DemosError(
            f"{where}: the environment has the shape {space.shape}, got {has}; make it with the "
            f"fields of the dataset, such as --set obs=full"
        )
    if values.dtype.kind not in "biuf":
        raise DemosError(f"{where}: the environment has numbers, got {values.dtype}")
    with np.errstate(invalid="ignore"):  # a cast of NaN to an integer must not warn
        cast = values.astype(space.dtype)
    if np.issubdtype(space.dtype, np.integer) and not (cast == values).all():
        raise DemosError(f"{where}: some values are no elements of {space}")
    low, high = getattr(space, "low", 0), getattr(space, "high", getattr(space, "n", 1) - 1)
    if len(values) and not ((cast >= low) & (cast <= high)).all():
        raise DemosError(f"{where}: some values lie outside of {space}")
    return cast
