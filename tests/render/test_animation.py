"""Tests of animations: format by suffix, correct frames; a failed write keeps the older file."""

import importlib
import re
import subprocess
import sys

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from jaxenvs import cli
from jaxenvs.core.extras import MissingExtraError
from jaxenvs.core.typed import installation
from jaxenvs.render import animation, play, watch

GRID, CUBE = "Grid-Empty-5x5-v0", "Puzzle-Cube-2x2-v0"
VIDEOS = tuple(animation.VIDEOS)
NEAR = 8  # maximum mean absolute error of a decoded picture, in colour values from 0 to 255

pytestmark = pytest.mark.usefixtures("no_display")


def pictures(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """Return pictures of random coloured tiles."""
    tiles = np.random.default_rng(0).integers(0, 256, (count, height // 8, width // 8, 3))
    return list(tiles.repeat(8, axis=1).repeat(8, axis=2).astype(np.uint8))


def read(path) -> tuple[list[np.ndarray], float]:
    """Decode a video with imageio's ffmpeg; return its frames and frames per second."""
    decoded = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, *decoded]
    done = subprocess.run(command, capture_output=True, check=True)
    width, height, rate = re.search(rb", (\d+)x(\d+)[, ].* ([\d.]+) fps", done.stderr).groups()
    pixels = np.frombuffer(done.stdout, np.uint8)
    return list(pixels.reshape(-1, int(height), int(width), 3)), float(rate)


def assert_near(frames: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(frames) == len(wanted)
    for frame, picture in zip(frames, wanted, strict=True):
        height, width, _ = picture.shape
        difference = frame[:height, :width].astype(int) - picture
        assert frame.shape == (height + height % 2, width + width % 2, 3)
        assert np.abs(difference).mean() < NEAR


@pytest.mark.parametrize("suffix", VIDEOS)
def test_a_video_shows_each_picture_for_its_duration(suffix, tmp_path):
    path, shown = tmp_path / f"a{suffix.upper()}", pictures(5)
    # Use an odd height and width, which `write` must pad: video codecs need even sizes.
    shown = [picture[:47, :63] for picture in shown]
    given = zip(shown, [0.125, 0.125, 0.5, 0.0625, 0.0625], strict=True)
    assert animation.write(path, given, 8) == 5
    frames, rate = read(path)
    assert rate == 8
    # A frame lasts 1/8 s. The picture of 0.5 s takes four frames; the last two pictures, of 1/16 s
    # each, take one frame each.
    assert_near(frames, [shown[i] for i in (0, 1, 2, 2, 2, 2, 3, 4)])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_suffix_selects_the_format(tmp_path, capsys):
    starts = {".gif": b"GIF89a", ".png": b"\x89PNG", ".mp4": b"ftyp", ".webm": b"\x1aE\xdf\xa3"}
    for suffix, start in starts.items():
        path = tmp_path / f"walk{suffix}"
        given = [GRID, "--keys", "up right", "--gif", str(path), "--tile-size", "8"]
        assert play.main(given) == 0
        said = f"wrote {path}" + ("\n" if suffix == ".png" else ": 3 pictures, ")
        assert capsys.readouterr().out.startswith(said)
        assert start in path.read_bytes()[:12]
    assert len(read(tmp_path / "walk.mp4")[0]) == 3
    with Image.open(tmp_path / "walk.png") as image, Image.open(tmp_path / "walk.gif") as last:
        last.seek(2)
        np.testing.assert_array_equal(
            np.asarray(image.convert("RGB")), np.asarray(last.convert("RGB"))
        )


def test_a_single_picture_shows_the_state_after_the_given_number_of_frames(tmp_path):
    still, moving = tmp_path / "a.png", tmp_path / "a.gif"
    assert watch.main([GRID, "--gif", str(still), "--frames", "3", "--tile-size", "8"]) == 0
    assert watch.main([GRID, "--gif", str(moving), "--frames", "4", "--tile-size", "8"]) == 0
    with Image.open(still) as image, Image.open(moving) as frames:
        frames.seek(3)
        np.testing.assert_array_equal(
            np.asarray(image.convert("RGB")), np.asarray(frames.convert("RGB"))
        )


def test_a_turn_is_smooth_and_lasts_as_long_as_in_a_gif(tmp_path):
    path = tmp_path / "a.mp4"
    assert play.main([CUBE, "--keys", "u", "--gif", str(path), "--tile-size", "8"]) == 0
    frames, rate = read(path)
    assert rate == 50 and len(frames) == pytest.approx(50 * (0.125 + 3 * 0.06 + 0.125), abs=1)


@pytest.mark.full
def test_solve_draws_the_solution_or_its_end(tmp_path, capsys):
    level, path = tmp_path / "level.txt", tmp_path / "a.png"
    level.write_text("1 2 3\n4 5 6\n. 7 8\n")
    given = ["Puzzle-SlidingTile-3x3-v0", "--instance", str(level), "--tile-size", "8"]
    # Options as in the tests of `solve`: equal options need only one compilation.
    few = ["--batch-size", "64", "--node-budget", "20000"]
    ends = []
    for name in ("a.png", "a.gif"):
        path = tmp_path / name
        assert cli.main(["solve", *given, *few, "--terminate", "optimal", "--gif", str(path)]) == 0
        with Image.open(path) as image:
            image.seek(getattr(image, "n_frames", 1) - 1)
            ends.append(np.asarray(image.convert("RGB")))
    np.testing.assert_array_equal(*ends)
    assert "solved: 2 actions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("--gif", "a.avi", "the name must end in .gif or .mp4 or .webm or .png\n"),
        ("--screenshot", "a.jpg", "the name must end in .png\n"),
        ("--html", "a.gif", "the name must end in .html or .htm\n"),
    ],
)
def test_unsupported_suffixes_are_refused(option, name, says, tmp_path, capsys):
    path = tmp_path / name
    assert play.main([GRID, option, str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"jaxenvs play: {option} {path}: {says}")
    assert list(tmp_path.iterdir()) == []


def test_a_video_without_its_package_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert play.main([GRID, "--gif", str(tmp_path / "a.mp4"), "--frames", "1"]) == 2
    said = f"this needs imageio_ffmpeg, not installed here: run {installation('play')}\n"
    assert capsys.readouterr().err == f"jaxenvs play: {said}"
    with pytest.raises(MissingExtraError, match="imageio_ffmpeg"):
        animation.write(tmp_path / "a.webm", [(pictures(1)[0], 0.1)], 10)
    # A GIF needs no extra package.
    assert animation.write(tmp_path / "a.gif", [(pictures(1)[0], 0.1)], 10) == 1


@pytest.mark.parametrize("old", [None, b"precious"])
def test_a_failure_harms_no_older_file_and_leaves_no_process(old, tmp_path, monkeypatch):
    path, (picture,) = tmp_path / "a.mp4", pictures(1)
    if old:
        path.write_bytes(old)

    def stopping():
        yield picture, 0.1
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        animation.write(path, stopping(), 10)
    with pytest.raises(ValueError, match="at least one picture"):
        animation.write(path, [], 10)
    with pytest.raises(ValueError, match="all pictures must have shape"):
        animation.write(path, [(picture, 0.1), (picture[:8], 0.1)], 10)
    monkeypatch.setitem(animation.VIDEOS, ".mp4", "-c:v no_such_codec -f mp4")
    with pytest.raises(OSError, match=r"ffmpeg failed: .*no_such_codec"):
        animation.write(path, [(picture, 0.1)] * 2000, 10)
    assert [p.name for p in tmp_path.iterdir()] == (["a.mp4"] if old else [])
    assert not old or path.read_bytes() == old


def test_the_old_name_of_the_module_works_and_warns():
    sys.modules.pop("jaxenvs.render.film", None)
    with pytest.warns(DeprecationWarning, match=r"jaxenvs\.render\.animation"):
        film = importlib.import_module("jaxenvs.render.film")
    assert film.write is animation.write and film.FILMS == animation.FORMATS
