"""Tests of the editor of levels in a window on SDL's dummy display: keys, mouse, play, solver."""

import threading
import time

import pygame
import pytest
from editing import DOOR, KEY, editor_of, pressed, written
from opened import opened, settle

import jaxenvs
from jaxenvs import cli, levels
from jaxenvs.grid import Action
from jaxenvs.render import gif
from jaxenvs.render.edit import look
from jaxenvs.render.edit.editor import AGENT
from jaxenvs.render.edit.viewer import EditView
from jaxenvs.render.plans import Answer, Planner, solved
from jaxenvs.render.shown import Pointer

SIZE = (900, 640)
WALLS = [(1, 3), (2, 3)]

pytestmark = pytest.mark.usefixtures("dummy_display")


@pytest.fixture
def view(tmp_path):
    made = EditView(editor_of(written(tmp_path, KEY, DOOR)))
    yield made
    made.editor.planner.close()


@pytest.fixture
def window(view):
    made = opened(lambda: view)
    yield made
    made.close()


def sign(view, row, column):
    return view.editor.model.picture.cells[row][column]


def post(window, kind, **given):
    pygame.event.post(pygame.event.Event(kind, **given))
    settle(window)


def key(window, code, mod=0):
    post(window, pygame.KEYDOWN, key=code, mod=mod)


def at(window, view, row, column):
    where = look.layout(view.editor, window.display.get_size())
    return where.rect_of((row, column)).center


def test_keys_select_tools_and_colours_and_paint(view):
    pressed(view, "k", "3", "right", "right", "down", "space")
    assert sign(view, 2, 3) == "Kb" and view.editor.model.palette.name_of("Kb") == "blue key"
    pressed(view, "up", "return", "backspace")
    assert sign(view, 1, 3) == "  "
    pressed(view, "u", "u", "ctrl z", "y", "ctrl y", "ctrl Z")
    assert sign(view, 2, 3) == "Kb" and sign(view, 1, 3) == "  "


def test_keys_move_and_turn_the_agent(view):
    pressed(view, "x", "T", "t", "t")
    assert view.editor.tool == AGENT and view.editor.model.picture.agent == (1, 1, 1)
    pressed(view, "down", "down", "right", "right", "space")
    assert view.editor.model.picture.agent == (3, 3, 1)
    pressed(view, "c", "w", "left", "space")
    assert sign(view, 3, 2) == "WG"


def test_the_mouse_paints_lines_and_erases_and_picks(window, view):
    key(window, pygame.K_w)
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 1, 3), button=1)
    post(window, pygame.MOUSEMOTION, pos=at(window, view, 3, 1), rel=(0, 0), buttons=(1, 0, 0))
    post(window, pygame.MOUSEBUTTONUP, pos=at(window, view, 3, 1), button=1)
    post(window, pygame.MOUSEMOTION, pos=at(window, view, 3, 3), rel=(0, 0), buttons=(0, 0, 0))
    assert [sign(view, *cell) for cell in ((1, 3), (2, 2), (3, 1), (3, 3))] == [
        "WG", "WG", "WG", "GG",
    ]  # fmt: skip
    key(window, pygame.K_u)
    assert sign(view, 1, 3) == "  " and sign(view, 2, 2) == "Ly"
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 2, 1), button=2)
    tool = view.editor.tools[view.editor.tool]
    assert (tool.name, view.editor.sign) == ("key", "Ky")
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 2, 1), button=3)
    post(window, pygame.MOUSEBUTTONUP, pos=at(window, view, 2, 1), button=3)
    assert sign(view, 2, 1) == "  "
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 1, 1), button=1)
    assert "agent stands there" in view.editor.notice
    # Button 4 is the mouse wheel.
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 1, 1), button=4)
    post(window, pygame.MOUSEBUTTONDOWN, pos=at(window, view, 1, 1), button=2)
    assert view.editor.tool == AGENT


