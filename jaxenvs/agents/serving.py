"""Web servers that only clients on this machine can reach."""

import socket
import sys
from typing import Any

from ..commands.parser import UsageError

HOST = "127.0.0.1"
PORT = 8000  # default port


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine; 0 is any free port.

    Raises `UsageError` if the port cannot be used.
    """
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise UsageError(
            f"--port {port} cannot be used ({error.strerror}); choose another one"
        ) from error


def serve(app: Any, listening: socket.socket, path: str = "") -> None:
    """Serve an ASGI application until the process is interrupted; print its address first."""
    import uvicorn

    address = f"http://{HOST}:{listening.getsockname()[1]}{path}"
    print(f"serving {address}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
