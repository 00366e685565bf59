"""Animated GIFs from pictures, one file frame for each picture, written as they come.

The colours are exact while a picture has at most 255 of them, and only what changed is stored. The
picture data is encoded by Pillow; the few bytes around it are written here, because Pillow's own
writer drops a picture that equals the one before.
"""

import io
import os
import struct
from collections.abc import Iterable

import numpy as np
from jaxtyping import UInt8

from jaxenvs.core import png
from jaxenvs.core.files import replacing

Picture = UInt8[np.ndarray, "height width 3"]
MAX_COLOURS = 255  # and one index for pixels that do not change
LOOP_FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
TRAILER = b";"


def write(path: str | os.PathLike[str], pictures: Iterable[tuple[Picture, float]]) -> int:
    """Write pictures with their durations (seconds) as an endless GIF; return how many there were.

    The file appears under its name only when it is complete; an older one is safe until then.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        return _write(file, pictures)


def write_png(path: str | os.PathLike[str], picture: Picture) -> None:
    """Write one picture as a PNG, with the same care for an older file."""
    with replacing(path) as temporary:
        temporary.write_bytes(png.encoded(picture))


def encoded(pictures: Iterable[tuple[Picture, float]]) -> bytes:
    """Return what `write` would write."""
    file = io.BytesIO()
    _write(file, pictures)
    return file.getvalue()


def _write(file: io.BufferedIOBase, pictures: Iterable[tuple[Picture, float]]) -> int:
    before: np.ndarray | None = None
    shared = np.empty(0, np.uint32)
    count, late = 0, 0.0  # seconds that rounding to hundredths still owes
    for picture, seconds in pictures:
        packed = png.packed(picture)
        if before is None:
            shared = _colours(packed)[:MAX_COLOURS]
            file.write(_header(picture.shape[1], picture.shape[0], shared))
        elif packed.shape != before.shape:
            raise ValueError(f"a GIF of {before.shape} pixels got a picture of {packed.shape}")
        hundredths = max(2, round((seconds + late) * 100))
        late += seconds - hundredths / 100
        for chunk in _frame(packed, before, shared, hundredths * 10):
            file.write(chunk)
        before, count = packed, count + 1
    if before is None:
        raise ValueError("a GIF needs at least one picture")
    file.write(TRAILER)
    return count


def _header(width: int, height: int, colours: np.ndarray) -> bytes:
    """Screen size, shared palette and the endless loop."""
    size = _palette_bits(colours) - 1
    screen = struct.pack("<HHBBB", width, height, 0x80 | size << 4 | size, 0, 0)
    return b"GIF89a" + screen + _palette(colours) + LOOP_FOREVER


def _frame(
    packed: np.ndarray, before: np.ndarray | None, shared: np.ndarray, milliseconds: int
) -> list[bytes]:
    """Encode what changed since the picture before: its place, its palette, its pixels."""
    from PIL import GifImagePlugin, Image

    differs = np.ones(packed.shape, np.bool_) if before is None else packed != before
    place = _bounds(differs)
    differs, packed = differs[place], packed[place]
    new = _colours(packed[differs])
    if new.size > MAX_COLOURS:
        packed = _fewer_colours(packed)
        new = _colours(packed[differs])
    is_shared = bool(np.isin(new, shared).all())
    colours = shared if is_shared else new
    order = np.argsort(colours)
    index = np.full(differs.shape, colours.size, np.uint8)  # unchanged pixels: the hole
    index[differs] = order[np.searchsorted(colours, packed[differs], sorter=order)]
    image = Image.fromarray(index)
    image.putpalette(_palette(colours))
    return GifImagePlugin.getdata(
        image,
        (place[1].start, place[0].start),
        duration=milliseconds,
        disposal=1,
        transparency=colours.size,
        include_color_table=not is_shared,
    )


def _bounds(differs: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns around the true pixels; one pixel where there are none."""
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if rows.size == 0:
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _fewer_colours(packed: np.ndarray) -> np.ndarray:
    from PIL import Image

    image = Image.fromarray(png.unpacked(packed)).quantize(MAX_COLOURS, dither=Image.Dither.NONE)
    return png.packed(np.asarray(image.convert("RGB")))


def _colours(packed: np.ndarray) -> np.ndarray:
    """Colours that occur, the most frequent first."""
    colours, counts = np.unique(packed, return_counts=True)
    return colours[np.argsort(-counts, kind="stable")]


def _palette_bits(colours: np.ndarray) -> int:
    """Bits of an index into the palette; there is room for one number more, the hole."""
    return max(1, int(colours.size).bit_length())


def _palette(colours: np.ndarray) -> bytes:
    filled = np.zeros(2 ** _palette_bits(colours), np.uint32)
    filled[: colours.size] = colours
    return png.unpacked(filled).tobytes()
