"""Pack the newest checkpoint of a run into one small file, to resume on another machine.

The file holds the run's config, update number and arrays, in flax's MessagePack format, compressed
by zlib. It is safe to read: names in it never become paths, and nothing is unpickled.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from flax import serialization

from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.checkpoints import RunError
from jaxenvs.baselines.storage.runs import Run
from jaxenvs.core.files import replacing

LARGEST = 2**30  # limit in bytes on the size of a decompressed file
NAME = re.compile(r"(weights|learner|stock)(\.\w+)+")  # pattern of valid array names


def pack(run: Run, file: Path) -> int:
    """Write the newest checkpoint of a run to `file`; return its update number.

    Return 0 and write nothing if the run has no checkpoint.

    Raises `OSError` if the file cannot be written.
    """
    saved = checkpoints.saved(run.checkpoints)
    if not saved:
        return 0
    config = json.loads((run.path / "config.json").read_text("utf-8"))
    content = {"config": config, "update": int(saved[-1].name)}
    content["arrays"] = checkpoints.contents(saved[-1])
    with replacing(file) as temporary:
        temporary.write_bytes(zlib.compress(serialization.msgpack_serialize(content)))
    return content["update"]


def update_of(file: Path) -> int:
    """Return the update number of a checkpoint file, or 0 if the file is missing or damaged."""
    try:
        return _read(file)["update"]
    except (OSError, RunError):
        return 0


def unpack(file: Path, path: Path) -> Run:
    """Create a run in the new directory `path` from a checkpoint file, and return the run.

    Raises `RunError` if the file is damaged.
    """
    found = _read(file)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(found["config"]), "utf-8")
    try:
        run = Run.open(path)
    except RunError as error:
        raise _damaged(file, error) from error
    trees: dict[str, dict[str, np.ndarray]] = {}
    for name, array in found["arrays"].items():
        part, _, leaf = name.partition(".")
        trees.setdefault(part, {})[leaf] = array
    run.checkpoints.mkdir()
    run.save(found["update"], trees)
    return run


def _read(file: Path) -> dict[str, Any]:
    """Return the content of a checkpoint file; raise `RunError` if the file is damaged."""
    try:
        inflater = zlib.decompressobj()
        packed = inflater.decompress(file.read_bytes(), LARGEST)
        if not inflater.eof:
            raise ValueError("it is truncated or too long")
        found: Any = serialization.msgpack_restore(packed)
        if type(found["update"]) is not int or found["update"] < 1:
            raise ValueError(f"its update is {found['update']!r}")
        if not all(NAME.fullmatch(name) for name in found["arrays"]):
            raise ValueError("its arrays have names that no run has")
        if not all(isinstance(array, np.ndarray) for array in found["arrays"].values()):
            raise ValueError("its arrays are not all arrays")
        json.dumps(found["config"])
    except (AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise _damaged(file, error) from error
    return found


def _damaged(file: Path, error: Exception) -> RunError:
    return RunError(f"{file} is damaged ({error}); remove it to start again")
