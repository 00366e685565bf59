"""Layout of older checkpoints: where they store arrays that newer checkpoints store elsewhere.

If a learner scales rewards or value targets, its checkpoints contain the scales (value_scales.py).
The scales are now part of the weights. Older versions of jaxenvs saved them in another part of the
checkpoint, and omitted them from the best policy of `--eval-every`.
"""

import re
from typing import Any

import jax
import numpy as np

MOVED = {  # (tree, leaf) in this version -> (tree, leaf) in older versions
    ("weights", "scales.targets"): ("learner", "scale"),
    **{
        ("weights", f"scales.rewards.{name}"): ("learner", f"gains.{name}")
        for name in ("number", "mean", "variance")
    },
}
# Leaves of a tree (its name, and a pattern of leaf names) that older versions did not save.
NEVER_SAVED = ("best", re.compile(r"weights\.scales\..*"))

# Arrays of a checkpoint, or their shapes: leaves[tree][leaf], where `tree` is a part of the
# checkpoint such as `weights`, and `leaf` is the path of an array in this part.
Leaves = dict[str, dict[str, Any]]


def as_stored(wanted: Leaves, stored: dict[str, dict[str, str]]) -> Leaves:
    """Return names and shapes of the arrays to read from a checkpoint, as named in the checkpoint.

    `wanted` has the arrays that the caller needs, as named in this version. `stored` has the text
    that describes each array of the checkpoint, which `shape` parses.
    """
    stored_shapes = {tree: dict(leaves) for tree, leaves in wanted.items()}
    for tree, leaves in wanted.items():
        for leaf in leaves.keys() - stored.get(tree, {}).keys():
            place = MOVED.get((tree, leaf))
            if place and place[1] in stored.get(place[0], {}):
                old_tree, old_leaf = place
                # Orbax reads only whole trees, so include all arrays of the tree.
                if old_tree not in stored_shapes:
                    stored_shapes[old_tree] = {
                        k: shape(text) for k, text in stored[old_tree].items()
                    }
                stored_shapes[old_tree][old_leaf] = stored_shapes[tree].pop(leaf)
            elif tree in stored and _was_never_saved(tree, leaf):
                stored_shapes[tree].pop(leaf)
    return stored_shapes


def as_wanted(wanted: Leaves, found: Leaves) -> Leaves:
    """Return the arrays that were read from a checkpoint, as named in this version.

    `found` has the arrays, as named in the checkpoint; `wanted` has the shapes, as named in this
    version. Arrays that older versions did not save are filled with NaN.
    """

    def leaf_of(tree: str, leaf: str, like: Any) -> np.ndarray:
        if leaf in found[tree]:
            return found[tree][leaf]
        if _was_never_saved(tree, leaf):
            return np.full(like.shape, np.nan, like.dtype)
        old_tree, old_leaf = MOVED[tree, leaf]
        return found[old_tree][old_leaf]

    return {
        tree: {leaf: leaf_of(tree, leaf, like) for leaf, like in leaves.items()}
        for tree, leaves in wanted.items()
    }


def _was_never_saved(tree: str, leaf: str) -> bool:
    return tree == NEVER_SAVED[0] and NEVER_SAVED[1].fullmatch(leaf) is not None


def shape(text: str) -> jax.ShapeDtypeStruct:
    """Parse the description of an array in a manifest, such as `float32[2, 3]`."""
    dtype, sizes = text.rstrip("]").split("[")
    return jax.ShapeDtypeStruct([int(size) for size in sizes.split(",") if size], dtype)
