"""Tests of the command `jaxenvs solve`: output, files and errors."""

import re

import pytest
from defaults import with_full

from jaxenvs import cli

TILES = "1 2 3\n4 5 6\n. 7 8\n"
FAST = ["--batch-size", "64", "--node-budget", "20000"]
# Options that most tests of the 3x3 sliding-tile puzzle share, so that they share a compilation.
PROVEN = ["--terminate", "optimal", *FAST]


def solve(*arguments: str) -> int:
    try:
        return cli.main(["solve", *arguments])
    except SystemExit as stopped:
        return stopped.code


@pytest.fixture
def level(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "level.txt").write_text(text)
        return str(tmp_path / "level.txt")

    return write


def test_a_level_of_a_file_is_solved_and_both_boards_are_printed(level, capsys):
    given = ["--instance", level(TILES), *PROVEN]
    assert solve("Puzzle-SlidingTile-3x3-v0", *given) == 0
    start, found, end = capsys.readouterr().out.split("\n\n")
    assert start.split() == TILES.split()
    verdict, actions, counts = found.splitlines()
    assert verdict == "solved: 2 actions, proven optimal" and actions == "right right"
    assert re.fullmatch(r"[\d,]+ nodes, [\d,]+ expanded in [\d.]+ s: [\d,]+ nodes/s", counts)
    assert end.split() == ["1", "2", "3", "4", "5", "6", "7", "8", "."]


@pytest.mark.parametrize("algorithm", ["beam", *with_full("qstar", "bidirectional")])
def test_the_other_algorithms(algorithm, level, capsys):
    batch = FAST[:2] if algorithm == "beam" else FAST
    given = ["--instance", level(TILES), "--algorithm", algorithm, *batch]
    assert solve("Puzzle-SlidingTile-3x3-v0", *given) == 0
    assert "right right" in capsys.readouterr().out


@pytest.mark.full
def test_a_seed_draws_the_same_level_again(capsys):
    drawn = []
    for seed in ("5", "5", "6"):
        solve("Puzzle-SlidingTile-3x3-v0", "--seed", seed, *PROVEN)
        drawn.append(capsys.readouterr().out.split("\n\n")[0])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.full
def test_costs_that_are_no_numbers_of_actions(capsys):
    assert solve("Puzzle-TSP-10-v0", "--set", "cities=4", "--terminate", "optimal", *FAST) == 0
    said = capsys.readouterr().out
    assert re.search(r"solved: 3 actions, cost \d\.\d{4}, proven optimal\ncity \d, city \d", said)


@pytest.mark.full
def test_a_budget_that_ends_says_so_and_shows_the_nearest_board(capsys):
    given = ["--batch-size", "8", "--node-budget", "64", "--seed", "1"]
    assert solve("Puzzle-SlidingTile-4x4-v0", *given) == 1
    said = capsys.readouterr().out
    assert re.search(r"not solved within the budget; no solution costs less than \d+; try", said)
    assert len(said.split("\n\n")) == 3


def test_a_level_without_a_solution_is_said_to_have_none(level, capsys):
    text = "\n".join(["######", "#@ $##", "#   ##", "#   ##", "#  .##", "######"])
    given = ["--instance", level(text), "--set", "boxes=1", *FAST]
    assert solve("Puzzle-Sokoban-6x6-v0", *given) == 1
    assert "no solution exists" in capsys.readouterr().out


def test_the_solution_is_drawn_into_a_gif(level, tmp_path, capsys):
    from PIL import Image

    path = str(tmp_path / "a.gif")
    given = ["--instance", level(TILES), "--gif", path, "--tile-size", "8", *PROVEN]
    assert solve("Puzzle-SlidingTile-3x3-v0", *given) == 0
    assert f"wrote {path}: 3 pictures" in capsys.readouterr().out
    with Image.open(path) as image:
        assert image.n_frames == 3
        image.seek(2)
        last = image.convert("RGB").tobytes()
        image.seek(0)
        assert image.convert("RGB").tobytes() != last


