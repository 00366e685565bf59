"""What `play`, `watch` and `solve` share: their arguments and their errors."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from jaxenvs.commands import parser as commands
from jaxenvs.commands.parser import Parser, UsageError, number
from jaxenvs.core.extras import MissingExtraError
from jaxenvs.core.files import target

from . import film, outputs, replay
from .outputs import is_headless

# What each option writes, by the suffix of the file; without one, the first.
SUFFIXES = {"gif": (*film.FILMS, film.STILL), "html": (".html", ".htm"), "screenshot": (".png",)}


def parser(command: str, summary: str, examples: Sequence[str]) -> Parser:
    """Return a parser with the arguments that `play` and `watch` share."""
    made = Parser(f"jaxenvs {command}", summary, examples)
    add = made.add_argument
    add_seed(made, 0, "random seed of levels and outcomes")
    made.add_fields("view_size=5")
    add_drawing(made, "a film instead of opening a window", "one picture", "a replay")
    add("--fps", type=number(1, 60), default=8, metavar="N", help="steps per second (default 8)")
    add(
        "--frames",
        type=number(1, 1_000_000),
        metavar="N",
        help=f"moments of the film, one for each step (default {outputs.GIF_FRAMES}), or of the "
        f"replay (default {replay.FRAMES}); for a single picture the steps before it (default 0)",
    )
    add("--panel", action="store_true", help="draw the whole window into the film")
    add("--screenshot", metavar="FILE", help="draw the window as a PNG instead of opening it")
    return made


def add_seed(made: Parser, default: int | None, what: str, flag: str = "--seed") -> None:
    """Add an option that takes a seed."""
    made.add_argument(flag, type=number(0, 2**31 - 1), default=default, metavar="N", help=what)


def add_drawing(made: Parser, film: str, picture: str, replay: str) -> None:
    """Add the files that all three can draw, each with what it shows."""
    add = made.add_argument
    add("--tile-size", type=number(4, 128), metavar="PIXELS", help="size of a cell (default: fits)")
    kinds = f"draw {film}: .gif, .mp4 or .webm; or {picture}: .png"
    add("--gif", metavar="FILE", help=kinds)
    add("--html", metavar="FILE", help=f"write {replay} for the browser, one file with all")


def checked_outputs(options: argparse.Namespace) -> bool:
    """Return whether to draw files instead of a window.

    Raises `UsageError` where a file cannot be written: better now than after the drawing.
    """
    for name in SUFFIXES:
        _check_file(name, getattr(options, name))
    if options.frames is not None and not is_headless(options):
        raise UsageError("--frames needs --gif FILE, --html FILE or --screenshot FILE")
    if options.panel and not options.gif:
        raise UsageError("--panel needs --gif FILE")
    return is_headless(options)


def _check_file(name: str, given: str | None) -> None:
    if given is None:
        return
    if Path(given).is_dir() or not Path(given).name:
        raise UsageError(f"--{name} {given!r}: name a file, this is a folder")
    try:
        path = target(given)
    except OSError as error:
        raise UsageError(f"--{name}: {error}") from error
    if Path(given).suffix.lower() not in ("", *SUFFIXES[name]):
        allowed = " or ".join(SUFFIXES[name])
        raise UsageError(f"--{name} {given}: it can write {allowed}; end the name in one of these")
    if name == "gif":
        film.suffix(given)  # says what a video lacks here
    if not path.parent.is_dir():
        raise UsageError(f"--{name} {given}: there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--{name} {given}: the folder {path.parent} cannot be written to")


def guarded(command: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command; what the caller can fix becomes one sentence and exit code 2."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

    def explained(argv: list[str]) -> int:
        try:
            return run(argv)
        except BrokenPipeError:  # whoever read what was printed is gone: `cli.program` handles it
            raise
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in ("pygame", "PIL"):
                raise
            raise MissingExtraError([package], "play") from error
        except OSError as error:
            raise UsageError(str(error)) from error

    return commands.guarded(command, explained, argv)
