"""Films from pictures, in the format of the file name's suffix: GIF, MP4 or WebM.

The ffmpeg that imageio-ffmpeg ships makes the videos: H.264 and VP9, with colours at half the
resolution, which every browser can play. All frames of a video last equally long, so a picture
that is shown for longer is repeated.
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

# Options of ffmpeg for each suffix: codec, quality and container.
VIDEOS = {
    ".mp4": "-c:v libx264 -crf 18 -movflags +faststart -f mp4",
    ".webm": "-c:v libvpx-vp9 -crf 24 -b:v 0 -deadline good -cpu-used 4 -row-mt 1 -f webm",
}
FILMS = (".gif", *VIDEOS)
STILL = ".png"
# The colours of HD video, declared in the file: otherwise players guess them from the size.
COLOURS = (
    "-vf scale=out_color_matrix=bt709:out_range=tv,format=yuv420p "
    "-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv"
)


def suffix(path: str | os.PathLike[str]) -> str:
    """Return what to write, one of `FILMS` or `STILL`: the suffix, or `.gif` if there is none.

    Raises `ValueError` for another one, and `MissingExtraError` for a video without imageio-ffmpeg.
    """
    found = Path(path).suffix.lower() or ".gif"
    if found not in (*FILMS, STILL):
        raise ValueError(
            f"{path}: {found} is not written; a film is {', '.join(FILMS[:-1])} or {FILMS[-1]}, "
            f"a single picture {STILL}"
        )
    if found in VIDEOS:
        require(["imageio_ffmpeg"], "play")
    return found


def write(
    path: str | os.PathLike[str], pictures: Iterable[tuple[Picture, float]], rate: float
) -> int:
    """Write pictures with their durations (seconds) as a film; return how many there were.

    `rate` is the frames per second of a video. The file appears under its name only when it is
    complete; an older one is safe until then. Raises `OSError` where it cannot be written.
    """
    if (found := suffix(path)) == ".gif":
        return gif.write(path, pictures)
    with replacing(path) as temporary:
        return _write(temporary, pictures, rate, VIDEOS[found])


def _write(path: Path, pictures: Iterable[tuple[Picture, float]], rate: float, encoder: str) -> int:
    pictures = iter(pictures)
    first = next(pictures, None)
    if first is None:
        raise ValueError("a film needs at least one picture")
    shape = first[0].shape
    count, late = 0, 0.0  # seconds that rounding to frames still owes
    with _ffmpeg(path, _even(first[0]), rate, encoder) as pipe:
        for picture, seconds in itertools.chain([first], pictures):
            if picture.shape != shape:
                raise ValueError(f"a film of {shape} pixels got a picture of {picture.shape}")
            frames = max(1, round((seconds + late) * rate))
            late += seconds - frames / rate
            for _ in range(frames):
                pipe.write(_even(picture).tobytes())
            count += 1
    return count


def _even(picture: Picture) -> UInt8[np.ndarray, "even_height even_width 3"]:
    """Repeat the last row or column where their number is odd, since the codecs need even sizes."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


@contextlib.contextmanager
def _ffmpeg(path: Path, picture: Picture, rate: float, encoder: str) -> Iterator[IO[bytes]]:
    """Start an ffmpeg that takes frames like `picture` and writes the file.

    It has ended afterwards. Raises `OSError` with its last message if it failed.
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
        except BrokenPipeError:  # it has ended before
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
    """Close a pipe that nobody reads any more."""
    with contextlib.suppress(OSError):
        pipe.close()


def _program() -> str:
    import imageio_ffmpeg

    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:  # a platform for which none is shipped
        raise OSError(f"there is no ffmpeg: {error}") from error
