"""Tests of the level editor's `Model` and `File`: changes, undo, faulty levels, saving."""

import subprocess
import sys

import jax
import pytest
from editing import DOOR, KEY, editor_of, written

import jaxenvs
from jaxenvs import levels
from jaxenvs.levels import palette
from jaxenvs.render.edit.files import File
from jaxenvs.render.edit.model import (
    INSERT,
    PAINT,
    PLACE,
    REMOVE,
    SAY,
    TURN,
    Document,
    Model,
    RefusedError,
    line_between,
    page_of,
)  # fmt: skip

PAINTED = (
    "Grid-DoorKey-5x5-v0",
    "Puzzle-PegSolitaire-v0",
    *(
        pytest.param(id, marks=pytest.mark.full)
        for id in (
            "Grid-ObstructedMaze-1Dlhb-v0",
            "Grid-Dynamic-Obstacles-5x5-v0",
            "BabyAI-KeyInBox-v0",
            "Puzzle-Maze-10x10-v0",
            "Puzzle-Sudoku-v0",
            "Puzzle-LightsOut-7x7-v0",
        )
    ),
)


def model_of(*texts: str, id: str = "") -> Model:
    env = jaxenvs.make(id) if id else None

    def env_of(name: str):
        return env if env is not None else jaxenvs.make(name)

    ids = [text.partition("\n")[0].removeprefix("id: ") if env is None else "" for text in texts]
    pages = tuple(page_of(env_of(name), name, text) for name, text in zip(ids, texts, strict=True))
    return Model(Document(pages), env_of)


@pytest.mark.parametrize("id", PAINTED)
def test_a_level_has_the_same_text_after_its_cells_were_read(id):
    env = jaxenvs.make(id)
    text = levels.write(env, env.sample_level(jax.random.key(0)))
    page = page_of(env, "", text)
    assert palette.text(env, page.picture) == text
    signs = {sign for tool in palette.of(env).tools for sign in tool.signs}
    used = {sign for row in page.picture.cells for sign in row} - {palette.of(env).outside}
    assert used <= signs
    found = palette.sprites(env, page.picture, None)
    assert found.shape == (len(page.picture.cells), len(page.picture.cells[0]))


def test_paint_and_undo_without_limit():
    model = model_of(KEY)
    texts = [model.text_of(model.page)]
    for number in range(60):
        model.change(PAINT, 1, 3, ("Kr", "  ")[number % 2], False)
        texts.append(model.text_of(model.page))
    for text in reversed(texts[:-1]):
        assert model.travel(-1) and model.text_of(model.page) == text
    assert not model.travel(-1) and model.is_changed is False
    assert model.travel(1) and model.text_of(model.page) == texts[1]
    model.change(PAINT, 3, 1, "Ab", False)  # a new change clears the redo history
    assert not model.travel(1)


def test_a_stroke_is_undone_together():
    model = model_of(KEY)
    model.change(PAINT, 1, 3, "WG", False)
    model.change(PAINT, 2, 3, "WG", True)
    assert len(model.history) == 2 and not model.change(PAINT, 2, 3, "WG", True)
    model.travel(-1)
    assert model.picture.cells[1][3] == model.picture.cells[2][3] == "  "


def test_the_first_cell_of_a_stroke_is_never_joined_with_the_file():
    model = model_of(KEY)
    model.change(PAINT, 1, 3, "WG", True)
    assert len(model.history) == 2 and model.saved is model.history[0]


def test_the_agent_moves_turns_and_keeps_what_is_below_it():
    model = model_of(KEY)
    model.change(PLACE, 3, 3)
    assert "under: goal" in model.text_of(model.page)
    assert model.checked().entry.level.pose.tolist() == [3, 3, 0]
    model.change(PLACE, 3, 3)
    model.change(TURN, 3)
    model.change(TURN, 3)
    assert model.picture.agent == (3, 3, 3)
    model.change(PLACE, 1, 1)
    text = model.text_of(model.page)
    assert "under" not in text and "GG" in text
    with pytest.raises(RefusedError, match="agent cannot stand on wall"):
        model.change(PLACE, 0, 0)
    with pytest.raises(RefusedError, match="agent stands there; move it first"):
        model.change(PAINT, 1, 1, "WG", False)
    model.change(PAINT, 1, 1, "Fr", False)
    assert "under: red floor" in model.text_of(model.page)