def test_the_solution_is_watched_in_a_window(level, monkeypatch):
    from jaxenvs.render import window

    seen = []

    def look(prepare, title, tile_size):
        session = prepare().session
        for _ in range(3):
            session.forward()
        seen.append([(int(m.action[0]), bool(m.over[0])) for m in session.history])
        return 0

    monkeypatch.setattr(window, "start_display", lambda: None)
    monkeypatch.setattr(window, "open_window", look)
    given = ["--instance", level(TILES), "--watch", *PROVEN]
    assert solve("Puzzle-SlidingTile-3x3-v0", *given) == 0
    # Pairs (action, whether the episode is over). Action -1 marks the start of an episode: after
    # the solution, the same level begins again.
    assert seen == [[(-1, False), (1, False), (1, True), (-1, False)]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Puzzle-2048-v0"], "cannot be searched: choose a deterministic puzzle"),
        (["Grid-DoorKey-8x8-v0"], "cannot be searched"),
        (["Puzzle-SlidingTile-v0"], "Puzzle-SlidingTile-"),
        (["Puzzle-SlidingTile-3x3-v0", "--instance", "nowhere.txt"], "nowhere.txt: No such file"),
        (["Puzzle-SlidingTile-3x3-v0", "--instance", "a", "--seed", "1"], "not both"),
        (["Puzzle-SlidingTile-3x3-v0", "--weight", "-1"], "must be a number from 0 to 1e+30"),
        (["Puzzle-SlidingTile-3x3-v0", "--algorithm", "dfs"], "invalid choice"),
        (
            ["Puzzle-SlidingTile-3x3-v0", "--algorithm", "beam", "--weight", "2"],
            "--weight does not apply to beam",
        ),
        (
            ["Puzzle-Cube-2x2-v0", "--levels=9", "--model=run", "--algorithm=beam", "--weight=2"],
            "--weight does not apply to beam",
        ),
        (["Puzzle-SlidingTile-3x3-v0", "--node-budget", "2147483647"], "node_budget=2147483647"),
        (["Puzzle-Sokoban-6x6-v0", "--algorithm", "bidirectional"], "bidirectional: "),
        (["Puzzle-SlidingTile-3x3-v0", "--set", "size=99"], "size=99"),
        (["Puzzle-SlidingTile-3x3-v0", "--gif", "no/folder/a.gif"], "no folder"),
    ],
)
def test_errors_of_the_caller_are_one_sentence(arguments, message, capsys):
    assert solve(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("jaxenvs solve: ") and message in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("id", "text", "message"),
    [
        ("Puzzle-SlidingTile-3x3-v0", "2 1 3\n4 5 6\n7 8 .\n", "level.txt: "),
        ("Puzzle-SlidingTile-3x3-v0", "1 2 3\n", "level.txt: "),
        ("Puzzle-Sokoban-6x6-v0", "######\n#@?###\n", "line"),
    ],
)
def test_a_level_that_cannot_be_read(id, text, message, level, capsys):
    assert solve(id, "--instance", level(text)) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_a_partial_path_in_a_file_is_no_success(tmp_path, capsys):
    path = tmp_path / "part.gif"
    given = ["--node-budget", "64", "--batch-size", "16", "--gif", str(path)]
    assert solve("Puzzle-SlidingTile-4x4-v0", *given) == 1
    said = capsys.readouterr().out
    assert "not solved within the budget" in said and path.exists()


@pytest.mark.parametrize("more", [[], ["--watch"]])  # there is nothing to watch
def test_a_solved_board_is_drawn(tmp_path, capsys, monkeypatch, more):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    path = tmp_path / "solved.gif"
    given = ["--set", "scramble=0", "--gif", str(path), *PROVEN, *more]
    assert solve("Puzzle-SlidingTile-3x3-v0", *given) == 0
    assert f"wrote {path}: 1 picture" in capsys.readouterr().out
