"""`Shown`, the base class of the viewers that the window and the web pages can show.

A `Pointer` passes the events of one mouse or finger to a viewer. The module needs no display.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pygame

LEFT_BUTTON, MIDDLE_BUTTON, RIGHT_BUTTON = 1, 2, 3  # numbers of the mouse's buttons
PRESS = "press"  # name of the command that presses a key
CTRL = "ctrl "  # prefix of the names of keys that are pressed together with Ctrl
QUIT = "quit"  # name of the key that stands for closing the window of an editor
Size = tuple[int, int]  # (width, height), or a position (x, y), in pixels


class Shown(ABC):
    """A viewer: a picture that is changed by keys, by the mouse and as time passes.

    `size` is the (width, height) of the picture in pixels. `ratio` is the number of pixels per
    logical pixel of the display (CSS pixel), such as 2 on a high-resolution display.
    """

    def __init__(self) -> None:
        self._is_saving = False
        self._saved: Path | None = None
        # Called with the name and the arguments of each command, before it runs. Does nothing until
        # `keep` sets a function that writes the journal.
        self.note: Callable[..., None] = lambda *command: None

    def keep(self, note: Callable[..., None]) -> None:
        """Call `note` with each command from now on, to write a journal that can be replayed."""
        self.note = note

    @property
    def is_saving(self) -> bool:
        """True while a file is being written."""
        return self._is_saving

    @property
    def saved(self) -> Path | None:
        """The latest saved file, which a web page can download; None if there is none."""
        return self._saved

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
        """Reopen the viewer after the command that ended it, and show a notice."""

    @abstractmethod
    def tell(self, notice: str) -> None:
        """Show a notice until the next command."""

    @abstractmethod
    def run(self, name: str, *given: Any) -> None:
        """Run a command, such as `PRESS` with the name of a key."""

    def type(self, text: str) -> None:
        """Set the text that the user has typed so far; ignored unless the viewer asks for text."""
        return

    @abstractmethod
    def replay(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Run the commands (name, *arguments) of a journal, without writing files."""

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
        """Return the size of the picture at which cells are `tile_size` pixels wide."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return facts for a page: title, moment, notice, keys, name of a saved file.

        The moment is a text about the position, such as `moment 3 of 20` or `level 1 of 4`.
        An editor adds two facts. `typing`: the text typed so far; False if no text is requested.
        `edits`: True if the right and middle mouse buttons have a function, too.
        """

    @abstractmethod
    def described(self) -> str:
        """Return a description of the picture in words."""

    @abstractmethod
    def click(
        self, pointer: "Pointer", at: Size, size: Size, ratio: float = 1.0, button: int = 1
    ) -> None:
        """Handle the press of a mouse button at the position `at`."""

    @abstractmethod
    def move(self, pointer: "Pointer", at: Size, size: Size, ratio: float = 1.0) -> None:
        """Handle a move of the mouse to the position `at`, which may be outside the picture."""

    @abstractmethod
    def release(self, pointer: "Pointer") -> None:
        """Handle the release of the mouse button."""

    @abstractmethod
    def leave(self) -> None:
        """React to the mouse leaving the picture."""


class Pointer:
    """State of the mouse or finger on a window or page; passes its events on to a viewer."""

    def __init__(self) -> None:
        self.scrubbing = False  # whether the history bar is being dragged
        self.button = 0  # mouse button held over the cells of an editor; 0: none
        # Latest cell of an editor below the mouse while a button is held.
        self.cell: tuple[int, int] | None = None

    def click(
        self, viewer: Shown, at: Size, size: Size, ratio: float = 1.0, button: int = LEFT_BUTTON
    ) -> None:
        """Tell the viewer that a mouse button was pressed at the position `at`."""
        viewer.click(self, at, size, ratio, button)

    def move(self, viewer: Shown, at: Size, size: Size, ratio: float = 1.0) -> None:
        """Tell the viewer that the mouse moved to `at`, which may be outside the picture."""
        viewer.move(self, at, size, ratio)

    def release(self, viewer: Shown) -> None:
        """Tell the viewer that the mouse button was released."""
        viewer.release(self)
