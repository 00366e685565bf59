"""Minari's layout of a dataset: names, folders, and the JSON of spaces and environments.

The layout is as in Minari 0.5.4. The dataset NAMESPACE/NAME-vN is in the folder NAMESPACE/NAME-vN
of the root, the folder of all datasets. The dataset's folder has a folder `data` with the files
`metadata.json` and `main_data.hdf5`. The HDF5 file has one group for each episode.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from ..core.extras import require
from ..core.spaces import Box, Dict, Discrete, MultiDiscrete, Space

ROOT = "MINARI_DATASETS_PATH"  # environment variable that names the folder of all datasets
VERSION = "0.5.4"  # version of Minari whose layout is written
DATA, METADATA, MAIN = "data", "metadata.json", "main_data.hdf5"
OF_NAMESPACE = "namespace_metadata.json"
EXTRA = "demos"
_NAME = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+", re.ASCII)
_PART = 100  # maximum number of characters of each part of a name, between slashes


class DemosError(ValueError):
    """Raised for a dataset that cannot be read or written; the message says how to fix it."""


def root(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of all datasets: `given`, or Minari's folder if `given` is None."""
    if given is not None:
        return Path(given)
    return Path(os.environ.get(ROOT) or Path("~/.minari/datasets").expanduser())


def checked_name(name: str) -> str:
    """Return the name of a dataset; raise `DemosError` if Minari would not accept it."""
    if not _NAME.fullmatch(name) or max(map(len, name.split("/"))) > _PART:
        raise DemosError(
            f"{name!r} cannot be the name of a dataset; give NAME-v0 or NAMESPACE/NAME-v0, with "
            f"letters, digits, - and _, such as jaxenvs/mine/oracle-v0"
        )
    return name


def h5py() -> Any:
    """Import and return h5py; raise `MissingExtraError` if it is not installed."""
    require(["h5py"], EXTRA)
    import h5py

    return h5py


def space_json(space: Space) -> dict[str, Any]:
    """Return Minari's JSON for the Gymnasium space to which `to_gymnasium` converts `space`."""
    if isinstance(space, Dict):
        parts = {name: space_json(part) for name, part in sorted(space.spaces.items())}
        return {"type": "Dict", "subspaces": parts}
    if isinstance(space, Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": 0, "n": int(space.n)}
    if isinstance(space, MultiDiscrete):
        nvec = space.nvec.tolist()
        return {"type": "MultiDiscrete", "dtype": "int64", "nvec": nvec, "start": [0] * len(nvec)}
    if not isinstance(space, Box):
        raise DemosError(
            f"the space {space} has no place in a dataset; use a Box or a Dict of them"
        )
    if space.dtype == bool:
        return {"type": "MultiBinary", "n": list(space.shape)}
    return {
        "type": "Box",
        "dtype": str(space.dtype),
        "shape": list(space.shape),
        "low": space.low.tolist(),
        "high": space.high.tolist(),
    }


def stored_dtype(space: Space) -> str:
    """Return the dtype in which elements of a space are stored: the dtype of Gymnasium's space."""
    if isinstance(space, (Discrete, MultiDiscrete)):
        return "int64"
    return "int8" if space.dtype == bool else str(space.dtype)


def env_json(id: str, keywords: dict[str, Any]) -> str:
    """Return the Gymnasium `EnvSpec`, as JSON, from which Minari makes the environment again.

    keywords: keyword arguments of `jaxenvs.make`: fields and params of the environment.
    """
    home = "jaxenvs.adapters"
    return json.dumps(
        {
            "id": f"jaxenvs/{id}",
            "entry_point": f"{home}.gymnasium:GymnasiumEnv",
            "reward_threshold": None,
            "nondeterministic": False,
            "max_episode_steps": None,
            "order_enforce": True,
            "disable_env_checker": False,
            "kwargs": {"env": id, **keywords},
            "additional_wrappers": [],
            "vector_entry_point": f"{home}.gymnasium_vec:GymnasiumVectorEnv",
        }
    )
