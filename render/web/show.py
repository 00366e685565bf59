"""`Show` runs the commands of a session, lets its time pass, and draws its picture for each page.

One background thread does everything that can take long: it creates the session, compiles, steps
and draws. The event loop only sends and receives messages.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jaxenvs.core import background

from .. import screen
from ..shown import Shown
from . import diffs
from .clients import Client, Frame

EVERY = 1 / 60  # shortest time between two pictures, in seconds
LONG = 0.15  # duration of a job, in seconds, after which pages show that the server is busy
MAX_QUEUED = 200  # maximum number of commands queued while a job runs
WORDS_EVERY = 1.0  # minimum time between two descriptions in words, in seconds
STAYS = "close the page, or press Ctrl-C in the terminal to end the server"  # notice after Esc
Command = Callable[[Shown], None]
# A client, followed by the arguments with which its method `send` is to be called.
Update = tuple[Client, dict[str, Any], dict[str, Any], bytes]


class Show:
    """The session of a server, and the pages that show it.

    The session's time passes only while a page is open. `prepare` creates the viewer, in the
    background thread. `resume` is the shell command that resumes the session after the server has
    ended; "" if there is none. `stays` is the notice shown after Esc, which cannot end the session.
    """

    def __init__(self, prepare: Callable[[], Shown], resume: str = "", stays: str = STAYS) -> None:
        self.clients: set[Client] = set()
        self.viewer: Shown | None = None  # viewer of the session; None until `prepare` has returned
        self.busy = ""  # "compiling" or "saving" while a long job runs
        self.version = 0  # number of changes so far that may alter the picture
        self._prepare, self._resume, self._stays = prepare, resume, stays
        self._queued: list[Command] = []
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, background.NAME)
        # Latest description in words; value of `version` and time at which it was made.
        self._words = ("", -1, 0.0)

    def queue(self, command: Command) -> None:
        """Queue a command; drop it if `MAX_QUEUED` commands are waiting."""
        if len(self._queued) < MAX_QUEUED:
            self._queued.append(command)
        self.wake()

    def wake(self) -> None:
        """Wake up `run`, for example after a page was opened or resized, or has drawn an update."""
        self._wake.set()

    def add(self, client: Client) -> None:
        """Add a page."""
        self.clients.add(client)
        self.wake()

    def remove(self, client: Client) -> None:
        """Remove a page, and tell the viewer that the page's mouse has left."""
        self.clients.discard(client)
        self.queue(lambda viewer: viewer.leave())

    async def run(self) -> None:
        """Show the session until the task is cancelled. Exceptions of `prepare` propagate."""
        self.viewer = viewer = await self._job(self._prepare)
        warm, began = False, time.monotonic()
        while True:
            self._wake.clear()
            due = [client for client in self.clients if client.ready]
            is_watched = any(client.is_there for client in self.clients)
            moves = is_watched and viewer.goes_on
            if self._queued or moves or any(map(self._is_stale, due)):
                commands, self._queued = self._queued, []
                now = time.monotonic()
                seconds, began = (now - began if is_watched else 0.0), now
                job = functools.partial(self._go_on, viewer, commands, seconds, due)
                for client, *update in await self._job(job):
                    client.send(*update)
                await asyncio.sleep(max(0.0, began + EVERY - time.monotonic()))
            elif not warm:  # idle: compile the step function, before it is needed
                warm = await self._job(viewer.warm) is None
            else:
                await self._pause()
                began = time.monotonic()

    async def close(self, patience: float) -> None:
        """End the background thread; wait for a file being written, but not for a compilation."""
        if self.viewer is not None and self.viewer.is_saving:
            done = asyncio.wrap_future(self._pool.submit(lambda: None))
            await asyncio.wait([done], timeout=patience)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _pause(self) -> None:
        """Wait until `wake` is called, or until a description in words is due."""
        wants_words = any(client.wants_words for client in self.clients)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), WORDS_EVERY if wants_words else None)

    async def _job(self, job: Callable[[], Any]) -> Any:
        """Run a job in the background thread; notify the pages if the job takes long."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, job)
        while not (await asyncio.wait([running], timeout=LONG))[0]:
            is_saving = self.viewer is not None and self.viewer.is_saving
            self.busy = "saving" if is_saving else "compiling"
            for client in self.clients:
                if client.ready and client.sent_facts.get("busy") != self.busy:
                    client.send({"busy": self.busy}, {}, b"")
        self.busy = ""
        return running.result()

    def _is_stale(self, client: Client) -> bool:
        """Return whether a page needs an update, such as a new picture or a new description."""
        frame = client.frame
        if frame is None or client.version != self.version:
            return True
        if _size(frame) != (client.size, client.ratio) or client.sent_facts.get("busy"):
            return True
        return client.wants_words and self._owes_words()

    def _owes_words(self) -> bool:
        _, version, when = self._words
        return version != self.version and time.monotonic() - when >= WORDS_EVERY

    # Methods that run in the background thread.

    def _go_on(
        self, viewer: Shown, commands: Iterable[Command], seconds: float, due: list[Client]
    ) -> list[Update]:
        """Run commands, let time pass, and return the updates of the pages that are `due`."""
        for command in commands:
            command(viewer)
            self.version += 1
            if not viewer.is_open:  # Esc on one page must not end the session of the other pages
                viewer.stay(self._stays)
        if viewer.tick(seconds):
            self.version += 1
        stale = [client for client in due if self._is_stale(client)]
        if any(client.wants_words for client in stale) and self._owes_words():
            self._words = (viewer.described(), self.version, time.monotonic())
        return self._updates(viewer, stale)

    def _updates(self, viewer: Shown, clients: Iterable[Client]) -> list[Update]:
        """Return an update for each client; clients with equal picture sizes share a drawing."""
        facts = {"busy": "", "resume": self._resume, **viewer.about()}
        draw, encode = functools.cache(_draw), functools.cache(_encoded)
        updates = []
        for client in clients:
            assert client.size is not None
            frame = draw(viewer, client.size, client.ratio)
            shape, png = encode(_Same(client.frame), _Same(frame))
            client.frame, client.version = frame, self.version
            words = {"words": self._words[0]} if client.wants_words else {}
            updates.append((client, {**facts, **words}, shape, png))
        return updates


class _Same:
    """Dictionary key that compares frames by identity, not by their pixels."""

    def __init__(self, frame: Frame | None) -> None:
        self.frame = frame

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.frame is other.frame

    def __hash__(self) -> int:
        return id(self.frame)


def _size(frame: Frame) -> tuple[tuple[int, int], float]:
    return (frame.picture.shape[1], frame.picture.shape[0]), frame.ratio


def _draw(viewer: Shown, size: tuple[int, int], ratio: float) -> Frame:
    return Frame(screen.pixels(viewer.draw(size, ratio)), ratio)


def _encoded(before: _Same, after: _Same) -> tuple[dict[str, Any], bytes]:
    """Return what changed between two pictures, for the update of a page.

    The result is a pair: entries of the update's head (size of the picture, indices of its changed
    blocks), and a PNG of these blocks.
    """
    assert after.frame is not None
    old, picture = before.frame and before.frame.picture, after.frame.picture
    numbers = diffs.changed(old, picture)
    height, width, _ = picture.shape
    shape = {"width": width, "height": height, "block": diffs.BLOCK, "blocks": numbers.tolist()}
    return shape, diffs.encoded(picture, numbers)
