"""Functions that write the files requested by the options --gif, --html and --screenshot."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from jaxenvs.core.checks import counted

from . import animation, boards, frames, gif, replay, turning
from .controls import Controller
from .oracle import Oracle
from .session import Session

GIF_FRAMES = 200  # default number of time steps in an animation
# Frames per second of a video that shows in-between pictures of actions, see turning.py.
SMOOTH = 50
LONG = 2.0  # time in seconds after which progress is reported


def is_headless(options: argparse.Namespace) -> bool:
    """Return whether the options request files, so that no window is opened."""
    return bool(options.gif or options.html or options.screenshot)


def is_animation(options: argparse.Namespace) -> bool:
    """Return whether --gif names an animation, rather than a PNG of a single picture."""
    return bool(options.gif) and animation.suffix(options.gif) != animation.STILL


def with_oracle(controller: Controller, options: argparse.Namespace) -> Controller:
    """Return `controller`; if --oracle is given, set `controller.oracle` first."""
    if options.oracle:
        controller.oracle = Oracle(controller.session, waits=is_headless(options))
    return controller


def draw_files(
    controller: Controller, options: argparse.Namespace, advance: Callable[[], bool]
) -> None:
    """Play the session once, and write all files that the options request.

    advance: function that moves the session to the next time step; returns False at the end.
    """
    moments = _moments(advance, _count(options))
    session, writer = controller.session, None
    if options.html:
        writer = replay.ReplayWriter(session.env, session.boards, options.tile_size)
        moments = _recorded(moments, session, writer)
    if is_animation(options):
        rate = SMOOTH if turning.is_drawn(session.env) else session.speed
        shown = animation.write(options.gif, _pictures(controller, options, moments), rate)
        print(f"wrote {options.gif}: {counted(shown, 'picture')}, {_kilobytes(options.gif)}")
    for _ in moments:  # plays the time steps, unless the animation has played them
        pass
    if options.gif and not is_animation(options):
        gif.write_png(options.gif, _picture(controller, options))
        print(f"wrote {options.gif}")
    if writer is not None:
        names = session.env.controls.names
        player = "keys" if session.human else session.pilot.name
        about = (controller.title, names, player, session.speed)
        episodes = writer.write(options.html, *about)
        print(f"wrote {options.html}: {counted(episodes, 'episode')}, {_kilobytes(options.html)}")
    if options.screenshot:
        gif.write_png(options.screenshot, window_picture(controller, options.tile_size))
        print(f"wrote {options.screenshot}")


def _count(options: argparse.Namespace) -> int:
    """Return the number of time steps to play, including the current time step."""
    if is_animation(options) or options.html:
        return options.frames or (GIF_FRAMES if is_animation(options) else replay.FRAMES)
    return 1 + (options.frames or 0)


def _moments(advance: Callable[[], bool], count: int) -> Iterator[None]:
    """Yield at each of `count` time steps; the first one is the current time step of the session.

    `advance` moves the session between two time steps; iteration stops if it returns False.
    Progress is printed to stderr if stderr is a terminal.
    """
    due = time.monotonic() + LONG
    for i in range(count):
        if i and not advance():
            break
        yield
        if sys.stderr.isatty() and time.monotonic() > due:
            print(f"\rdrawing {i + 1} / {count}", end="", file=sys.stderr, flush=True)
            due = time.monotonic() + 0.5
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def _recorded(
    moments: Iterator[None], session: Session, writer: replay.ReplayWriter
) -> Iterator[None]:
    for _ in moments:
        writer.add(session)
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
    """Return a picture of all environments, without the panel and the history bar."""
    session = controller.session
    drawn = boards.pictures(session, _gif_tile_size(session, tile_size))
    return frames.mosaic(drawn, frames.wall_columns(session.boards))


def turning_pictures(
    controller: Controller, tile_size: int | None
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield in-between pictures of the latest action, with their durations in seconds.

    Yields nothing if the session has several environments, or if the environment draws no
    in-between pictures.
    """
    session = controller.session
    if session.boards > 1:
        return
    for fraction in turning.FRACTIONS:
        picture = turning.between(session, 0, fraction, _gif_tile_size(session, tile_size))
        if picture is not None:
            yield picture, turning.SECONDS / (1 + len(turning.FRACTIONS))


def _gif_tile_size(session: Session, tile_size: int | None) -> int:
    return tile_size or frames.wall_tile_size(session.env, session.boards)


def window_picture(controller: Controller, tile_size: int | None) -> np.ndarray:
    """Return a picture of the whole window with the panel and the history bar."""
    from . import screen

    size = screen.natural_size(controller, tile_size)
    return screen.pixels(screen.draw(controller, size))
