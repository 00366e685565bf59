"""Questions that the level editor asks, such as the question for the mission of a level.

While a question is open, it receives all keys.
"""

from typing import TYPE_CHECKING

from jaxenvs.levels import palette

from ..shown import QUIT
from .model import SAY, Model, RefusedError

if TYPE_CHECKING:
    from .editor import Editor

LONGEST = 300  # maximum length of a mission, in characters
SHOWN = 8  # number of suggestions that are shown


class Prompt:
    """A question of the editor. `text` is the typed answer; None if only choices are offered."""

    title = ""
    text: str | None = None
    choices: tuple[str, ...] = ()
    chosen = -1  # index of the marked choice; -1 for none

    def press(self, editor: "Editor", key: str) -> bool:
        """Handle a key; return whether the key has an effect."""
        raise NotImplementedError

    def type(self, text: str) -> None:
        """Replace the typed answer by `text`, the content of the input field of a web page."""

    def choose(self, editor: "Editor", index: int) -> None:
        """Answer the question with choice number `index`, counted from 0."""


class LeavePrompt(Prompt):
    """The question whether to save unsaved changes."""

    title = "There are unsaved changes."
    choices = ("Save and close (S)", "Discard them (D)", "Go on editing (Esc)")
    KEYS = ("s", "d", "escape")

    def press(self, editor: "Editor", key: str) -> bool:
        """Select the choice that has this key; return False if no choice has it.

        The key `QUIT` discards the changes: the user has closed the window a second time.
        """
        name = "d" if key == QUIT else "s" if key == "ctrl s" else key.lower()
        if name not in self.KEYS:
            return False
        self.choose(editor, self.KEYS.index(name))
        return True

    def choose(self, editor: "Editor", index: int) -> None:
        """Save and close (`index` 0), discard the changes and close (1), or keep editing (2)."""
        editor.prompt = None
        if index == 1 or (index == 0 and editor.save()):
            editor.open = False


def has_mission(model: Model) -> bool:
    """Return whether the environment's levels have a mission."""
    return palette.missions(model.env) is not None


class MissionPrompt(Prompt):
    """The question for the mission of a level, which is typed or selected from a list."""

    title = "Mission"

    def __init__(self, model: Model) -> None:
        self._known = palette.missions(model.env) or ()
        self.text = model.mission or ""
        self._filters = False  # whether to filter the choices by `text`: True once the user types

    @property
    def _found(self) -> list[str]:
        words = (self.text or "").lower().split() if self._filters else []
        return [one for one in self._known if all(word in one for word in words)]

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # they depend on the text
        """Up to `SHOWN` missions of the list, near the marked one; typed words filter the list."""
        first = max(0, min(self.chosen - SHOWN // 2, len(self._found) - SHOWN))
        return tuple(self._found[first : first + SHOWN])

    @property
    def marked(self) -> str | None:
        """The mission that is marked in the list; None if none is marked."""
        return self._found[self.chosen] if 0 <= self.chosen < len(self._found) else None

    def type(self, text: str) -> None:
        """Set the typed text; the list then shows only missions that contain all its words."""
        self.text, self.chosen, self._filters = text[:LONGEST], -1, True

    def press(self, editor: "Editor", key: str) -> bool:
        """Edit the text, mark a choice, answer or cancel; return False for any other key."""
        text = self.text or ""
        if key in ("escape", QUIT):
            editor.prompt = None
        elif key == "return":
            self._answer(editor, self.marked or text)
        elif key in ("up", "down"):
            count = len(self._found)
            self.chosen = (self.chosen + (1 if key == "down" else -1)) % count if count else -1
        elif key == "backspace":
            self.type(text[:-1])
        elif key in ("delete", "ctrl u"):
            self.type("")
        elif key == "space" or len(key) == 1:
            self.type(text + (" " if key == "space" else key))
        else:
            return False
        return True

    def choose(self, editor: "Editor", index: int) -> None:
        """Answer the question with choice number `index`, counted from 0."""
        self._answer(editor, self.choices[index])

    def _answer(self, editor: "Editor", mission: str) -> None:
        editor.prompt = None
        try:
            editor.model.change(SAY, mission)
        except RefusedError as error:
            editor.notice = str(error)
        editor.ask()
