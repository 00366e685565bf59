"""Checkpoints: directories with arrays that Orbax writes, and a manifest.

The manifest names the environment, the files with their hashes, and the shapes of the arrays. A
checkpoint is written under a temporary name and renamed when it is complete, so that a failed save
leaves earlier checkpoints intact. The files are compared with the manifest before any array is
read. Nothing is ever unpickled.
"""

import hashlib
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from jaxenvs.core.files import read_text
from jaxenvs.core.memory import machine_memory

from . import older

KEPT = 2  # number of checkpoints kept; the older one serves if the newest is damaged
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**24  # largest manifest that is read, in bytes


class RunError(ValueError):
    """Raised if a run cannot be read, written or continued; the message says what to do."""


def saved(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first. Their names are the numbers of updates."""
    found = (path for path in folder.glob("*") if re.fullmatch("[0-9]{8,12}", path.name))
    return sorted(
        (p for p in found if p.is_dir() and not p.is_symlink()), key=lambda p: int(p.name)
    )


def newest(folder: Path) -> int:
    """Return the update number of the newest checkpoint in a folder, or 0 if there is none."""
    return max((int(path.name) for path in saved(folder)), default=0)


def newest_intact(folder: Path) -> int:
    """Return the update number of the checkpoint that `restore` reads, or 0 if there is none."""
    intact = (path for path in reversed(saved(folder)) if damage(path) is None)
    return next((int(path.name) for path in intact), 0)


def save(folder: Path, update: int, trees: dict[str, PyTree], made_for: str) -> None:
    """Write trees of arrays as the checkpoint of `update`; raise `RunError` if writing fails.

    `made_for` is the name of the run's environment (`Config.title`), which the manifest stores.
    """
    final, temporary = folder / f"{update:08d}", folder / f".saving-{update:08d}"
    if final.exists() and damage(final) is None:
        # A resumed run has repeated this update with a bit-identical result: keep the checkpoint
        # that the first attempt wrote.
        return
    try:
        for unfinished in folder.glob(".saving-*"):
            shutil.rmtree(unfinished)
        write(temporary, trees, made_for)
        # An intact checkpoint of this update was kept above; a damaged one is replaced here.
        if final.exists():
            shutil.rmtree(final)
        os.rename(temporary, final)
    except Exception as error:  # Orbax may wrap a disk error in any exception
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(
            f"the checkpoint of update {update} could not be written to {folder} "
            f"({_cause(error)}); the one before is untouched; free some space"
        ) from error
    for old in saved(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def restore(
    folder: Path,
    shapes: dict[str, PyTree],
    made_for: str,
    optional: bool = False,
    replaceable: Collection[str] = (),
) -> tuple[int, dict[str, PyTree[np.ndarray]]]:
    """Read the newest intact checkpoint; return its update and trees of NumPy arrays.

    `shapes` has the name and the shapes of each tree to read. With `optional`, trees that are not
    in the checkpoint are left out. Trees named in `replaceable` are left out if their shapes differ
    from `shapes`. Damaged checkpoints are skipped with a message.

    Raises `RunError` if all checkpoints are damaged, or if the newest intact checkpoint has other
    shapes or an environment other than `made_for`.
    """
    for path in reversed(saved(folder)):
        trouble = damage(path)
        if trouble is None:
            known = _manifest(path)["arrays"]
            left_out = {name for name in shapes if optional and name not in known}
            for name in {*replaceable} & {*shapes}:
                if known.get(name) != _described(_by_path(shapes[name])):
                    left_out.add(name)
            wanted = {name: tree for name, tree in shapes.items() if name not in left_out}
            return int(path.name), read(path, wanted, made_for)
        print(f"{path} is damaged ({trouble}); trying the one before", file=sys.stderr)
    raise RunError(
        f"there is no intact checkpoint in {folder}; copy one back, or train again with "
        f"--out {folder.parent} --overwrite"
    )


def write(path: Path, trees: dict[str, PyTree], made_for: str) -> None:
    """Write a checkpoint into the new folder `path`: first the arrays, then the manifest."""
    arrays = {name: _by_path(tree) for name, tree in trees.items()}
    arrays = {name: jax.tree.map(np.asarray, leaves) for name, leaves in arrays.items()}
    path.mkdir(parents=True)
    with _checkpointer() as checkpointer:
        for name, leaves in arrays.items():
            checkpointer.save((path / name).absolute(), _stored(leaves))
            checkpointer.wait_until_finished()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    manifest = {
        "made_for": made_for,
        "arrays": {name: _described(leaves) for name, leaves in arrays.items()},
        "files": {file.relative_to(path).as_posix(): _fingerprint(file) for file in files},
    }
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def damage(path: Path) -> str | None:
    """Return a description of the damage to a checkpoint's files, or None if they are intact."""
    try:
        known = _manifest(path)["files"]
    except (OSError, ValueError, RecursionError) as error:
        return f"{MANIFEST}: {error or type(error).__name__}"
    there = {f.relative_to(path).as_posix(): f for f in path.rglob("*") if not _is_skipped(f)}
    for name in sorted(known.keys() | there.keys()):
        if name not in there:
            return f"{name!r} is missing"
        if there[name].is_symlink() or not there[name].is_file():
            return f"{name} is no plain file"
        if name not in known or _fingerprint(there[name]) != known[name]:
            return f"{name} is not as it was written"
    return None


def _is_skipped(path: Path) -> bool:
    """Return whether the check of files skips a path: a folder, the manifest, or a hidden file."""
    is_folder = path.is_dir() and not path.is_symlink()
    return is_folder or path.name == MANIFEST or path.name.startswith(".")


def _manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint; raises `OSError` or `ValueError` if it is invalid."""
    content = json.loads(read_text(path / MANIFEST, LARGEST_MANIFEST))
    kinds = {"made_for": str, "arrays": dict, "files": dict}
    if not isinstance(content, dict) or {k: type(content.get(k)) for k in kinds} != kinds:
        raise ValueError(f"it does not hold {', '.join(kinds)}")
    if not all(isinstance(leaves, dict) for leaves in content["arrays"].values()):
        raise ValueError("its arrays are not named")
    return content


def read(path: Path, shapes: dict[str, PyTree], made_for: str) -> dict[str, PyTree[np.ndarray]]:
    """Read trees from an intact checkpoint and return them.

    Raises `RunError` if the checkpoint has another environment or other shapes.
    """
    manifest = _manifest(path)
    if manifest["made_for"] != made_for:
        raise RunError(
            f"{path} is a checkpoint of {manifest['made_for']}, but this run is of {made_for}; "
            f"put it back into its own run, or train a new one with --out NEW"
        )
    wanted = {name: _by_path(tree) for name, tree in shapes.items()}
    shapes_to_read = older.as_stored(wanted, manifest["arrays"])
    for name, leaves in shapes_to_read.items():
        _compare(path, manifest["arrays"].get(name, {}), _described(leaves))
    _check_room(path, shapes_to_read)
    found = older.as_wanted(wanted, _read(path, shapes_to_read))
    return {
        name: jax.tree.unflatten(jax.tree.structure(tree), found[name].values())
        for name, tree in shapes.items()
    }


def _read(
    path: Path, shapes_to_read: dict[str, dict[str, Any]]
) -> dict[str, dict[str, np.ndarray]]:
    """Read the arrays that `shapes_to_read[tree][leaf]` describes; return them by tree and leaf."""
    found = {}
    with _checkpointer() as checkpointer:
        for name, leaves in shapes_to_read.items():
            try:
                found[name] = _arrays(checkpointer, path / name, leaves)
            except RunError:
                raise
            except Exception as error:  # Orbax does not document which exceptions it raises
                raise RunError(
                    f"{path / name} cannot be read ({_cause(error)}), although its files match its "
                    f"{MANIFEST}; remove {path} to use the previous checkpoint"
                ) from error
    return found


def contents(path: Path) -> dict[str, np.ndarray]:
    """Return every array of a checkpoint; the keys are `TREE.LEAF`, as named in the manifest."""
    manifest = _manifest(path)
    shapes = {
        name: {leaf: older.shape(text) for leaf, text in leaves.items()}
        for name, leaves in manifest["arrays"].items()
    }
    return _by_path(read(path, shapes, manifest["made_for"]))


def _arrays(
    checkpointer: ocp.StandardCheckpointer, path: Path, wanted: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return the arrays named in `wanted`, after comparing Orbax's metadata with their shapes."""
    path = path.absolute()
    stored: Any = checkpointer.metadata(path)
    # Older releases of Orbax return the value of `item_metadata` itself.
    stored = getattr(stored, "item_metadata", stored)
    if stored is None:
        raise ValueError("its arrays are not described")
    stored = {name: stored.tree[name] for name in stored.tree}
    expected = _stored(wanted)
    _compare(path, _described(stored), _described(expected))
    for name, array in stored.items():
        if math.prod(array.storage.chunk_shape) > max(1, math.prod(array.shape)):
            raise ValueError(f"a chunk of {name} is larger than the array")
    like = {k: np.broadcast_to(np.zeros((), x.dtype), x.shape) for k, x in expected.items()}
    leaves = checkpointer.restore(path, like)
    empty = {k: np.zeros(x.shape, x.dtype) for k, x in wanted.items() if k not in expected}
    return {name: np.asarray({**leaves, **empty}[name]) for name in wanted}


def _check_room(path: Path, wanted: dict[str, dict[str, Any]]) -> None:
    """Raise `RunError` if the arrays need more memory than this machine has.

    A damaged manifest can name arrays of any size. Without this check, the process would run out of
    memory.
    """
    arrays = [leaf for leaves in wanted.values() for leaf in leaves.values()]
    needed = sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in arrays)
    room = machine_memory()
    if room is not None and needed > room:
        raise RunError(
            f"{path} claims to hold {needed / 1e9:,.0f} GB, and this machine has "
            f"{room / 1e9:,.0f} GB of memory; if that is no mistake, use a larger machine"
        )


def _checkpointer() -> ocp.StandardCheckpointer:
    """Return an Orbax checkpointer that does not wait for the other processes of a run.

    Only process 0 writes checkpoints, and each process reads them at its own time.
    """
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
                f"give config.json its old settings back, or train again with --out NEW"
            )


def _by_path(tree: PyTree) -> dict[str, Any]:
    """Return a tree's leaves by path. Paths are text, so files do not depend on Python classes."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _stored(leaves: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays that Orbax stores: all except arrays of size 0, which Orbax rejects.

    The manifest also lists the arrays of size 0.
    """
    return {name: leaf for name, leaf in leaves.items() if math.prod(leaf.shape)}


def _described(leaves: dict[str, Any]) -> dict[str, str]:
    return {name: f"{np.dtype(leaf.dtype)}{list(leaf.shape)}" for name, leaf in leaves.items()}


def _fingerprint(file: Path) -> list[Any]:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return [content.tell(), digest]


def _cause(error: Exception) -> str:
    """Return the first line of an error's message; messages of Orbax may be pages long."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
