"""Tests of `jaxenvs mcp` with the clients of the protocol's SDK: in memory, by pipe, over HTTP."""

import base64
import contextlib
import http.client
import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from doorkey_reader import Reader
from listening import served
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult
from PIL import Image

import jaxenvs
from jaxenvs.agents import mcp, serving, tools
from jaxenvs.agents.episode import Episode
from jaxenvs.commands import table

GROUP = "agents"  # tests of this group share a worker, which compiles their games once
ID, DOOR = "Grid-Empty-5x5-v0", "Grid-DoorKey-5x5-v0"
# Client modes: `legacy` uses the protocol with a handshake, `auto` the protocol of 2026-07-28,
# which has no connections.
MODES = ("legacy", "auto")
NAMES = ("left", "right", "forward")


async def ask(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """Call a tool that must succeed, and return its result."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result


async def solved(client: Client, seed: int) -> dict[str, Any]:
    """Solve DoorKey by reading the texts; return the data of `score`."""
    reader, result = Reader(), await ask(client, "reset", environment=DOOR, seed=seed)
    session = result.structured_content["session"]
    while not result.structured_content["over"]:
        action = reader.next_action(result.content[0].text)
        result = await ask(client, "act", actions=[action], session=session)
    return (await ask(client, "score", session=session)).structured_content


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_listed_and_a_reader_solves_doorkey(mode, as_a_user):
    async def run() -> None:
        async with Client(mcp.make_server(), mode=mode) as client:
            found = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert [*found] == [*tools.TOOLS]
            assert found["act"].input_schema["required"] == ["actions"]
            for tool in found.values():
                assert tool.description.endswith(".")
                arguments = tool.input_schema["properties"].values()
                assert all(argument["description"] for argument in arguments)
            score = await solved(client, 7)
            assert score["success"] and score["return"] > 0.8

    anyio.run(run)


@pytest.mark.parametrize("mode", MODES)
def test_undo_pictures_and_errors(mode, as_a_user):
    async def run() -> None:
        async with Client(mcp.make_server(), mode=mode) as client:
            first = await ask(client, "reset", environment=ID)
            await ask(client, "act", actions=["forward", "right"])
            back = await ask(client, "undo", steps=2)
            assert first.content[0].text.endswith(back.content[0].text)
            picture = (await ask(client, "look")).content[1]
            assert picture.mime_type == "image/png"
            image = Image.open(io.BytesIO(base64.b64decode(picture.data)))
            assert min(image.size) > 100
            wrong = await client.call_tool("reset", {"environment": "Grid-Emty-5x5-v0"})
            assert wrong.is_error and "did you mean" in wrong.content[0].text
            wrong = await client.call_tool("act", {"actions": ["jump"]})
            assert wrong.is_error and "There is no action 'jump'." in wrong.content[0].text
            wrong = await client.call_tool("play", {})
            assert wrong.is_error and "the tools are" in wrong.content[0].text

    anyio.run(run)


def test_connections_in_memory_have_their_own_sessions(as_a_user):
    async def run() -> None:
        async with Client(mcp.make_server()) as one, Client(mcp.make_server()) as two:
            session = (await ask(one, "reset", environment=ID)).structured_content["session"]
            wrong = await two.call_tool("observe", {"session": session})
            assert wrong.is_error and "is not open" in wrong.content[0].text

    anyio.run(run)


def test_the_command_speaks_over_a_pipe():
    """The server's process writes nothing but the protocol to its standard output."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "jaxenvs", "mcp"],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAXENVS_CACHE": "off"},
    )

    async def run() -> None:
        async with Client(stdio_client(server)) as client:
            score = await solved(client, 1)
            assert score["success"]

    anyio.run(run)


@pytest.fixture
def address(as_a_user) -> Iterator[str]:
    """Serve over HTTP in a thread; return the address."""
    with served(mcp.make_server().streamable_http_app(host=serving.HOST)) as found:
        yield f"{found}/mcp"


def drawn(seed: int) -> list[str]:
    """Return 40 names of actions, a pseudorandom sequence that depends only on the seed."""
    return [NAMES[pow(seed + 2, i, 101) % 3] for i in range(40)]


@pytest.mark.full
def test_twenty_clients_over_http_play_the_episodes_that_they_would_alone(address):
    found: dict[int, tuple[str, dict[str, Any]]] = {}

    async def play(seed: int) -> None:
        async with Client(address, mode=MODES[seed % 2]) as client:
            first = await ask(client, "reset", environment=DOOR, seed=seed)
            # Only clients without a connection must name their session.
            names = {"session": first.structured_content["session"]} if seed % 2 else {}
            for at in range(0, 40, 10):
                result = await ask(client, "act", actions=drawn(seed)[at : at + 10], **names)
            score = await ask(client, "score", **names)
            found[seed] = result.content[0].text, score.structured_content

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for seed in range(20):
                group.start_soon(play, seed)

    anyio.run(run)
    for seed, (text, score) in found.items():
        alone = Episode(jaxenvs.make(DOOR), seed)
        alone.act(drawn(seed))
        assert alone.describe() in text
        assert score["return"] == alone.score().total and score["steps"] == 40
    assert len(found) == 20


def test_over_http_a_session_is_reached_only_with_its_name(address):
    async def run() -> None:
        async with Client(address, mode="legacy") as one, Client(address, mode="legacy") as two:
            session = (await ask(one, "reset", environment=ID)).structured_content["session"]
            await ask(one, "observe")
            wrong = await two.call_tool("observe", {"session": session})
            assert wrong.is_error and "is not open" in wrong.content[0].text
        async with Client(address) as three:
            await ask(three, "reset", environment=ID)
            wrong = await three.call_tool("observe", {})
            assert wrong.is_error and "give `session`" in wrong.content[0].text

    anyio.run(run)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)],
)
def test_pages_of_other_sites_are_refused(headers, status, address):
    connection = http.client.HTTPConnection(address.removeprefix("http://").partition("/")[0])
    with contextlib.closing(connection):
        sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        connection.request("POST", "/mcp", b"{}", sent)
        assert connection.getresponse().status == status


def test_a_port_in_use_and_other_mistakes_are_one_sentence(capsys):
    with socket.create_server((serving.HOST, 0)) as taken:
        port = str(taken.getsockname()[1])
        assert mcp.main(["--http", "--port", port]) == 2
    assert mcp.main(["--port", "8000"]) == 2
    assert mcp.main(["--module", "no_such_module_of_a_test"]) == 2
    used, alone, module = capsys.readouterr().err.splitlines()
    assert f"--port {port} cannot be used" in used and "choose another one" in used
    assert "--port is for --http" in alone
    assert "--module no_such_module_of_a_test cannot be imported" in module


def test_without_the_package_the_error_names_the_extra():
    code = (
        "import sys\nsys.modules['mcp'] = None\n"
        "from jaxenvs import cli\nsys.exit(cli.main(['mcp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("jaxenvs mcp: this needs mcp, not installed here: run ")
    assert done.stderr.endswith('[mcp]"\n') and table.COMMANDS["mcp"].extra == "mcp"
