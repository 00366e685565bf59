"""A web server in a thread, for tests of the servers for agents."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from jaxenvs.agents import serving


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an ASGI application while the `with` block runs; yield the server's address."""
    listening = serving.listen(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://{serving.HOST}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
