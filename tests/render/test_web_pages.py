"""Tests of `--web`, which serves a session to web pages; Python code plays the role of a page."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import aiohttp
import numpy as np
import pytest
from paging import ENV, ID, Served, drawn, playing, serving

import jaxenvs
from jaxenvs.render import screen, turning
from jaxenvs.render.controls import Controller
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import Session
from jaxenvs.render.viewer import Viewer
from jaxenvs.render.web import clients, diffs, inputs, protocol, server, show

pytestmark = pytest.mark.usefixtures("no_display")
SMALL, LARGE = (320, 240), (700, 501)


def served(test: Callable[[Served], Awaitable[None]], prepare=playing) -> None:
    """Run an asynchronous test while a session is served."""

    async def run() -> None:
        async with serving(prepare) as there:
            tasks = {asyncio.ensure_future(test(there)), there.task}
            limits = {"timeout": 120, "return_when": asyncio.FIRST_COMPLETED}
            done, running = await asyncio.wait(tasks, **limits)
            for task in running:
                task.cancel()
            assert done, "the test takes too long"
            for task in done:
                task.result()  # re-raises an error of the test or the session

    asyncio.run(run())


def wall() -> Viewer:
    controller = Controller(Session(ENV, RANDOM, 3), ID, "watch")
    controller.session.toggle_pause()
    return Viewer(controller)


def test_a_stream_of_differences_is_the_window_pixel_by_pixel():
    async def test(there: Served) -> None:
        page = await there.open(LARGE)
        for key, moment in (("right", 1), ("up", 2), ("backspace", 1), ("left", 2)):
            await page.until(lambda page: page.facts.get("moment"))
            await page.say("key", key)
            await page.until(lambda page, m=moment: f"moment {m} " in page.facts["moment"])
            np.testing.assert_array_equal(page.picture, drawn(there.controller, LARGE))
        assert 0 < page.blocks < 22 * 16  # only blocks that changed were sent
        await page.say("size", *SMALL, 1.5)
        await page.until(lambda page: page.picture.shape[:2] == SMALL[::-1])
        np.testing.assert_array_equal(page.picture, drawn(there.controller, SMALL, 1.5))

    served(test)


def test_blocks_that_differ_are_found_in_pictures_of_any_size():
    random = np.random.RandomState(0)
    for _ in range(200):
        height, width = random.randint(1, 140, 2)
        before = np.zeros((height, width, 3), np.uint8)
        after = before.copy()
        for _ in range(random.randint(0, 4)):
            after[random.randint(height), random.randint(width), random.randint(3)] = 1
        columns = -(-width // diffs.BLOCK)
        places = np.argwhere(after != before)[:, :2] // diffs.BLOCK
        expected = {row * columns + column for row, column in places.tolist()}
        assert set(diffs.changed(before, after).tolist()) == expected


def test_pages_of_two_sizes_show_one_session():
    async def test(there: Served) -> None:
        pages = [await there.open(SMALL), await there.open(LARGE, 2.0)]
        await pages[0].say("key", "right")
        for page, size, ratio in zip(pages, (SMALL, LARGE), (1.0, 2.0), strict=True):
            await page.until(lambda page: "moment 1 " in page.facts.get("moment", ""))
            np.testing.assert_array_equal(page.picture, drawn(there.controller, size, ratio))

    served(test)


def test_the_bar_scrubs_and_a_click_opens_a_board():
    async def test(there: Served) -> None:
        page, other = await there.open_ready(LARGE), await there.open(SMALL)
        for _ in range(4):
            await page.say("key", "right")
        await page.until(lambda page: "moment 4 of 4" in page.facts["moment"])
        where = screen.layout(there.controller, LARGE)
        await page.say("click", where.bar.left, where.bar.centery)
        await page.until(lambda page: "moment 0 of 4" in page.facts["moment"])
        await other.until(lambda page: "moment 0 of 4" in page.facts.get("moment", ""))
        await other.say("move", 300, 230)  # no drag: this page's button is not pressed
        await page.say("move", *where.bar.center)
        await page.until(lambda page: "moment 2 of 4" in page.facts["moment"])
        await page.say("release")
        await page.say("move", where.bar.left, where.bar.centery)
        await page.say("click", *where.boards[1].center)
        await page.until(lambda page: ["escape", "Esc"] in page.facts["keys"][-1][0])
        while there.controller.is_wall:
            await page.update()
        assert there.controller.selected == 1 and there.controller.session.cursor == 2

    served(test, wall)


def test_escape_ends_no_session_of_others():
    async def test(there: Served) -> None:
        page = await there.open_ready()
        await page.say("key", "escape")
        await page.until(lambda page: page.facts["notice"] == show.STAYS)
        assert there.controller.open

    served(test)


def test_a_description_in_words_is_sent_to_who_asks():
    async def test(there: Served) -> None:
        page, other = await there.open(), await there.open()
        await page.say("words", True)
        await page.until(lambda page: "goal" in page.facts.get("words", ""))
        before = page.facts["words"]
        await page.say("key", "right")
        await page.until(lambda page: page.facts["words"] != before)
        await other.until(lambda page: "moment 1 " in page.facts.get("moment", ""))
        assert "words" not in other.facts

    served(test)


def test_pages_see_that_a_long_job_runs():
    ready = threading.Event()

    def slow() -> Viewer:
        ready.wait(60)
        return playing()

    async def test(there: Served) -> None:
        page = await there.open()
        await page.update()
        assert page.facts["busy"] == "compiling" and not page.picture.size
        await page.say("key", "right")  # takes effect once the session is ready
        ready.set()
        await page.until(lambda page: "moment 1 " in page.facts.get("moment", ""))
        await page.until(lambda page: not page.facts["busy"])

    served(test, slow)


def test_saving_offers_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def test(there: Served) -> None:
        page = await there.open()
        address = f"{there.origin}/saved?token={there.door.token}"
        async with there.http.get(address) as answer:
            assert answer.status == 404
        await page.say("key", "g")
        await page.until(lambda page: page.facts.get("saved"))
        async with there.http.get(address) as answer:
            assert await answer.read() == (tmp_path / f"{ID}-1.gif").read_bytes()
            assert f"{ID}-1.gif" in answer.headers["Content-Disposition"]

    served(test)


def test_a_page_that_reads_slowly_skips_pictures():
    async def test(there: Served) -> None:
        slow, fast = await there.open_ready(), await there.open_ready()
        await asyncio.sleep(0.1)
        await fast.say("key", "space")  # lets the policy play
        await slow.take()  # receives an update without confirming that it was drawn
        for _ in range(20):
            await fast.update()
        few, many = sorted(client.updates for client in there.show.clients)
        assert few <= 5 and many > 20
        await slow.say("shown", slow.facts["number"])
        await slow.take()
        assert there.controller.session.cursor > 5

    def fast_wall() -> Viewer:
        viewer = wall()
        viewer.controller.session.speed = 60.0
        return viewer

    served(test, fast_wall)


def test_a_page_that_comes_back_gets_the_whole_picture():
    async def test(there: Served) -> None:
        page = await there.open_ready()
        await page.say("key", "right")
        await page.until(lambda page: "moment 1 " in page.facts["moment"])
        page.socket._response.close()  # disconnects without a closing message
        again = await there.open()
        await again.update()
        assert again.facts["moment"] == "moment 1 of 1"
        np.testing.assert_array_equal(again.picture, drawn(there.controller, SMALL))
        while len(there.show.clients) > 1:
            await asyncio.sleep(0.01)

    served(test)


def test_time_stops_while_nobody_watches():
    async def test(there: Served) -> None:
        page = await there.open()
        await page.until(lambda page: "moment 2" in page.facts.get("moment", ""))
        await page.socket.close()
        while there.show.clients:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        before = len(there.controller.session.history)
        await asyncio.sleep(0.3)
        assert len(there.controller.session.history) == before

    def moving() -> Viewer:
        return Viewer(Controller(Session(ENV, RANDOM, speed=30), ID, "watch"))

    served(test, moving)


def test_errors_of_the_session_end_the_server():
    def failing() -> Viewer:
        raise OSError("no such run")

    async def run() -> None:
        with pytest.raises(OSError, match="no such run"):
            await show.Show(failing).run()

    asyncio.run(run())


async def status(there: Served, path: str, **headers: str) -> int:
    async with there.http.get(there.origin + path, headers=headers) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.status


def test_strangers_stay_outside():
    async def test(there: Served) -> None:
        known = f"/?token={there.door.token}"
        assert await status(there, known) == 200
        assert await status(there, known, Host=f"localhost:{there.door.port}") == 200
        # A browser sends this Host header through an SSH tunnel.
        assert await status(there, known, Host="[::1]:9000") == 200
        for path in ("/", "/?token=", "/?token=%ff", f"{known}x", "/saved", "/session"):
            assert await status(there, path) == 403, path
        for host in (
            "evil.example",
            f"evil.example:{there.door.port}",
            "",
            "127.0.0.1.evil.example",
        ):
            assert await status(there, known, Host=host) == 403, host
        for origin in ("http://evil.example", "null", f"{there.origin}.evil.example"):
            assert await status(there, known, Origin=origin) == 403, origin

    served(test)


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/..%2f..%2fsetup", "/server.py", "/page.js/", "//etc/passwd"]
)
def test_only_the_files_of_the_page_are_served(path):
    async def test(there: Served) -> None:
        async with there.http.get(there.origin + "/viewer.js") as answer:
            assert answer.status == 200 and "createImageBitmap" in await answer.text()
        reader, writer = await asyncio.open_connection("127.0.0.1", there.door.port)
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        assert (await reader.read()).split()[1] in (b"400", b"403", b"404")
        writer.close()

    served(test)


@pytest.mark.parametrize("origin", [None, "http://evil.example", "http://127.0.0.1:1", "null"])
def test_only_its_own_pages_get_the_session(origin):
    async def test(there: Served) -> None:
        address = f"{there.origin}/session?token={there.door.token}"
        headers = {} if origin is None else {"Origin": origin}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await there.http.ws_connect(address, headers=headers)
        assert refused.value.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await there.http.ws_connect(
                f"{there.origin}/session?token=no", headers={"Origin": there.origin}
            )
        assert not there.show.clients

    served(test)


def test_a_long_message_closes_its_page_only():
    async def test(there: Served) -> None:
        bad, good = await there.open(None), await there.open()
        await bad.socket.send_str("[" + " " * 2 * protocol.MAX_BYTES + "]")
        assert (await bad.socket.receive(60)).data == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
        await good.until(lambda page: page.facts.get("moment"))

    served(test)


MALFORMED = [
    "", "[", "null", "{}", "[]", "[1]", '["jump"]', '["key"]', '["key", 1]', '["key", ""]',
    '["key", "' + "a" * 30 + '"]', '["key", "\\u0000"]', '["click", 1]', '["click", 1, 1e9]',
    '["click", true, 1]', '["click", 0.5, 1]', '["click", 1e999, 1]', '["move", NaN, 1]',
    '["size", 0, 5, 1]', '["size", 5, 5, 0]', '["size", 5, 5, NaN]', '["size", 5, 5, "1"]',
    '["shown", -1]', '["shown", 1.5]', '["words", 1]', '["release", 1]', "[" * 4000,
    '{"__proto__": 1}', "9" * 4000, '["size", ' + "9" * 400 + ", 1, 1]",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_messages_are_none(text):
    assert protocol.parsed(text) is None


def test_ten_thousand_malformed_messages_harm_nothing():
    async def send(update: bytes) -> None:
        pytest.fail("nothing is sent")

    there, state = show.Show(playing), np.random.RandomState(0)
    client, kept = clients.Client(send), 0
    for i in range(10_000):
        noise = bytes(state.randint(0, 256, state.randint(1, 60), np.uint8)).decode("latin-1")
        text = MALFORMED[i % len(MALFORMED)] if i % 2 else noise
        kept += inputs.receive(there, client, text)
    assert client.ignored == 10_000 and kept == clients.MOST_IGNORED - 1
    assert not there._queued and client.size is None


def test_a_flood_is_ignored_and_then_closes_its_page():
    async def test(there: Served) -> None:
        flood, good = await there.open_ready(), await there.open()
        try:
            for _ in range(30_000):
                await flood.say("move", 5, 5)
        except (ConnectionError, aiohttp.ClientError):
            pass
        message = await flood.socket.receive(60)
        while message.type == aiohttp.WSMsgType.BINARY:
            message = await flood.socket.receive(60)
        assert message.data == aiohttp.WSCloseCode.POLICY_VIOLATION
        assert "too many messages" in message.extra
        await good.until(lambda page: page.facts.get("moment"))
        await good.say("key", "right")
        await good.until(lambda page: "moment 1 " in page.facts["moment"])

    served(test)


def test_the_picture_is_bounded():
    assert protocol.bounded(1280, 800, 1.0) == ((1280, 800), 1.0)
    size, ratio = protocol.bounded(10_000, 5_000, 2.0)
    assert size[0] * size[1] <= protocol.MAX_PIXELS and 0.5 <= ratio < 2.0
    assert protocol.bounded(1, 1, 16.0)[0] == (protocol.MIN_SIDE, protocol.MIN_SIDE)


def test_a_turn_is_animated(monkeypatch):
    # The usual time is a fraction of a second, in which a slow machine draws only one picture.
    monkeypatch.setattr(turning, "SECONDS", 4.0)

    async def test(there: Served) -> None:
        page = await there.open_ready()
        before = page.facts["number"]
        await page.say("key", page.facts["keys"][0][0][0][0])
        await page.until(lambda page: "moment 1 " in page.facts["moment"])
        while there.controller.turned < 1:
            await page.update()
        assert page.facts["number"] > before + 2  # in-between pictures of the turn were sent
        while not np.array_equal(page.picture, drawn(there.controller, SMALL)):
            await page.update()

    served(test, lambda: playing("Puzzle-Cube-2x2-v0"))


def test_pages_have_every_key_of_the_window():
    """`viewer.js` can send every key that runs an action, in three environments."""
    text = server._content("viewer.js", "text/javascript").text or ""
    for id in (ID, "Craft-Classic-Ids-v0", "Puzzle-Cube-3x3-v0"):
        for row in jaxenvs.make(id).controls.actions:
            for key in row.keys:
                assert len(key) == 1 or f'"{key}"' in text or key.split()[-1] in text, key
