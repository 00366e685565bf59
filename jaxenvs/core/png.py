"""PNG files, written with the standard library.

Notebooks can therefore show pictures without an optional extra of jaxenvs.
"""

import base64
import struct
import zlib
from typing import Any

import numpy as np
from jaxtyping import UInt8, UInt32

MOST_COLOURS = 256  # maximum number of colours in the palette of a PNG file


class Picture(np.ndarray):
    """RGB array, uint8 (height, width, 3), that notebooks show as a picture.

    A slice is a `Picture` too; the result of a computation is a plain array.
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return the result of a NumPy function as a plain array, or as a scalar."""
        return np.asarray(array)[()]

    def _repr_png_(self) -> bytes | None:
        """Return the content of a PNG file that a notebook shows for this array.

        Return None for an empty array, or for one that is not uint8 (height, width, 3), such as
        some slices.
        """
        is_picture = self.dtype == np.uint8 and self.ndim == 3 and self.shape[2] == 3
        return encoded(np.asarray(self)) if is_picture and self.size else None


def encoded(picture: UInt8[np.ndarray, "height width 3"]) -> bytes:
    """Return the content of a PNG file with exactly the colours of the picture.

    A picture of at most 256 colours is stored with a palette, which takes a third of the bytes or
    less.
    """
    height, width, _ = picture.shape
    colours, numbers = np.unique(packed(picture), return_inverse=True)
    if colours.size > MOST_COLOURS:
        return _file((width, height), 2, _subtracted(picture), 9)
    rows = _unfiltered(numbers.reshape(height, width).astype(np.uint8))
    return _file((width, height), 3, rows, 9, (b"PLTE", unpacked(colours).tobytes()))


def quickly_encoded(picture: UInt8[np.ndarray, "height width 3"]) -> bytes:
    """Return the content of a PNG file without a palette, ten times faster than `encoded`."""
    height, width, _ = picture.shape
    return _file((width, height), 2, _subtracted(picture), 6)


def address(content: bytes, kind: str = "png") -> str:
    """Return a picture file's content as a data URL, for HTML."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def packed(picture: UInt8[np.ndarray, "*shape 3"]) -> UInt32[np.ndarray, "*shape"]:
    """Pack the RGB values of each pixel into one uint32."""
    red, green, blue = np.moveaxis(picture.astype(np.uint32), -1, 0)
    return red << 16 | green << 8 | blue


def unpacked(colours: UInt32[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape 3"]:
    """Turn uint32s that `packed` made back into RGB values."""
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=-1).astype(np.uint8)


def _file(
    size: tuple[int, int], kind: int, rows: bytes, level: int, *chunks: tuple[bytes, bytes]
) -> bytes:
    """Return the content of a PNG file with the image data `rows`.

    size: (width, height). kind: PNG's colour type, 2 for RGB or 3 for a palette. level: level of
    zlib's compression. chunks: pairs (name, data) that precede the image data.
    """
    header = struct.pack(">IIBBBBB", *size, 8, kind, 0, 0, 0)
    data = (b"IDAT", zlib.compress(rows, level))
    parts = [(b"IHDR", header), *chunks, data, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _unfiltered(rows: np.ndarray) -> bytes:
    """Return the image data of a palette picture: each row begins with filter type 0 (none)."""
    return np.pad(rows, ((0, 0), (1, 0))).tobytes()


def _subtracted(picture: np.ndarray) -> bytes:
    """Return the image data of an RGB picture, with filter type 2: each row minus the row above.

    Rows that repeat become zeros, which compress well.
    """
    rows = picture.reshape(len(picture), -1)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    return np.pad(rows - above, ((0, 0), (1, 0)), constant_values=2).tobytes()


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + checksum
