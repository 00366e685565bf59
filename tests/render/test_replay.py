"""Tests of replays, HTML files that show episodes: frames are the pictures of `board_painter`."""

import base64
import functools
import html
import io
import json
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs.core import drawing
from jaxenvs.render import frames, replay, solve, watch
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import Session, action_name, board_moment

GRID = "Grid-DoorKey-5x5-v0"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ALONE = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
ALONE += " --disable-background-networking --disable-component-update"
WINDOW = (1280, 800)  # width and height of the browser's window, in pixels
HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror="alert(1)">&amp;'
MOMENTS = 12

in_a_browser = pytest.mark.skipif(
    BROWSER is None, reason="THE BROWSER TEST DID NOT RUN: no Chromium here (apt install chromium)"
)


def record(path, id: str, boards: int = 1, tile_size=None, speed: float = 8):
    """Write a replay of random play; return its pictures (boards, steps, ...) and its session."""
    content, pictures, session = recorded(id, boards, tile_size, speed)
    path.write_bytes(content)
    return pictures, session


@functools.cache
def recorded(id: str, boards: int, tile_size: int | None, speed: float):
    """Record random play; return the bytes of the replay file, the pictures and the session."""
    env = jaxenvs.make(id)
    session = Session(env, RANDOM, boards, speed=speed)
    writer = replay.ReplayWriter(env, boards, tile_size)
    pictures = []
    for i in range(MOMENTS):
        if i == 5:
            session.new_level()  # begins a second episode
        elif i:
            session.forward()
        writer.add(session)
        tile = replay_tile(env) if tile_size is None else tile_size
        pictures.append(frames.board_painter(env, tile)(session.now.state))
    names = [row.name for row in env.controls.actions]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.html"
        writer.write(path, id, names, session.pilot.name, session.speed)
        return path.read_bytes(), np.stack(pictures, axis=1), session


def replay_tile(env) -> int:
    largest = 32 if drawing.has_picture(env) else 64
    return drawing.fitting_tile_size(drawing.board_shape(env), replay.WIDTH, replay.WIDTH, largest)


def content(path) -> dict:
    """Return the JSON content of a replay."""
    return json.loads(re.search(r'"application/json">(.*?)</script>', path.read_text())[1])


def decoded(held: dict) -> np.ndarray:
    """Decode all frames of a replay without a browser; return them as one array."""
    size, rows, columns = held["tile"], held["rows"], held["columns"]
    words = np.frombuffer(zlib.decompress(base64.b64decode(held["frames"])), "<u4")
    tiles = np.cumsum(words.reshape(-1, rows, columns), axis=0, dtype=np.uint32)
    atlas = Image.open(io.BytesIO(base64.b64decode(held["atlas"].split(",")[1])))
    sheet = np.asarray(atlas.convert("RGB"))
    down, across = sheet.shape[0] // size, sheet.shape[1] // size
    sprites = sheet.reshape(down, size, across, size, 3).swapaxes(1, 2).reshape(-1, size, size, 3)
    found = sprites[tiles].swapaxes(2, 3)
    return found.reshape(-1, rows * size, columns * size, 3)


OTHERS = ("Craft-Classic-Pixels-v0", "Puzzle-Pyraminx-v0", "Puzzle-Sudoku-v0", "Grid-v0")


@pytest.mark.parametrize("id", [GRID, *(pytest.param(id, marks=pytest.mark.slow) for id in OTHERS)])
def test_every_frame_is_the_compositors(tmp_path, id):
    pictures, _ = record(tmp_path / "a.html", id)
    np.testing.assert_array_equal(decoded(content(tmp_path / "a.html")), pictures[0])


def test_states_alone_are_a_replay_without_actions(tmp_path):
    pictures, session = record(tmp_path / "a.html", GRID)
    states = [jax.tree.map(lambda leaf: leaf[0], moment.state) for moment in session.history]
    held = content(jaxenvs.animate(session.env, states, tmp_path / "b.html", fps=3))
    np.testing.assert_array_equal(decoded(held), pictures[0])
    assert (held["title"], held["player"], held["speed"]) == ("DoorKey", "", 3)
    assert held["actions"] == []
    assert [row["name"] for row in held["episodes"]] == [
        "episode 1: 4 steps",
        "episode 2: 6 steps",
    ]


@in_a_browser
def test_a_replay_of_states_hides_actions_and_returns(tmp_path):
    _, session = record(tmp_path / "a.html", GRID)
    jaxenvs.animate(session.env, [session.state()] * 3, tmp_path / "b.html")
    do = 'note({hidden: ["step", "action", "return"].map(i => look(i).offsetParent === null)});'
    (noted,) = probed(tmp_path, tmp_path / "b.html", do)
    assert noted["hidden"] == [False, True, True] and noted["step"] == "0 of 0"


