"""Tests of GIFs: exact pictures, one frame per picture; a failed write keeps the older file."""

import numpy as np
import pytest
from PIL import Image

from jaxenvs.render import gif


def read(path) -> tuple[list[np.ndarray], list[int]]:
    pictures, durations = [], []
    with Image.open(path) as image:
        for i in range(image.n_frames):
            image.seek(i)
            pictures.append(np.asarray(image.convert("RGB")))
            durations.append(image.info["duration"])
    return pictures, durations


def noise(count: int, colours: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    palette = random.integers(0, 256, (colours, 3), dtype=np.uint8)
    base = palette[random.integers(0, colours, (24, 40))]
    pictures = [base]
    for _ in range(count - 1):
        picture = pictures[-1].copy()
        top, left = random.integers(0, 16), random.integers(0, 30)
        picture[top : top + 8, left : left + 10] = palette[random.integers(0, colours, (8, 10))]
        pictures.append(picture)
    return pictures


@pytest.mark.parametrize("colours", [1, 2, 3, 40, 255])
def test_pictures_come_back_exactly(tmp_path, colours):
    pictures = noise(6, colours)
    path = tmp_path / "a.gif"
    assert gif.write(path, [(picture, 0.1) for picture in pictures]) == 6
    again, durations = read(path)
    assert len(again) == 6 and durations == [100] * 6
    for wanted, got in zip(pictures, again, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_new_colours_may_come_later(tmp_path):
    first = np.zeros((8, 8, 3), np.uint8)
    second = noise(1, 200, seed=3)[0][:8, :8]
    gif.write(tmp_path / "a.gif", [(first, 0.1), (second, 0.1), (first, 0.1)])
    again, _ = read(tmp_path / "a.gif")
    np.testing.assert_array_equal(again[1], second)
    np.testing.assert_array_equal(again[2], first)


def test_equal_pictures_stay_separate_frames(tmp_path):
    picture = noise(1, 9)[0]
    gif.write(tmp_path / "a.gif", [(picture, 0.125)] * 5)
    again, durations = read(tmp_path / "a.gif")
    assert len(again) == 5
    # Rounding errors of the durations do not add up.
    assert sum(durations) == pytest.approx(625, abs=10)
    # The GIF repeats endlessly.
    assert b"NETSCAPE2.0\x03\x01\x00\x00" in (tmp_path / "a.gif").read_bytes()


def test_too_many_colours_are_quantised(tmp_path):
    ramp = np.zeros((32, 32, 3), np.uint8)
    ramp[..., 0] = np.arange(32)[:, None] * 8
    ramp[..., 1] = np.arange(32)[None, :] * 8
    gif.write(tmp_path / "a.gif", [(ramp, 0.1), (ramp[::-1], 0.1)])
    again, _ = read(tmp_path / "a.gif")
    assert np.abs(again[1].astype(int) - ramp[::-1].astype(int)).mean() < 8


def test_small_changes_make_small_frames(tmp_path):
    pictures = noise(50, 30)
    gif.write(tmp_path / "one.gif", [(pictures[0], 0.1)])
    gif.write(tmp_path / "all.gif", [(picture, 0.1) for picture in pictures])
    one = (tmp_path / "one.gif").stat().st_size
    assert (tmp_path / "all.gif").stat().st_size < 13 * one


@pytest.mark.parametrize("old", [None, b"precious"])
def test_a_failure_harms_no_older_file_and_leaves_no_temporary_file(tmp_path, old):
    path = tmp_path / "a.gif"
    if old:
        path.write_bytes(old)

    def pictures():
        yield noise(1, 4)[0], 0.1
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        gif.write(path, pictures())
    with pytest.raises(ValueError, match="at least one picture"):
        gif.write(path, [])
    with pytest.raises(ValueError, match="all pictures must have shape"):
        gif.write(path, [(noise(1, 4)[0], 0.1), (np.zeros((2, 2, 3), np.uint8), 0.1)])
    assert [p.name for p in tmp_path.iterdir()] == (["a.gif"] if old else [])
    assert not old or path.read_bytes() == old


def test_png_comes_back_exactly(tmp_path):
    picture = noise(1, 100)[0]
    gif.write_png(tmp_path / "a.png", picture)
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
