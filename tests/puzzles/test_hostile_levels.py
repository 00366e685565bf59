"""Tests of untrusted level files: reading gives a level or a `ValueError`, in bounded memory."""

import os
import random
import threading

import jax
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs.puzzles import Puzzle, sokoban_levels
from jaxenvs.render import solve

PUZZLES = {
    jaxenvs.spec(id).env_class: id
    for id in reversed(jaxenvs.registry.list("Puzzle"))
    if issubclass(jaxenvs.spec(id).env_class, Puzzle)
}.values()
STRANGE = (
    "\0",
    "9" * 5000,
    "-1",
    "1e999",
    "nan",
    "٣",
    "\U0001f600",
    "../../etc/passwd",
    "{}",
    "U" * 99,
)


def spoilt(text: str, dice: random.Random) -> str:
    """Return the text with a few substrings removed, duplicated, exchanged or inserted."""
    for _ in range(dice.randint(1, 4)):
        a, b = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        text = dice.choice(
            (
                text[:a] + text[b:],
                text[:b] + text[a:],
                text[:a] + dice.choice(STRANGE) + text[a:],
                text[:a] + dice.choice(text or " ") + text[a + 1 :],
                text[b:] + text[:b],
            )
        )
    return text


def spoil(id: str, count: int) -> dict[str, int]:
    """Parse `count` corrupted levels of a puzzle; return how many are accepted and refused."""
    puzzle, dice = jaxenvs.make(id), random.Random(id)
    level = jax.jit(puzzle.sample_level)(jax.random.key(0))
    whole = puzzle.text(level.instance, level.board)
    found = {"read": 0, "refused": 0}
    for _ in range(count):
        try:
            made = puzzle.read_level(spoilt(whole, dice))
        except ValueError as error:
            assert str(error)
            found["refused"] += 1
        else:
            puzzle.reset_to(jax.random.key(0), made)  # a level that is accepted can be played
            found["read"] += 1
    return found


@pytest.mark.parametrize("id", sorted(PUZZLES))
@pytest.mark.slow
def test_corrupted_levels_are_read_or_refused_with_a_value_error(id):
    found = spoil(id, 300)
    print(f"\n{id}: {found}")
    assert found["refused"] > 0


@pytest.mark.parametrize("id", ["Puzzle-Sudoku-v0", *with_full("Puzzle-SlidingTile-3x3-v0")])
def test_a_few_corrupted_levels(id):
    assert spoil(id, 40)["refused"] > 0


def test_an_endless_instance_file_is_refused(tmp_path, capsys):
    pipe = tmp_path / "level.txt"
    os.mkfifo(pipe)

    def pour():
        try:
            with pipe.open("wb") as file:
                while True:
                    file.write(b"1 " * 2**14)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=pour)
    thread.start()
    assert solve.main(["Puzzle-SlidingTile-3x3-v0", "--instance", str(pipe)]) == 2
    thread.join(10)
    assert "more than 65,536 bytes, too many for such a file" in capsys.readouterr().err


def test_a_message_that_quotes_a_level_is_short(tmp_path, capsys):
    file = tmp_path / "level.txt"
    file.write_text("x" * 60_000)
    assert solve.main(["Puzzle-SlidingTile-3x3-v0", "--instance", str(file)]) == 2
    assert len(capsys.readouterr().err) < 1000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x93NUMPY\x01\x00", r"line 1 has \d+ characters, expected 10"),
        (b"PK\x03\x04../../evil\n", "line 1 has"),
        (b"\x80\x04\x95cos\nsystem\n(S'touch evil'\ntR.", "line 1 has"),
        (b"#" * 2**20, "line 1 has 1048576 characters, expected 10"),
        (b"\xff" * 10, "'\\\\?.*known are"),
        (b"##########\n" * 10**4, "level has 10000 rows"),
    ],
)
def test_files_without_levels_are_refused_with_the_reason(tmp_path, monkeypatch, content, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "levels.txt").write_bytes(content)
    with pytest.raises(ValueError, match=says) as caught:
        sokoban_levels.read(str(tmp_path / "levels.txt"), 10, 4)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))
    assert os.listdir(tmp_path) == ["levels.txt"]


def test_files_larger_than_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    big = tmp_path / "levels.txt"
    with big.open("wb") as file:
        file.truncate(2**40)  # a huge sparse file, which takes no disk space
    with pytest.raises(ValueError, match=r"has 1,099,511,627,776 bytes, more than 268,435,456"):
        sokoban_levels.read(str(tmp_path), 10, 4)
    monkeypatch.setattr(sokoban_levels, "LARGEST", 1000)
    with pytest.raises(ValueError, match="/dev/zero has more than 1,000 bytes"):
        sokoban_levels.read("/dev/zero", 10, 4)


def test_a_valid_file_with_windows_line_endings_is_read(tmp_path):
    rows = ["#" * 10, "#@$.     #", "#  $.    #", "#  $.    #", "#  $.    #"]
    rows += ["#        #"] * 4 + ["#" * 10]
    (tmp_path / "a.txt").write_bytes("\r\n".join(["; 0", *rows, ""]).encode())
    levels = sokoban_levels.read(str(tmp_path), 10, 4)
    np.testing.assert_array_equal(levels.player, [11])
