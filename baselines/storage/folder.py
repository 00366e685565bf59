"""Checks that a directory is free for a new run, and removal of an earlier run's files."""

import shutil
from pathlib import Path

from jaxenvs.core.files import unfinished

from .checkpoints import RunError

WRITTEN = ("config.json", "log.jsonl", "curve.png", "eval.json", "replay.html", "checkpoints")
WRITTEN += ("log.csv", "tensorboard", "wandb", "videos", "achievements.png")


def check_free(path: Path, overwrite: bool) -> None:
    """Raise `RunError` unless a new run may be written to `path`.

    `path` must be missing or empty, or hold an earlier run while `overwrite` is True.
    """
    if not path.exists() or _is_empty(path):
        return
    if not (path / "config.json").is_file():
        raise RunError(f"{path} has files but is not a run; give another directory with --out")
    if not overwrite:
        raise RunError(
            f"{path} already holds a run; continue it with --resume {path}, replace it with "
            f"--overwrite, or give another directory with --out"
        )


def remove(path: Path) -> None:
    """Remove the files that training wrote (`WRITTEN`) from a directory, and no other files."""
    for written in (path / name for name in WRITTEN):
        if written.is_dir() and not written.is_symlink():
            shutil.rmtree(written)
        else:
            written.unlink(missing_ok=True)


def _is_empty(path: Path) -> bool:
    """Return whether a directory is empty except for files of an interrupted `Run.create`."""
    if not path.is_dir():
        return False
    rest = {*path.iterdir()} - {*unfinished(path)}
    return not rest or (
        rest == {path / "checkpoints"} and not any((path / "checkpoints").iterdir())
    )
