"""Writer of animated GIFs that needs only one picture at a time in memory.

Each picture becomes one frame. A frame stores only the pixels that differ from the previous
picture, in at most 255 colours. Pillow encodes the pixel data, but this module writes the file,
because Pillow's GIF writer drops a picture that equals the previous one.
"""

import io
import os
import struct
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import UInt8

from jaxenvs.core import png
from jaxenvs.core.files import replacing

Picture = UInt8[np.ndarray, "height width 3"]
MAX_COLOURS = 255  # largest number of colours in a frame; one more index marks unchanged pixels
LOOP_FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
TRAILER = b";"


def write(path: str | os.PathLike[str], pictures: Iterable[tuple[Picture, float]]) -> int:
    """Write a looping GIF from pairs (picture, duration in seconds).

    Returns the number of pictures. An existing file is replaced only when the new file is complete.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        return _write(file, pictures)


def write_png(path: str | os.PathLike[str], picture: Picture) -> None:
    """Write a picture as a PNG; an existing file is replaced only when the new one is complete."""
    with replacing(path) as temporary:
        temporary.write_bytes(png.encoded(picture))


def encoded(pictures: Iterable[tuple[Picture, float]]) -> bytes:
    """Return a looping GIF as bytes, from pairs (picture, duration in seconds)."""
    file = io.BytesIO()
    _write(file, pictures)
    return file.getvalue()


def timed(
    pictures: Iterable[tuple[np.ndarray, float]], rate: float, least: int = 1
) -> Iterator[tuple[np.ndarray, int]]:
    """Yield pairs (picture, duration in units of 1 / `rate` seconds).

    Rounds each duration from seconds to a whole number of units, at least `least`. The rounding
    error is added to the next duration, so that errors do not accumulate. Raises `ValueError` if
    there is no picture, or if shapes differ.
    """
    shape, late = None, 0.0  # `late` is the accumulated rounding error in seconds
    for picture, seconds in pictures:
        shape = shape or picture.shape
        if picture.shape != shape:
            raise ValueError(f"all pictures must have shape {shape}, got {picture.shape}")
        units = max(least, round((seconds + late) * rate))
        late += seconds - units / rate
        yield picture, units
    if shape is None:
        raise ValueError("an animation needs at least one picture")


def _write(file: io.BufferedIOBase, pictures: Iterable[tuple[Picture, float]]) -> int:
    before: np.ndarray | None = None
    shared, count = np.empty(0, np.uint32), 0
    for picture, hundredths in timed(pictures, 100, least=2):
        packed = png.packed(picture)
        if before is None:
            shared = _colours(packed)[:MAX_COLOURS]
            file.write(_header(picture.shape[1], picture.shape[0], shared))
        for chunk in _frame(packed, before, shared, hundredths * 10):
            file.write(chunk)
        before, count = packed, count + 1
    file.write(TRAILER)
    return count


def _header(width: int, height: int, colours: np.ndarray) -> bytes:
    """Return the header of the file: size, palette shared by the frames, endless looping."""
    size = _palette_bits(colours) - 1
    screen = struct.pack("<HHBBB", width, height, 0x80 | size << 4 | size, 0, 0)
    return b"GIF89a" + screen + _palette(colours) + LOOP_FOREVER


def _frame(
    packed: np.ndarray, before: np.ndarray | None, shared: np.ndarray, milliseconds: int
) -> list[bytes]:
    """Return an encoded frame, which contains the pixels that differ from the previous picture.

    shared: palette of the file. A frame with colours outside this palette stores its own palette.
    """
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
    index = np.full(differs.shape, colours.size, np.uint8)  # index of unchanged pixels: transparent
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
    """Return the bounding box of the True pixels as slices; one pixel if all are False."""
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if rows.size == 0:
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _fewer_colours(packed: np.ndarray) -> np.ndarray:
    from PIL import Image

    image = Image.fromarray(png.unpacked(packed)).quantize(MAX_COLOURS, dither=Image.Dither.NONE)
    return png.packed(np.asarray(image.convert("RGB")))


def _colours(packed: np.ndarray) -> np.ndarray:
    """Return the distinct colours of packed pixels, the most frequent first."""
    colours, counts = np.unique(packed, return_counts=True)
    return colours[np.argsort(-counts, kind="stable")]


def _palette_bits(colours: np.ndarray) -> int:
    """Return the number of bits of an index into the palette.

    There is one index per colour, and one more for unchanged pixels.
    """
    return max(1, int(colours.size).bit_length())


def _palette(colours: np.ndarray) -> bytes:
    filled = np.zeros(2 ** _palette_bits(colours), np.uint32)
    filled[: colours.size] = colours
    return png.unpacked(filled).tobytes()
