"""Tests that valid files of Sokoban levels are read, and that errors name the line."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxenvs.core.vector import make_vec
from jaxenvs.puzzles import Sokoban

LEVELS = """; 0
######
#@ $.#
#    #
# $. #
#    #
######

; 1
######
#.$@ #
#.$  #
#    #
#    #
######
; 2
######
#+$ ##
#*$  #
#.   #
#    #
######
"""


def test_levels_of_a_file(tmp_path):
    (tmp_path / "000.txt").write_text(LEVELS[: LEVELS.index("; 2")])
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "001.txt").write_text(LEVELS[: LEVELS.index("\n; 1")])
    one = Sokoban(size=6, boxes=2, levels=str(tmp_path / "000.txt"))
    assert one.level_count == 2
    assert hash(one) == hash(dataclasses.replace(one))
    drawings = [drawing.split("\n", 1)[1].strip() for drawing in LEVELS.split(";")[1:3]]
    for number, drawing in enumerate(drawings):
        level = one.level(number)
        assert one.text(level.instance, level.board) == drawing
        wanted = one.read_level(drawing)
        for a, b in zip(jax.tree.leaves(level), jax.tree.leaves(wanted), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    levels = jax.jit(jax.vmap(one.sample_level))(jax.random.split(jax.random.key(0), 400))
    assert 150 < (np.asarray(levels.board.player) == 7).sum() < 250
    folder = Sokoban(size=6, boxes=2, levels=str(tmp_path))
    assert folder.level_count == 3
    assert jax.eval_shape(make_vec(folder, 4).reset, jax.random.key(0)).obs.shape == (4, 6, 6)


def test_generated_levels_have_no_numbers():
    with pytest.raises(ValueError, match="give the path of a file as levels"):
        Sokoban().level(0)
    assert Sokoban().level_count == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#.$@ #", "#.$@  #", r"a\.txt: line 11 has 7 characters, expected 6"),
        ("#.$@ #", "#.$@x#", r"a\.txt: line 11 has 'x'; known are"),
        ("#.$@ #", "#.$@@#", r"a\.txt: line 10: the level has 2 cells with a player, expected 1"),
        ("#.$@ #", "#.$  #", r"a\.txt: line 10: the level has 0 cells with a player, expected 1"),
        ("#.$@ #", "#. @ #", r"a\.txt: line 10: the level has 1 cells with a box, expected 2"),
        ("#.$@ #", "# $@ #", r"a\.txt: line 10: the level has 1 cells with a target, expected 2"),
        ("#.$@ #", "#.$@ #\n#    #", r"a\.txt: line 10: the level has 7 rows, expected 6"),
        ("#.$@ #", " .$@ #", r"a\.txt: line 11: the border must be wall"),
        ("######\n#.$@ #", "### ##\n#.$@ #", r"a\.txt: line 10: the border must be wall"),
        ("#.$@ #\n", "", r"a\.txt: line 10: the level has 5 rows, expected 6"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, old, new, message):
    file = tmp_path / "a.txt"
    file.write_text(LEVELS.replace(old, new))
    with pytest.raises(ValueError, match=message):
        Sokoban(size=6, boxes=2, levels=str(file))


def test_a_file_without_levels_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no such file or folder"):
        Sokoban(levels=str(tmp_path / "none.txt"))
    with pytest.raises(ValueError, match=r"has no \.txt file"):
        Sokoban(levels=str(tmp_path))
    (tmp_path / "a.txt").write_text("; nothing\n\n")
    with pytest.raises(ValueError, match="contains no level"):
        Sokoban(levels=str(tmp_path))
