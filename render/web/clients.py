"""One page that shows the session: its size, the picture it has, and limits on its messages."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np

from ..shown import Pointer
from . import protocol

# Messages per second that a page may send, and how many it may send at once.
RATE, BURST = 250.0, 500.0
GONE_AFTER = 20.0  # seconds without an answer before a page counts as gone
MOST_IGNORED = 1000  # malformed messages and messages beyond the rate before a page is closed


class Frame(NamedTuple):
    """A picture of the viewer, uint8 (height, width, 3), with its pixels per CSS pixel."""

    picture: np.ndarray
    ratio: float


class Client:
    """A page. At most one update is on its way to it, and it never gets older pictures later."""

    def __init__(self, send: Callable[[bytes], Awaitable[Any]]) -> None:
        self.pointer = Pointer()
        self.size: tuple[int, int] | None = None  # requested size; None until the page sends it
        self.ratio = 1.0
        self.frame: Frame | None = None  # the picture that the page shows
        self.version = -1  # version of the session when this picture was drawn
        self.told: dict[str, Any] = {}  # last value of each entry of the updates' heads
        self.wants_words = False
        self.ignored = 0  # number of messages that were ignored
        self.bytes = self.updates = 0  # sent so far
        self._send, self._task = send, None
        self._sent = self._shown = 0  # numbers of the last update sent, and drawn by the page
        self._sent_at = 0.0  # when the last update was sent
        self._budget, self._counted = BURST, time.monotonic()

    @property
    def ready(self) -> bool:
        """True if the page has drawn the last update and may get another one."""
        return self.size is not None and self._shown >= self._sent

    @property
    def is_there(self) -> bool:
        """False if the page has not answered for long; it may come back."""
        waits = self._shown < self._sent
        return not waits or time.monotonic() - self._sent_at < GONE_AFTER

    def accepts(self) -> bool:
        """Count a message; return whether it is within the rate."""
        now = time.monotonic()
        self._budget = min(BURST, self._budget + RATE * (now - self._counted))
        self._counted = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True

    def drawn(self, number: int) -> None:
        """Note that the page has drawn the update with this number."""
        if number <= self._sent:
            self._shown = max(self._shown, number)

    def send(self, facts: dict[str, Any], shape: dict[str, Any], png: bytes) -> None:
        """Start to send an update: the facts that the page lacks, and blocks of the picture.

        shape: entries of the head that describe the blocks; {} if there is no picture.
        """
        new = {name: value for name, value in facts.items() if self.told.get(name) != value}
        self.told.update(new)
        self._sent, self._sent_at = self._sent + 1, time.monotonic()
        update = protocol.update({"number": self._sent, **shape, **new}, png)
        self.updates, self.bytes = self.updates + 1, self.bytes + len(update)
        self._task = asyncio.ensure_future(self._deliver(update))

    async def _deliver(self, update: bytes) -> None:
        # If the page has gone, its handler removes it.
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._send(update)