def test_a_fault_is_shown_and_nothing_is_lost():
    model = model_of(DOOR)
    model.change(PAINT, 0, 1, "WG", False)
    assert "the picture has 0 cells with a closed red door" in model.checked().fault
    model.change(SAY, "go to the moon")
    assert "this environment has no such mission" in model.checked().fault
    assert model.mission == "go to the moon"
    model.change(SAY, "go to the blue door")
    assert model.checked().entry is not None
    text = model.text_of(model.page)
    assert "title: two doors" in text and "seed: 7" in text


def test_lines_about_a_changed_cell_are_dropped():
    two = DOOR.replace("DB", "DR").replace("mission:", "optimal: 3\ntarget: 0,1\nmission:")
    model = model_of(two)
    assert not model.checked().fault
    model.change(PAINT, 3, 1, "WG", False)
    text = model.text_of(model.page)
    assert "target: 0,1" in text and "optimal" not in text
    model.change(PAINT, 0, 1, "WG", False)
    assert "target" not in model.text_of(model.page)


def test_boxes_with_keys_are_painted():
    env = jaxenvs.make("Grid-ObstructedMaze-1Dlhb-v0")
    text = levels.write(env, env.sample_level(jax.random.key(0)))
    model = model_of(text, id="Grid-ObstructedMaze-1Dlhb-v0")
    (row, column), = [
        (r, c) for r, row in enumerate(model.picture.cells) for c, s in enumerate(row)
        if s[0] == "?"
    ]  # fmt: skip
    model.change(PAINT, row, column, "?r", False)
    assert f"contents: {row},{column} red key" in model.text_of(model.page)
    model.change(PAINT, row, column, "  ", False)
    assert "contents" not in model.text_of(model.page) and not model.checked().fault


def test_shared_contents_follow_the_boxes():
    env = jaxenvs.make("BabyAI-KeyInBox-v0")
    model = model_of(
        levels.write(env, env.sample_level(jax.random.key(0))), id="BabyAI-KeyInBox-v0"
    )
    before = model.text_of(model.page).count("contents:")
    cells = model.picture.cells
    free = [(r, c) for r, row in enumerate(cells) for c, s in enumerate(row) if s == "  "]
    place = next(cell for cell in free if cell != model.picture.agent[:2])
    model.change(PAINT, *place, "Bb", False)
    assert model.text_of(model.page).count("contents:") == before + 1


def test_sokoban_keeps_the_player_and_counts_boxes():
    text = "\n".join(["#####", "#@$.#", "#   #", "#   #", "#####"])
    env = jaxenvs.make("Puzzle-Sokoban-10x10-v0", size=5, boxes=1)
    page = page_of(env, "", text)
    model = Model(Document((page,)), lambda id: env)
    model.change(PLACE, 1, 3)
    assert model.text_of(model.page).split("\n")[1] == "# $+#"
    model.change(PAINT, 2, 2, "$", False)
    assert "2 cells with a box, expected 1" in model.checked().fault
    with pytest.raises(RefusedError, match="player cannot stand on box"):
        model.change(PLACE, 2, 2)


def test_cells_outside_the_board_stay():
    env = jaxenvs.make("Puzzle-PegSolitaire-v0")
    text = levels.write(env, env.sample_level(jax.random.key(0)))
    model = model_of(text, id="Puzzle-PegSolitaire-v0")
    assert not model.change(PAINT, 0, 0, "O", False)
    with pytest.raises(RefusedError, match="no agent"):
        model.change(PLACE, 3, 3)