def test_a_stroke_that_leaves_the_picture(view):
    pointer = Pointer()
    where = look.layout(view.editor, SIZE)
    view.click(pointer, where.rect_of((1, 3)).center, SIZE)
    for place in ((-5, -5), (SIZE[0] + 50, 9000), where.panel.center):
        view.move(pointer, place, SIZE)
    view.release(pointer)
    pressed(view, "c", "backspace", "left", "up")
    assert view.editor.model.picture.cells[view.editor.cell[0]]
    view.editor.cell = (4, 4)
    pressed(view, "u", "D", "c", "X")
    assert view.is_open


def test_a_random_edit_that_cannot_be_written_is_refused(view, monkeypatch):
    from jaxenvs.render.edit import editor as module

    def broken(env):
        raise levels.LevelError("the agent cannot stand on this")

    monkeypatch.setattr(module, "mutated", broken)
    pressed(view, "r")
    assert "cannot stand on this" in view.editor.notice and not view.is_changed


def test_the_mouse_selects_tools_colours_and_buttons(window, view):
    editor, size = view.editor, window.display.get_size()
    number = [tool.name for tool in editor.tools].index("locked door")
    where = look.layout(editor, size)
    post(window, pygame.MOUSEBUTTONDOWN, pos=where.tools[number].center, button=1)
    where = look.layout(editor, size)
    post(window, pygame.MOUSEBUTTONDOWN, pos=where.variants[2].center, button=1)
    assert editor.sign == "Lb"
    post(window, pygame.MOUSEBUTTONDOWN, pos=where.tools[-1].center, button=1)
    assert editor.tool == AGENT
    post(window, pygame.MOUSEBUTTONDOWN, pos=where.buttons["page down"].center, button=1)
    assert editor.model.document.at == 1 and editor.id == "Grid-GoToDoor-5x5-v0"
    post(
        window, pygame.MOUSEBUTTONDOWN, pos=look.layout(editor, size).buttons["v"].center, button=1
    )
    assert editor.plan_shown


def test_pages_are_added_duplicated_deleted_and_drawn_anew(view):
    model = view.editor.model
    pressed(view, "n")
    assert len(model.document.pages) == 3 and model.document.at == 1
    pressed(view, "D", "R")
    texts = [model.text_of(page) for page in model.document.pages]
    assert len(set(texts)) == 4 and not any(model.checked(p).fault for p in model.document.pages)
    pressed(view, "X", "X", "X", "X")
    assert len(model.document.pages) == 1 and "at least one level" in view.editor.notice
    pressed(view, *["u"] * 6)
    assert len(model.document.pages) == 2 and not model.is_changed
    pressed(view, ".", ",", "page up")
    assert model.document.at == 1


def test_a_random_edit_is_one_of_levels_mutate(view):
    before = view.editor.model.text_of(view.editor.model.page)
    pressed(view, *["r"] * 4)
    after = view.editor.model.text_of(view.editor.model.page)
    assert after != before and view.editor.model.checked().entry is not None


def test_the_mission_is_chosen_or_typed(view):
    editor = view.editor
    pressed(view, ".", "m", "down", "down", "return")
    first = editor.model.mission
    assert first.startswith("go to the") and first != "go to the red door"
    pressed(view, "m", "delete", *"blue", "down")
    assert editor.prompt.choices == ("go to the blue door",)
    pressed(view, "return")
    assert editor.model.mission == "go to the blue door" and not editor.model.checked().fault
    pressed(view, "m", "backspace", "x", "space", "y", "return")
    assert editor.model.mission == "go to the blue doox y"
    assert "no such mission" in editor.model.checked().fault
    pressed(view, "u", "m", "escape")
    assert editor.model.mission == "go to the blue door" and editor.prompt is None
    pressed(view, ",", "m")  # DoorKey has one mission, so no prompt opens
    assert editor.prompt is None


def test_play_and_back(view):
    pressed(view, "p")
    session = view.playing.controller.session
    assert view.about()["title"].startswith("play") and session.env.size == 5
    pressed(view, "right", "tab")
    assert [int(m.action[0]) for m in session.history[1:]] == [Action.RIGHT, Action.PICKUP]
    pressed(view, "escape")
    assert view.playing is None and view.is_open and not view.is_changed
    pressed(view, "w", "x", "backspace", "p", "escape", "escape")
    assert not view.is_open


