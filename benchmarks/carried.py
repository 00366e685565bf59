"""The newest checkpoint of a run in one small file, to be carried from machine to machine.

A file is a line of JSON (the run's config, the update, name, dtype, shape and size of each array),
then the arrays, each deflated. Nothing that it says becomes a path.
"""

import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from jaxenvs.baselines import checkpoints
from jaxenvs.baselines.checkpoints import RunError
from jaxenvs.baselines.runs import Run
from jaxenvs.core.files import replacing

LONGEST_HEADER = 2**20  # bytes
LARGEST = 2**30  # bytes of all arrays
NAME = re.compile(r"(weights|learner)(\.\w+)+")  # of an array
KINDS = "biuf"  # of dtypes: numbers


def pack(run: Run, file: Path) -> int:
    """Write the newest checkpoint of a run; return its update, 0 if the run has none.

    Raises `OSError` where the file cannot be written.
    """
    saved = checkpoints.saved(run.checkpoints)
    if not saved:
        return 0
    arrays = checkpoints.contents(saved[-1])
    packed = [zlib.compress(np.ascontiguousarray(a).tobytes(), 6) for a in arrays.values()]
    described = [
        [name, str(array.dtype), list(array.shape), len(part)]
        for (name, array), part in zip(arrays.items(), packed, strict=True)
    ]
    update = int(saved[-1].name)
    config = json.loads((run.path / "config.json").read_text("utf-8"))
    header = {"config": config, "update": update, "arrays": described}
    with replacing(file) as temporary, temporary.open("wb") as out:
        out.write(json.dumps(header).encode() + b"\n")
        out.writelines(packed)
    return update


def update_of(file: Path) -> int:
    """The update of a carried checkpoint, 0 where there is none to read."""
    try:
        with file.open("rb") as source:
            return int(_header(source)["update"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def unpack(file: Path, path: Path) -> Run:
    """Make the run of a carried checkpoint in a new directory; `RunError` where it is damaged."""
    try:
        with file.open("rb") as source:
            header = _header(source)
            arrays = {name: _array(source, *rest) for name, *rest in header["arrays"]}
            update = int(header["update"])
        if not all(map(NAME.fullmatch, arrays)):
            raise ValueError("its arrays have other names than those of a run")
        if update < 1 or sum(array.nbytes for array in arrays.values()) > LARGEST:
            raise ValueError("its numbers are out of range")
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(header["config"]), "utf-8")
        run = Run.open(path)
    except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise RunError(f"{file} is damaged ({error}); remove it to begin anew") from error
    trees: dict[str, dict[str, np.ndarray]] = {"weights": {}, "learner": {}}
    for name, array in arrays.items():
        part, _, leaf = name.partition(".")
        trees[part][leaf] = array
    run.checkpoints.mkdir()
    run.save(update, trees)
    return run


def _header(source: Any) -> dict[str, Any]:
    line = source.readline(LONGEST_HEADER)
    header = json.loads(line)
    if not isinstance(header, dict):
        raise ValueError("it has no header")
    return header


def _array(source: Any, dtype: str, shape: list[int], packed: int) -> np.ndarray:
    """Read one array; raises where its description does not fit."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if kind.kind not in KINDS or min(shape, default=0) < 0 or not 0 <= size <= LARGEST:
        raise ValueError(f"no array is {dtype}{shape}")
    if not 0 <= packed <= LARGEST:
        raise ValueError(f"a part of {packed} bytes")
    inflater = zlib.decompressobj()
    content = inflater.decompress(source.read(packed), size + 1)
    if len(content) != size or not inflater.eof:
        raise ValueError("an array is cut or too long")
    return np.frombuffer(content, kind).reshape(shape)
