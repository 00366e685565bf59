"""`--web`: serve the viewer of a session to browsers until Ctrl-C.

The commands of the session are written to a journal, from which `--resume` restores the session.
"""

import argparse
import json
import re
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxenvs import __version__
from jaxenvs.commands.parser import UsageError
from jaxenvs.core import extras
from jaxenvs.core.typed import program

from ..controls import Controller
from ..shown import Shown
from ..viewer import Viewer
from . import journal

# Options that do not change the history of a session, so `_identity` ignores them.
IRRELEVANT = ("fps", "port", "resume")
NO_JOURNAL = "Without a private cache folder (JAXENVS_CACHE) a killed server cannot be resumed."


def require() -> None:
    """Raise `MissingExtraError` if a package that the pages need is missing."""
    extras.require(["aiohttp"], "web")
    extras.require(["pygame"], "play")


def open_pages(
    prepare: Callable[[], Controller | Shown],
    command: str,
    argv: Sequence[str],
    options: argparse.Namespace,
) -> int:
    """Serve a session to browsers until Ctrl-C; return the exit code.

    `prepare` runs after the server has started. It returns the controller of the session, or a
    viewer such as the level editor; its exceptions propagate. `argv` are the command's arguments.
    The server prints them in the command that resumes the session. No journal is written if `argv`
    is empty.
    """
    require()
    from . import server
    from .show import Show

    again = _typed(command, argv) if argv and journal.folder() else ""
    identity = _identity(command, options)
    earlier = _earlier(identity) if options.resume else None
    try:
        door = server.opened(options.port, *_listened(earlier, server.PORT))
    except OSError as error:
        raise UsageError(_refused(options.port, error)) from error
    about = {"command": again, "port": door.port, "token": door.token}
    book = _journal(identity, earlier, about) if again else None

    def announce() -> None:
        _announce(door.address, door.port, again if argv else None)

    try:
        server.run(lambda: Show(lambda: _viewer(prepare, earlier, book), again), door, announce)
    finally:
        if book is not None:
            book.close()
    print(f"The server has ended. To go on: {again}" if again else "The server has ended.")
    return 0


def _viewer(
    prepare: Callable[[], Controller | Shown],
    earlier: journal.Earlier | None,
    book: journal.Journal | None,
) -> Shown:
    """Create the viewer of the session, and write its commands to the journal `book` from now on.

    First repeat the commands of the journal `earlier`, if there is one.
    """
    found = prepare()
    made = Viewer(found) if isinstance(found, Controller) else found
    made.replay(earlier.commands if earlier else ())
    if book is not None:
        made.keep(_noting(made, book))
    return made


def _journal(
    identity: str, earlier: journal.Earlier | None, about: dict[str, Any]
) -> journal.Journal:
    """Continue the journal `earlier`; if it is None, begin a new one in the folder of journals."""
    if earlier is not None:
        return journal.Journal(earlier.path, about, earlier.length)
    place = journal.folder()
    assert place is not None
    return journal.Journal(journal.new(place, identity), about)


def _noting(viewer: Shown, book: journal.Journal) -> Callable[..., None]:
    """Return a function that writes a command to the journal, and displays the journal's errors."""

    def note(*command: Any) -> None:
        was = book.problem
        if command[0] == journal.OPENED:
            book.restart()
        book.write(*command)
        if book.problem != was:
            viewer.tell(f"{book.problem}; later commands cannot be resumed")

    return note


def _announce(address: str, port: int, again: str | None) -> None:
    """Print the address of the page, and how to resume the session.

    again: command that resumes the session. For "", print that the session cannot be resumed; for
        None, print nothing about resuming.
    """
    print(f"Open {address}")
    print(f"From another machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}")
    if again is not None:
        print(f"To go on after the end of the server: {again}" if again else NO_JOURNAL)
    print("Ctrl-C ends the server.", flush=True)


def _earlier(identity: str) -> journal.Earlier:
    """Return the latest journal of session `identity`; raise `UsageError` if there is none."""
    place = journal.folder()
    if place is None:
        raise UsageError("--resume needs a private cache folder; JAXENVS_CACHE can name one")
    found = journal.latest(place, identity)
    if found is None:
        raise UsageError(
            f"--resume: {place} has no journal of this command that no server is writing; "
            "start without --resume"
        )
    return found


def _listened(earlier: journal.Earlier | None, port: int) -> tuple[int, str]:
    """Return the port and the token of the server that wrote the journal `earlier`.

    Pages that are still open reconnect to a new server with the same port and token.
    Returns `port` and "" if `earlier` is None, or if its first line has no valid port and token.
    """
    about = {} if earlier is None else earlier.about
    number, token = about.get("port"), about.get("token")
    is_port = isinstance(number, int) and number is not True and 0 < number < 2**16
    is_token = isinstance(token, str) and re.fullmatch(r"[A-Za-z0-9_-]{31,}", token)
    return (number, token) if is_port and is_token else (port, "")  # type: ignore[return-value]


def _refused(port: int | None, error: OSError) -> str:
    named = f"port {port} cannot be used" if port else "no port can be used"
    return f"{named}: {error.strerror}; name another one with --port N, or leave --port out"


def _identity(command: str, options: argparse.Namespace) -> str:
    """Return JSON text that identifies a session: the version, the command and its options."""
    given = {name: value for name, value in vars(options).items() if name not in IRRELEVANT}
    target = given.get("target")
    if target and Path(target).is_dir():
        given["target"] = str(Path(target).resolve())
    return json.dumps([__version__, command, given], sort_keys=True, default=str)


def _typed(command: str, argv: Sequence[str]) -> str:
    """Return the command that resumes the session."""
    words = [word for word in argv if word != "--resume"]
    return f"{program()} {command} {shlex.join([*words, '--resume'])}"