def test_a_gif_of_a_played_level_can_be_downloaded(view, tmp_path, monkeypatch):
    """The editor's viewer tells the window and the page about files of the played session."""
    monkeypatch.chdir(tmp_path)
    pressed(view, "p", "right")
    assert view.saved is None and not view.is_saving
    seen = []
    write = gif.write
    monkeypatch.setattr(gif, "write", lambda *given: seen.append(view.is_saving) or write(*given))
    pressed(view, "g")
    assert seen == [True] and not view.is_saving
    assert view.saved is not None and view.saved.parent == tmp_path
    assert view.about()["saved"] == view.saved.name


def test_a_faulty_level_is_not_played(view):
    pressed(view, ".", "m", *"x", "return", "p")
    assert view.playing is None and "has a fault; remove it first" in view.editor.notice


def test_saving_and_leaving(view, tmp_path):
    path = view.editor.file.path
    pressed(view, "w", "right", "right", "space", "escape")
    assert view.editor.prompt is not None and view.is_open
    pressed(view, "q", "escape")
    assert view.editor.prompt is None and view.is_open
    pressed(view, "ctrl s")
    assert not view.is_changed and view.editor.notice == "saved 2 levels"
    assert levels.load(path)[0].level.grid[1, 3] == 0x52
    pressed(view, "u", "escape", "s")
    assert not view.is_open and levels.load(path)[0].level.grid[1, 3] == 0x01


def test_discarding(view):
    before = view.editor.file.path.read_text()
    pressed(view, "w", "right", "right", "space", "escape", "d")
    assert not view.is_open and view.editor.file.path.read_text() == before


def test_closing_the_window_asks_once(window, view):
    key(window, pygame.K_w)
    for code in (pygame.K_RIGHT, pygame.K_RIGHT, pygame.K_SPACE):
        key(window, code)
    post(window, pygame.QUIT)
    assert window.open and view.editor.prompt is not None
    key(window, pygame.K_ESCAPE)
    key(window, pygame.K_s, pygame.KMOD_CTRL)
    assert not view.is_changed
    key(window, pygame.K_u)
    post(window, pygame.QUIT)
    post(window, pygame.QUIT)
    assert not window.open


@pytest.mark.full
def test_choices_are_clicked(window, view):
    pressed(view, "w", "right", "right", "space", "escape")
    where = look.layout(view.editor, SIZE)
    view.click(Pointer(), where.choices[2].center, SIZE)
    assert view.editor.prompt is None and view.is_open


def test_the_solver_answers_and_old_answers_are_dropped(tmp_path):
    asked, go_on = [], threading.Event()

    def solve(env, level):
        asked.append(level)
        go_on.wait(60)
        return Answer(len(asked), (2,), 1, True)

    view = EditView(editor_of(written(tmp_path, KEY), solve=solve))
    editor = view.editor
    view.tick(0)
    assert editor.verdict == "compiling" and view.goes_on
    pressed(view, "w", "right", "right", "space", "down", "space")  # the level changes twice
    began = time.monotonic()
    view.tick(0)
    assert time.monotonic() - began < 1 and editor.verdict == "compiling"
    go_on.set()
    until = time.monotonic() + 60
    while view.goes_on and time.monotonic() < until:
        view.tick(0)
    assert editor.verdict == "solvable in 2 steps" and len(asked) == 2
    pressed(view, "u")
    view.tick(0)
    assert editor.verdict in ("solving", "solvable in 3 steps")
    pressed(view, "u")
    assert editor.verdict == "solvable in 1 step"  # the answer is cached
    editor.planner.close()


def test_the_window_runs_while_the_solver_works(tmp_path):
    go_on = threading.Event()

    def solve(env, level):
        go_on.wait(60)
        return Answer(unsolvable=True, proven=True)

    view = EditView(editor_of(written(tmp_path, KEY), solve=solve))
    window = opened(lambda: view)
    before = pygame.image.tobytes(window.display, "RGB")
    key(window, pygame.K_h)
    assert pygame.image.tobytes(window.display, "RGB") != before
    go_on.set()
    until = time.monotonic() + 60
    while view.goes_on and time.monotonic() < until:
        window.pump(0.01)
    assert view.editor.verdict == "unsolvable"
    window.close()
    view.editor.planner.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(1, (2,), 1, True), "solvable in 1 step"),
        (Answer(9, (2,) * 9, 4), "solvable in 4 to 9 steps"),
        (Answer(None, (), 12), "at least 12 steps, if solvable"),
        (Answer(unsolvable=True), "unsolvable"),
        (Answer(problem="no mission"), "no mission"),
    ],
)
def test_answers_in_words(answer, words):
    assert answer.words == words