def test_a_picture_is_padded_to_whole_tiles(tmp_path):
    writer = replay.ReplayWriter(jaxenvs.make(GRID), 1, 8)
    numbers, shape = writer._cut(np.full((9, 20, 3), 7, np.uint8))
    assert shape == (2, 3) and len(set(numbers.tolist())) == 4


def test_boards_are_stored_in_order_with_the_first_frame_of_each_episode(tmp_path):
    pictures, session = record(tmp_path / "a.html", GRID, boards=2, tile_size=8)
    held = content(tmp_path / "a.html")
    np.testing.assert_array_equal(decoded(held), np.concatenate(pictures))
    assert [row["first"] for row in held["episodes"]] == [0, 5, 12, 17]
    assert [row["name"].split(":")[0] for row in held["episodes"]] == [
        f"board {board}, episode {episode}" for board in (1, 2) for episode in (1, 2)
    ]
    first, second = held["episodes"][:2]
    moments = [moment.action[0].item() for moment in session.history]
    assert first["actions"] + second["actions"] == moments and second["actions"][0] == -1
    assert first["end"] == second["end"] == replay.NO_END
    assert held["player"] == "random" and held["actions"][2] == "forward"


def test_an_episodes_end_and_return_are_stored(tmp_path):
    path = tmp_path / "a.html"
    assert (
        solve.main(["Puzzle-SlidingTile-3x3-v0", "--set", "scramble=3", "--html", str(path)]) == 0
    )
    (episode,) = content(path)["episodes"]
    assert episode["end"] == "terminated" and episode["returns"][-1] > 0
    assert episode["rewards"][0] == 0 and episode["name"].endswith("steps")


def test_nan_and_infinity_become_null():
    assert [replay._number(x) for x in (0.1, float("nan"), float("inf"))] == [0.1, None, None]


def test_names_cannot_become_markup(tmp_path):
    session = Session(jaxenvs.make(GRID), RANDOM)
    writer = replay.ReplayWriter(session.env, 1, 8)
    writer.add(session)
    writer.write(tmp_path / "a.html", HOSTILE, [HOSTILE] * 7, session.pilot.name, session.speed)
    text = (tmp_path / "a.html").read_text()
    assert text.count("<script") == text.count("</script") == 2 and "<img" not in text
    assert content(tmp_path / "a.html")["title"] == HOSTILE
    assert html.unescape(re.search("<title>(.*)</title>", text)[1]).startswith(HOSTILE)


def test_nothing_is_loaded(tmp_path):
    record(tmp_path / "a.html", GRID)
    text = (tmp_path / "a.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|//[a-z]+\.|\bfetch\b|XMLHttp|import\s*\(|<link|@import", text)


def test_the_command_writes_a_replay_together_with_a_gif(tmp_path, capsys):
    page, gif = tmp_path / "a.html", tmp_path / "a.gif"
    assert watch.main([GRID, "--html", str(page), "--gif", str(gif), "--frames", "7"]) == 0
    said = capsys.readouterr().out
    assert "7 pictures" in said and f"wrote {page}: 1 episode," in said
    assert len(content(page)["episodes"][0]["actions"]) == 7
    with Image.open(gif) as image:
        assert image.n_frames == 7


# Script that runs in the replay's page. DO is replaced by the script of a test, which presses keys
# like a person, and calls `note` to record the page's state.
PROBE = """
<script>
(async () => {
  const look = id => document.getElementById(id);
  const pause = ms => new Promise(done => setTimeout(done, ms));
  while (!document.documentElement.dataset.ready) await pause(10);
  const noted = [];
  function note(more = {}) {
    const board = look("board"), pen = board.getContext("2d");
    const pixels = pen.getImageData(0, 0, board.width, board.height).data;
    let text = "";
    for (const value of pixels) text += String.fromCharCode(value);
    const words = {};
    for (const id of ["step", "action", "reward", "return", "done", "title", "player", "play"])
      words[id] = look(id).textContent;
    noted.push({...words, width: board.width, height: board.height, pixels: btoa(text),
                episode: look("episode").selectedIndex, images: document.images.length,
                speed: look("speed").value, ...more});
  }
  // Return whether the browser's default action for the key remains.
  const press = (key, target = document) => target.dispatchEvent(
      new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  function set(id, name, value) {
    look(id)[name] = value;
    look(id).dispatchEvent(new Event(id == "scrub" ? "input" : "change"));
  }
  DO
  const probe = document.createElement("pre");
  probe.id = "probe";
  probe.textContent = JSON.stringify(noted);
  document.body.append(probe);
})();
</script>
"""


