"""The newest checkpoint of a run in one small file, to be carried from machine to machine.

A file is a zip of the run's config.json and of that checkpoint, whose manifest has a hash of each
of its files. Names outside of these two are refused.
"""

import re
import zipfile
import zlib
from pathlib import Path

from jaxenvs.baselines import checkpoints
from jaxenvs.baselines.checkpoints import RunError
from jaxenvs.baselines.runs import Run
from jaxenvs.core.files import replacing

LARGEST = 2**30  # bytes of all files
NAME = re.compile(r"config\.json|checkpoints/(?P<update>[0-9]{8,12})/(?!\.\.)[\w./-]*")
BROKEN = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def pack(run: Run, file: Path) -> int:
    """Write the newest checkpoint of a run; return its update, 0 if the run has none.

    Raises `OSError` where the file cannot be written.
    """
    saved = checkpoints.saved(run.checkpoints)
    if not saved:
        return 0
    with (
        replacing(file) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as carrier,
    ):
        for part in (run.path / "config.json", *sorted(saved[-1].rglob("*"))):
            carrier.write(part, part.relative_to(run.path))
    return int(saved[-1].name)


def update_of(file: Path) -> int:
    """The update of a carried checkpoint, 0 where there is none to read."""
    try:
        with zipfile.ZipFile(file) as carrier:
            return _update(carrier)
    except BROKEN:
        return 0


def unpack(file: Path, path: Path) -> Run:
    """Make the run of a carried checkpoint in a new directory; `RunError` where it is damaged."""
    try:
        with zipfile.ZipFile(file) as carrier:
            update = _update(carrier)
            path.mkdir(parents=True)
            carrier.extractall(path)
        run = Run.open(path)
        if trouble := checkpoints.damage(run.checkpoints / f"{update:08d}"):
            raise ValueError(trouble)
    except BROKEN as error:
        raise RunError(f"{file} is damaged ({error}); remove it to begin anew") from error
    return run


def _update(carrier: zipfile.ZipFile) -> int:
    """The update of the one checkpoint in a file; `ValueError` for anything else in it."""
    if sum(part.file_size for part in carrier.infolist()) > LARGEST:
        raise ValueError("its files are too large")
    found = [NAME.fullmatch(name) for name in carrier.namelist()]
    updates = {match["update"] for match in found if match}
    if not all(found) or len(updates) != 2:  # one, and None of config.json
        raise ValueError("it does not hold a config.json and one checkpoint")
    return int(max(filter(None, updates)))