@pytest.mark.full
def test_the_real_solver_and_its_plan(tmp_path):
    editor = editor_of(written(tmp_path, KEY), solve=solved)
    view = EditView(editor)
    until = time.monotonic() + 120
    while view.goes_on and time.monotonic() < until:
        view.tick(0)
        time.sleep(0.01)
    assert editor.verdict.startswith("solvable in") and not editor.path
    steps = len(editor.plan)
    pressed(view, "v")
    assert editor.path[0] == (1, 1) and editor.path[-1] == (3, 3) and len(editor.path) == steps + 1
    pressed(view, "V")
    session = view.playing.controller.session
    for _ in range(steps):
        session.forward()
    assert session.now.terminated[0] and session.now.reward[0] > 0
    editor.planner.close()


def test_an_environment_without_optimum_gets_a_sentence():
    env = jaxenvs.make("Grid-Dynamic-Obstacles-5x5-v0")
    planner = Planner(waits=True)
    planner.ask(1, env, env.level_shape)
    assert "move at random" in planner.answer(1).words
    env = jaxenvs.make("Puzzle-2048-v0")
    planner.ask(2, env, None)
    assert "has no exact solver" in planner.answer(2).words


@pytest.mark.parametrize("size", [(360, 640), (500, 400), (940, 640), (2560, 1440)])
def test_every_size_shows_everything(view, size):
    where = look.layout(view.editor, size)
    window = pygame.Rect(0, 0, *size)
    parts = [where.board, *where.tools, *where.buttons.values(), *where.variants]
    assert all(window.contains(part) for part in parts)
    assert not any(part.colliderect(where.board) for part in parts[1:])
    assert min(where.board.size) >= 0.3 * min(size)
    assert view.draw(size).get_size() == size
    pressed(view, ".", "m")
    assert view.draw(size).get_size() == size


def test_the_picture_shows_tools_faults_plans_and_help(view):
    seen = set()
    for keys in (["k"], ["2"], ["v"], ["h"], ["h", ".", "m"], [*"x", "return"]):
        pressed(view, *keys)
        seen.add(pygame.image.tobytes(view.draw(SIZE), "RGB"))
    assert len(seen) == 6


def test_commands_without_display_or_file_are_sentences(tmp_path, capsys, monkeypatch):
    missing = str(tmp_path / "no.txt")
    cases = [
        ([missing], "name the environment of its levels with --id"),
        ([str(tmp_path), "--id", "Grid-Empty-5x5-v0"], "is a folder"),
        ([missing, "--id", "Puzzle-Cube-2x2-v0"], "cannot be edited cell by cell"),
        ([missing, "--id", "CartPole"], "unknown environment id"),
        ([missing, "--port", "9"], "--port needs --web"),
        ([str(tmp_path / "no" / "no.txt"), "--id", "Grid-Empty-5x5-v0"], "no folder"),
    ]
    for argv, words in cases:
        assert cli.main(["levels", "edit", *argv]) == 2, argv
        assert words in capsys.readouterr().err
    monkeypatch.delenv("SDL_VIDEODRIVER")
    assert cli.main(["levels", "edit", missing, "--id", "Grid-Empty-5x5-v0"]) == 2
    assert "no display" in capsys.readouterr().err


def test_a_new_file_begins_with_the_first_level_of_its_id(tmp_path):
    editor = editor_of(tmp_path / "new.txt", "Grid-FourRooms-v0")
    assert editor.model.is_changed and not editor.file.exists
    assert editor.save() and len(levels.load(tmp_path / "new.txt")) == 1
    editor.planner.close()
