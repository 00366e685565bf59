"""The pygame window: turns keys and clicks into commands to a session, and plays it over time.

The main thread handles events and shows pictures. Everything that may compile (creating the
session, stepping, drawing) runs in a background thread, so that the window opens at once and stays
responsive.
"""

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame

from jaxenvs.commands.parser import UsageError
from jaxenvs.core.background import Background
from jaxenvs.core.checks import counted

from . import gif, screen, turning, waiting
from .controls import Controller
from .outputs import boards_picture, turning_pictures

FRAMES_PER_SECOND = 60
REPEAT_AFTER, REPEAT_EVERY = 300, 70  # delay and interval of repeats of a held key, in ms
SAVED_MOMENTS = 500  # maximum number of time steps up to the cursor that key G saves
SAVING_TAKES = 60.0  # maximum time that `close` waits for a file being written, in seconds
LONG = 0.15  # duration of a job, in seconds, after which the busy screen is shown
# Longest time, in seconds, to wait for a job before events are handled again.
# The first is used before the busy screen is shown, the second while its spinner turns.
PATIENCE, SPINNING = 0.05, 1 / 15
MAX_QUEUED = 100  # maximum number of events queued while a job runs
NO_DISPLAY = (
    "no display to open a window on; write a file with --gif out.gif, or run the command under "
    "`xvfb-run`"
)


def open_window(prepare: Callable[[], Controller], title: str, tile_size: int | None = None) -> int:
    """Show a session until its window is closed; return the exit code.

    `prepare` makes the controller of the session. The window opens before `prepare` runs, because
    `prepare` may be slow. Exceptions of `prepare` propagate.
    """
    window = Window(prepare, title, tile_size)
    clock = pygame.time.Clock()
    try:
        while window.open:
            window.pump(clock.tick(FRAMES_PER_SECOND) / 1000)
    finally:
        window.close()
    return 0


