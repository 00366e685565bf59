"""Tests that the editor of levels loses no work: files that change, errors, signals."""

import os
import signal
import time

import pygame
import pytest
from editing import DOOR, KEY, editor_of, pressed, written

from jaxenvs import cli
from jaxenvs.render import window
from jaxenvs.render.edit.rescue import rescue
from jaxenvs.render.edit.viewer import EditView

pytestmark = pytest.mark.usefixtures("dummy_display")


def painted(path, **given):
    editor = editor_of(path, **given)
    editor.paint((1, 3))
    return editor


def test_each_change_by_another_program_is_asked_about(tmp_path):
    path = written(tmp_path, KEY)
    editor = painted(path)
    path.write_text(DOOR)
    assert not editor.save()
    path.write_text(f"{DOOR}\n---\n{KEY}\n")  # another change, after the warning
    assert not editor.save() and "GoToDoor" in path.read_text()
    assert editor.save() and "GoToDoor" not in path.read_text()


def test_a_stroke_ends_when_another_level_is_shown(tmp_path):
    editor = editor_of(written(tmp_path, KEY, KEY))
    editor.paint((1, 3))
    editor.go(1)
    editor.stroke((1, 2), (2, 3), erases=False)
    pressed(EditView(editor), "u")
    first, second = editor.model.document.pages
    assert first.text is None and second.text is not None


def test_the_editor_outlives_an_error_of_the_solver(tmp_path):
    def broken(env, level):
        raise MemoryError

    view = EditView(editor_of(written(tmp_path, KEY), solve=broken))
    pressed(view, "w", "right", "right", "space")
    until = time.monotonic() + 30
    while time.monotonic() < until and view.editor.verdict in ("", "compiling"):
        view.tick(0)
    assert view.editor.verdict == "the solver failed: MemoryError"
    assert view.is_changed and isinstance(view.draw((640, 480)), pygame.Surface)
    view.editor.planner.close()


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def number(request):
    """Install Python's default handler of a signal, and yield the signal's number.

    This is needed because a shell that starts the tests in the background may make them ignore some
    signals, such as SIGINT.
    """
    usual = signal.default_int_handler if request.param == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(request.param, usual)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_ends_the_window_and_leaves_a_copy(tmp_path, monkeypatch, capsys, number):
    path, before = written(tmp_path, KEY), signal.getsignal(number)

    def ended(prepare, title, tile_size):
        pressed(prepare(), "w", "right", "right", "space")
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr(window, "open_window", ended)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["levels", "edit", str(path)])
    copy = tmp_path / "levels.txt.unsaved"
    assert path.read_text() == f"{KEY}\n" and copy.read_text() != path.read_text()
    assert editor_of(copy).model.picture.cells[1][3] == "WG"
    assert str(copy) in capsys.readouterr().err and signal.getsignal(number) == before


def test_copies_have_new_names_and_are_made_only_of_unsaved_work(tmp_path):
    path = written(tmp_path, KEY)
    assert rescue(editor_of(path)) is None
    assert rescue(editor_of(tmp_path / "new.txt", "Grid-Empty-5x5-v0")) is None
    editor = painted(path)
    names = [rescue(editor).name for _ in range(3)]
    assert names == ["levels.txt.unsaved", "levels.txt.unsaved2", "levels.txt.unsaved3"]
    view = EditView(editor)
    pressed(view, "escape", "d")
    assert rescue(editor) is None


def test_permissions_are_kept_and_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    path = written(tmp_path, KEY)
    path.chmod(0o600)
    editor = painted(path)
    assert editor.save() and path.stat().st_mode & 0o777 == 0o600
    before = path.read_text()
    editor.paint((2, 2))
    # Simulate a read-only file, because root may write to any file.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not editor.save() and "is read-only" in editor.notice
    assert path.read_text() == before and editor.model.is_changed
