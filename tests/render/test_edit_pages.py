"""Tests of `jaxenvs levels edit --web`: messages from pages, and the journal of changes.

Python code plays the role of a page, so no browser is needed. After the server was killed,
`--resume` repeats the changes in the journal.
"""

import asyncio

import pytest
from editing import DOOR, KEY, editor_of, written
from paging import serving

from jaxenvs.commands.parser import UsageError
from jaxenvs.render import shown
from jaxenvs.render.edit import look
from jaxenvs.render.edit.viewer import EditView
from jaxenvs.render.web import journal, pages, protocol

SIZE = (700, 500)

pytestmark = pytest.mark.usefixtures("no_display")


def edited(tmp_path, *texts) -> EditView:
    return EditView(editor_of(written(tmp_path, *(texts or (KEY,)))))


def test_two_pages_edit_one_document(tmp_path):
    async def run() -> None:
        view = edited(tmp_path)
        async with serving(lambda: view) as there:
            first, second = await there.open_ready(SIZE), await there.open_ready(SIZE)
            assert first.facts["edits"] and first.facts["typing"] is False
            where = look.layout(view.editor, SIZE)
            x, y = where.rect_of((1, 3)).center
            await first.say("key", "w")
            await first.say("click", x, y)
            await first.say("move", *where.rect_of((2, 3)).center)
            await first.say("release")
            await second.until(lambda page: "*" in page.facts["title"])
            picture = view.editor.model.picture
            assert picture.cells[1][3] == picture.cells[2][3] == "WG"
            await second.say("key", "ctrl z")  # undo: all pages share one history
            await first.until(lambda page: "*" not in page.facts["title"])
            await second.until(lambda page: "*" not in page.facts["title"])
            await first.say("button", x, y, 3)
            await first.say("button", *where.rect_of((2, 1)).center, 3)
            await second.until(lambda page: "*" in page.facts["title"])
            assert view.editor.model.picture.cells[2][1] == "  "

    asyncio.run(run())


def test_a_page_types_the_mission_and_plays(tmp_path):
    async def run() -> None:
        view = edited(tmp_path, DOOR)
        async with serving(lambda: view) as there:
            page = await there.open_ready(SIZE)
            await page.say("key", "m")
            await page.until(lambda page: page.facts["typing"] is not False)
            assert page.facts["typing"] == "go to the red door"
            await page.say("text", "go to the blue door")
            await page.say("key", "return")
            await page.until(lambda page: page.facts["typing"] is False)
            assert view.editor.model.mission == "go to the blue door"
            await page.say("key", "p")
            await page.until(lambda page: page.facts["moment"] == "moment 0 of 0")
            assert page.facts["edits"] is False
            await page.say("key", "escape")
            await page.until(lambda page: page.facts["edits"])

    asyncio.run(run())


def test_a_page_cannot_end_the_editor_of_others(tmp_path):
    async def run() -> None:
        view = edited(tmp_path)
        async with serving(lambda: view) as there:
            page = await there.open_ready(SIZE)
            await page.say("key", "escape")
            await page.until(lambda page: "Ctrl-C" in page.facts["notice"])
            assert view.is_open

    asyncio.run(run())


@pytest.mark.parametrize(
    "message",
    ['["button",1,2]', '["button",1,2,0]', '["button",1,2,4]', '["text",5]', '["text","a\\nb"]'],
)
def test_malformed_messages_of_the_editor_are_ignored(message):
    assert protocol.parsed(message) is None


def test_messages_of_the_editor():
    assert protocol.parsed('["button",1,2,3]') == ("button", (1, 2, 3))
    assert protocol.parsed('["text",""]') == ("text", ("",))
    assert protocol.parsed(f'["text","{"a" * 301}"]') is None


class Book:
    """A viewer and the journal of its commands; `again` replays the journal in a new viewer."""

    def __init__(self, view: EditView, path) -> None:
        self.view, self.path = view, path
        self.book = journal.Journal(path, {"command": "edit"})
        view.keep(pages._noting(view, self.book))

    def again(self, tmp_path) -> EditView:
        if not self.book.problem:
            self.book.close()
        earlier = journal._read(self.path)
        assert earlier is not None
        view = EditView(editor_of(tmp_path / "levels.txt"))
        view.replay(earlier.commands)
        return view


def press(view, *keys):
    for key in keys:
        view.run(shown.PRESS, key)


def test_a_killed_server_loses_no_change(tmp_path):
    made = Book(edited(tmp_path, KEY, DOOR), tmp_path / "journal")
    press(made.view, "w", "right", "right", "space", "x", "down", "space", "T", "n", "D", "u", ".")
    press(made.view, "m", "down", "down", "return", "R", "u")
    again = made.again(tmp_path)
    model, before = again.editor.model, made.view.editor.model
    assert model.document == before.document and model.history == before.history
    assert again.is_changed


def test_the_journal_begins_again_when_the_file_is_saved(tmp_path):
    made = Book(edited(tmp_path), tmp_path / "journal")
    press(made.view, "w", "right", "right", "space", "ctrl s", "down", "space")
    again = made.again(tmp_path)
    assert len(again.editor.model.history) == 2
    assert again.editor.model.picture == made.view.editor.model.picture
    press(again, "u")
    assert not again.is_changed


def test_changes_are_not_repeated_on_another_file(tmp_path):
    made = Book(edited(tmp_path), tmp_path / "journal")
    press(made.view, "w", "right", "right", "space")
    length = made.path.stat().st_size
    written(tmp_path, DOOR)
    with pytest.raises(UsageError, match="put that file back"):
        made.again(tmp_path)
    assert made.path.stat().st_size == length  # the journal was refused, but keeps the changes
    written(tmp_path, KEY)
    assert made.again(tmp_path).is_changed


def test_a_journal_without_changes_fits_every_file(tmp_path):
    made = Book(edited(tmp_path), tmp_path / "journal")
    written(tmp_path, DOOR)
    assert not made.again(tmp_path).is_changed


def test_a_full_journal_is_reported(tmp_path, monkeypatch):
    made = Book(edited(tmp_path), tmp_path / "journal")
    monkeypatch.setattr(journal, "MAX_BYTES", 120)
    press(made.view, "w", "right", "right", "space", "down", "space", "up")
    press(made.view, "e", "space", "w", "space", "e", "space")
    assert made.book.problem.startswith("the journal is full")
    press(made.view, "ctrl s")
    assert not made.book.problem
