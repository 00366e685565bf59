"""`Shown`, the base class of everything that the window and the web pages can show.

A `Pointer` passes the positions of one mouse or finger on to a viewer. Needs no display.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pygame

LEFT_BUTTON, MIDDLE_BUTTON, RIGHT_BUTTON = 1, 2, 3  # numbers of the mouse's buttons
PRESS = "press"  # name of the command that presses a key
CTRL = "ctrl "  # beginning of the names of keys that were pressed with Ctrl
QUIT = "quit"  # name of the key that closing the window presses, if there are unsaved changes
Size = tuple[int, int]  # width and height, or a position, in pixels


class Shown(ABC):
    """A viewer: a picture that keys, the mouse and time change.

    `size` is the (width, height) of the picture in pixels, `ratio` its pixels per unit of the
    desktop.
    """

    def __init__(self) -> None:
        self.is_saving = False  # whether a file is being written
        self.saved: Path | None = None  # the file that a page can download
        # Called with the name and the arguments of each command before it runs, for a journal.
        self.note: Callable[..., None] = lambda *command: None

    def keep(self, note: Callable[..., None]) -> None:
        """Call `note` with each command from now on, for a journal."""
        self.note = note

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """False after the command that ends the viewer."""

    @property
    def is_changed(self) -> bool:
        """True if there are unsaved changes."""
        return False

    @property
    @abstractmethod
    def goes_on(self) -> bool:
        """True if the picture changes as time passes, even without commands."""

    @abstractmethod
    def stay(self, notice: str) -> None:
        """Continue after the command that ends the viewer, and show a notice."""

    @abstractmethod
    def tell(self, notice: str) -> None:
        """Show a notice until the next command."""

    @abstractmethod
    def run(self, name: str, *given: Any) -> None:
        """Run a command, such as `PRESS` with the name of a key."""

    def type(self, text: str) -> None:
        """Replace the text that is typed, if the viewer asks for one."""
        return

    @abstractmethod
    def replay(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Run commands (name, *arguments) of a journal; they write no files."""

    @abstractmethod
    def tick(self, seconds: float) -> bool:
        """Let `seconds` of real time pass; return whether the picture changes."""

    def warm(self) -> None:
        """Compile the functions that are likely to be needed next."""
        return

    @abstractmethod
    def draw(self, size: Size, ratio: float = 1.0) -> pygame.Surface:
        """Draw the whole picture."""

    @abstractmethod
    def natural_size(self, tile_size: int) -> Size:
        """Return the size of the picture at which cells have this size, in pixels."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return facts for a page: title, position in words, notice, keys, name of a saved file.

        An editor adds the text that it asks for (`typing`, False without one) and `edits`,
        which is true if it uses all buttons of the mouse.
        """

    @abstractmethod
    def described(self) -> str:
        """Return the picture in words."""

    @abstractmethod
    def click(
        self, pointer: "Pointer", at: Size, size: Size, ratio: float = 1.0, button: int = 1
    ) -> None:
        """Press a button of the mouse at a position."""

    @abstractmethod
    def move(self, pointer: "Pointer", at: Size, size: Size, ratio: float = 1.0) -> None:
        """Move the mouse to a position, which may be outside the picture."""

    @abstractmethod
    def release(self, pointer: "Pointer") -> None:
        """Release the button of the mouse."""

    @abstractmethod
    def leave(self) -> None:
        """Note that no mouse is over the picture any more."""


class Pointer:
    """The mouse or finger of one window or page."""

    def __init__(self) -> None:
        self.scrubbing = False  # whether the history bar is being dragged
        self.button = 0  # button that is held over the cells of an editor; 0 for none
        self.cell: tuple[int, int] | None = None  # cell where the button was last held

    def click(
        self, viewer: Shown, at: Size, size: Size, ratio: float = 1.0, button: int = LEFT_BUTTON
    ) -> None:
        """Press a button of the mouse at a position."""
        viewer.click(self, at, size, ratio, button)

    def move(self, viewer: Shown, at: Size, size: Size, ratio: float = 1.0) -> None:
        """Move the mouse to a position, which may be outside the picture."""
        viewer.move(self, at, size, ratio)

    def release(self, viewer: Shown) -> None:
        """Release the button of the mouse."""
        viewer.release(self)
