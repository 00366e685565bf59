"""Encode boards as packed uint32 words, which episodes and searches store."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from ..core import bits
from ..core.struct import Struct, struct
from .collection import Collection
from .machine import Board, planes


@struct
class Instance(Struct):
    """The level that an episode plays. Its fields stay constant during the episode."""

    game: Int32[Array, ""]  # index of the game; games are sorted by the paths of their files
    number: Int32[Array, ""]  # number of the level in its game, from 0
    width: Int32[Array, ""]  # number of columns
    height: Int32[Array, ""]  # number of lines
    start: UInt32[Array, "objects side words"]  # bit planes of the objects at the level's start


def words_of(collection: Collection) -> int:
    """Return the number of uint32 words of a packed board."""
    count = _board_words(collection)
    return count * (2 if has_checkpoints(collection) else 1) + 1


def has_checkpoints(collection: Collection) -> bool:
    """Return whether packed boards also store the checkpoint that `restart` restores."""
    return collection.has_command("checkpoint") and collection.has_command("restart")


def _board_words(collection: Collection) -> int:
    """Return the number of uint32 words that `_encoded` returns for a board."""
    size = collection.size
    lines = collection.codes.digits.shape[1] * size.side
    return lines * size.words if size.words > 1 else bits.words_for(lines, size.side)


def packed(collection: Collection, instance: Instance, board: Board) -> UInt32[Array, " packed"]:
    """Encode a board as uint32 words.

    Different boards of the same level have different words.
    """
    parts = [_encoded(collection, instance, board.objects)]
    if has_checkpoints(collection):
        parts.append(_encoded(collection, instance, board.start))
    return jnp.concatenate([*parts, board.won.astype(jnp.uint32)[None]])


def unpacked(collection: Collection, instance: Instance, words: UInt32[Array, " packed"]) -> Board:
    """Return the board that `packed` has encoded as `words`."""
    count = _board_words(collection)
    start = instance.start
    if has_checkpoints(collection):
        start = _decoded(collection, instance, words[count : 2 * count])
    return Board(
        objects=_decoded(collection, instance, words[:count]),
        start=start,
        width=instance.width,
        height=instance.height,
        won=has_won(words),
        stuck=jnp.bool_(False),
    )


def has_won(words: UInt32[Array, " packed"]) -> Bool[Array, ""]:
    """Return whether a turn has won the level: the flag in the last word of a packed board."""
    return words[-1] != 0


def _encoded(
    collection: Collection, instance: Instance, objects: UInt32[Array, "objects side words"]
) -> UInt32[Array, " packed"]:
    """Encode the cells of each object, except on layers that no turn can change; see `Codes`."""
    size = collection.size
    chosen = planes.flags(jnp.asarray(collection.codes.digits)[instance.game], size.objects)
    having = jnp.where(chosen[:, :, None, None], objects, jnp.uint32(0))
    digits = planes.union(having, 1)
    return digits.reshape(-1) if size.words > 1 else bits.pack(digits.reshape(-1), size.side)


def _decoded(
    collection: Collection, instance: Instance, words: UInt32[Array, " packed"]
) -> UInt32[Array, "objects side words"]:
    """Return the cells of each object, decoded from the words of `_encoded`.

    The words omit the objects on layers that no turn can change. The cells of these objects are
    copied from `instance.start`, the level's initial board.
    """
    size, codes = collection.size, collection.codes
    total = codes.digits.shape[1]
    lines = (
        words if size.words > 1 else bits.unpack(words, total * size.side, size.side, jnp.uint32)
    )
    digits = lines.reshape(total, size.side, size.words)
    literals = jnp.asarray(codes.literals)[instance.game].astype(jnp.int32)
    read = digits[jnp.maximum(jnp.abs(literals) - 1, 0)]
    sign = literals[..., None, None]
    read = jnp.where(sign > 0, read, jnp.where(sign < 0, ~read, planes.ALL))
    changing = planes.intersection(read, 1)
    has_digits = (literals != 0).any(axis=1)[:, None, None]
    fixed = planes.flags(jnp.asarray(codes.fixed)[instance.game], size.objects)[:, None, None]
    kept = jnp.where(fixed, instance.start, jnp.uint32(0))
    return jnp.where(has_digits, changing, kept)
