"""Arguments and error handling that the commands `play`, `watch` and `solve` have in common."""

import argparse
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.commands import parser as commands
from jaxenvs.commands.parser import Parser, UsageError, check_outputs, number
from jaxenvs.core.extras import MissingExtraError

from . import animation, outputs, replay
from .outputs import is_headless

# Module that serves the web pages of the option --web. It is imported only when the option is
# given, because the module itself imports this package.
PAGES = "jaxenvs.render.web.pages"
# Option -> file suffixes that the option accepts. A file name without suffix gets the first format.
SUFFIXES = {
    "gif": (*animation.FORMATS, animation.STILL),
    "html": (".html", ".htm"),
    "screenshot": (".png",),
}


def parser(command: str, summary: str, examples: Sequence[str]) -> Parser:
    """Return a parser with the arguments that `play` and `watch` have in common."""
    made = Parser(f"jaxenvs {command}", summary, examples)
    add = made.add_argument
    add_seed(made, 0, "random seed of levels and outcomes")
    made.add_fields("view_size=5")
    made.add_levels()
    add_drawing(made, "an animation instead of opening a window", "one picture", "a replay")
    add("--fps", type=number(1, 60), default=8, metavar="N", help="steps per second (default 8)")
    add(
        "--frames",
        type=number(1, 1_000_000),
        metavar="N",
        help=f"states in the animation (default {outputs.GIF_FRAMES}) or the replay (default "
        f"{replay.FRAMES}); for a single picture the steps before it (default 0)",
    )
    oracle = "show the fewest steps to success and the next actions of a shortest plan"
    add("--oracle", action="store_true", help=oracle)
    add("--panel", action="store_true", help="with --gif: draw the whole window, not only boards")
    add("--screenshot", metavar="FILE", help="draw the window as a PNG instead of opening it")
    add_web(made)
    return made


def add_web(made: Parser, resumed: bool = True) -> None:
    """Add the options --web and --port, and if `resumed` also --resume."""
    add = made.add_argument
    add("--web", action="store_true", help="show it in a browser instead of a window")
    port = "with --web: port on this machine (default 8700, or a free one)"
    add("--port", type=number(1, 65_535), metavar="N", help=port)
    if resumed:
        resume = "with --web: continue the session of the same command that was ended or killed"
        add("--resume", action="store_true", help=resume)
    else:
        made.set_defaults(resume=False)


def check_web(options: argparse.Namespace, *others: str) -> None:
    """Raise `UsageError` for options that --web excludes, or for options that need --web.

    others: further options that --web excludes, for this command.
    """
    if not options.web:
        for name in ("port", "resume"):
            if getattr(options, name):
                raise UsageError(f"--{name} needs --web")
        return
    for name in ("gif", "html", "screenshot", "tile_size", *others):
        if getattr(options, name) not in (None, False):
            flag = name.replace("_", "-")
            raise UsageError(f"--web shows pages of any size in a browser; remove --{flag}")


def pages() -> Any:
    """Import and return the module that serves --web."""
    return importlib.import_module(PAGES)


def add_seed(made: Parser, default: int | None, what: str, flag: str = "--seed") -> None:
    """Add the option `flag` for a seed, with the help text `what`."""
    made.add_argument(flag, type=number(0, 2**31 - 1), default=default, metavar="N", help=what)


def add_drawing(made: Parser, animated: str, picture: str, replay: str) -> None:
    """Add --tile-size, --gif and --html.

    animated, picture: contents of an animation and of a PNG, in words for the help of --gif.
    replay: contents of the HTML file, in words for the help of --html.
    """
    add = made.add_argument
    size = "side of a cell (default: fits the window or the file)"
    add("--tile-size", type=number(4, 128), metavar="PIXELS", help=size)
    kinds = f"write {animated} (.gif, .mp4 or .webm) or {picture} (.png)"
    add("--gif", metavar="FILE", help=kinds)
    add("--html", metavar="FILE", help=f"write {replay} for the browser as one HTML file")


def checked_outputs(options: argparse.Namespace) -> bool:
    """Check the options that name files; return True if an option requests a file.

    If a file is requested, the command opens no window. Raises `UsageError` if an option is wrong
    or its file cannot be written.
    """
    check_outputs({f"--{name}": getattr(options, name) for name in SUFFIXES})
    for name in SUFFIXES:
        if given := getattr(options, name):
            _check_file(name, given)
    if options.frames is not None and not is_headless(options):
        raise UsageError("--frames needs a file: add --gif FILE, --html FILE or --screenshot FILE")
    if options.panel and not options.gif:
        raise UsageError("--panel needs a file: add --gif FILE")
    shows_panel = options.screenshot or options.panel
    if getattr(options, "oracle", False) and is_headless(options) and not shows_panel:
        raise UsageError(
            "--oracle shows its plan in the panel: add --panel, or draw --screenshot FILE"
        )
    return is_headless(options)


def _check_file(name: str, given: str) -> None:
    if Path(given).suffix.lower() not in ("", *SUFFIXES[name]):
        allowed = " or ".join(SUFFIXES[name])
        raise UsageError(f"--{name} {given}: the name must end in {allowed}")
    if name == "gif":
        animation.suffix(given)  # raises if a package for videos is missing


def guarded(command: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and return its exit code; for a user error, print a sentence and return 2."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

    def explained(argv: list[str]) -> int:
        try:
            return run(argv)
        except BrokenPipeError:  # stdout's reader has exited; `cli.program` handles the error
            raise
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in ("pygame", "PIL"):
                raise
            raise MissingExtraError([package], "play") from error
        except OSError as error:
            raise UsageError(str(error)) from error

    return commands.guarded(command, explained, argv)
