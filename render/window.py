"""The pygame window: sends keys, clicks and clock ticks to a session, and shows its pictures.

The main thread handles events and shows pictures. A background thread creates the session, steps
and draws, because each of these may compile; so the window opens at once and stays responsive.
"""

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pygame

from jaxenvs.commands.parser import UsageError
from jaxenvs.core.background import Background

from . import screen, waiting
from .controls import Controller
from .shown import CTRL, PRESS, QUIT, RIGHT_BUTTON, Pointer, Shown
from .viewer import Viewer

FRAMES_PER_SECOND = 60
REPEAT_AFTER, REPEAT_EVERY = 300, 70  # delay and interval of repeats of a held key, in ms
SAVING_TAKES = 60.0  # maximum time that `close` waits for a file being written, in seconds
LONG = 0.15  # duration of a job, in seconds, after which the busy screen is shown
# While a job runs, events are handled at least once per interval of this length, in seconds:
# PATIENCE before the busy screen appears, and SPINNING while it is shown.
PATIENCE, SPINNING = 0.05, 1 / 15
MAX_QUEUED = 100  # maximum number of events queued while a job runs
NO_DISPLAY = (
    "no display to open a window on; use a browser with --web, write a file with --gif out.gif, or "
    "run the command under `xvfb-run`"
)


Prepare = Callable[[], Controller | Shown]  # makes the controller of a session, or a viewer


