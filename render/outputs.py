"""Films, replays and pictures of a session, as the options of a command ask for them."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from jaxenvs.core.checks import counted

from . import boards, film, frames, gif, replay, turning
from .controls import Controller
from .session import Session

GIF_FRAMES = 200
SMOOTH = 50  # frames per second of a video that shows actions on their way
LONG = 2.0  # seconds after which drawing reports its progress


def is_headless(options: argparse.Namespace) -> bool:
    """Whether files are asked for instead of a window."""
    return bool(options.gif or options.html or options.screenshot)


def is_film(options: argparse.Namespace) -> bool:
    """Whether --gif names a film; else a single picture, or nothing."""
    return bool(options.gif) and film.suffix(options.gif) != film.STILL


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
        names = session.env.controls.names
        about = (controller.title, names, session.pilot.name, session.speed)
        episodes = reel.write(options.html, *about)
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
    """Go through moments, the present one first, and report progress on a terminal."""
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
    return tile_size or frames.wall_tile_size(session.env, session.boards)


def window_picture(controller: Controller, tile_size: int | None) -> np.ndarray:
    """Return what the window would show."""
    from . import screen

    size = screen.natural_size(controller, tile_size)
    return screen.pixels(screen.draw(controller, size))
