"""`jaxenvs mcp`: serve environments to language models by the Model Context Protocol."""

import base64
import contextlib
import functools
import importlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ..core.extras import require

require(["mcp"], "mcp")

import anyio  # noqa: E402
from mcp import types  # noqa: E402
from mcp.server import Server  # noqa: E402
from mcp.server.context import ServerRequestContext  # noqa: E402
from mcp.server.stdio import stdio_server  # noqa: E402

from .. import __version__  # noqa: E402
from ..commands.parser import Parser, UsageError, guarded, number  # noqa: E402
from . import tools  # noqa: E402
from .arguments import schema  # noqa: E402
from .games import Games  # noqa: E402
from .serving import HOST, PORT, listen, serve  # noqa: E402

SUMMARY = """Serve environments to language models by the Model Context Protocol (MCP).

By default the server speaks over its standard input and output: an MCP client starts this command.
With --http it serves many clients at http://127.0.0.1:PORT/mcp, only on this machine."""
EXAMPLES = ("mcp", "mcp --http --port 8000", "mcp --module my_envs")
INSTRUCTIONS = (
    "Reinforcement-learning environments to play. Find one with list_environments, read its rules, "
    "call reset, then act by the names of legal actions until the episode has ended. score tells "
    "the return and whether the task is accomplished."
)
THREADS = 40  # maximum number of tool calls that run at the same time
Context = ServerRequestContext[Games, Any]


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("mcp", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs mcp", SUMMARY, EXAMPLES)
    made.add_argument("--http", action="store_true", help="serve over HTTP on this machine")
    port = number(0, 65_535)
    made.add_argument(
        "--port", type=port, metavar="N", help=f"port of --http (default {PORT}; 0: any free)"
    )
    made.add_argument(
        "--module", nargs="+", default=[], metavar="NAME", help="modules that register more ids"
    )
    options = made.read(argv)
    if options.port is not None and not options.http:
        raise UsageError("--port is for --http; give both, or neither")
    for name in options.module:
        _import(name)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if options.http:
        listening = listen(PORT if options.port is None else options.port)
        # The argument `host` makes the app refuse requests whose header Host or Origin names
        # another machine, such as requests that a web page sends from the user's browser.
        app = make_server().streamable_http_app(host=HOST)
        serve(app, listening, "/mcp")
    else:
        # Use the operating system's default handling of Ctrl-C, which ends the process at once.
        # Python's handler would wait for the thread that reads standard input.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        anyio.run(_serve_stdio)
    return 0


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except (ImportError, TypeError, ValueError) as error:
        raise UsageError(f"--module {name} cannot be imported: {error}") from error


async def _serve_stdio() -> None:
    if sys.stdin.isatty():
        print("jaxenvs mcp: waiting for an MCP client on standard input", file=sys.stderr)
    server = make_server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def make_server(games: Games | None = None) -> Server[Games]:
    """Return an MCP server of the tools of `jaxenvs.agents.tools`.

    `games` stores the sessions. If `games` is None, the server makes a new `Games` each time it
    runs. Over standard input, the server runs once per connection, so each client has its own
    `Games`.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Server[Games]) -> AsyncIterator[Games]:
        yield Games() if games is None else games

    return Server(
        "jaxenvs",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_described(tool) for tool in tools.TOOLS.values()])


def _described(tool: tools.Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.only_reads, destructive_hint=False, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, description=tool.doc, input_schema=schema(tool.arguments), annotations=hints
    )


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Run a tool in a thread, so that the server answers other requests while JAX compiles."""
    run = functools.partial(tools.call, client(context), params.name, params.arguments or {})
    answer = await anyio.to_thread.run_sync(run, limiter=_threads())
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    if answer.png is not None:
        data = base64.b64encode(answer.png).decode("ascii")
        content.append(types.ImageContent(type="image", data=data, mime_type="image/png"))
    given = None if answer.data is None else dict(answer.data)
    return types.CallToolResult(content=content, structured_content=given, is_error=answer.failed)


@functools.cache
def _threads() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(THREADS)


def client(context: Context) -> tools.Client:
    """Return the client that sent a request.

    Over standard input, a client needs no name, because each connection has its own `Games`. Over
    HTTP, all clients share one `Games`, and the header `mcp-session-id` names a client that began
    with a handshake. Since version 2026-07-28 of the protocol, HTTP requests lack this header, so
    their client is unknown (None).
    """
    games = context.lifespan_context
    headers: Mapping[str, str] | None = getattr(context.request, "headers", None)
    if headers is None:
        return tools.Client(games)
    return tools.Client(games, headers.get("mcp-session-id"))
