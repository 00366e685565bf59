"""Helpers of the tests of `--web`: serve a session, and act as a page without a browser."""

import asyncio
import contextlib
import io
import json
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import numpy as np
from PIL import Image

import jaxenvs
from jaxenvs.render import screen
from jaxenvs.render.controls import Controller
from jaxenvs.render.session import Session
from jaxenvs.render.viewer import Viewer
from jaxenvs.render.web import server
from jaxenvs.render.web.show import Show

ID = "Grid-Empty-5x5-v0"
ENV = jaxenvs.make(ID)
PATIENCE = 60.0  # maximum time to wait for an answer, in seconds


def playing(id: str = ID) -> Viewer:
    """Return the viewer of a session in which a person plays."""
    return Viewer(Controller(Session(jaxenvs.make(id)), id, "play"))


class Served:
    """A session that `serving` serves to pages, with the pages that a test opens."""

    def __init__(self, show: Show, door: server.Door, http: aiohttp.ClientSession) -> None:
        self.show, self.door, self.http = show, door, http
        self.pages: list[Page] = []
        self.task = asyncio.ensure_future(show.run())
        self.origin = f"http://127.0.0.1:{door.port}"

    @property
    def controller(self) -> Controller:
        assert self.show.viewer is not None
        return self.show.viewer.controller

    async def open(self, size: tuple[int, int] | None = (320, 240), ratio: float = 1.0) -> "Page":
        """Open a page of `size` pixels; if `size` is None, the page does not send a size."""
        address = f"{self.origin}/session?token={self.door.token}"
        origin = {"Origin": self.origin}
        page = Page(await self.http.ws_connect(address, headers=origin, max_msg_size=0))
        self.pages.append(page)
        if size is not None:
            await page.say("size", *size, ratio)
        return page

    async def open_ready(self, size: tuple[int, int] = (320, 240)) -> "Page":
        """Open a page, and wait until it shows the session."""
        page = await self.open(size)
        await page.until(lambda page: page.facts.get("moment"))
        return page


@contextlib.asynccontextmanager
async def serving(
    prepare: Callable[[], Viewer] = playing, door: server.Door | None = None
) -> AsyncIterator[Served]:
    """Serve a session while the `async with` block runs.

    `door` is the server's socket, with the token that pages need. If None, a free port is used.
    """
    door = door or server.opened(None, 0)
    show = Show(prepare, "jaxenvs play --resume")
    runner = await server.start(show, door)
    async with aiohttp.ClientSession() as http:
        there = Served(show, door, http)
        try:
            yield there
        finally:
            there.task.cancel()
            await show.close(PATIENCE)
            await runner.cleanup()
            for page in there.pages:  # else pytest reports open connections, in a later test
                await page.socket.close()


class Page:
    """A page without a browser: copies blocks of pixels onto a picture, as `viewer.js` does."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.picture = np.zeros((0, 0, 3), np.uint8)
        self.facts: dict[str, Any] = {}
        self.blocks = 0  # number of blocks of pixels in the last update

    async def say(self, *message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def take(self) -> None:
        """Receive one update, without confirming to the server that the page has drawn it."""
        message = await self.socket.receive(PATIENCE)
        assert message.type == aiohttp.WSMsgType.BINARY, message
        self.apply(message.data)

    def apply(self, update: bytes) -> None:
        """Draw the blocks of an update, and store the facts in its JSON header."""
        (length,) = struct.unpack_from("<I", update)
        head = json.loads(update[4 : 4 + length])
        self.facts |= head
        if "blocks" in head:
            self._draw(head, update[4 + length :])

    async def update(self) -> None:
        """Receive one update, and confirm to the server that the page has drawn it."""
        await self.take()
        await self.say("shown", self.facts["number"])

    async def until(self, shows: Callable[["Page"], Any]) -> None:
        """Receive updates until `shows(page)` is true."""
        while not shows(self):
            await self.update()

    def _draw(self, head: dict[str, Any], png: bytes) -> None:
        shape = (head["height"], head["width"], 3)
        if self.picture.shape != shape:
            self.picture = np.zeros(shape, np.uint8)
        self.blocks, size = len(head["blocks"]), head["block"]
        if not self.blocks:
            return
        with Image.open(io.BytesIO(png)) as image:
            sheet = np.asarray(image.convert("RGB"))
        across, columns = sheet.shape[1] // size, -(-shape[1] // size)
        for i, block in enumerate(head["blocks"]):
            down, right = i // across * size, i % across * size
            top, left = block // columns * size, block % columns * size
            room = self.picture[top : top + size, left : left + size]
            room[...] = sheet[down : down + room.shape[0], right : right + room.shape[1]]


def drawn(controller: Controller, size: tuple[int, int], ratio: float = 1.0) -> np.ndarray:
    """Return the pixels of the whole window, drawn by `screen.draw`."""
    return screen.pixels(screen.draw(controller, size, ratio))
