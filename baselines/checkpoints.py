"""Checkpoints: Orbax arrays beside a manifest of sizes, hashes, shapes and what they were made for.

A checkpoint is written under another name and renamed when it is whole, so that a save that fails
harms nothing; the manifest is compared before anything is read. Nothing is ever unpickled.
"""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

KEPT = 2  # the last one, and the one before in case the last is damaged
MANIFEST = "manifest.json"


class RunError(ValueError):
    """A run cannot be read, written or continued; the message says what to do."""


def saved(folder: Path) -> list[Path]:
    """Checkpoints in a folder, oldest first; each is named by its update."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def save(folder: Path, update: int, trees: dict[str, PyTree], made_for: str) -> None:
    """Write trees of arrays as the checkpoint of `update`; `RunError` when that fails."""
    final, temporary = folder / f"{update:08d}", folder / f".saving-{update:08d}"
    if final.exists() and damage(final) is None:
        return  # resuming is bit-equal, so this is the same state
    try:
        for unfinished in folder.glob(".saving-*"):
            shutil.rmtree(unfinished)
        write(temporary, trees, made_for)
        if final.exists():  # damaged, or it would have served
            shutil.rmtree(final)
        os.rename(temporary, final)
    except Exception as error:  # the disk, or whatever Orbax makes of it
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(
            f"the checkpoint of update {update} could not be written to {folder} ({error}); "
            f"the one before is untouched; free some space, then use --resume {folder.parent}"
        ) from error
    for old in saved(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def restore(
    folder: Path, shapes: dict[str, PyTree], made_for: str
) -> tuple[int, dict[str, PyTree[np.ndarray]]]:
    """Read the newest whole checkpoint; return its update and trees of NumPy arrays like `shapes`.

    A damaged one is passed over with a message. `RunError` when none is whole, or when it was made
    for something else than `made_for`, or with other shapes.
    """
    for path in reversed(saved(folder)):
        trouble = damage(path)
        if trouble is None:
            return int(path.name), read(path, shapes, made_for)
        print(f"{path} is damaged ({trouble}); trying the one before", file=sys.stderr)
    raise RunError(
        f"there is no whole checkpoint in {folder}; copy one back, or train anew with "
        f"--out {folder.parent} --overwrite"
    )


def write(path: Path, trees: dict[str, PyTree], made_for: str) -> None:
    """Write one checkpoint, its manifest last."""
    arrays = {name: _by_path(tree) for name, tree in trees.items()}
    arrays = {name: jax.tree.map(np.asarray, leaves) for name, leaves in arrays.items()}
    path.mkdir(parents=True)
    with _checkpointer() as checkpointer:
        for name, leaves in arrays.items():
            checkpointer.save((path / name).absolute(), leaves)
            checkpointer.wait_until_finished()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    manifest = {
        "made_for": made_for,
        "arrays": {name: _described(leaves) for name, leaves in arrays.items()},
        "files": {file.relative_to(path).as_posix(): _fingerprint(file) for file in files},
    }
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def damage(path: Path) -> str | None:
    """Return what is wrong with the files of a checkpoint, or None."""
    try:
        files = json.loads((path / MANIFEST).read_text("utf-8"))["files"].items()
        wrong = [name for name, known in files if _fingerprint(path / name) != known]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return str(error)
    return f"{wrong[0]} is not as it was written" if wrong else None


def read(path: Path, shapes: dict[str, PyTree], made_for: str) -> dict[str, PyTree[np.ndarray]]:
    """Read trees of an undamaged checkpoint after comparing what it was made for."""
    manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    if manifest["made_for"] != made_for:
        raise RunError(
            f"{path} is a checkpoint of {manifest['made_for']}, but this run is of {made_for}; "
            f"put it back into its own run, or train a new one with --out NEW"
        )
    trees = {}
    with _checkpointer() as checkpointer:
        for name, tree in shapes.items():
            wanted = _by_path(tree)
            _compare(path, manifest["arrays"].get(name, {}), _described(wanted))
            like = {k: np.broadcast_to(np.zeros((), x.dtype), x.shape) for k, x in wanted.items()}
            leaves = checkpointer.restore((path / name).absolute(), like)
            trees[name] = jax.tree.unflatten(
                jax.tree.structure(tree), [np.asarray(leaves[key]) for key in wanted]
            )
    return trees


def _checkpointer() -> ocp.StandardCheckpointer:
    """Of this process alone: of several, the first writes, and each reads for itself."""
    this = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=this, active_processes={this}, barrier_sync_key_prefix=f"process{this}"
    )
    return ocp.StandardCheckpointer(multiprocessing_options=alone)


def _compare(path: Path, found: dict[str, str], wanted: dict[str, str]) -> None:
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise RunError(
                f"{path} does not fit: {name} is {found.get(name, 'missing')} there and "
                f"{wanted.get(name, 'missing')} here; other settings or another version made it: "
                f"give config.json its old settings back, or train anew with --out NEW"
            )


def _by_path(tree: PyTree) -> dict[str, Any]:
    """Leaves under the names of their paths: files then depend on no Python class."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _described(leaves: dict[str, Any]) -> dict[str, str]:
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in leaves.items()}


def _fingerprint(file: Path) -> list[Any]:
    content = file.read_bytes()
    return [len(content), hashlib.sha256(content).hexdigest()]
