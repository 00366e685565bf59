"""Tests of the benchmark of A* search in puzzles: its figures, and rejected input."""

import json

import pytest

from jaxenvs import search
from jaxenvs.benchmarks import searching


@pytest.mark.full
def test_a_small_run_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "search.json"
    options = ["--id", "Puzzle-SlidingTile-3x3-v0", "--batch-sizes", "256", "--levels", "2"]
    options += ["--node-budget", "200000", "--repeats", "1", "--json", str(out)]
    assert searching.main(options) == 0
    (row,) = json.loads(out.read_text())["rows"]
    assert row["solved"] == row["levels"] == 2
    assert 2 <= row["expanded"] <= row["nodes"] <= 2 * 181_440
    assert row["nodes_per_second"] > 0 and row["compile_seconds"] > 0
    assert row["bytes_per_node"] == search.bytes_per_node(0)
    assert "2 of 2" in capsys.readouterr().out


def test_an_unknown_puzzle_is_rejected(capsys):
    assert searching.main(["--id", "Puzzle-Cub-2x2-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err