def test_levels_are_added_and_removed():
    model = model_of(DOOR, KEY)
    model.change(INSERT, DOOR.replace("two doors", "copy"))
    assert [page.id for page in model.document.pages] == [
        "Grid-GoToDoor-5x5-v0", "Grid-GoToDoor-5x5-v0", "Grid-DoorKey-5x5-v0",
    ]  # fmt: skip
    assert model.document.at == 1
    model.change(REMOVE)
    model.change(REMOVE)
    with pytest.raises(RefusedError, match="at least one level"):
        model.change(REMOVE)
    model.travel(-1)
    model.travel(-1)
    assert "copy" in model.text_of(model.page)


def test_levels_without_signs_are_refused_in_a_sentence():
    for id in ("Puzzle-Cube-2x2-v0", "Puzzle-2048-v0", "XLand-R1-9x9-v0", "CartPole-v1"):
        with pytest.raises(NotImplementedError, match=r"^levels of \w+ cannot be edited"):
            palette.of(jaxenvs.make(id))


def test_a_line_has_no_gaps():
    assert list(line_between((0, 0), (2, 5))) == [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    assert not list(line_between((1, 1), (1, 1)))


def test_unchanged_levels_keep_their_text(tmp_path):
    odd = KEY.replace("WGKYLY  WG", "WGKyLy  WG").replace("grid:", "author: me \nseed: 4\n\ngrid:")
    path = written(tmp_path, odd, DOOR)
    editor = editor_of(path)
    editor.go(1)
    editor.paint((1, 1))
    assert editor.save()
    assert path.read_text().startswith(odd + "\n---\nid: Grid-GoToDoor")
    assert len(levels.load(path)) == 2
    assert not list(tmp_path.glob(".*"))  # the temporary file is gone


def test_line_ends_and_comments_are_kept(tmp_path):
    path = tmp_path / "sokoban.txt"
    level = ["; 0", "#####", "#@$.#", "#   #", "#   #", "#####"]
    path.write_bytes("\r\n".join([*level, "", "; the end", ""]).encode())
    editor = editor_of(path, "Puzzle-Sokoban-10x10-v0", size=5, boxes=1)
    editor.paint((2, 2))
    assert editor.save()
    content = path.read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") and b"; the end" in content
    assert content.startswith(b"; 0\r\n#####\r\n#@$.#\r\n# # #")


def test_a_file_with_unknown_signs_is_an_error_with_its_place(tmp_path):
    path = written(tmp_path, KEY, DOOR.replace("DB", "QQ"))
    with pytest.raises(levels.LevelError, match=r"levels.txt: line 17, column 9: unknown pair"):
        File(path, None).read()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="no UTF-8 text"):
        File(path, None).read()
    path.write_text("\n")
    with pytest.raises(ValueError, match="contains no level"):
        File(path, None).read()


def test_a_faulty_level_can_be_opened_and_repaired(tmp_path):
    path = written(tmp_path, DOOR.replace(">>", "  "), "unknown: line\n" + KEY)
    editor = editor_of(path)
    assert "0 agents, expected one" in editor.model.checked().fault
    editor.select_agent()
    editor.paint((2, 2))
    assert not editor.model.checked().fault
    editor.go(1)
    assert "unknown name `unknown`" in editor.model.checked().fault
    editor.tool = 1
    editor.paint((1, 3))
    assert editor.save() and "level 2 has a fault" in editor.notice
    assert "unknown: line" in path.read_text()


def test_saving_asks_before_it_overwrites_another_program(tmp_path):
    path = written(tmp_path, KEY)
    editor = editor_of(path)
    editor.paint((1, 3))
    path.write_text(DOOR)
    assert not editor.save() and "has changed on disk" in editor.notice
    assert path.read_text() == DOOR
    assert editor.save() and "DoorKey" in path.read_text() and not editor.model.is_changed


def test_a_disk_error_keeps_the_changes(tmp_path, monkeypatch):
    editor = editor_of(written(tmp_path, KEY))
    editor.paint((1, 3))

    def full(texts):
        raise OSError("disk full")

    monkeypatch.setattr(editor.file, "write", full)
    assert not editor.save() and "not saved: disk full" in editor.notice
    assert editor.model.is_changed


def test_the_model_needs_no_pygame():
    code = "import sys, jaxenvs.render.edit.model; print('pygame' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
