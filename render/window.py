"""The window: events become keys and places on the bar, time becomes steps."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pygame

from ..commands.parser import UsageError
from ..core.checks import counted
from . import gif, screen, turning
from .controls import Controller
from .outputs import boards_picture, turning_pictures

FRAMES_PER_SECOND = 60
REPEAT_AFTER, REPEAT_EVERY = 300, 70  # ms, of a key that is held down
SAVED_MOMENTS = 500  # that the key G saves, up to the one looked at
NO_DISPLAY = (
    "there is no display to open a window on; draw a file instead (--gif out.gif --frames 200), "
    "or run it under `xvfb-run`"
)


def open_window(controller: Controller, tile_size: int | None = None) -> int:
    """Show the session until its window is closed; return the exit code."""
    window = Window(controller, tile_size)
    clock = pygame.time.Clock()
    try:
        while controller.open:
            window.pump(clock.tick(FRAMES_PER_SECOND) / 1000)
    finally:
        window.close()
    return 0


class Window:
    """A pygame window on a controller. Only the display and the fonts of pygame are started."""

    def __init__(self, controller: Controller, tile_size: int | None = None) -> None:
        self.controller = controller
        controller.save = self._save
        start_display()
        size = screen.natural_size(controller, tile_size)
        self.display = pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.display.set_caption(f"jaxenvs - {controller.title}")
        pygame.key.set_repeat(REPEAT_AFTER, REPEAT_EVERY)
        self.scrubbing = False
        self.seen = controller.session.cursor  # the moment that was shown last
        self.stale = True  # whether the window shows something else than the session

    def close(self) -> None:
        """Close the window."""
        pygame.display.quit()

    def pump(self, seconds: float) -> None:
        """Handle what happened, let time pass, and draw if anything changed."""
        for event in pygame.event.get():
            self.handle(event)
        self.stale |= self.controller.session.tick(seconds)
        self._turn(seconds)
        if self.stale and self.controller.open:
            self.display.blit(screen.draw(self.controller, self.display.get_size()), (0, 0))
            pygame.display.flip()
            self.stale = False

    def _turn(self, seconds: float) -> None:
        """Show the newest action on its way, where it can be drawn."""
        controller, session = self.controller, self.controller.session
        if session.cursor != self.seen:
            is_next = session.cursor == self.seen + 1 and controller.zoomed
            controller.turned = (
                0.0 if is_next and turning.is_turn(session, controller.selected) else 1.0
            )
            self.seen = session.cursor
        elif controller.turned < 1:
            controller.turned = min(1.0, controller.turned + seconds / turning.seconds(session))
            self.stale = True

    def handle(self, event: pygame.event.Event) -> None:
        """Do what an event asks for."""
        run = _HANDLERS.get(event.type)
        if run is not None:
            run(self, event)
            self.stale = True

    def _key(self, event: pygame.event.Event) -> None:
        name = pygame.key.name(event.key)
        if len(name) == 1 and getattr(event, "mod", 0) & pygame.KMOD_SHIFT:
            name = name.upper()
        self.controller.press("return" if name == "enter" else name)

    def _mouse_down(self, event: pygame.event.Event) -> None:
        if event.button != 1:
            return
        where = self._layout()
        if where.bar.inflate(20, 30).collidepoint(event.pos):
            self.scrubbing = True
            self.controller.scrub(where.scrubbed(event.pos[0]))
        elif self.controller.is_wall:
            board = where.board_at(event.pos)
            if board is not None:
                self.controller.zoom(board)
        else:
            place = where.place_at(self.controller, event.pos)
            if place is not None:
                self.controller.notice = ""
                self.controller.point(place)

    def _mouse_moved(self, event: pygame.event.Event) -> None:
        where = self._layout()
        is_near = where.bar.inflate(20, 30).collidepoint(event.pos)
        self.controller.pointed = where.scrubbed(event.pos[0]) if is_near else None
        if self.scrubbing:
            self.controller.scrub(where.scrubbed(event.pos[0]))

    def _mouse_up(self, event: pygame.event.Event) -> None:
        self.scrubbing = False

    def _quit(self, event: pygame.event.Event) -> None:
        self.controller.open = False

    def _resized(self, event: pygame.event.Event) -> None:
        """Draw again at the new size (the display surface follows by itself)."""
        self.display = pygame.display.get_surface() or self.display

    def _layout(self) -> screen.Layout:
        return screen.layout(self.controller, self.display.get_size())

    def _save(self) -> str:
        """Save what happened up to the moment looked at as a GIF beside the caller."""
        session = self.controller.session
        path = _unused(Path.cwd(), self.controller.title)
        here = session.cursor
        try:
            count = gif.write(path, _replay(self.controller, here))
        except OSError as error:
            return f"not saved: {error}"
        finally:
            session.cursor = here
        return f"saved {path.name}: {counted(count, 'picture')}"


def start_display() -> None:
    """Start pygame's display, and nothing else of it; raise `UsageError` where there is none."""
    named = any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))
    if sys.platform.startswith("linux") and not named:
        raise UsageError(NO_DISPLAY)
    try:
        pygame.display.init()
        pygame.font.init()
    except pygame.error as error:
        raise UsageError(f"{NO_DISPLAY} ({error})") from error


def _unused(folder: Path, title: str) -> Path:
    """Return a name that no file has yet."""
    number = 1
    while (path := folder / f"{title}-{number}.gif").exists():
        number += 1
    return path


def _replay(controller: Controller, last: int) -> Iterator[tuple[np.ndarray, float]]:
    """Go through the moments up to `last`, as pictures with durations."""
    session = controller.session
    for index in range(max(0, last + 1 - SAVED_MOMENTS), last + 1):
        session.cursor = index
        yield from turning_pictures(controller, None)
        yield boards_picture(controller, None), session.delay


_HANDLERS = {
    pygame.QUIT: Window._quit,
    pygame.KEYDOWN: Window._key,
    pygame.MOUSEBUTTONDOWN: Window._mouse_down,
    pygame.MOUSEBUTTONUP: Window._mouse_up,
    pygame.MOUSEMOTION: Window._mouse_moved,
    pygame.VIDEORESIZE: Window._resized,
    pygame.WINDOWEXPOSED: Window._resized,
}
