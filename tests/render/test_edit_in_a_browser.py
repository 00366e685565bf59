"""Tests of the editor of levels in Chromium: mouse, keys, typed missions, and touch on a phone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from browsing import BROWSER, Browser, Page, browser
from editing import DOOR, KEY, editor_of, written
from paging import Served, serving

from jaxenvs import levels
from jaxenvs.render.edit import look
from jaxenvs.render.edit.editor import AGENT
from jaxenvs.render.edit.viewer import EditView

DESKTOP, PHONE = (1280, 800), (390, 844)
SIZE = "(c => [c.width, c.height])(document.getElementById('view'))"
CTRL = 2  # bit mask of the modifier Ctrl in the DevTools protocol

pytestmark = [
    pytest.mark.full,
    pytest.mark.usefixtures("no_display"),
    pytest.mark.skipif(
        BROWSER is None,
        reason="THE TEST OF THE EDITOR'S PAGE DID NOT RUN: no Chromium (apt install chromium)",
    ),
]
Test = Callable[[Browser, Served, EditView], Awaitable[None]]


def browsed(tmp_path, test: Test) -> None:
    view = EditView(editor_of(written(tmp_path, KEY, DOOR)))

    async def run() -> None:
        async with browser(tmp_path / "profile") as b, serving(lambda: view) as there:
            await asyncio.wait_for(test(b, there, view), 240)

    asyncio.run(run())


async def opened(there: Served, b: Browser, size=DESKTOP, ratio: float = 1, phone=False) -> Page:
    page = await b.open(there.door.address, *size, ratio, phone)
    await page.until("document.body.dataset.moment && document.getElementById('busy').hidden")
    return page


async def where(page: Page, view: EditView, ratio: float = 1) -> look.Layout:
    width, height = await page.value(SIZE)
    return look.layout(view.editor, (width, height), ratio)


async def titled(page: Page, words: str, has: bool = True) -> None:
    await page.until(f"document.title.includes('{words}') === {'true' if has else 'false'}")


def test_the_mouse_paints_erases_and_the_keyboard_saves(tmp_path):
    async def test(b: Browser, there: Served, view: EditView) -> None:
        page = await opened(there, b)
        await page.key("w")
        shown = await where(page, view)
        start, end = shown.rect_of((1, 3)).center, shown.rect_of((2, 3)).center
        await page.mouse("Pressed", *start, pressed=True)
        await page.mouse("Moved", *end, pressed=True)
        await page.mouse("Released", *end)
        await titled(page, "*")
        cells = view.editor.model.picture.cells
        assert cells[1][3] == cells[2][3] == "WG"
        right = {"x": end[0], "y": end[1], "button": "right", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            await page.ask("Input.dispatchMouseEvent", type=kind, buttons=2, **right)
        await page.until("document.body.dataset.moment.includes('level 1 of 2')")
        await page.key("s", "KeyS", modifiers=CTRL, windowsVirtualKeyCode=83)
        await titled(page, "*", False)
        grid = levels.load(view.editor.file.path)[0].level.grid
        assert grid[1, 3] == 0x52 and grid[2, 3] == 0x01
        await page.key("z", "KeyZ", modifiers=CTRL, windowsVirtualKeyCode=90)
        await titled(page, "*")
        label = await page.value("document.getElementById('view').getAttribute('aria-label')")
        assert "level 1 of 2" in label

    browsed(tmp_path, test)


def test_a_mission_is_typed_into_a_field(tmp_path):
    async def test(b: Browser, there: Served, view: EditView) -> None:
        page = await opened(there, b)
        await page.key(".")
        await page.until("document.body.dataset.moment.includes('level 2')")
        await page.key("m")
        await page.until("document.activeElement.id === 'field'")
        assert await page.value("document.getElementById('field').value") == "go to the red door"
        await page.value(
            "(f => { f.value = 'go to the blue door'; f.dispatchEvent(new Event('input')); })"
            "(document.getElementById('field'))"
        )
        await page.key("Enter", text="\r", windowsVirtualKeyCode=13)
        await page.until("document.getElementById('typing').hidden")
        assert view.editor.model.mission == "go to the blue door"
        assert await page.value("document.activeElement.id") == "view"

    browsed(tmp_path, test)


def test_a_phone_edits_by_touch(tmp_path):
    async def test(b: Browser, there: Served, view: EditView) -> None:
        page = await opened(there, b, PHONE, 3, True)
        assert await page.value("document.documentElement.scrollWidth") == PHONE[0]
        box = "document.getElementById('view').getBoundingClientRect()"
        # Wait for a picture of the final height, which the canvas gets when the buttons are shown.
        await page.until(f"{SIZE}[1] === Math.round(3 * {box}.height)")
        shown = await where(page, view, 3)
        # Each tool is at least 20 CSS pixels wide; a CSS pixel is 3 pixels wide.
        assert min(rect.width for rect in shown.tools) >= 60
        await page.tap(*(v / 3 for v in shown.tools[-1].center))
        await page.tap(*(v / 3 for v in shown.rect_of((1, 3)).center))
        await titled(page, "*")
        assert view.editor.tool == AGENT and view.editor.model.picture.agent == (1, 3, 0)

    browsed(tmp_path, test)
