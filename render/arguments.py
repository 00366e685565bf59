"""What `play` and `watch` share: their arguments, their errors, and drawing to files."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from .. import fields
from ..core import registry
from ..core.checks import counted
from ..core.env import Env
from ..core.extras import MissingExtraError
from ..core.files import target
from ..info import number as number  # the commands meet it here
from . import boards, film, frames, gif, replay, turning
from .controls import Controller
from .session import Session

# What each option writes, by the suffix of the file; without one, the first.
SUFFIXES = {"gif": (*film.FILMS, film.STILL), "html": (".html", ".htm"), "screenshot": (".png",)}
GIF_FRAMES = 200
GIF_SIZE = 512  # pixels that the boards of a film may take on a side, unless told otherwise
SMOOTH = 50  # frames per second of a video that shows actions on their way
LONG = 2.0  # seconds after which drawing says how far it is


class UsageError(ValueError):
    """Something the caller can fix; the message says how."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`s: one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of leaving the process."""
        raise UsageError(f"{message}; `{self.prog} --help` lists the arguments")


def parser(command: str, summary: str, examples: str) -> Parser:
    """Return a parser with the arguments that `play` and `watch` share."""
    made = Parser(
        prog=f"jaxenvs {command}",
        description=summary,
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--seed", type=number(0, 2**31 - 1), default=0, metavar="N", help="of levels and chance")
    add_fields(made, "view_size=5")
    add("--tile-size", type=number(4, 128), metavar="PIXELS", help="of a cell (default: fits)")
    add("--fps", type=number(1, 60), default=8, metavar="N", help="steps per second (default 8)")
    add(
        "--gif",
        metavar="FILE",
        help="draw a film instead of opening a window: .gif, .mp4 or .webm; or one picture: .png",
    )
    add("--html", metavar="FILE", help="write a replay for the browser instead, one file with all")
    add(
        "--frames",
        type=number(1, 1_000_000),
        metavar="N",
        help=f"moments of the film, one for each step (default {GIF_FRAMES}), or of the replay "
        f"(default {replay.FRAMES}); for a single picture the steps before it (default 0)",
    )
    add("--panel", action="store_true", help="draw the whole window into the film")
    add("--screenshot", metavar="FILE", help="draw the window as a PNG instead of opening it")
    return made


def add_fields(made: Parser, example: str) -> None:
    """Add `--set`, which `make_env` reads."""
    made.add_argument(
        fields.FLAG,
        dest="fields",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help=f"constructor fields of the environment, such as {example}",
    )


def make_env(id: str, pairs: list[str]) -> Env:
    """Build the environment of an id with fields given as `name=value`."""
    try:
        return registry.make(id, **fields.parse(pairs))
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def checked_outputs(options: argparse.Namespace) -> bool:
    """Return whether to draw files instead of a window.

    Raises `UsageError` where a file cannot be written: better now than after the drawing.
    """
    for name in SUFFIXES:
        _check_file(name, getattr(options, name))
    if options.frames is not None and not is_headless(options):
        raise UsageError("--frames goes with --gif FILE, --html FILE or --screenshot FILE")
    if options.panel and not options.gif:
        raise UsageError("--panel goes with --gif FILE")
    return is_headless(options)


def is_headless(options: argparse.Namespace) -> bool:
    """Whether files are asked for instead of a window."""
    return bool(options.gif or options.html or options.screenshot)


def is_film(options: argparse.Namespace) -> bool:
    """Whether --gif names a film; else a single picture, or nothing."""
    return bool(options.gif) and film.suffix(options.gif) != film.STILL


def check_display() -> None:
    """Raise `UsageError` where there is no display: before a long search rather than after it."""
    from . import window

    window.start_display()


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


def draw_files(
    controller: Controller, options: argparse.Namespace, advance: Callable[[], bool]
) -> None:
    """Draw the files that are asked for; `advance` makes the next moment, False if there is none.

    All of them show the same moments.
    """
    moments = _moments(advance, _count(options))
    session, reel = controller.session, None
    if options.html:
        reel = replay.Reel(session.env, session.boards, options.tile_size)
        moments = _filmed(moments, session, reel)
    if is_film(options):
        rate = SMOOTH if turning.is_drawn(session.env) else session.speed
        shown = film.write(options.gif, _pictures(controller, options, moments), rate)
        print(f"wrote {options.gif}: {counted(shown, 'picture')}, {_kilobytes(options.gif)}")
    for _ in moments:  # all, where no film has gone through them
        pass
    if options.gif and not is_film(options):
        gif.write_png(options.gif, _picture(controller, options))
        print(f"wrote {options.gif}")
    if reel is not None:
        names = [row.name for row in controller.actions]
        episodes = reel.write(options.html, controller.title, session, names)
        print(f"wrote {options.html}: {counted(episodes, 'episode')}, {_kilobytes(options.html)}")
    if options.screenshot:
        gif.write_png(options.screenshot, window_picture(controller, options.tile_size))
        print(f"wrote {options.screenshot}")


def _count(options: argparse.Namespace) -> int:
    """How many moments the files show, or pass before a screenshot."""
    if is_film(options) or options.html:
        return options.frames or (GIF_FRAMES if is_film(options) else replay.FRAMES)
    return 1 + (options.frames or 0)


def _moments(advance: Callable[[], bool], count: int) -> Iterator[None]:
    """Go through moments, the present one first, and say on a terminal how far it is."""
    told = time.monotonic() + LONG
    for i in range(count):
        if i and not advance():
            break
        yield
        if sys.stderr.isatty() and time.monotonic() > told:
            print(f"\rdrawing {i + 1} / {count}", end="", file=sys.stderr, flush=True)
            told = time.monotonic() + 0.5
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def _filmed(moments: Iterator[None], session: Session, reel: replay.Reel) -> Iterator[None]:
    for _ in moments:
        reel.add(session)
        yield


def _pictures(
    controller: Controller, options: argparse.Namespace, moments: Iterator[None]
) -> Iterator[tuple[np.ndarray, float]]:
    for _ in moments:
        if not options.panel:
            yield from turning_pictures(controller, options.tile_size)
        yield _picture(controller, options), controller.session.delay


def _picture(controller: Controller, options: argparse.Namespace) -> np.ndarray:
    draw = window_picture if options.panel else boards_picture
    return draw(controller, options.tile_size)


def _kilobytes(file: str) -> str:
    return f"{Path(file).stat().st_size / 1000:.0f} kB"


def boards_picture(controller: Controller, tile_size: int | None) -> np.ndarray:
    """Return the board, or the wall of boards, without anything around."""
    session = controller.session
    drawn = boards.pictures(session, _gif_tile_size(session, tile_size))
    return frames.mosaic(drawn, frames.wall_columns(session.boards))


def turning_pictures(
    controller: Controller, tile_size: int | None
) -> Iterator[tuple[np.ndarray, float]]:
    """Go through what a single board shows on the way to this moment, with durations."""
    session = controller.session
    if session.boards > 1:
        return
    for share in turning.SHARES:
        picture = turning.between(session, 0, share, _gif_tile_size(session, tile_size))
        if picture is not None:
            yield picture, turning.SECONDS / (1 + len(turning.SHARES))


def _gif_tile_size(session: Session, tile_size: int | None) -> int:
    if tile_size is not None:
        return tile_size
    room = GIF_SIZE // frames.wall_columns(session.boards)
    return frames.fitting_tile_size(frames.board_shape(session.env), room, room, largest=32)


def window_picture(controller: Controller, tile_size: int | None) -> np.ndarray:
    """Return what the window would show."""
    from . import screen

    size = screen.natural_size(controller, tile_size)
    return screen.pixels(screen.draw(controller, size))


def guarded(command: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command; what the caller can fix becomes one sentence and exit code 2."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        return run(argv)
    except BrokenPipeError:  # whoever read what was printed is gone: the caller knows
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in ("pygame", "PIL"):
            raise
        problem = MissingExtraError([package], "play")
    except (MissingExtraError, UsageError, OSError) as error:
        problem = error
    print(f"jaxenvs {command}: {problem}", file=sys.stderr)
    return 2
