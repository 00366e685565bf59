"""The model of the level editor: levels of a file, changes to them, undo and redo.

A `Document` is immutable, so a history of documents is enough for undo without limit. A change is
a name of `CHANGES` and arguments of JSON, so that a journal can repeat it. Needs no display.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from jaxenvs import levels
from jaxenvs.core.env import Env
from jaxenvs.levels import blocks, palette
from jaxenvs.levels.palette import Palette, Picture

# Lines that describe the level before a change of its cells.
STALE = ("optimal", "balls", "marks")
MISSION, TASK, TARGET, ID = "mission", "task", "target", "id"


class RefusedError(ValueError):
    """Raised for a change that a level does not allow; the message is a sentence."""


@dataclasses.dataclass(frozen=True)
class Page:
    """One level of a file."""

    id: str  # id of its environment; "" if the command line names the environment
    picture: Picture
    text: str | None = None  # its text in the file; None if it was changed


@dataclasses.dataclass(frozen=True)
class Document:
    """All levels of a file, and the one that is shown."""

    pages: tuple[Page, ...]
    at: int = 0  # index of the page that is shown

    @property
    def page(self) -> Page:
        """The page that is shown."""
        return self.pages[self.at]

    def with_page(self, picture: Picture) -> "Document":
        """Return the document with another picture on the page that is shown."""
        made = dataclasses.replace(self.page, picture=picture, text=None)
        return dataclasses.replace(
            self, pages=(*self.pages[: self.at], made, *self.pages[self.at + 1 :])
        )


class Checked:
    """A level that was read: its entry, or its fault."""

    def __init__(self, env: Env, page_text: str) -> None:
        self.entry: levels.Entry | None = None
        self.fault = ""  # the error of the text, with line and column; "" if there is none
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self.entry = levels.parse(env, page_text)
            except ValueError as error:
                self.fault = str(error)
        self.warning = str(caught[0].message) if caught and not self.fault else ""


class Model:
    """The document of an editor with its history.

    env_of: returns the environment of an id; "" is the environment of the command line.
    """

    def __init__(self, document: Document, env_of: Callable[[str], Env]) -> None:
        self.env_of = functools.cache(env_of)
        self.history = [document]
        self.cursor = 0  # index in the history of the document that is shown
        self.saved: Document | None = document  # document that the file has; None: there is no file
        self.joins = False  # whether a stroke has begun, so that its next cell joins the change
        # Called with the name and the arguments of each change, for a journal.
        self.note: Callable[..., None] = lambda *change: None
        self._checked = functools.lru_cache(maxsize=64)(self._check)

    @property
    def document(self) -> Document:
        """The document that is shown."""
        return self.history[self.cursor]

    @property
    def page(self) -> Page:
        """The level that is shown."""
        return self.document.page

    @property
    def picture(self) -> Picture:
        """The picture of the level that is shown."""
        return self.page.picture

    @property
    def env(self) -> Env:
        """The environment of the level that is shown."""
        return self.env_of(self.page.id)

    @property
    def palette(self) -> Palette:
        """The signs of the level that is shown."""
        return palette.of(self.env)

    @property
    def mission(self) -> str | None:
        """The mission of the level that is shown; None if it has none."""
        return dict(self.picture.headers).get(MISSION)

    @property
    def is_changed(self) -> bool:
        """True if the levels differ from the file."""
        return self.saved is None or self.document.pages != self.saved.pages

    def text_of(self, page: Page) -> str:
        """Return the text of a level: as in the file, if it was not changed."""
        return palette.text(self.env_of(page.id), page.picture) if page.text is None else page.text

    def checked(self, page: Page | None = None) -> Checked:
        """Read the text of a level, by default of the one that is shown."""
        page = page or self.page
        return self._checked(page.id, self.text_of(page))

    def _check(self, id: str, text: str) -> Checked:
        return Checked(self.env_of(id), text)

    def change(self, name: str, *given: Any) -> bool:
        """Apply a change of `CHANGES`; return whether the document is another one.

        Raises `RefusedError`.
        """
        made = CHANGES[name](self, *given)
        if made is None or made == self.document:
            return False
        joins = name == PAINT and given[-1] and self.cursor > 0
        if not joins:
            self.cursor += 1
        self.history[self.cursor :] = [made]
        self.joins = name == PAINT
        self.note(name, *given)
        return True

    def travel(self, by: int) -> bool:
        """Undo (-1) or redo (1) a change; return whether the document is another one."""
        to = max(0, min(self.cursor + by, len(self.history) - 1))
        moved, self.cursor, self.joins = to != self.cursor, to, False
        if moved:
            self.note(REDO if by > 0 else UNDO)
        return moved

    def mark_saved(self) -> None:
        """Note that the file has the document that is shown."""
        self.saved = self.document

    def show(self, index: int) -> None:
        """Show another level of the file; this is no change."""
        index %= len(self.document.pages)
        self.joins = False
        self.history[self.cursor] = dataclasses.replace(self.document, at=index)
        self.note(SHOW, index)

    def run(self, name: str, *given: Any) -> None:
        """Repeat a command of a journal: a change, `UNDO`, `REDO` or `SHOW`."""
        if name in (UNDO, REDO):
            self.travel(1 if name == REDO else -1)
        elif name == SHOW:
            self.show(*given)
        else:
            self.change(name, *given)


# Changes: functions of the model and JSON arguments that return the new document.


def _paint(model: Model, row: int, column: int, sign: str, joined: bool) -> Document | None:
    """Put a sign into a cell. `joined`: undo it together with the change before."""
    picture, signs = model.picture, model.palette
    if not (0 <= row < len(picture.cells) and 0 <= column < len(picture.cells[row])):
        return None
    old = picture.cells[row][column]
    if old == sign or (signs.outside and old == signs.outside):
        return None
    if picture.agent and picture.agent[:2] == (row, column) and not signs.can_stand(sign):
        raise RefusedError(f"the {signs.agent} stands there; move it first")
    cells = [list(line) for line in picture.cells]
    cells[row][column] = sign
    kept = _kept(picture, (row, column))
    return model.document.with_page(picture._replace(headers=kept, cells=tuple(map(tuple, cells))))


def _kept(picture: Picture, cell: tuple[int, int] | None) -> palette.Headers:
    """Return the lines that remain true after a change of a cell, or of the agent (None)."""

    def remains(name: str, value: str) -> bool:
        if cell is not None:
            place = f"{cell[0]},{cell[1]}"
            if name == TARGET and value.replace(" ", "") == place:
                return False
            if name == "contents" and value.partition(" ")[0] == place:
                return False
        return name not in STALE

    return tuple(pair for pair in picture.headers if remains(*pair))


def _place(model: Model, row: int, column: int) -> Document | None:
    """Move the agent to a cell; turn it if it is there already."""
    picture, signs = model.picture, model.palette
    if not signs.agents:
        raise RefusedError("these levels have no agent")
    if not (0 <= row < len(picture.cells) and 0 <= column < len(picture.cells[row])):
        return None
    direction = 0 if picture.agent is None else picture.agent[2]
    if picture.agent and picture.agent[:2] == (row, column):
        direction = (direction + 1) % signs.directions
    elif not signs.can_stand(picture.cells[row][column]):
        name = signs.name_of(picture.cells[row][column])
        raise RefusedError(f"the {signs.agent} cannot stand on {name}")
    return model.document.with_page(
        picture._replace(headers=_kept(picture, None), agent=(row, column, direction))
    )


def _turn(model: Model, by: int) -> Document | None:
    """Turn the agent by quarter turns."""
    picture, signs = model.picture, model.palette
    if picture.agent is None:
        raise RefusedError("there is no agent to turn")
    row, column, direction = picture.agent
    agent = (row, column, (direction + by) % signs.directions)
    return model.document.with_page(picture._replace(headers=_kept(picture, None), agent=agent))


def _say(model: Model, mission: str) -> Document | None:
    """Set the mission."""
    if "\n" in mission:
        raise RefusedError("a mission is one line")
    picture, said = model.picture, " ".join(mission.split())
    dropped = (TASK, TARGET, "optimal")
    rest = [pair for pair in picture.headers if pair[0] not in dropped]
    names = [name for name, _ in rest]
    if MISSION in names:
        rest[names.index(MISSION)] = (MISSION, said)
    else:
        rest.insert(1 if names[:1] == [ID] else 0, (MISSION, said))
    return model.document.with_page(picture._replace(headers=tuple(rest)))


def _replace(model: Model, text: str) -> Document | None:
    """Replace the level that is shown by a text."""
    page = page_of(model.env, model.page.id, text)
    return model.document.with_page(page.picture)


def _insert(model: Model, text: str) -> Document | None:
    """Add a level after the one that is shown, and show it."""
    document, page = model.document, page_of(model.env, model.page.id, text)
    at = document.at + 1
    made = dataclasses.replace(page, text=None)
    return Document((*document.pages[:at], made, *document.pages[at:]), at)


def _remove(model: Model) -> Document | None:
    """Remove the level that is shown."""
    document = model.document
    if len(document.pages) == 1:
        raise RefusedError("a file has at least one level")
    pages = (*document.pages[: document.at], *document.pages[document.at + 1 :])
    return Document(pages, min(document.at, len(pages) - 1))


PAINT, PLACE, TURN, SAY = "paint", "stand", "turn", "say"
REPLACE, INSERT, REMOVE = "replace", "insert", "remove"
# Commands of a journal that are no changes. `OPENED` has the hash of the file's content.
UNDO, REDO, SHOW, OPENED = "undo", "redo", "show", "opened"
CHANGES: dict[str, Callable[..., Document | None]] = {
    PAINT: _paint,
    PLACE: _place,
    TURN: _turn,
    SAY: _say,
    REPLACE: _replace,
    INSERT: _insert,
    REMOVE: _remove,
}


# Commands of a journal, with the types of their arguments.
COMMANDS: dict[str, tuple[type, ...]] = {
    PAINT: (int, int, str, bool),
    PLACE: (int, int),
    TURN: (int,),
    SAY: (str,),
    REPLACE: (str,),
    INSERT: (str,),
    REMOVE: (),
    UNDO: (),
    REDO: (),
    SHOW: (int,),
    OPENED: (str,),
}


def page_of(env: Env, id: str, text: str, line: int = 1) -> Page:
    """Return a level, given its text, which may be faulty; raise `LevelError` without cells.

    line: number of the text's first line, for messages.
    """
    module = palette.format_of(env)
    blocks.check_plain(text, line)
    block = module.block(text, line, None) if hasattr(module, "block") else None
    block = blocks.parse(text, line) if block is None else block
    return Page(id, palette.read(env, block), text)


def line_between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the cells of a straight line, without its first one."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    for step in range(1, steps + 1):
        share = step / steps
        row = start[0] + round(share * (end[0] - start[0]))
        yield row, start[1] + round(share * (end[1] - start[1]))
