"""The viewer as a Jupyter widget; all views (outputs) of a widget show the same session.

Views and Python exchange Jupyter's custom messages. A view sends its name and a message of
`protocol.py`. Python sends updates (changed parts of the picture) as buffers. The widget has its
own event loop, in a separate thread, because the kernel's event loop is blocked while a cell runs.
"""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ..session import Session
from ..viewer import Viewer
from .clients import Client
from .inputs import receive
from .show import Show

LEAVE = '["leave"]'  # message that a view sends when it is removed
MAX_VIEWS = 64  # maximum number of views; one more view replaces the oldest view
# Limit on the bytes sent per second, on average. Jupyter drops messages beyond 1 MB per second.
RATE = 600_000
CLOSING_TAKES = 60.0  # maximum time to wait for a file being written, in seconds
STAYS = "close() of the widget ends the session"
CLOSED = "The session was closed."
PYTHON_ENDS = "cannot schedule new futures"  # text of a thread pool's error while Python exits


class PlayerWidget(anywidget.AnyWidget):
    """The viewer of a session in a notebook; `close()` ends the session.

    `session` is the displayed session, and `session.now` the displayed time step.
    """

    height = traitlets.Int().tag(sync=True)  # height of each output, in CSS pixels

    def __init__(self, viewer: Viewer, height: int) -> None:
        super().__init__(_esm=_module(), height=height)
        self.session: Session = viewer.controller.session
        self._title = viewer.controller.title
        self._show = Show(lambda: viewer, stays=STAYS)
        self._views: dict[str, Client] = {}
        self._next = 0.0  # time at which the next update may be sent, in seconds
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._show.run())
        self._thread = threading.Thread(target=self._run, name="jaxenvs widget", daemon=True)
        self.on_msg(self._hear)
        self._thread.start()

    def __repr__(self) -> str:
        return f"PlayerWidget({self._title!r})"

    def close(self) -> None:
        """End the session and remove its pictures from the notebook."""
        self._soon(self._task.cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        super().close()

    def _soon(self, act: Callable[..., Any], *given: Any) -> None:
        """Call a function in the session's thread, unless the session has ended."""
        with contextlib.suppress(RuntimeError):  # raised if the loop is closed
            self._loop.call_soon_threadsafe(act, *given)

    def _run(self) -> None:
        """Run the session's task in this thread until it is cancelled, and close the session."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            self.send({"ended": CLOSED})
        except Exception as error:
            if PYTHON_ENDS in str(error):
                return
            self.send({"ended": f"The session has ended: {error!r}"})
            raise
        finally:
            self._loop.run_until_complete(self._show.close(CLOSING_TAKES))
            self._loop.close()

    def _hear(self, widget: Any, content: Any, buffers: Any) -> None:
        """Pass a message of a view to the session's thread; Jupyter may call this in any thread."""
        name, message = content.get("view"), content.get("message")
        if isinstance(name, str) and isinstance(message, str):
            self._soon(self._receive, name, message)

    def _receive(self, name: str, message: str) -> None:
        if message == LEAVE:
            self._forget(name)
            return
        if name not in self._views:
            if len(self._views) >= MAX_VIEWS:
                self._forget(next(iter(self._views)))
            self._views[name] = Client(functools.partial(self._send_update, name))
            self._show.add(self._views[name])
        receive(self._show, self._views[name], message)

    def _forget(self, name: str) -> None:
        if name in self._views:
            self._show.remove(self._views.pop(name))

    async def _send_update(self, name: str, update: bytes) -> None:
        """Send an update to a view as soon as `RATE` allows it."""
        await asyncio.sleep(self._next - time.monotonic())
        self._next = max(self._next, time.monotonic()) + len(update) / RATE
        self.send({"view": name}, [update])


@functools.cache
def _module() -> str:
    """Return the JavaScript module of the widget, with the viewer and its style sheet in it."""
    folder = importlib.resources.files("jaxenvs.render.web")
    script, style, frame = (
        folder.joinpath(name).read_text("utf-8")
        for name in ("viewer.js", "viewer.css", "widget.js")
    )
    return f"{script}\nconst STYLE = {json.dumps(style)};\n{frame}"
