"""Writer of animations as GIF, MP4 or WebM; the suffix of the file name selects the format.

Videos are encoded by the ffmpeg of imageio-ffmpeg, as H.264 or VP9 with 4:2:0 chroma subsampling,
which every browser can play. A video has a fixed frame rate, so a picture of longer duration is
written as several equal frames.
"""

import contextlib
import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import UInt8

from jaxenvs.core.extras import require
from jaxenvs.core.files import replacing

from . import gif
from .gif import Picture

# Options of ffmpeg for each suffix: codec, quality and container format.
VIDEOS = {
    ".mp4": "-c:v libx264 -crf 18 -movflags +faststart -f mp4",
    ".webm": "-c:v libvpx-vp9 -crf 24 -b:v 0 -deadline good -cpu-used 4 -row-mt 1 -f webm",
}
FORMATS = (".gif", *VIDEOS)
STILL = ".png"  # suffix of a file with a single picture, not an animation
# Options that make ffmpeg convert frames to the colour space BT.709 and record this in the file.
# Without such a record, a player would have to guess the colour space.
COLOURS = (
    "-vf scale=out_color_matrix=bt709:out_range=tv,format=yuv420p "
    "-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv"
)


def suffix(path: str | os.PathLike[str]) -> str:
    """Return the format that a file name selects: one of `FORMATS`, or `STILL`.

    A name without a suffix selects `.gif`.

    Raises `ValueError` for any other suffix and `MissingExtraError` for a video if imageio-ffmpeg
    is not installed.
    """
    found = Path(path).suffix.lower() or ".gif"
    if found not in (*FORMATS, STILL):
        raise ValueError(
            f"{path}: {found} is not supported; end the name in {', '.join(FORMATS)} for an "
            f"animation, or in {STILL} for one picture"
        )
    if found in VIDEOS:
        require(["imageio_ffmpeg"], "play")
    return found


def write(
    path: str | os.PathLike[str], pictures: Iterable[tuple[Picture, float]], rate: float
) -> int:
    """Write an animation from pairs (picture, duration in seconds); return the number of pictures.

    rate: frame rate of a video, in frames per second; GIFs ignore it.

    An existing file is replaced only when the new file is complete. Raises `OSError` if the file
    cannot be written.
    """
    if (found := suffix(path)) == ".gif":
        return gif.write(path, pictures)
    with replacing(path) as temporary:
        return _write(temporary, pictures, rate, VIDEOS[found])


def _write(path: Path, pictures: Iterable[tuple[Picture, float]], rate: float, encoder: str) -> int:
    timed = gif.timed(pictures, rate)
    first, count = next(timed), 0
    with _ffmpeg(path, _even(first[0]), rate, encoder) as pipe:
        for picture, frames in itertools.chain([first], timed):
            for _ in range(frames):
                pipe.write(_even(picture).tobytes())
            count += 1
    return count


def _even(picture: Picture) -> UInt8[np.ndarray, "even_height even_width 3"]:
    """Return the picture with even height and width, which video codecs need.

    Repeats the last row or the last column if necessary.
    """
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


@contextlib.contextmanager
def _ffmpeg(path: Path, picture: Picture, rate: float, encoder: str) -> Iterator[IO[bytes]]:
    """Start ffmpeg and yield the pipe to which the caller writes the frames as raw RGB bytes.

    All frames have the shape of `picture`. When the `with` block ends, wait until ffmpeg has
    written the file. Raise `OSError` with ffmpeg's error output if ffmpeg fails.
    """
    height, width, _ = picture.shape
    source = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {rate} -i -"
    words = f"-y -loglevel error {source} {COLOURS} {encoder}".split()
    command = [_program(), *words, str(path.absolute())]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as process,
    ):
        assert process.stdin is not None
        try:
            yield process.stdin
            process.stdin.close()
        except BrokenPipeError:  # ffmpeg exited early; its exit code is checked below
            _close(process.stdin)
        except BaseException:
            process.kill()
            _close(process.stdin)
            raise
        if process.wait():
            said.seek(0)
            words = said.read().decode(errors="replace").split("\n")
            raise OSError(f"ffmpeg failed: {' '.join(words).strip() or process.returncode}")


def _close(pipe: IO[bytes]) -> None:
    """Close a pipe, and ignore the error if its reader has exited."""
    with contextlib.suppress(OSError):
        pipe.close()


def _program() -> str:
    import imageio_ffmpeg

    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:  # imageio-ffmpeg ships no binary for this platform
        raise OSError(f"no ffmpeg found: {error}") from error
