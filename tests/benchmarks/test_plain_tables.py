"""Tests that no cell of a benchmark's table is truncated, on 80 columns or in a pipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxenvs.benchmarks.harness import report
from jaxenvs.benchmarks.harness.timing import Record
from jaxenvs.benchmarks.tables import registry
from jaxenvs.benchmarks.tables.plain import plain
from jaxenvs.benchmarks.tables.text import tabulated

ROOT = Path(__file__).resolve().parents[2]
WIDE = ("families", "learners", "learners-seeds", "work-craft", "memory-craft", "search")
PRINT = "import sys; from benchmarks.tables import registry as r; from pathlib import Path; "
PRINT += (
    "s = r.TABLES['families']; print(s.build(*(r._read(Path('.'), f) for f in s.files)).plain())"
)


def words(cells) -> set[str]:
    return {word for line in cells for cell in line for word in cell.split()}


def figures(contestant: str, source: str = "") -> dict:
    about = {"id": "Craft-Classic-Symbolic-v0", "obs": "symbolic", "num_envs": 262_144}
    about |= {"length": 5, "rollouts": 1}
    times = {"seconds": [0.011, 0.5], "processor_seconds": [0.5, 0.51], "compile_seconds": 12.3}
    return Record(contestant=contestant, reset_source=source, **about, **times).as_dict()


def test_bench_prints_whole_cells_in_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    group = [
        figures(name, "exact") for name in ("jaxenvs", "craftax (optimistic 16)", "XLand-MiniGrid")
    ]
    report.show([group], [])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    table = tabulated([(each, group) for each in group], report.COLUMNS)
    cells = [table.head, *table.rows]
    assert words(cells) <= set(shown.split())


def test_a_pipe_has_room_for_every_row_on_one_line(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    group = [figures("jaxenvs", "exact"), figures("craftax (optimistic 16)")]
    report.show([group], [])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "craftax (optimistic 16)" in lines[3]


@pytest.mark.parametrize("columns", ["80", ""])
def test_a_process_prints_for_its_terminal_or_pipe(columns):
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    run = subprocess.run(
        [sys.executable, "-c", PRINT], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    lines = run.stdout.decode().splitlines()
    if columns:
        assert max(map(len, lines)) <= int(columns)
        assert "level / step: 133.2" in lines
    else:
        assert len(lines) == 53 and "BabyAI-Unlock-v0" in lines[-4]


@pytest.mark.parametrize("name", WIDE)
def test_no_cell_of_a_table_is_truncated(name):
    source = registry.TABLES[name]
    made = source.build(*(registry._read(ROOT, file) for file in source.files))
    cells = [made.head, *made.rows]
    for width in (40, 80, 200):
        shown = plain(cells, width)
        assert {word.strip(":") for word in words(cells)} <= set(shown.replace(":", " ").split())
        assert width == 40 or max(map(len, shown.splitlines())) <= width


def test_numbers_are_aligned_to_the_right():
    assert plain([["a", "steps"], ["bb", "1"]]) == "a   steps\nbb      1"