def open_window(prepare: Prepare, title: str, tile_size: int | None = None) -> int:
    """Show a session until its window is closed; return the exit code.

    The window opens first, because `prepare` may be slow. `prepare` then returns the controller of
    the session, or a viewer such as the level editor; its exceptions propagate.
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
    """A pygame window that shows the session of a controller, or a viewer such as the level editor.

    Initialises only pygame's display and fonts.
    """

    def __init__(self, prepare: Prepare, title: str, tile_size: int | None = None) -> None:
        start_display()
        pygame.display.set_icon(waiting.icon())
        size = screen.opening_size(pygame.display.get_desktop_sizes()[0])
        self.display = pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.display.set_caption(f"jaxenvs - {title}")
        pygame.key.set_repeat(REPEAT_AFTER, REPEAT_EVERY)
        self.open = True
        # Controller that `prepare` has returned. None before that, or if it returned a viewer.
        self.controller: Controller | None = None
        self.picture: pygame.Surface | None = None  # the latest picture of the session
        self._pointer = Pointer()
        # Viewer of the session; None until `prepare` has returned.
        self._viewer: Shown | None = None
        self._tile_size = tile_size
        self._queued: list[Callable[[Shown], None]] = []  # commands that still have to run
        # Real time, in seconds, since the current background job began. The next job advances the
        # session by this time.
        self._elapsed = 0.0
        self._stale = False  # whether the window was resized since the last picture
        self._is_warm = self._shows_busy = self._is_leaving = False
        self._background: Background[pygame.Surface | None] = Background()
        self._background.begin(functools.partial(self._start, prepare, size))
        self._began = time.monotonic()  # time at which the current background job began
        self._show_busy()

    @property
    def busy(self) -> bool:
        """True if a background job is running or waiting to run."""
        return not self._background.idle or bool(self._queued) or self._stale

    def close(self) -> None:
        """Close the window. Wait for a file that is being written, but not for a compilation."""
        pygame.display.quit()
        if self._is_saving():
            self._background.done(SAVING_TAKES)
        self._background.close()

    def pump(self, seconds: float) -> None:
        """Handle events, let `seconds` of real time pass, and show the new picture, if any."""
        for event in pygame.event.get():
            self.handle(event)
        self._elapsed += seconds
        if self._background.idle and self._viewer is not None:
            self._begin(self._viewer)
        if not self._background.idle:
            self._check_job()

    def handle(self, event: pygame.event.Event) -> None:
        """Handle a pygame event; queue commands to the session for the background thread."""
        run = _HANDLERS.get(event.type)
        if run is not None:
            run(self, event)

    # Methods of the main thread that start background jobs and show their pictures.

    def _is_saving(self) -> bool:
        return self._viewer is not None and self._viewer.is_saving

    def _begin(self, viewer: Shown) -> None:
        """Start the next background job, if there is anything to do."""
        if self._queued or self._stale or viewer.goes_on:
            size = self.display.get_size()
            job = functools.partial(self._go_on, viewer, self._queued, self._elapsed, size)
            self._queued, self._stale = [], False
        elif not self._is_warm:  # idle: compile the step function, before it is needed
            job, self._is_warm = viewer.warm, True
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
        if self.picture is None and made is not None:  # first picture: the session's time starts
            self._elapsed = 0.0
            if self._tile_size is not None:
                self.display = pygame.display.set_mode(made.get_size(), pygame.RESIZABLE)
        picture = made or self.picture
        if picture is not None and (made is not None or self._shows_busy):
            self._show(picture)
        self.open = self.open and (self._viewer is None or self._viewer.is_open)

    def _show(self, picture: pygame.Surface) -> None:
        """Show a picture, scaled if the window has been resized since it was drawn."""
        self.picture, self._shows_busy = picture, False
        self.display.blit(waiting.stretched(picture, self.display.get_size()), (0, 0))
        pygame.display.flip()

    def _show_busy(self) -> None:
        """Draw the busy screen: "compiling" or "saving", over the latest picture."""
        self._shows_busy = True
        waiting.draw(self.display, self.picture, "saving" if self._is_saving() else "compiling")
        pygame.display.flip()

    # Methods of the main thread that handle events.

    def _queue(self, command: Callable[..., None], *given: Any) -> None:
        if len(self._queued) < MAX_QUEUED:
            self._queued.append(lambda viewer: command(viewer, *given))

    def _key_down(self, event: pygame.event.Event) -> None:
        name = pygame.key.name(event.key)
        if len(name) == 1 and getattr(event, "mod", 0) & pygame.KMOD_SHIFT:
            name = name.upper()
        if len(name) == 1 and getattr(event, "mod", 0) & pygame.KMOD_CTRL:
            name = CTRL + name
        if name == "escape" and self._viewer is None:
            self.open = False
        self._queue(_press, "return" if name == "enter" else name)

    def _mouse_down(self, event: pygame.event.Event) -> None:
        if event.button <= RIGHT_BUTTON:  # higher numbers belong to the mouse wheel
            given = (event.pos, self.display.get_size(), 1.0, event.button)
            self._queue(self._pointer.click, *given)

    def _mouse_moved(self, event: pygame.event.Event) -> None:
        self._queue(self._pointer.move, event.pos, self.display.get_size())

    def _mouse_up(self, event: pygame.event.Event) -> None:
        self._queue(self._pointer.release)

    def _quit(self, event: pygame.event.Event) -> None:
        """Close the window, but ask first if the editor has unsaved changes.

        The background thread asks the question. If a long job still delays the question, a second
        call closes the window at once.
        """
        if self._is_leaving or self._viewer is None or not self._viewer.is_changed:
            self.open = False
        else:
            self._is_leaving = True
            self._queue(self._ask_to_leave)

    def _ask_to_leave(self, viewer: Shown) -> None:
        self._is_leaving = False
        viewer.run(PRESS, QUIT)

    def _resized(self, event: pygame.event.Event) -> None:
        """Adopt the display surface that pygame has resized, and request a picture of its size."""
        self.display = pygame.display.get_surface() or self.display
        self._stale = True

    # Methods that run in the background thread.

    def _start(self, prepare: Prepare, size: tuple[int, int]) -> pygame.Surface:
        """Create the viewer with `prepare`, and return its first picture."""
        made = prepare()
        viewer = Viewer(made) if isinstance(made, Controller) else made
        if self._tile_size is not None:
            size = viewer.natural_size(self._tile_size)
        picture = viewer.draw(size)
        self.controller = made if isinstance(made, Controller) else None
        self._viewer = viewer
        return picture

    def _go_on(
        self,
        viewer: Shown,
        queued: list[Callable[[Shown], None]],
        seconds: float,
        size: tuple[int, int],
    ) -> pygame.Surface | None:
        """Run the queued commands, and let `seconds` of real time pass in the session.

        Returns a picture of `size`, the size of the window, or None if nothing has changed.
        """
        for command in queued:
            command(viewer)
        stale = bool(queued) or self.picture is None or self.picture.get_size() != size
        stale |= viewer.tick(seconds)
        return viewer.draw(size) if stale and viewer.is_open else None


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


def _press(viewer: Shown, name: str) -> None:
    viewer.run(PRESS, name)


_HANDLERS = {
    pygame.QUIT: Window._quit,
    pygame.KEYDOWN: Window._key_down,
    pygame.MOUSEBUTTONDOWN: Window._mouse_down,
    pygame.MOUSEBUTTONUP: Window._mouse_up,
    pygame.MOUSEMOTION: Window._mouse_moved,
    pygame.VIDEORESIZE: Window._resized,
    pygame.WINDOWEXPOSED: Window._resized,
}
