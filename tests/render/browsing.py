"""Helper of tests: drives Chromium over its DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ALONE = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
ALONE += " --disable-background-networking --disable-component-update --mute-audio"
ALONE += " --force-color-profile=srgb --remote-debugging-port=0"
STARTING_TAKES = 60.0  # maximum time to wait for the start of the browser, in seconds
ANSWER_TAKES = 60.0  # maximum time to wait for the browser's answer, and in `until`, in seconds


class Page:
    """One page of the browser, with its own DevTools connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, itertools.count(1)

    async def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": given})
        while True:
            answer = json.loads((await self._socket.receive(ANSWER_TAKES)).data)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    async def value(self, expression: str) -> Any:
        """Evaluate a JavaScript expression, await it if it is a promise, and return its value."""
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = await self.ask("Runtime.evaluate", **given)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true; an exception counts as false."""
        end = time.monotonic() + ANSWER_TAKES
        safe = f"(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()"
        while not await self.value(safe):
            assert time.monotonic() < end, expression
            await asyncio.sleep(0.05)

    async def key(self, key: str, code: str = "", **more: Any) -> None:
        """Press and release a key; `key` is its name in JavaScript, such as "ArrowUp" or "h"."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            given = {"type": kind, "key": key, "code": code or key, **more}
            await self.ask("Input.dispatchKeyEvent", **given, **(text if kind == "keyDown" else {}))

    async def mouse(self, kind: str, x: float, y: float, pressed: bool = False) -> None:
        """Send the mouse event `kind`: "Pressed", "Moved" or "Released"."""
        given = {"type": f"mouse{kind}", "x": x, "y": y, "clickCount": 1}
        button = {"button": "left"} if kind != "Moved" or pressed else {}
        await self.ask("Input.dispatchMouseEvent", **given, **button, buttons=int(pressed))

    async def tap(self, x: float, y: float) -> None:
        """Tap the position (x, y) with a finger."""
        points = [{"x": x, "y": y}]
        await self.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=points)
        await self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    async def screenshot(self, path: Path) -> None:
        """Write a PNG of the page."""
        shot = await self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def browser(profile: Path) -> AsyncIterator["Browser"]:
    """Start a browser with the profile folder `profile`, yield it, and end it."""
    assert BROWSER is not None
    words = [BROWSER, *ALONE.split(), f"--user-data-dir={profile}", "about:blank"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, **quiet)
    try:
        end = time.monotonic() + STARTING_TAKES
        noted = profile / "DevToolsActivePort"
        while not noted.exists() or not noted.read_text().strip():
            assert time.monotonic() < end and process.poll() is None, "the browser does not start"
            await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as session:
            opened = Browser(session, int(noted.read_text().split()[0]))
            try:
                yield opened
            finally:  # else pytest reports open connections, in a later test
                await opened.close()
    finally:
        process.terminate()
        process.wait(30)


class Browser:
    """A running browser."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session, self._address = session, f"http://127.0.0.1:{port}"
        self._sockets: list[aiohttp.ClientWebSocketResponse] = []

    async def close(self) -> None:
        """Close the connections to all pages."""
        for socket in self._sockets:
            await socket.close()

    async def open(
        self, address: str, width: int = 1280, height: int = 800, ratio: float = 1, phone=False
    ) -> Page:
        """Open a page with a viewport of `width` x `height`; `phone`: emulate a phone."""
        async with self._session.put(f"{self._address}/json/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        self._sockets.append(socket)
        page = Page(socket)
        shape = {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": phone}
        await page.ask("Emulation.setDeviceMetricsOverride", **shape)
        if phone:
            await page.ask("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=1)
        await page.ask("Page.enable")
        await page.ask("Page.navigate", url=address)
        return page
