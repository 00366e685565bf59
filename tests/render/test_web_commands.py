"""Tests of the option `--web`: journals, resuming a killed server, ports, and bad options.

A journal is a file of the commands that a session has run; `--resume` replays the journal.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from paging import ENV, ID, PATIENCE, Page, drawn, playing

from jaxenvs.core import extras
from jaxenvs.core.typed import installation
from jaxenvs.render import arguments, play, solve, watch
from jaxenvs.render.controls import Controller
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import Session
from jaxenvs.render.viewer import Viewer
from jaxenvs.render.web import journal, pages, server

MAIN = {"play": play.main, "watch": watch.main, "solve": solve.main}

pytestmark = pytest.mark.usefixtures("no_display")


def commands(path: Path) -> list[tuple]:
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()[1:]]


@pytest.fixture
def book(tmp_path):
    made = journal.Journal(journal.new(tmp_path, "one"), {"port": 1})
    yield made
    made.close()


def test_a_replayed_journal_gives_the_same_session(tmp_path, book):
    def watching() -> Viewer:
        return Viewer(Controller(Session(ENV, RANDOM, 3, seed=5), ID, "watch"))

    first = watching()
    first.note = book.write
    for _ in range(7):
        first.tick(0.2)
    first.run("scrub", 0.5)
    first.run("zoom", 1)
    for key in ("d", "h", "escape", "s", "space", "+", "jump", "backspace", "tab"):
        first.run("press", key)
    for _ in range(3):
        first.tick(0.3)
    book.flush()
    (path,) = tmp_path.iterdir()
    again = watching()
    again.replay(commands(path))
    assert len(again.controller.session.history) == len(first.controller.session.history) > 5
    assert again.controller.session.cursor == first.controller.session.cursor
    size = (400, 300)
    first.controller.turned = again.controller.turned = 1.0
    np.testing.assert_array_equal(drawn(again.controller, size), drawn(first.controller, size))


def test_a_replay_writes_no_gif(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    viewer = playing()
    viewer.replay([("press", "right"), ("press", "g")])
    assert viewer.controller.session.cursor == 1 and not [*tmp_path.iterdir()]
    viewer.run("press", "g")
    assert viewer.saved is not None and viewer.saved.exists()


def test_automatic_steps_are_counted_in_few_lines(tmp_path, book):
    for _ in range(500):
        book.write("forward", 1)
    book.write("press", "space")
    (path,) = tmp_path.iterdir()
    assert len(commands(path)) <= 4
    assert sum(c[1] for c in commands(path) if c[0] == "forward") == 500


def test_a_partial_line_is_left_out_and_the_journal_goes_on(tmp_path):
    path = journal.new(tmp_path, "one")
    with open(path, "w") as file:
        file.write('{"port": 1}\n["press","up"]\n["scrub",0.5]\n["pre')
    found = journal.latest(tmp_path, "one")
    assert found is not None and found.commands == [("press", "up"), ("scrub", 0.5)]
    assert journal.latest(tmp_path, "two") is None
    book = journal.Journal(found.path, {}, found.length)
    book.write("press", "down")
    assert journal.latest(tmp_path, "one") is None  # a journal in use is not returned
    book.close()
    assert journal.latest(tmp_path, "one").commands[-1] == ("press", "down")


@pytest.mark.parametrize(
    "line",
    [
        '["press", 1]',
        '["forward"]',
        '["open", "/etc"]',
        "{}",
        "[]",
        "nonsense",
        "[" * 9000,
        '["scrub", NaN]',
        '["scrub", Infinity]',
        '["zoom", -7]',
        f'["forward", {10**12}]',
    ],
)
def test_a_damaged_line_ends_the_journal(tmp_path, line):
    path = journal.new(tmp_path, "one")
    path.write_text(f'{{}}\n["press","up"]\n{line}\n["press","down"]\n')
    found = journal.latest(tmp_path, "one")
    assert found is not None and found.commands == [("press", "up")]
    assert found.length == len('{}\n["press","up"]\n')


@pytest.mark.parametrize(
    "about",
    [
        {},
        *({"port": port} for port in (-1, 10**11, True, "80")),
        *({"token": token} for token in ("short", chr(0xD800) * 40, "a&b" * 20, 5)),
    ],
)
def test_a_damaged_first_line_gives_no_address(tmp_path, about):
    whole = {"port": 8701, "token": "x" * 43}
    earlier = journal.Earlier(tmp_path, whole, [], 0)
    assert pages._listened(earlier, 8700) == (8701, "x" * 43)
    broken = {**whole, **about} if about else {}
    assert pages._listened(earlier._replace(about=broken), 8700) == (8700, "")


def test_journals_are_bounded_and_private(tmp_path, book, monkeypatch):
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(journal, "MAX_BYTES", 200)
    for _ in range(50):
        book.write("press", "up")
    assert path.stat().st_size <= 200 and "full" in book.problem
    for number in range(60):
        (tmp_path / f"old-{number}.jsonl").touch()
    journal.new(tmp_path, "one")
    assert len([*tmp_path.iterdir()]) == journal.MAX_FILES - 1


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Set the default handlers of SIGINT and SIGHUP, also for processes started in the block."""
    names = [signal.SIGINT, signal.SIGHUP]
    before = [signal.signal(name, signal.SIG_DFL) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def started(home: Path, *words: str, heeds: bool = True) -> tuple[subprocess.Popen, list[str]]:
    """Start a command with `--web`; return its process and the first four lines that it prints.

    heeds: whether SIGINT and SIGHUP end the command. If False, the command inherits the signals
        that this process ignores.
    """
    given = {**os.environ, "JAXENVS_CACHE": str(home), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "jaxenvs", *words, "--web"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with default_signals() if heeds else contextlib.nullcontext():
        process = subprocess.Popen(command, env=given, cwd=home, **pipes)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    assert lines[0].startswith("Open http://127.0.0.1:"), lines
    assert lines[3] == "Ctrl-C ends the server.\n", lines
    return process, lines


def ended(process: subprocess.Popen) -> str:
    """Wait for the end of a server; return the one line that it has printed since `started`."""
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.count("\n") == 1, out
    return out


async def visited(address: str, *keys: str, shows: str) -> np.ndarray:
    """Open a page, press keys, and return the picture once the page says that it is at `shows`."""
    origin = address.split("/?")[0]
    there = {"url": address.replace("/?", "/session?"), "headers": {"Origin": origin}}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(**there, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        await page.say("size", 320, 240, 1)
        await page.until(lambda page: page.facts.get("moment"))
        for key in keys:
            await page.say("key", key)
        await page.until(lambda page: page.facts["moment"] == shows and not page.facts["busy"])
        return page.picture.copy()


@pytest.mark.full
def test_a_killed_server_is_resumed_at_the_same_address(tmp_path):
    process, lines = started(tmp_path, "play", ID)
    address = lines[0].split()[1]
    before = asyncio.run(visited(address, "right", "up", "up", "left", shows="moment 4 of 4"))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    again, lines = started(tmp_path, "play", ID, "--resume")
    assert lines[0].split()[1] == address  # the same address, so that open pages reconnect
    port = address.split(":")[2].split("/")[0]
    assert lines[1].startswith(f"From another machine: ssh -L {port}:127.0.0.1:{port} ")
    after = asyncio.run(visited(address, shows="moment 4 of 4"))
    np.testing.assert_array_equal(after, before)
    again.send_signal(signal.SIGINT)
    command = lines[2].removeprefix("To go on after the end of the server: ")
    assert ended(again) == f"The server has ended. To go on: {command}"
    assert command.endswith(f"-m jaxenvs play {ID} --web --resume\n")


@pytest.mark.full
def test_nohup_keeps_the_server(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process, lines = started(tmp_path, "play", ID, heeds=False)
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    asyncio.run(visited(lines[0].split()[1], "right", shows="moment 1 of 1"))
    process.terminate()
    assert "The server has ended." in ended(process)


@pytest.mark.full
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signals_end_the_server_while_it_compiles(tmp_path, name):
    process, _ = started(tmp_path, "watch", ID, "--envs", "4")
    process.send_signal(getattr(signal, name))
    assert "The server has ended." in ended(process)


def test_a_port_in_use_is_one_sentence(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert play.main([ID, "--web", "--port", str(port)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert f"port {port} cannot be used" in err and "--port N" in err
        with server.opened(None, port).socket as other:  # without --port, a free port is chosen
            assert other.getsockname()[1] not in (0, port)


def test_a_missing_package_is_named(monkeypatch, capsys):
    find = extras.importlib.util.find_spec
    monkeypatch.setattr(
        extras.importlib.util, "find_spec", lambda name: None if name == "aiohttp" else find(name)
    )
    assert play.main([ID, "--web"]) == 2
    assert "aiohttp" in (err := capsys.readouterr().err) and installation("web") in err


def test_solve_shows_the_solution_on_pages(monkeypatch):
    shown = []

    def open_pages(prepare, command, argv, options):
        shown.append((prepare(), command))
        return 0

    pages = types.SimpleNamespace(require=lambda: None, open_pages=open_pages)
    monkeypatch.setattr(arguments, "pages", lambda: pages)
    assert solve.main(["Puzzle-Hanoi-5-v0", "--web"]) == 0
    ((controller, command),) = shown
    assert command == "solve" and controller.title == "Puzzle-Hanoi-5-v0"
    assert controller.session.forward() and controller.session.cursor == 1


BAD = [
    ("play", [ID, "--web", "--gif", "a.gif"], "remove --gif"),
    ("play", [ID, "--web", "--keys", "up"], "remove --keys"),
    ("play", [ID, "--web", "--text"], "remove --text"),
    ("play", [ID, "--web", "--tile-size", "8"], "remove --tile-size"),
    ("play", [ID, "--web", "--frames", "8"], "--frames needs a file"),
    ("play", [ID, "--port", "8000"], "--port needs --web"),
    ("play", [ID, "--web", "--port", "70000"], "1 to 65535"),
    ("play", [ID, "--resume"], "--resume needs --web"),
    ("play", [ID, "--web", "--resume"], "--resume needs a private cache folder"),
    ("watch", [ID, "--web", "--screenshot", "a.png"], "remove --screenshot"),
    ("watch", [ID, "--web", "--html", "a.html"], "remove --html"),
    ("solve", ["Puzzle-Hanoi-5-v0", "--web", "--gif", "a.gif"], "remove --gif"),
    ("solve", ["Puzzle-Hanoi-5-v0", "--web", "--resume"], "--resume"),
    ("solve", ["Puzzle-Hanoi-5-v0", "--web", "--levels", "3"], "remove --levels"),
]


@pytest.mark.parametrize(("command", "argv", "says"), BAD)
def test_options_that_do_not_fit_are_one_sentence(
    command, argv, says, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    try:
        code = MAIN[command](argv)
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert code == 2 and says in err and out == "" and not [*tmp_path.iterdir()]
    assert re.fullmatch(rf"jaxenvs {command}: [^\n]*\n", err)