class Window:
    """A pygame window that shows the session of a controller and handles events.

    Of pygame, only the display and the fonts are initialised.
    """

    def __init__(
        self, prepare: Callable[[], Controller], title: str, tile_size: int | None = None
    ) -> None:
        start_display()
        pygame.display.set_icon(waiting.icon())
        size = screen.opening_size(pygame.display.get_desktop_sizes()[0])
        self.display = pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.display.set_caption(f"jaxenvs - {title}")
        pygame.key.set_repeat(REPEAT_AFTER, REPEAT_EVERY)
        self.open = True
        self.controller: Controller | None = None  # None until `prepare` has returned
        self.picture: pygame.Surface | None = None  # the latest picture of the session
        self.scrubbing = False
        self.seen = 0  # index in the history of the time step that was shown last
        self._tile_size = tile_size
        self._queued: list[Callable[[Controller], None]] = []  # commands that still have to run
        # Real time, in seconds, by which the next background job advances the session.
        self._elapsed = 0.0
        self._stale = False  # whether the window was resized since the last picture
        self._is_warm = self._shows_busy = self._is_saving = False
        self._background: Background[pygame.Surface | None] = Background()
        self._background.begin(functools.partial(self._start, prepare, size))
        self._began = time.monotonic()  # time at which the current job began
        self._show_busy()

    @property
    def busy(self) -> bool:
        """True if a background job is running or waiting to run."""
        return not self._background.idle or bool(self._queued) or self._stale

    def close(self) -> None:
        """Close the window. Wait for a file that is being written, but not for a compilation."""
        pygame.display.quit()
        if self._is_saving:
            self._background.done(SAVING_TAKES)
        self._background.close()

    def pump(self, seconds: float) -> None:
        """Handle events, let `seconds` of real time pass, and show the new picture, if any."""
        for event in pygame.event.get():
            self.handle(event)
        self._elapsed += seconds
        if self._background.idle and self.controller is not None:
            self._begin(self.controller)
        if not self._background.idle:
            self._check_job()

    def handle(self, event: pygame.event.Event) -> None:
        """Handle a pygame event; queue commands to the session for the background thread."""
        run = _HANDLERS.get(event.type)
        if run is not None:
            run(self, event)

    # Methods of the main thread that start background jobs and show their pictures.

    def _begin(self, controller: Controller) -> None:
        """Start the next background job, if there is anything to do."""
        if self._queued or self._stale or _goes_on(controller):
            size = self.display.get_size()
            job = functools.partial(self._go_on, controller, self._queued, self._elapsed, size)
            self._queued, self._stale = [], False
        elif not self._is_warm:  # compile the step while the user looks at the first picture
            job, self._is_warm = controller.session.warm, True
        else:
            job = None
        self._elapsed, self._began = 0.0, time.monotonic()
        if job is not None:
            self._background.begin(job)

    def _check_job(self) -> None:
        """Show the picture of a finished job, or the busy screen if the job takes long."""
        if not self._background.done(SPINNING if self._shows_busy else PATIENCE):
            if self._shows_busy or time.monotonic() - self._began > LONG:
                self._show_busy()
            return
        made = self._background.take()
        if self.picture is None and made is not None:  # this is the first picture
            self._elapsed = 0.0
            if self._tile_size is not None:
                self.display = pygame.display.set_mode(made.get_size(), pygame.RESIZABLE)
        picture = made or self.picture
        if picture is not None and (made is not None or self._shows_busy):
            self._show(picture)
        self.open = self.open and (self.controller is None or self.controller.open)

    def _show(self, picture: pygame.Surface) -> None:
        """Show a picture, scaled if the window has been resized since it was drawn."""
        self.picture, self._shows_busy = picture, False
        self.display.blit(waiting.stretched(picture, self.display.get_size()), (0, 0))
        pygame.display.flip()

    def _show_busy(self) -> None:
        """Draw the busy screen: "compiling" or "saving", over the latest picture."""
        self._shows_busy = True
        waiting.draw(self.display, self.picture, "saving" if self._is_saving else "compiling")
        pygame.display.flip()

    # Methods of the main thread that handle events.

    def _queue(self, command: Callable[..., None], *given: Any) -> None:
        if len(self._queued) < MAX_QUEUED:
            self._queued.append(functools.partial(command, self, *given))

    def _key_down(self, event: pygame.event.Event) -> None:
        name = pygame.key.name(event.key)
        if len(name) == 1 and getattr(event, "mod", 0) & pygame.KMOD_SHIFT:
            name = name.upper()
        if name == "escape" and self.controller is None:
            self.open = False
        self._queue(Window._press, "return" if name == "enter" else name)

    def _mouse_down(self, event: pygame.event.Event) -> None:
        if event.button == 1:
            self._queue(Window._click, self.display.get_size(), event.pos)

    def _mouse_moved(self, event: pygame.event.Event) -> None:
        self._queue(Window._point, self.display.get_size(), event.pos)

    def _mouse_up(self, event: pygame.event.Event) -> None:
        self._queue(Window._let_go)

    def _quit(self, event: pygame.event.Event) -> None:
        self.open = False

    def _resized(self, event: pygame.event.Event) -> None:
        """Request a picture of the new size; pygame has already resized the display surface."""
        self.display = pygame.display.get_surface() or self.display
        self._stale = True

    # Methods that run in the background thread.

    def _start(self, prepare: Callable[[], Controller], size: tuple[int, int]) -> pygame.Surface:
        """Create the controller with its session, and return the first picture."""
        controller = prepare()
        controller.save = functools.partial(self._save, controller)
        if self._tile_size is not None:
            size = screen.natural_size(controller, self._tile_size)
        picture = screen.draw(controller, size)
        self.seen, self.controller = controller.session.cursor, controller
        return picture

    def _go_on(
        self,
        controller: Controller,
        queued: list[Callable[[Controller], None]],
        seconds: float,
        size: tuple[int, int],
    ) -> pygame.Surface | None:
        """Run the queued commands, let `seconds` pass, and return a picture if anything changed."""
        for command in queued:
            command(controller)
        stale = bool(queued) or self.picture is None or self.picture.get_size() != size
        stale |= controller.session.tick(seconds)
        stale |= self._turn(controller, seconds)
        return screen.draw(controller, size) if stale and controller.open else None

    def _turn(self, controller: Controller, seconds: float) -> bool:
        """Advance the animation of the latest action; return whether the picture changes."""
        session = controller.session
        if session.cursor != self.seen:
            is_next = session.cursor == self.seen + 1 and controller.zoomed
            is_shown = is_next and turning.is_turn(session, controller.selected)
            controller.turned = 0.0 if is_shown else 1.0
            self.seen = session.cursor
            return True
        if controller.turned == 1:
            return False
        controller.turned = min(1.0, controller.turned + seconds / turning.seconds(session))
        return True

    def _press(self, name: str, controller: Controller) -> None:
        controller.press(name)

    def _click(self, size: tuple[int, int], at: tuple[int, int], controller: Controller) -> None:
        where = screen.layout(controller, size)
        if where.bar.inflate(20, 30).collidepoint(at):
            self.scrubbing = True
            controller.scrub(where.scrubbed(at[0]))
        elif controller.is_wall:
            board = where.board_at(at)
            if board is not None:
                controller.zoom(board)
        else:
            place = where.place_at(controller, at)
            if place is not None:
                controller.notice = ""
                controller.point(place)

    def _point(self, size: tuple[int, int], at: tuple[int, int], controller: Controller) -> None:
        where = screen.layout(controller, size)
        is_near = where.bar.inflate(20, 30).collidepoint(at)
        controller.pointed = where.scrubbed(at[0]) if is_near else None
        if self.scrubbing:
            controller.scrub(where.scrubbed(at[0]))

    def _let_go(self, controller: Controller) -> None:
        self.scrubbing = False

    def _save(self, controller: Controller) -> str:
        """Save the history up to the cursor as a GIF in the working directory.

        Returns a notice for the panel: the file's name or the error.
        """
        session = controller.session
        path = _unused(Path.cwd(), controller.title)
        here, self._is_saving = session.cursor, True
        try:
            count = gif.write(path, _replay(controller, here))
        except OSError as error:
            return f"not saved: {error}"
        finally:
            session.cursor, self._is_saving = here, False
        return f"saved {path.name}: {counted(count, 'picture')}"


