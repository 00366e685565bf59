"""Tests of `jaxenvs play` and `jaxenvs watch` without a window: output files, invalid input."""

import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs.core.files import replacing
from jaxenvs.core.typed import installation
from jaxenvs.render import play, watch

ID = "Grid-Empty-5x5-v0"
MAIN = {"play": play.main, "watch": watch.main}

pytestmark = pytest.mark.usefixtures("no_display")


def frames_of(path) -> int:
    with Image.open(path) as image:
        return image.n_frames


class Policy(NamedTuple):
    """Stand-in for the policy that `load_policy` returns."""

    env_id: str
    env: jaxenvs.Env
    begin: Callable = tuple

    def think(self, memory, obs, mask):
        return memory, jnp.arange(7.0), jnp.float32(0.25)


class RunError(ValueError):
    """Stand-in for `RunError` of `runs.py`."""


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Make a run folder, and a stand-in for `runs.py` that loads it."""
    module = types.ModuleType("jaxenvs.baselines.storage.runs")

    def load_policy(run_dir, seed=0, best=False, params=None, simulations=None, fields=None):
        if seed == 9:
            raise RunError(f"{run_dir} has no seed 9; it has seeds 0 to 3")
        return Policy(ID, jaxenvs.make(ID))

    module.RunError, module.load_policy = RunError, load_policy
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "run").mkdir()
    return str(tmp_path / "run")


def test_watch_random_writes_a_gif_of_the_requested_length(tmp_path, capsys):
    path = tmp_path / "out.gif"
    assert watch.main(["--random", ID, "--gif", str(path), "--frames", "17"]) == 0
    assert frames_of(path) == 17
    assert "17 pictures" in capsys.readouterr().out
    first = path.read_bytes()
    assert watch.main([ID, "--random", "--gif", str(path), "--frames", "17"]) == 0
    assert path.read_bytes() == first  # the same seed gives the same file
    arguments = ["--random", ID, "--gif", str(path), "--frames", "17", "--seed", "1"]
    assert watch.main(arguments) == 0
    assert path.read_bytes() != first


def test_watch_a_run_as_gif_screenshot_and_wall(tmp_path, runs):
    gif, png = tmp_path / "run.gif", tmp_path / "run.png"
    assert watch.main([runs, "--greedy", "--gif", str(gif), "--frames", "3"]) == 0
    assert frames_of(gif) == 3
    wall = ["--envs", "3", "--gif", str(gif), "--frames", "2", "--tile-size", "8"]
    assert watch.main([runs, *wall]) == 0
    with Image.open(gif) as image:
        assert image.size == (40, 3 * 40 + 2 * 4) or image.size == (3 * 40 + 2 * 4, 40)
    assert watch.main([runs, "--screenshot", str(png), "--frames", "2"]) == 0
    with Image.open(png) as image:
        assert image.size[0] > 500 and len(np.unique(np.asarray(image.convert("RGB")))) > 50


def test_a_picture_shows_the_state_after_all_keys(tmp_path):
    first, last, walk = (tmp_path / name for name in ("first.png", "last.png", "walk.gif"))
    assert play.main([ID, "--gif", str(first)]) == 0
    assert play.main([ID, "--keys", "up right", "--gif", str(last)]) == 0
    assert first.read_bytes() != last.read_bytes()
    assert play.main([ID, "--keys", " ".join(["right"] * 230), "--gif", str(walk)]) == 0
    assert frames_of(walk) > 200


def test_a_replay_of_keys_is_of_no_pilot(tmp_path):
    path = tmp_path / "walk.html"
    assert play.main([ID, "--keys", "up", "--html", str(path)]) == 0
    assert '"player":"keys"' in path.read_text().replace(": ", ":")


def test_play_with_given_keys(tmp_path):
    path = tmp_path / "walk.gif"
    assert play.main([ID, "--keys", "up up right up up r", "--gif", str(path)]) == 0
    assert frames_of(path) == 7
    with Image.open(path) as image:
        image.seek(5)
        assert image.info["duration"] > 500  # the last frame of the episode is shown for longer
    png = tmp_path / "walk.png"
    assert play.main([ID, "--screenshot", str(png), "--set", "view_size=5"]) == 0
    assert png.exists()


def test_panel_draws_the_whole_window_into_the_gif(tmp_path):
    path = tmp_path / "panel.gif"
    assert play.main([ID, "--gif", str(path), "--frames", "2", "--panel"]) == 0
    with Image.open(path) as image:
        assert image.n_frames == 2 and image.size[0] > 500


BAD = [
    ("play", [], "ID"),
    ("play", ["Grid-Emty-5x5-v0"], "did you mean 'Grid-Empty-5x5-v0'"),
    ("play", [ID], "no display"),
    ("watch", ["--random", ID], "--gif out.gif"),
    ("watch", [], "name a run folder, or --random ID"),
    ("watch", [ID], "--gif out.gif"),
    ("watch", [ID, "--html", "no/a.html"], "no folder no; create it first"),
    ("watch", ["missing", "--gif", "a.gif"], "no run folder missing"),
    ("watch", ["--random", "--gif", "a.gif"], "name one environment"),
    ("watch", ["--random", ID, "--greedy", "--gif", "a.gif"], "--greedy needs a run"),
    ("watch", ["--random", ID, "--run-seed", "1", "--gif", "a.gif"], "follow --seed"),
    ("watch", ["--random", ID, "--gif", "a.gif", "--frames", "0"], "a whole number, 1 to"),
    ("watch", ["--random", ID, "--gif", "a.gif", "--frames", "x"], "a whole number, 1 to"),
    ("watch", ["--random", ID, "--gif", "a.gif", "--envs", "65"], "a whole number, 1 to 64"),
    ("watch", ["--random", ID, "--gif", "a.gif", "--seed", "-1"], "a whole number, 0 to"),
    ("watch", ["--random", ID, "--gif", "no/a.gif"], "no folder no; create it first"),
    ("watch", ["--random", ID, "--gif", "."], "name a file"),
    ("watch", ["--random", ID, "--frames", "5"], "--frames needs a file: add --gif"),
    ("play", [ID, "--gif", "a.gif", "--set", "view_size=4"], "view_size=4 must be odd"),
    ("play", [ID, "--gif", "a.gif", "--set", "colour=1"], "has no field or param 'colour'"),
    ("play", [ID, "--gif", "a.gif", "--set", "view_size"], "write NAME=VALUE"),
    ("play", [ID, "--keys", "up"], "--keys needs a file: add --gif"),
    ("play", [ID, "--gif", "a.gif", "--keys", "up jump"], "'jump' has no action here"),
    ("play", [ID, "--screenshot", "a.png", "--keys", "jump"], "'jump' has no action here"),
    ("play", [ID, "--gif", "b.png", "--screenshot", "./b.png"], "both name ./b.png"),
    ("play", [ID, "--gif", "a.gif", "--oracle"], "--oracle shows its plan in the panel"),
    ("play", [ID, "--gif", "a.gif", "--wide"], "--wide"),
]


@pytest.mark.parametrize(("command", "argv", "says"), BAD)
def test_bad_input_is_one_sentence_and_harms_nothing(
    command, argv, says, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.gif").write_bytes(b"precious")
    try:
        code = MAIN[command](argv)
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert code == 2 and says in err and out == ""
    assert err.startswith(f"jaxenvs {command}: ") and err.count("\n") == 1
    assert (tmp_path / "a.gif").read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["a.gif"]


@pytest.mark.parametrize("option", ["--gif", "--html", "--screenshot"])
def test_special_files_stay_and_links_are_followed(option, tmp_path, capsys):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "folder" / "file"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        assert play.main([ID, option, str(path), "--frames", "1"]) == 2
        out, err = capsys.readouterr()
        fix = "name a regular or a new one"
        assert err == f"jaxenvs play: {option}: {path} is not a regular file; {fix}\n"
        assert out == "" and pipe.is_fifo()
    file.parent.mkdir()
    link.unlink()
    link.symlink_to("folder/file")  # the link's target does not exist yet
    for _ in range(2):
        assert play.main([ID, option, str(link), "--frames", "1", "--tile-size", "8"]) == 0
        assert link.is_symlink() and file.stat().st_size > 100
        file.write_bytes(b"")
    assert os.listdir(file.parent) == ["file"]


def test_replacing_refuses_special_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not a regular file"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_run_that_does_not_load_gives_the_reason(runs, capsys):
    assert watch.main([runs, "--run-seed", "9", "--screenshot", "x.png"]) == 2
    assert "has no seed 9" in capsys.readouterr().err


def test_a_missing_extra_is_named(tmp_path, monkeypatch, capsys):
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    assert play.main([ID, "--gif", str(tmp_path / "a.gif"), "--frames", "1"]) == 2
    assert installation("play") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_has_examples(capsys):
    for main in MAIN.values():
        with pytest.raises(SystemExit) as stopped:
            main(["--help"])
        assert stopped.value.code == 0
        assert "examples:\n  jaxenvs " in capsys.readouterr().out


def test_without_a_display_a_fresh_process_prints_one_sentence_and_exits_with_2():
    done = subprocess.run(
        [sys.executable, "-m", "jaxenvs.cli", "watch", "--random", ID],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "--gif out.gif" in done.stderr
