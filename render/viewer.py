"""The viewer of a session, shared by the window and the web pages; needs no display.

A `Viewer` passes keys, mouse events and the time that has passed to the controller of a session. It
also saves GIFs.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame

from jaxenvs.core.checks import counted
from jaxenvs.core.controls import sign

from . import gif, screen, turning
from .controls import Controller
from .outputs import boards_picture, turning_pictures
from .shown import CTRL, LEFT_BUTTON, PRESS, Pointer, Shown, Size

# The GIF that key G saves shows up to this number of time steps, ending with the displayed one.
SAVED_MOMENTS = 500
# Pixels that are added to the width and to the height of the history bar for its clickable area.
NEAR_BAR = (20, 30)
# Names of the viewer's commands in a journal, in addition to `PRESS`.
PLACE, SCRUB, ZOOM, FORWARD = "place", "scrub", "zoom", "forward"


class Viewer(Shown):
    """Passes keys, mouse events and the passing of time to the controller of a session."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.controller = controller
        # Index into the history of the time step that was displayed when `_turn` was last called.
        self.seen = controller.session.cursor
        controller.save = self._save

    @property
    def is_open(self) -> bool:
        """False after the command that ends the viewer."""
        return self.controller.open

    def stay(self, notice: str) -> None:
        """Reopen the viewer after the command that ended it, and show a notice."""
        self.controller.open = True
        self.tell(notice)

    def tell(self, notice: str) -> None:
        """Show a notice until the next key is pressed."""
        self.controller.notice = notice

    @property
    def goes_on(self) -> bool:
        """True if the picture changes as time passes, even without commands."""
        session = self.controller.session
        oracle = self.controller.oracle
        is_asked = oracle is not None and oracle.busy
        return is_asked or self.controller.turned < 1 or not (session.human or session.paused)

    def run(self, name: str, *given: Any) -> None:
        """Run a command, such as `PRESS` with the name of a key; `given` are its arguments."""
        controller = self.controller
        if name == FORWARD:
            for _ in range(given[0]):
                controller.session.forward()
            return
        self.note(name, *given)
        if name == PRESS:
            controller.press(given[0].removeprefix(CTRL))
        elif name == PLACE:
            controller.notice = ""
            controller.point((given[0], given[1]))
        elif name == SCRUB:
            controller.scrub(given[0])
        elif name == ZOOM and given[0] < controller.session.boards:
            controller.zoom(given[0])

    def replay(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Run the commands (name, *arguments) of a journal, without writing files."""
        note, self.note = self.note, lambda *command: None
        save, self.controller.save = self.controller.save, None
        for command in commands:
            self.run(*command)
        self.note, self.controller.save = note, save

    def tick(self, seconds: float) -> bool:
        """Let `seconds` of real time pass in the session; return whether the picture changes."""
        session = self.controller.session
        before = session.dropped + session.cursor
        moved = session.tick(seconds)
        if moved:
            self.note(FORWARD, session.dropped + session.cursor - before)
        came = self.controller.oracle is not None and self.controller.oracle.tick()
        return self._turn(seconds) or moved or came

    def warm(self) -> None:
        """Compile the step function, so that the first action does not have to wait."""
        self.controller.session.warm()

    def draw(self, size: Size, ratio: float = 1.0) -> pygame.Surface:
        """Draw the whole window, see `screen.draw`."""
        return screen.draw(self.controller, size, ratio)

    def natural_size(self, tile_size: int) -> Size:
        """Return the window size, in pixels, that fits boards with cells of `tile_size` pixels."""
        return screen.natural_size(self.controller, tile_size)

    def about(self) -> dict[str, Any]:
        """Return facts about the session for a page: title, time step, notice, keys, saved file."""
        controller, session = self.controller, self.controller.session
        first = session.dropped
        keys = [
            [[[key, sign(key)] for key in binding.keys], binding.does]
            for binding in controller.bindings
            if binding.keys
        ]
        return {
            "title": controller.title,
            "moment": f"moment {first + session.cursor} of {first + len(session.history) - 1}",
            "notice": controller.notice,
            "keys": keys,
            "saved": self.saved.name if self.saved else "",
        }

    def described(self) -> str:
        """Return the state of the selected environment in words."""
        session = self.controller.session
        return session.env.describe(session.state(self.controller.selected))

    def click(
        self, pointer: Pointer, at: Size, size: Size, ratio: float = 1.0, button: int = 1
    ) -> None:
        """Handle the press of a mouse button at the position `at`; only the left button acts."""
        if button != LEFT_BUTTON:
            return
        controller, run = self.controller, self.run
        where = screen.layout(controller, size, ratio)
        if where.bar.inflate(*NEAR_BAR).collidepoint(at):
            pointer.scrubbing = True
            run(SCRUB, where.scrubbed(at[0]))
        elif controller.is_wall:
            board = where.board_at(at)
            if board is not None:
                run(ZOOM, board)
        else:
            place = where.place_at(controller, at)
            if place is not None:
                run(PLACE, *place)

    def move(self, pointer: Pointer, at: Size, size: Size, ratio: float = 1.0) -> None:
        """Handle a move of the mouse to the position `at`, which may be outside the picture."""
        controller = self.controller
        where = screen.layout(controller, size, ratio)
        is_near = where.bar.inflate(*NEAR_BAR).collidepoint(at)
        controller.pointed = where.scrubbed(at[0]) if is_near else None
        if pointer.scrubbing:
            self.run(SCRUB, where.scrubbed(at[0]))

    def release(self, pointer: Pointer) -> None:
        """Handle the release of the mouse button."""
        pointer.scrubbing = False

    def leave(self) -> None:
        """Forget the mouse position on the history bar, because the mouse has left the picture."""
        self.controller.pointed = None

    def _turn(self, seconds: float) -> bool:
        """Advance the animation (the in-between pictures) of the latest action.

        Returns whether the picture changes.
        """
        controller, session = self.controller, self.controller.session
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

    def _save(self) -> str:
        """Save the history, up to the displayed time step, as a GIF in the working directory.

        Returns a notice for the panel: the file's name or the error.
        """
        controller, session = self.controller, self.controller.session
        path = _unused(Path.cwd(), controller.title)
        here, self._is_saving = session.cursor, True
        try:
            count = gif.write(path, _replay(controller, here))
        except OSError as error:
            return f"not saved: {error}"
        finally:
            session.cursor, self._is_saving = here, False
        self._saved = path
        return f"saved {path.name}: {counted(count, 'picture')}"


def _unused(folder: Path, title: str) -> Path:
    """Return the path of `TITLE-N.gif` with the lowest N for which no file exists."""
    number = 1
    while (path := folder / f"{title}-{number}.gif").exists():
        number += 1
    return path


def _replay(controller: Controller, last: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield pairs (picture, duration in seconds) for a GIF of the history up to index `last`."""
    session = controller.session
    for index in range(max(0, last + 1 - SAVED_MOMENTS), last + 1):
        session.cursor = index
        yield from turning_pictures(controller, None)
        yield boards_picture(controller, None), session.delay