def start_display() -> None:
    """Initialise pygame's display and fonts; raise `UsageError` if there is no display."""
    named = any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))
    if sys.platform.startswith("linux") and not named:
        raise UsageError(NO_DISPLAY)
    try:
        pygame.display.init()
        pygame.font.init()
    except pygame.error as error:
        raise UsageError(f"{NO_DISPLAY} ({error})") from error


def _goes_on(controller: Controller) -> bool:
    """Return whether the picture changes as time passes, even without events."""
    session = controller.session
    return controller.turned < 1 or not (session.human or session.paused)


def _unused(folder: Path, title: str) -> Path:
    """Return the path of `TITLE-N.gif` with the lowest N for which no file exists."""
    number = 1
    while (path := folder / f"{title}-{number}.gif").exists():
        number += 1
    return path


def _replay(controller: Controller, last: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield pairs (picture, duration in seconds) of the history up to index `last`."""
    session = controller.session
    for index in range(max(0, last + 1 - SAVED_MOMENTS), last + 1):
        session.cursor = index
        yield from turning_pictures(controller, None)
        yield boards_picture(controller, None), session.delay


_HANDLERS = {
    pygame.QUIT: Window._quit,
    pygame.KEYDOWN: Window._key_down,
    pygame.MOUSEBUTTONDOWN: Window._mouse_down,
    pygame.MOUSEBUTTONUP: Window._mouse_up,
    pygame.MOUSEMOTION: Window._mouse_moved,
    pygame.VIDEORESIZE: Window._resized,
    pygame.WINDOWEXPOSED: Window._resized,
}