def probed(tmp_path, page, do: str, window: tuple[int, int] = WINDOW) -> list[dict]:
    """Run the script `do` in the replay's page; return the page's state at each call of `note`.

    In each state, the entry `pixels` is a uint8 array (height, width, 4).
    """
    target = tmp_path / "probed.html"
    target.write_text(page.read_text() + PROBE.replace("DO", do))
    size = "--window-size={},{}".format(*window)
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *ALONE.split(), size, profile, "--dump-dom"]
    # Seconds of the page's virtual clock. If 30 are too few, as on a busy machine, try 300.
    for seconds in (30, 300):
        words = [*command, f"--virtual-time-budget={seconds * 1000}", target.as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        found = re.search('<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
        if found:
            break
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    noted = json.loads(html.unescape(found[1]))
    for row in noted:
        shape = (row["height"], row["width"], 4)
        row["pixels"] = np.frombuffer(base64.b64decode(row["pixels"]), np.uint8).reshape(shape)
        assert (row["pixels"][..., 3] == 255).all()
    return noted


@pytest.mark.full
@in_a_browser
@pytest.mark.parametrize("id", [GRID, "Classic-CartPole-v0", "Classic-Pendulum-v0"])
def test_a_browser_shows_the_compositors_frames(tmp_path, id):
    pictures, session = record(tmp_path / "a.html", id, tile_size=16)
    do = """
      for (let episode = 0; episode < 2; episode++) {
        set("episode", "selectedIndex", episode);
        for (let step = 0; step <= look("scrub").max; step++) {
          set("scrub", "value", step);
          note();
        }
      }"""
    noted = probed(tmp_path, tmp_path / "a.html", do)
    assert len(noted) == MOMENTS
    for row, picture, moment in zip(noted, pictures[0], session.history, strict=True):
        np.testing.assert_array_equal(row["pixels"][..., :3], picture)
        name = action_name(session.env, board_moment(moment, 0))
        assert row["action"] == (name or "start")
        assert float(row["reward"]) == pytest.approx(moment.reward[0].item(), rel=1e-5)
        assert float(row["return"]) == pytest.approx(moment.score[0].item(), rel=1e-5)
    assert [row["step"] for row in noted[:5]] == [f"{i} of 4" for i in range(5)]
    assert [row["done"] for row in noted[3:6]] == ["no", replay.NO_END, "no"]


def test_it_contains_missions_and_the_agents_views(tmp_path):
    id = "Grid-Fetch-5x5-N2-v0"
    _, session = record(tmp_path / "a.html", id, 2, 8)
    held = content(tmp_path / "a.html")
    states = [moment.state for moment in session.history]

    def mission(board: int, first: int) -> str:
        state = jax.tree.map(lambda leaf: jnp.asarray(leaf[board]), states[first])
        return session.env.mission_text(state)

    missions = [mission(board, first) for board in (0, 1) for first in (0, 5)]
    assert [episode["mission"] for episode in held["episodes"]] == missions
    assert len(set(missions)) > 1
    paint = frames.view_painter(session.env, 8)
    views = np.concatenate([[paint(state)[board] for state in states] for board in (0, 1)])
    swapped = {**held, "frames": held["views"], "rows": 7, "columns": 7}
    np.testing.assert_array_equal(decoded(swapped), views)


@pytest.mark.full
@in_a_browser
def test_a_browser_shows_the_mission_and_the_agents_view(tmp_path):
    _, session = record(tmp_path / "a.html", GRID, tile_size=8)
    do = """
      press("ArrowRight");
      const view = look("view"), pen = view.getContext("2d");
      note({mission: look("mission").textContent, shown: !look("seen").hidden,
            view: [...pen.getImageData(0, 0, view.width, view.height).data]});"""
    (noted,) = probed(tmp_path, tmp_path / "a.html", do)
    assert noted["mission"] == "use the key to open the door and then get to the goal"
    paint = frames.view_painter(session.env, 8)
    seen = np.array(noted["view"], np.uint8).reshape(56, 56, 4)[..., :3]
    assert noted["shown"]
    np.testing.assert_array_equal(seen, paint(session.history[1].state)[0])


@in_a_browser
@pytest.mark.parametrize("window", [pytest.param(WINDOW, marks=pytest.mark.full), (1000, 600)])
def test_the_controls_are_visible_without_scrolling(tmp_path, window):
    record(tmp_path / "a.html", GRID)
    do = """
      const of = part => { const {left, top, right, bottom} = part.getBoundingClientRect();
                           return [left, top, innerWidth - right, innerHeight - bottom]; };
      note({parts: [...document.querySelectorAll("nav *:not(option), dl, #board")].map(of),
            board: look("board").getBoundingClientRect().width,
            inner: [innerWidth, innerHeight], wide: document.documentElement.scrollWidth});"""
    (noted,) = probed(tmp_path, tmp_path / "a.html", do, window)
    width, height = noted["inner"]
    assert width == window[0] and height <= window[1]
    assert len(noted["parts"]) == 8 and min(map(min, noted["parts"])) >= 0, noted["parts"]
    assert noted["wide"] <= width and noted["board"] > 150


@in_a_browser
def test_keys_and_time(tmp_path):
    record(tmp_path / "a.html", GRID, tile_size=8)
    do = """
      press("ArrowRight"); note();
      press("End"); note();
      press("PageDown"); note();
      press("ArrowLeft"); note();
      press(" "); note();
      await pause(2000);  // 6 steps at 8 per second, the pause at the end, then from the start
      note();
      press(" "); note();
      await pause(3000); note();"""
    noted = probed(tmp_path, tmp_path / "a.html", do)
    places = [(row["episode"], int(row["step"].split()[0])) for row in noted]
    assert places[:5] == [(0, 1), (0, 4), (1, 0), (1, 0), (1, 0)]
    assert [row["play"] for row in noted] == [*["play"] * 4, *["pause"] * 2, *["play"] * 2]
    assert places[5] in [(0, 2), (0, 3), (0, 4)] and places[5] == places[6] == places[7]


@in_a_browser
def test_keys_in_a_focused_list_act_on_the_list(tmp_path):
    record(tmp_path / "a.html", GRID, tile_size=8)
    do = """
      const keys = [" ", "ArrowUp", "ArrowDown", "ArrowRight", "Home", "End", "PageDown"];
      const free = ["episode", "speed"].map(id => keys.map(key => press(key, look(id)))).flat();
      note({free});
      note({free: ["scrub", "board"].map(id => press("ArrowRight", look(id)))});"""
    within, outside = probed(tmp_path, tmp_path / "a.html", do)
    assert within["free"] == [True] * 14 and outside["free"] == [False] * 2
    same = ("step", "episode", "speed", "play")
    assert [within[name] for name in same] == ["0 of 4", 0, "8 steps/s", "play"]
    assert outside["step"] == "2 of 4"  # two key presses, one step each


@in_a_browser
def test_every_part_has_an_accessible_name_and_the_slider_a_value(tmp_path):
    record(tmp_path / "a.html", GRID, tile_size=8)
    do = """
      press("ArrowRight");
      note({named: [...document.querySelectorAll("canvas, nav *")].map(part => part.ariaLabel),
            role: look("board").role, value: look("scrub").ariaValueText,
            scheme: getComputedStyle(document.documentElement).colorScheme});"""
    (noted,) = probed(tmp_path, tmp_path / "a.html", do)
    named = [name for name in noted["named"] if name]
    steps = ["one step back", "one step forward"]
    assert named == [
        f"board of {GRID}",
        "what the agent sees",
        "moment",
        *steps,
        "episode",
        "speed",
    ]
    assert (noted["role"], noted["value"], noted["scheme"]) == ("img", "step 1 of 4", "dark")


@in_a_browser
@pytest.mark.parametrize(
    ("speed", "after"), [pytest.param(10, "15 steps/s", marks=pytest.mark.full), (0.5, "1 steps/s")]
)
def test_the_list_of_speeds_contains_the_given_one(tmp_path, speed, after):
    record(tmp_path / "a.html", GRID, tile_size=8, speed=speed)
    given, faster = probed(tmp_path, tmp_path / "a.html", 'note(); press("ArrowUp"); note();')
    assert (given["speed"], faster["speed"]) == (f"{speed} steps/s", after)


@in_a_browser
def test_hostile_names_stay_text_in_a_browser(tmp_path):
    session = Session(jaxenvs.make(GRID), RANDOM)
    writer = replay.ReplayWriter(session.env, 1, 8)
    for _ in range(2):
        writer.add(session)
        session.forward()
    writer.write(tmp_path / "a.html", HOSTILE, [HOSTILE] * 7, session.pilot.name, session.speed)
    (noted,) = probed(tmp_path, tmp_path / "a.html", 'press("End"); note();')
    assert noted["title"] == noted["action"] == HOSTILE and noted["images"] == 0
