"""`jaxenvs openenv ID`: serve an environment with OpenEnv's interface."""

import logging

from ..commands.parser import Parser, guarded, make_env, number
from ..core.typed import program
from .episode import Episode
from .serving import PORT, listen, serve

SUMMARY = """Serve an environment with OpenEnv's interface, only on this machine.

Each WebSocket connection plays its own episode. Actions are names, observations are words."""
EXAMPLES = (
    "openenv Grid-DoorKey-5x5-v0",
    "openenv BabyAI-GoToLocal-v0 --port 8001",
)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for the error that OpenEnv logs when a client leaves, True for other records.

    openenv-core 0.3.0 logs this error as `WebSocketDisconnect`.
    """
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "WebSocketDisconnect"


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("openenv", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs openenv", SUMMARY, EXAMPLES)
    made.add_argument("id", metavar="ID", help=f"an id listed by `{program()} list`, or an alias")
    made.add_argument(
        "--port",
        type=number(0, 65_535),
        default=PORT,
        metavar="N",
        help=f"port (default {PORT}; 0: any free port)",
    )
    made.add_fields("size=6")
    options = made.read(argv)
    env = make_env(options.id, options.fields, options.params)
    from .openenv import make_app  # imported late, so that --help works without the package

    Episode(env, 0, options.id)  # raises before the server starts if the actions have no names
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    serve(make_app(env, options.id), listen(options.port))
    return 0
