"""Differences between two pictures of the viewer, as blocks of pixels in one PNG."""

import numpy as np
from jaxtyping import Int, UInt8

from jaxenvs.core import png

BLOCK = 32  # side of a block, in pixels
Picture = UInt8[np.ndarray, "height width 3"]


def changed(
    before: UInt8[np.ndarray, "*shape"] | None, after: Picture
) -> Int[np.ndarray, " blocks"]:
    """Return the indices of the blocks of `after` that differ from `before`, in ascending order.

    Block indices count row by row. If `before` is None or has another size, returns all indices.
    """
    height, width, _ = after.shape
    if before is None or before.shape != after.shape:
        return np.arange(-(-height // BLOCK) * -(-width // BLOCK))
    differs = (before != after).reshape(height, width * 3)
    by_row = np.logical_or.reduceat(differs, np.arange(0, height, BLOCK), axis=0)
    return np.flatnonzero(
        np.logical_or.reduceat(by_row, np.arange(0, width * 3, BLOCK * 3), axis=1)
    )


def encoded(picture: Picture, numbers: Int[np.ndarray, " blocks"]) -> bytes:
    """Return a PNG of the blocks with the indices `numbers`, or b"" if there are none.

    The PNG contains the blocks row by row. A full row has the same number of blocks as a row of the
    picture. Blocks that extend beyond the picture's right or lower edge are padded with black.
    """
    if not numbers.size:
        return b""
    columns = -(-picture.shape[1] // BLOCK)
    blocks = _padded(picture).reshape(-1, BLOCK, columns, BLOCK, 3).swapaxes(1, 2)
    chosen = blocks[numbers // columns, numbers % columns]
    across = min(columns, numbers.size)
    down = -(-numbers.size // across)
    sheet = np.zeros((down * across, BLOCK, BLOCK, 3), np.uint8)
    sheet[: numbers.size] = chosen
    sheet = sheet.reshape(down, across, BLOCK, BLOCK, 3).swapaxes(1, 2)
    return png.quickly_encoded(sheet.reshape(down * BLOCK, across * BLOCK, 3))


def _padded(picture: np.ndarray) -> np.ndarray:
    """Return the picture padded with zeros at the right and below to a whole number of blocks."""
    spare = [(0, -length % BLOCK) for length in picture.shape[:2]]
    return np.pad(picture, spare + [(0, 0)] * (picture.ndim - 2))
