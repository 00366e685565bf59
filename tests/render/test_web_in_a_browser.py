"""Tests of the pages of `--web` in Chromium: on a desktop, on a phone, and by keyboard alone."""

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from browsing import BROWSER, Browser, Page, browser
from paging import ID, Served, drawn, playing, serving
from PIL import Image

from jaxenvs.render import screen
from jaxenvs.render.web import server

DESKTOP, PHONE = (1280, 800), (390, 844)
# JavaScript that returns the pixels of the canvas as a data URL of a PNG.
PIXELS = "document.getElementById('view').toDataURL('image/png')"
PAINTED = "document.getElementById('view').getContext('2d').getImageData(0, 0, 1, 1).data[0] > 0"
SIZE = "(c => [c.width, c.height])(document.getElementById('view'))"
MOMENT = "document.body.dataset.moment"

pytestmark = [
    pytest.mark.full,
    pytest.mark.usefixtures("no_display"),
    pytest.mark.skipif(
        BROWSER is None,
        reason="THE TEST OF THE PAGES DID NOT RUN: no Chromium (apt install chromium)",
    ),
]


def browsed(tmp_path, test: Callable[[Browser, Served], Awaitable[None]], prepare=playing) -> None:
    """Run an asynchronous test with a browser and a server."""

    async def run() -> None:
        async with browser(tmp_path / "profile") as open_browser, serving(prepare) as there:
            await asyncio.wait_for(test(open_browser, there), 240)

    asyncio.run(run())


async def pixels(page: Page) -> np.ndarray:
    """Return the pixels of the page's canvas."""
    found = await page.value(PIXELS)
    with Image.open(io.BytesIO(base64.b64decode(found.split(",")[1]))) as image:
        return np.asarray(image.convert("RGB"))


async def at(page: Page, moment: str) -> None:
    await page.until(f"{MOMENT} === 'moment {moment}' && document.getElementById('busy').hidden")


async def opened(there: Served, b: Browser, size=DESKTOP, ratio: float = 1, phone=False) -> Page:
    page = await b.open(there.door.address, *size, ratio, phone)
    await page.until(f"{MOMENT} && document.getElementById('busy').hidden")
    return page


def test_a_desktop_plays_by_keys_and_scrubs(tmp_path):
    async def test(b: Browser, there: Served) -> None:
        page = await opened(there, b)
        for key in ("ArrowRight", "ArrowUp", "a"):
            await page.key(key)
        await page.key("Shift", "ShiftLeft", location=1)
        await at(page, "4 of 4")
        actions = [int(moment.action[0]) for moment in there.controller.session.history[1:]]
        assert actions == [1, 2, 0, 4]  # actions right, forward, left, drop
        shown = await pixels(page)
        size = (shown.shape[1], shown.shape[0])
        assert size[0] == 1280 and 700 < size[1] < 800
        np.testing.assert_array_equal(shown, drawn(there.controller, size))
        assert await page.value("document.title") == f"{ID} - jaxenvs"
        label = await page.value("document.getElementById('view').getAttribute('aria-label')")
        assert label == f"{ID}, moment 4 of 4"
        bar = screen.layout(there.controller, size).bar
        await page.mouse("Pressed", bar.left, bar.centery, pressed=True)
        await at(page, "0 of 4")
        await page.mouse("Moved", bar.centerx, 200, pressed=True)
        await at(page, "2 of 4")
        await page.mouse("Released", bar.centerx, 200)
        await page.mouse("Moved", bar.left, 200)
        await page.key("Backspace")
        await at(page, "1 of 4")

    browsed(tmp_path, test)


