"""The level editor as a viewer, for the window and for web pages."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pygame

from jaxenvs.commands.parser import UsageError

from ..controls import Controller
from ..shown import LEFT_BUTTON, MIDDLE_BUTTON, PRESS, QUIT, RIGHT_BUTTON, Pointer, Shown
from ..viewer import Viewer
from . import look
from .editor import AGENT, Editor
from .model import OPENED, SHOW, RefusedError


class EditView(Shown):
    """Viewer of an editor, or of a session in which the displayed level is played."""

    def __init__(self, editor: Editor) -> None:
        super().__init__()
        self.editor, self._resumed = editor, False  # `_resumed`: whether a journal was replayed
        # Viewer of the played session; None: the editor is shown.
        self.playing: Viewer | None = None
        editor.play = self._play

    def _play(self, controller: Controller) -> None:
        self.playing = Viewer(controller)

    @property
    def is_changed(self) -> bool:
        """True if there are unsaved changes."""
        return self.editor.model.is_changed

    @property
    def is_saving(self) -> bool:
        """True while the played session writes a file, such as a GIF."""
        return self.playing is not None and self.playing.is_saving

    @property
    def saved(self) -> Path | None:
        """The latest file that the played session saved; None if there is none."""
        return None if self.playing is None else self.playing.saved

    @property
    def is_open(self) -> bool:
        """False after the command that ends the editor."""
        return self.editor.open

    def stay(self, notice: str) -> None:
        """Reopen the editor after the command that ended it, and show a notice."""
        self.editor.open = True
        self.tell(notice)

    def tell(self, notice: str) -> None:
        """Show a notice."""
        self.editor.notice = notice

    def keep(self, note: Callable[..., None]) -> None:
        """Call `note` with each change from now on, to write a journal.

        A journal starts with the hash of the edited file. Unless a journal is resumed, this method
        therefore passes the hash to `note` before any change.
        """
        self.editor.model.note = note
        if not self._resumed:
            self.editor.note_file()

    def replay(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Repeat the changes of a journal.

        A journal starts with a hash of the edited file. If the file has changed since then,
        nothing is repeated, and `UsageError` is raised if the journal contains changes.
        """
        model, commands = self.editor.model, [*commands]
        for name, *given in commands:
            if name == OPENED:
                self._resumed = given[0] == self.editor.file.digest
                if not self._resumed:
                    self._check_lost(commands)
                    return
            else:
                with contextlib.suppress(RefusedError, LookupError, TypeError, ValueError):
                    model.run(name, *given)
        self.editor.ask()

    def _check_lost(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Raise `UsageError` if `commands`, which are about to be discarded, contain changes."""
        if any(name not in (OPENED, SHOW) for name, *_ in commands):
            raise UsageError(
                f"--resume: {self.editor.file.path} is not the file that the unsaved changes begin "
                "with; put that file back, or start without --resume to give the changes up"
            )

    @property
    def goes_on(self) -> bool:
        """True if the solver is working, or if a played session changes as time passes."""
        return self.editor.planner.busy or (self.playing is not None and self.playing.goes_on)

    def run(self, name: str, *given: Any) -> None:
        """Pass a command to the played session, except for a press of the key `QUIT`.

        That key ends the session and goes to the editor. If no session is played, all keys go to
        the editor, and other commands are ignored.
        """
        if self.playing is not None and given != (QUIT,):
            self.playing.run(name, *given)
            if not self.playing.is_open:
                self.playing = None
        elif name == PRESS:
            self.playing = None
            self.editor.press(given[0])

    def type(self, text: str) -> None:
        """Replace the typed answer to the open question, if a question is open."""
        if self.editor.prompt is not None:
            self.editor.prompt.type(text)

    def tick(self, seconds: float) -> bool:
        """Let `seconds` of real time pass; return whether the picture changes."""
        came = self.editor.tick()
        if self.playing is not None:
            return self.playing.tick(seconds)
        return came

    def draw(self, size: tuple[int, int], ratio: float = 1.0) -> pygame.Surface:
        """Draw the editor, or the session that is played."""
        if self.playing is not None:
            return self.playing.draw(size, ratio)
        return look.draw(self.editor, size, ratio)

    def natural_size(self, tile_size: int) -> tuple[int, int]:
        """Return the window size, in pixels, at which cells are about `tile_size` pixels wide."""
        cells = self.editor.model.picture.cells
        width = len(cells[0]) * tile_size + look.WIDTH + 40
        return max(560, width), max(620, len(cells) * tile_size + 40)

    def about(self) -> dict[str, Any]:
        """Return facts for a web page: title, position, notice, keys, and the typed text."""
        if self.playing is not None:
            return {**self.playing.about(), "typing": False, "edits": False}
        editor, document = self.editor, self.editor.model.document
        prompt = editor.prompt
        place = f"level {document.at + 1} of {len(document.pages)}, {editor.verdict}"
        return {
            "title": f"{editor.title} - {editor.id}",
            "moment": place.removesuffix(", "),
            "notice": editor.notice or editor.model.checked().fault,
            "keys": look.keys_of(editor),
            "saved": "",
            "typing": False if prompt is None or prompt.text is None else prompt.text,
            "edits": True,
        }

    def described(self) -> str:
        """Return the text of the displayed level, or a description of the state that is played."""
        if self.playing is not None:
            return self.playing.described()
        return self.editor.model.text_of(self.editor.model.page)

    def click(
        self,
        pointer: Pointer,
        at: tuple[int, int],
        size: tuple[int, int],
        ratio: float = 1.0,
        button: int = LEFT_BUTTON,
    ) -> None:
        """Press a mouse button at `at`.

        On a cell, left paints, right erases, and middle selects the tool that paints the cell's
        content. Elsewhere, left presses a button or selects a tool. An open question takes the
        click.
        """
        if self.playing is not None:
            self.playing.click(pointer, at, size, ratio, button)
            return
        editor, where = self.editor, look.layout(self.editor, size, ratio)
        pointer.button, pointer.cell = 0, None
        if editor.prompt is not None:
            chosen = _hit(where.choices, at)
            if chosen is not None:
                editor.prompt.choose(editor, chosen)
            return
        editor.help_shown = False
        if where.board.collidepoint(at):
            self._begin(pointer, where.cell_at(at), button)
        elif button == LEFT_BUTTON:
            self._choose(where, at)

    def _begin(self, pointer: Pointer, cell: tuple[int, int], button: int) -> None:
        """Begin to paint (left button) or erase (right button) at a cell.

        The middle button selects the tool that paints the cell's content.
        """
        editor = self.editor
        editor.notice, editor.model.joins = "", False
        if button == MIDDLE_BUTTON:
            editor.pick(cell)
            return
        pointer.button, pointer.cell = button, cell
        act = editor.erase if button == RIGHT_BUTTON else editor.paint
        editor.attempt(lambda: act(cell))

    def _choose(self, where: look.Layout, at: tuple[int, int]) -> None:
        """Press the button, or select the tool or its variant (colour), at a clicked position."""
        editor = self.editor
        key = next((key for key, rect in where.buttons.items() if rect.collidepoint(at)), None)
        if key is not None:
            self.run(PRESS, key)
            return
        tool, variant = _hit(where.tools, at), _hit(where.variants, at)
        if tool is not None:
            editor.select(AGENT if tool == len(editor.tools) else tool)
        elif variant is not None:
            editor.select_variant(variant)

    def move(
        self, pointer: Pointer, at: tuple[int, int], size: tuple[int, int], ratio: float = 1.0
    ) -> None:
        """Move the mouse; while a button is held, paint or erase the cells up to the mouse."""
        if self.playing is not None:
            self.playing.move(pointer, at, size, ratio)
            return
        editor, where = self.editor, look.layout(self.editor, size, ratio)
        editor.pointed = where.cell_at(at) if where.board.collidepoint(at) else None
        if pointer.button and pointer.cell is not None:
            cell = where.cell_at(at)
            if cell != pointer.cell:
                editor.stroke(pointer.cell, cell, pointer.button == RIGHT_BUTTON)
                pointer.cell = cell

    def release(self, pointer: Pointer) -> None:
        """Handle the release of the mouse button."""
        pointer.button, pointer.cell = 0, None
        if self.playing is not None:
            self.playing.release(pointer)

    def leave(self) -> None:
        """Remove the highlight of the cell below the mouse, which has left the picture."""
        self.editor.pointed = None


def _hit(rects: tuple[pygame.Rect, ...], at: tuple[int, int]) -> int | None:
    """Return the index of the rectangle that contains the position `at`; None if there is none."""
    return next((i for i, rect in enumerate(rects) if rect.collidepoint(at)), None)
