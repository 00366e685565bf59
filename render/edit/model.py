"""The model of the level editor: the levels of a file, changes to them, undo and redo.

Undo is unlimited: the history is a list of documents, and a `Document` is immutable. Each change
has a name in `CHANGES` and JSON arguments. A server writes both to a journal; the next server reads
the journal and repeats the changes. The model needs no display.
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

# Names of header lines that a change of a cell or of the agent removes, because the change may make
# them false.
STALE = ("optimal", "balls", "marks")
MISSION, TASK, TARGET, ID = "mission", "task", "target", "id"


class RefusedError(ValueError):
    """Raised for a change that a level does not allow; the message is a sentence."""


@dataclasses.dataclass(frozen=True)
class Page:
    """One level of a file."""

    id: str  # id of the level's environment; "" if the command line names the environment
    picture: Picture
    text: str | None = None  # the level's text in the file; None if the level was changed


@dataclasses.dataclass(frozen=True)
class Document:
    """All levels of a file, and the index of the displayed level."""

    pages: tuple[Page, ...]
    at: int = 0  # index of the displayed level

    @property
    def page(self) -> Page:
        """The displayed level."""
        return self.pages[self.at]

    def with_page(self, picture: Picture) -> "Document":
        """Return the document with the contents of the displayed level replaced by `picture`."""
        made = dataclasses.replace(self.page, picture=picture, text=None)
        return dataclasses.replace(
            self, pages=(*self.pages[: self.at], made, *self.pages[self.at + 1 :])
        )


class Checked:
    """The result of parsing a level's text: the level (`entry`) or the error (`fault`)."""

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
    """The current document of an editor, and the history of documents for undo and redo.

    env_of: function from an id to its environment, and from "" to the command line's environment.
    """

    def __init__(self, document: Document, env_of: Callable[[str], Env]) -> None:
        self.env_of = functools.cache(env_of)
        self.history = [document]
        self.cursor = 0  # index of the current document in `history`
        # Document that the file contains; None: no file exists yet.
        self.saved: Document | None = document
        # True if the last change painted a cell. The next painted cell can then belong to the same
        # stroke, which a single undo reverts.
        self.joins = False
        # Called with the name and the arguments of each change, `UNDO`, `REDO` and `SHOW`. Does
        # nothing until a server sets a function that writes its journal.
        self.note: Callable[..., None] = lambda *change: None
        self._checked = functools.lru_cache(maxsize=64)(self._check)

    @property
    def document(self) -> Document:
        """The current document."""
        return self.history[self.cursor]

    @property
    def page(self) -> Page:
        """The level that is shown."""
        return self.document.page

    @property
    def picture(self) -> Picture:
        """The headers, cells and agent of the displayed level."""
        return self.page.picture

    @property
    def env(self) -> Env:
        """The environment of the level that is shown."""
        return self.env_of(self.page.id)

    @property
    def palette(self) -> Palette:
        """The signs (texts of cells) that the displayed level can have, and tools to paint them."""
        return palette.of(self.env)

    @property
    def mission(self) -> str | None:
        """The mission of the level that is shown; None if it has none."""
        return dict(self.picture.headers).get(MISSION)

    @property
    def is_changed(self) -> bool:
        """True if the levels differ from those in the file."""
        return self.saved is None or self.document.pages != self.saved.pages

    def text_of(self, page: Page) -> str:
        """Return the text of a level: the file's text, or new text if the level was changed."""
        return palette.text(self.env_of(page.id), page.picture) if page.text is None else page.text

    def checked(self, page: Page | None = None) -> Checked:
        """Parse a level, by default the displayed one; return the result, cached."""
        page = page or self.page
        return self._checked(page.id, self.text_of(page))

    def _check(self, id: str, text: str) -> Checked:
        return Checked(self.env_of(id), text)

    def change(self, name: str, *given: Any) -> bool:
        """Apply the change `name` of `CHANGES`; return whether the document differs afterwards.

        Raises `RefusedError` if the level does not allow the change.
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
        """Undo a change (`by` -1) or redo one (`by` 1); return False if the history has no more."""
        to = max(0, min(self.cursor + by, len(self.history) - 1))
        moved, self.cursor, self.joins = to != self.cursor, to, False
        if moved:
            self.note(REDO if by > 0 else UNDO)
        return moved

    def mark_saved(self) -> None:
        """Record that the file contains the current document."""
        self.saved = self.document

    def show(self, index: int) -> None:
        """Display the level with index `index`; undo does not revert this."""
        index %= len(self.document.pages)
        self.joins = False
        self.history[self.cursor] = dataclasses.replace(self.document, at=index)
        self.note(SHOW, index)

    def run(self, name: str, *given: Any) -> None:
        """Run a command that was read from a journal: a change, `UNDO`, `REDO` or `SHOW`."""
        if name in (UNDO, REDO):
            self.travel(1 if name == REDO else -1)
        elif name == SHOW:
            self.show(*given)
        else:
            self.change(name, *given)


# Changes. Each function takes the model and arguments that JSON can store, and returns the new
# document, or None if the document stays the same.


def _paint(model: Model, row: int, column: int, sign: str, joined: bool) -> Document | None:
    """Return the document with `sign` in a cell; None if the cell stays the same.

    joined: True if this change is undone together with the previous one, as part of the same
        stroke.
    """
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
    """Return the headers of a level that remain true after a change of `cell`.

    Headers that the change may make false are dropped. cell: the changed cell; None for a change
    of the agent's position or direction.
    """

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
    """Return the document with the agent placed in a cell; None for a cell outside the level.

    If the agent is in this cell already, return the document with the agent turned to the right.
    """
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
    """Return the document with the agent turned `by` times to the right."""
    picture, signs = model.picture, model.palette
    if picture.agent is None:
        raise RefusedError("there is no agent to turn")
    row, column, direction = picture.agent
    agent = (row, column, (direction + by) % signs.directions)
    return model.document.with_page(picture._replace(headers=_kept(picture, None), agent=agent))


def _say(model: Model, mission: str) -> Document | None:
    """Return the document with `mission` as the mission of the displayed level.

    Removes the headers `task`, `target` and `optimal`, which belong to the old mission.
    """
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
    """Return the document with the displayed level replaced by the level in `text`."""
    page = page_of(model.env, model.page.id, text)
    return model.document.with_page(page.picture)


def _insert(model: Model, text: str) -> Document | None:
    """Return the document with the level in `text` after the displayed level, and display it."""
    document, page = model.document, page_of(model.env, model.page.id, text)
    at = document.at + 1
    made = dataclasses.replace(page, text=None)
    return Document((*document.pages[:at], made, *document.pages[at:]), at)


def _remove(model: Model) -> Document | None:
    """Return the document without the displayed level, and display a neighbour of that level."""
    document = model.document
    if len(document.pages) == 1:
        raise RefusedError("a file has at least one level")
    pages = (*document.pages[: document.at], *document.pages[document.at + 1 :])
    return Document(pages, min(document.at, len(pages) - 1))


PAINT, PLACE, TURN, SAY = "paint", "stand", "turn", "say"
REPLACE, INSERT, REMOVE = "replace", "insert", "remove"
# Names of the journal's commands that are not in `CHANGES`. `OPENED` is the first command of a
# journal; its argument is the hash of the content of the edited file.
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


# Name of each command of a journal, with the types of its arguments.
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
    """Return the level in `text` as a `Page`.

    The level may be invalid, for example if it has no agent. Raises `LevelError` if the text has no
    cells, a malformed header line, an unknown sign or a second agent.

    line: line number of the text's first line in the file, for error messages.
    """
    module = palette.format_of(env)
    blocks.check_plain(text, line)
    block = module.block(text, line, None) if hasattr(module, "block") else None
    block = blocks.parse(text, line) if block is None else block
    return Page(id, palette.read(env, block), text)


def line_between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the cells of the straight line from `start` (excluded) to `end`."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    for step in range(1, steps + 1):
        share = step / steps
        row = start[0] + round(share * (end[0] - start[0]))
        yield row, start[1] + round(share * (end[1] - start[1]))
