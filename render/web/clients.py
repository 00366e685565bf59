"""State of the server for one page: the page's size, its picture, and its rate of messages."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np

from ..shown import Pointer
from . import protocol

# Limits of a page's messages: RATE per second on average, and BURST at once after a pause.
RATE, BURST = 250.0, 500.0
GONE_AFTER = 20.0  # seconds until a page that does not draw an update is considered gone
MOST_IGNORED = 1000  # number of malformed or excess messages after which a page is disconnected


class Frame(NamedTuple):
    """A picture of the viewer, uint8 (height, width, 3), with its pixels per CSS pixel."""

    picture: np.ndarray
    ratio: float


class Client:
    """A page that shows the session.

    The server sends an update only after the page has drawn the previous one.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[Any]]) -> None:
        self.pointer = Pointer()
        self.size: tuple[int, int] | None = None  # requested size; None until the page sends it
        self.ratio = 1.0
        self.frame: Frame | None = None  # the picture that the page shows
        self.version = -1  # `Show.version` when `frame` was drawn
        self.sent_facts: dict[str, Any] = {}  # fact -> value that was last sent to the page
        self.wants_words = False
        self.ignored = 0  # number of malformed or excess messages
        self.bytes = self.updates = 0  # number of bytes and of updates sent so far
        self._send, self._task = send, None
        # Number of the last update that was sent, and of the last one that the page has drawn.
        self._sent = self._shown = 0
        self._sent_at = 0.0  # time at which the last update was sent
        self._budget, self._counted = BURST, time.monotonic()

    @property
    def ready(self) -> bool:
        """True if the page has drawn the last update and may get another one."""
        return self.size is not None and self._shown >= self._sent

    @property
    def is_there(self) -> bool:
        """False if the page has not drawn the latest update within `GONE_AFTER` seconds."""
        waits = self._shown < self._sent
        return not waits or time.monotonic() - self._sent_at < GONE_AFTER

    def accepts(self) -> bool:
        """Count a message of the page; return False if the page exceeds its message rate."""
        now = time.monotonic()
        self._budget = min(BURST, self._budget + RATE * (now - self._counted))
        self._counted = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True

    def drawn(self, number: int) -> None:
        """Record that the page has drawn update `number`."""
        if number <= self._sent:
            self._shown = max(self._shown, number)

    def send(self, facts: dict[str, Any], shape: dict[str, Any], png: bytes) -> None:
        """Start to send an update: the changed facts and the changed blocks of the picture.

        shape: entries of the head (the JSON part of the update) that describe the blocks; {} if
            there is no picture.
        """
        new = {name: value for name, value in facts.items() if self.sent_facts.get(name) != value}
        self.sent_facts.update(new)
        self._sent, self._sent_at = self._sent + 1, time.monotonic()
        update = protocol.update({"number": self._sent, **shape, **new}, png)
        self.updates, self.bytes = self.updates + 1, self.bytes + len(update)
        self._task = asyncio.ensure_future(self._deliver(update))

    async def _deliver(self, update: bytes) -> None:
        # Ignore the error of a closed page: the handler of the page's connection removes the page.
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._send(update)
