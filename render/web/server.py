"""The server of the viewer's page: HTTP and a websocket on this machine, guarded by a token."""

import asyncio
import contextlib
import hmac
import importlib.resources
import os
import secrets
import signal
import socket
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from aiohttp import WSCloseCode, WSMsgType, web

from . import protocol
from .clients import Client
from .inputs import receive
from .show import Show

HERE = "127.0.0.1"
PORT = 8700  # default port; if it is in use, the system chooses another one
NAMES = ("127.0.0.1", "localhost", "::1")  # host names by which a page may address the server
FILES = {  # URL path -> (file name, content type) of each static file that is served
    "/viewer.js": ("viewer.js", "text/javascript"),
    "/page.js": ("page.js", "text/javascript"),
    "/viewer.css": ("viewer.css", "text/css"),
    "/page.css": ("page.css", "text/css"),
}
MAX_CLIENTS = 64
ALIVE = 20.0  # seconds between pings that check whether a page is still connected
CLOSING_TAKES = 2.0  # seconds that pages may take to close when the server ends
SAVING_TAKES = 60.0  # maximum time to wait for a file being written, in seconds
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "jaxenvs",
}
NO_TOKEN = "Open the address that the terminal shows, with its token.\n"


class Door(NamedTuple):
    """Listening socket of the server, and the token that pages need."""

    socket: socket.socket
    token: str

    @property
    def port(self) -> int:
        """Port on which the server listens."""
        return self.socket.getsockname()[1]

    @property
    def address(self) -> str:
        """Address of the page, with the token."""
        return f"http://{HERE}:{self.port}/?token={self.token}"


def opened(port: int | None, preferred: int = PORT, token: str = "") -> Door:
    """Listen on a port of this machine; raise `OSError` if the port cannot be used.

    port: the port. If None, use the port `preferred`, or any free port if `preferred` is in use.
    token: the token that pages need; a random one if empty.
    """
    for number in [preferred, 0] if port is None else [port]:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":  # permit a port whose previous connections are still closing
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HERE, number))
            made.listen(128)
        except OSError:
            made.close()
            if number in (port, 0):
                raise
            continue
        return Door(made, token or secrets.token_urlsafe(32))
    raise AssertionError


def run(show: Callable[[], Show], door: Door, announce: Callable[[], None]) -> None:
    """Serve a session until Ctrl-C, SIGTERM or SIGHUP; call `announce` once pages can connect."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(show, door, announce))


async def start(show: Show, door: Door) -> web.AppRunner:
    """Start serving the session; return the runner, whose `cleanup()` stops the server."""
    made = web.Application(middlewares=[_guarded], client_max_size=protocol.MAX_BYTES)
    made.on_response_prepare.append(_add_headers)
    visitors = _Visitors(show, door.token)
    made.router.add_get("/", visitors.page)
    made.router.add_get("/session", visitors.session)
    made.router.add_get("/saved", visitors.saved)
    for address in FILES:
        made.router.add_get(address, _file)
    made.on_shutdown.append(visitors.close)
    runner = web.AppRunner(made, access_log=None, shutdown_timeout=CLOSING_TAKES)
    await runner.setup()
    await web.SockSite(runner, door.socket).start()
    return runner


async def _serve(make: Callable[[], Show], door: Door, announce: Callable[[], None]) -> None:
    show, ended = make(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) == signal.SIG_IGN:
            continue  # an ignored signal, such as SIGHUP under `nohup`, stays ignored
        # `add_signal_handler` raises an error on Windows, and outside the main thread.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, ended.set)
    runner = await start(show, door)
    announce()
    tasks = [asyncio.ensure_future(show.run()), asyncio.ensure_future(ended.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # raises the exception with which the session ended, if any
    finally:
        for task in tasks:
            task.cancel()
        await show.close(SAVING_TAKES)
        await runner.cleanup()


@web.middleware
async def _guarded(
    request: web.Request, handler: Callable[[web.Request], object]
) -> web.StreamResponse:
    """Refuse requests that another web site may have caused.

    A request of another site has a Host header that is not in `NAMES` (DNS rebinding), or the
    Origin header of that site.
    """
    if _host(f"//{request.headers.get('Host', '')}") not in NAMES:
        return web.Response(status=403, text="This server answers only to localhost.\n")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.headers['Host']}":
        return web.Response(status=403, text="This server answers only to its own pages.\n")
    return await handler(request)  # type: ignore[misc]


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def _file(request: web.Request) -> web.Response:
    name, kind = FILES[request.path]
    return _content(name, kind)


def _content(name: str, kind: str) -> web.Response:
    text = importlib.resources.files("jaxenvs.render.web").joinpath(name).read_text("utf-8")
    return web.Response(text=text, content_type=kind, charset="utf-8")


class _Visitors:
    """Handlers of the requests that need the token."""

    def __init__(self, show: Show, token: str) -> None:
        self._show, self._token = show, token.encode()
        self._sockets: set[web.WebSocketResponse] = set()

    def _is_known(self, request: web.Request) -> bool:
        given = request.query.get("token", "").encode("utf-8", "surrogatepass")
        return hmac.compare_digest(given, self._token)

    async def page(self, request: web.Request) -> web.Response:
        if not self._is_known(request):
            return web.Response(status=403, text=NO_TOKEN)
        return _content("page.html", "text/html")

    async def saved(self, request: web.Request) -> web.StreamResponse:
        """Send the GIF that was saved last."""
        if not self._is_known(request):
            return web.Response(status=403, text=NO_TOKEN)
        path = self._show.viewer and self._show.viewer.saved
        if not path or not path.is_file():
            return web.Response(status=404, text="Nothing was saved.\n")
        name = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"}
        return web.FileResponse(path, headers=name)

    async def session(self, request: web.Request) -> web.StreamResponse:
        """Send updates to a page, and handle the page's messages, until the websocket closes."""
        if not self._is_known(request) or "Origin" not in request.headers:
            return web.Response(status=403, text=NO_TOKEN)
        if len(self._sockets) >= MAX_CLIENTS:
            return web.Response(status=503, text=f"At most {MAX_CLIENTS} pages at a time.\n")
        made = web.WebSocketResponse(
            max_msg_size=protocol.MAX_BYTES, heartbeat=ALIVE, compress=False
        )
        await made.prepare(request)
        client = Client(made.send_bytes)
        self._sockets.add(made)
        self._show.add(client)
        try:
            async for message in made:
                text = message.data if message.type is WSMsgType.TEXT else ""
                if not receive(self._show, client, text):
                    words = b"too many messages, or malformed ones"
                    await made.close(code=WSCloseCode.POLICY_VIOLATION, message=words)
        finally:
            self._sockets.discard(made)
            self._show.remove(client)
        return made

    async def close(self, application: Any) -> None:
        """Close the websockets of all pages, with the reason that the server has ended."""
        closing = [
            made.close(code=WSCloseCode.GOING_AWAY, message=b"the server has ended")
            for made in self._sockets
        ]
        if closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*closing), CLOSING_TAKES)