def test_two_pages_of_different_sizes_and_a_resize(tmp_path):
    async def test(b: Browser, there: Served) -> None:
        desktop, small = await opened(there, b), await opened(there, b, (640, 480), 2)
        await desktop.key("ArrowRight")
        await at(small, "1 of 1")
        await at(desktop, "1 of 1")
        for page, ratio in ((desktop, 1), (small, 2)):
            shown = await pixels(page)
            size = (shown.shape[1], shown.shape[0])
            np.testing.assert_array_equal(shown, drawn(there.controller, size, ratio))
        await desktop.ask("Page.bringToFront")  # a page in the background is not laid out
        shape = {"width": 900, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        await desktop.ask("Emulation.setDeviceMetricsOverride", **shape)
        await desktop.until("document.getElementById('view').width === 900")
        await desktop.until(PAINTED)  # resizing clears the canvas, so wait until it is drawn
        shown = await pixels(desktop)
        np.testing.assert_array_equal(shown, drawn(there.controller, (900, shown.shape[0])))

    browsed(tmp_path, test)


def test_a_phone_plays_by_touch(tmp_path):
    async def test(b: Browser, there: Served) -> None:
        page = await opened(there, b, PHONE, 3, True)
        assert await page.value("document.documentElement.scrollWidth") == PHONE[0]
        rects = "[...document.querySelectorAll('#keys button')].map(b => b.getBoundingClientRect())"
        heights = await page.value(f"{rects}.map(r => r.height)")
        assert len(heights) == len([k for k in there.controller.bindings if k.keys])
        assert min(heights) >= 44  # CSS pixels; large enough for a finger
        for words in ("right", "forward"):
            place = await page.value(
                "(r => [r.left + r.width / 2, r.top + r.height / 2])([...document"
                ".querySelectorAll('#keys button')].find(b => b.firstChild.textContent === "
                f"'{words}').getBoundingClientRect())"
            )
            await page.tap(*place)
        await at(page, "2 of 2")
        size = await page.value(SIZE)
        where = screen.layout(there.controller, (size[0], size[1]), 3.0)
        await page.tap((where.bar.left + 1) / 3, where.bar.centery / 3)
        await at(page, "0 of 2")

    browsed(tmp_path, test)


# JavaScript that returns the names of the messages that the viewer sends after four simulated
# events: the mouse moves, its button is released, it moves again, and it leaves the canvas.
MOUSE = """new Promise(resolve => {
  const seen = [], send = (...message) => seen.push(message[0]);
  const made = new Viewer(document.createElement("div"), {send, tell() {}, fails() {}});
  for (const name of ["move", "up", "move", "leave"]) {
    made.canvas.dispatchEvent(new PointerEvent(`pointer${name}`, {button: 0}));
  }
  setTimeout(() => resolve(seen), 200);
})"""


def test_the_mouse_is_where_it_was_last_seen(tmp_path):
    """A page sends the mouse's latest position before it reports a button release or a leave.

    A leave is the event that the mouse leaves the canvas.
    """

    async def test(b: Browser, there: Served) -> None:
        page = await opened(there, b)
        assert await page.value(MOUSE) == ["move", "release", "move", "move"]

    browsed(tmp_path, test)


def test_a_person_without_a_mouse_reaches_everything(tmp_path):
    async def test(b: Browser, there: Served) -> None:
        page = await opened(there, b)
        focus = "document.activeElement.id"
        assert await page.value(focus) == "view"
        await page.key("Tab")  # here the Tab key takes an action
        await at(page, "1 of 1")
        assert await page.value(focus) == "view"
        await page.value("document.getElementById('wording').focus()")
        await page.key("Enter", text="\r", windowsVirtualKeyCode=13)
        await page.until("document.getElementById('words').textContent.includes('goal')")
        live = "document.getElementById('words').getAttribute('aria-live')"
        assert await page.value(live) == "polite"
        await page.key("ArrowRight")  # the focus is outside the picture, so the key does not act
        await page.value("document.getElementById('view').focus()")
        shift = {"key": "Shift", "code": "ShiftLeft", "location": 1}
        await page.ask("Input.dispatchKeyEvent", type="keyDown", modifiers=8, **shift)
        await page.key("Tab", modifiers=8, windowsVirtualKeyCode=9)
        await page.ask("Input.dispatchKeyEvent", type="keyUp", **shift)
        assert await page.value(focus) != "view"  # Shift+Tab moves the focus
        await page.value("document.getElementById('view').focus()")
        await page.key("ArrowUp")
        await at(page, "2 of 2")

    browsed(tmp_path, test)


def test_a_page_connects_again_to_a_new_server(tmp_path):
    async def test(b: Browser) -> None:
        door = server.opened(None, 0)
        port, token = door.port, door.token
        async with serving(playing, door) as first:
            page = await opened(first, b)
            await page.key("ArrowRight")
            await at(page, "1 of 1")
        await page.until("!document.getElementById('gone').hidden")
        words = await page.value("document.getElementById('gone').innerText")
        assert "The server has gone" in words and "jaxenvs play --resume" in words
        async with serving(playing, server.opened(port, 0, token)) as second:
            await page.until("document.getElementById('gone').hidden")
            await at(page, "0 of 0")
            await page.key("ArrowUp")
            await at(page, "1 of 1")
            assert second.controller.session.cursor == 1

    async def run() -> None:
        async with browser(tmp_path / "profile") as started:
            await asyncio.wait_for(test(started), 240)

    asyncio.run(run())
