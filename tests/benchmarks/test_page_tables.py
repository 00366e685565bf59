"""Tests that tables of figures in pages are made from JSON, or say why they are typed by hand."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jaxenvs.benchmarks.tables import cpu, pages, registry, runs, text
from jaxenvs.benchmarks.tables.__main__ import main, survey
from jaxenvs.benchmarks.tables.speedruns import ENTRIES
from jaxenvs.benchmarks.tables.text import short

ROOT = Path(__file__).resolve().parents[2]
PAGE = "<!-- table: craft-symbolic -->\n<!-- end -->\n"


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the checkout with only pages, results and the modules of the benchmarks."""
    for path in [*pages.pages(ROOT), *(ROOT / "benchmarks").rglob("*.py")]:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for folder in (registry.RESULTS, registry.RUNS):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in (registry.REFERENCE, ENTRIES):
        target = tmp_path / file
        target.parent.mkdir(parents=True)
        shutil.copy(ROOT / file, target)
    return tmp_path


def test_every_table_agrees_with_its_json(capsys):
    assert main(["--check"]) == 0, capsys.readouterr()


@pytest.mark.parametrize("path", pages.pages(ROOT), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_figure_is_typed_without_a_reason(path):
    found = list(pages.typed(path.read_text("utf-8")))
    assert not found, "make these tables from JSON, or put <!-- typed: WHY --> above them"


def test_a_changed_figure_is_found_and_written(copy, capsys):
    file = copy / registry.RESULTS / "bench_doorkey.json"
    bench = json.loads(file.read_text())
    row = bench["rows"][0]
    old, row["steps_per_second"] = row["steps_per_second"], 2 * row["steps_per_second"]
    file.write_text(json.dumps(bench))
    assert main(["--check", "--root", str(copy)]) == 1
    shown = capsys.readouterr().out
    assert f"-| 64 | {short(old)} |" in shown and f"+| 64 | {short(2 * old)} |" in shown
    assert "benchmarks/README.md as it is" in shown
    assert main(["--root", str(copy)]) == 0
    assert main(["--check", "--root", str(copy)]) == 0


def test_a_typed_figure_is_found(copy, capsys):
    page = copy / "benchmarks" / "README.md"
    file = copy / registry.RESULTS / "bench_craft_symbolic.json"
    row = next(row for row in json.loads(file.read_text())["rows"] if row["num_envs"] == 1024)
    cell = f"| 1,024 | {short(row['steps_per_second'])} |"
    assert cell in page.read_text("utf-8")
    page.write_text(page.read_text("utf-8").replace(cell, "| 1,024 | 7 k |"), "utf-8")
    assert main(["--check", "--root", str(copy)]) == 1
    assert "-| 1,024 | 7 k |" in capsys.readouterr().out


def test_a_marker_without_a_table_is_refused(copy, capsys):
    page = copy / "docs" / "new.md"
    page.write_text(PAGE.replace("symbolic", "symbolc"))
    assert main(["--check", "--root", str(copy)]) == 2
    assert "docs/new.md: no table is named craft-symbolc; near: craft-symbolic" in (
        capsys.readouterr().err
    )


def test_a_table_without_a_marker_is_named(copy, capsys):
    page = copy / "benchmarks" / "README.md"
    old = page.read_text("utf-8")
    page.write_text(old.replace("<!-- table: craft-symbolic -->", "<!-- table: doorkey -->"))
    assert main(["--root", str(copy)]) == 1
    assert "no page has <!-- table: craft-symbolic -->" in capsys.readouterr().err


@pytest.mark.parametrize("broken", ["<!-- table: a -->\n", "<!-- table: a -->\n" + PAGE])
def test_a_marker_without_an_end_is_refused(broken):
    with pytest.raises(pages.PageError, match="table: a --> has no <!-- end -->"):
        pages.marked(broken)


def test_a_folder_that_is_not_a_checkout_is_refused(tmp_path):
    with pytest.raises(ValueError, match="give one with --root"):
        survey(tmp_path)


def test_typed_tables_with_figures_are_found():
    rows = "| a | b |\n| --- | --- |\n| `1` | {} |\n"
    assert not list(pages.typed(rows.format("word 1")))
    assert list(pages.typed(rows.format("12 k"))) == ["| a | b |"]
    assert not list(pages.typed("<!-- typed: counts -->\n" + rows.format("12")))
    assert not list(pages.typed("```\n" + rows.format("12") + "```\n"))


def test_it_runs_with_nothing_installed():
    blocked = "import sys; sys.modules.update(dict.fromkeys(['jax', 'numpy', 'jaxenvs']));"
    code = f"{blocked} from benchmarks.tables.__main__ import main; sys.exit(main(['--check']))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_two_observations_of_one_run_have_separate_columns():
    row = {"contestant": "jaxenvs", "id": "A", "num_envs": 8, "reset_source": "exact", "steps": 9}
    rows = [
        {**row, "obs": "image", "steps_per_second": 3e6, "processor_seconds": [1.0, 1.0, 2.0]},
        {**row, "obs": "dict", "steps_per_second": 2e6, "processor_seconds": [2.0, 2.0, 2.0]},
        {**row, "contestant": "EnvPool", "obs": "dict", "steps_per_second": 1e6},
    ]
    rows[2]["processor_seconds"] = [6.0, 8.0, 18.0]
    versions = {"python": "3.12.1", "jax": "0.12.0", "envpool": "1.2.7"}
    about = {"date": "2026-12-24 10:00", "processor": "AMD EPYC", "cpus": 2, "versions": versions}
    about |= {"load_before": 0.2, "load_after": 1.1, "repeats": 3, "seconds": 0.5}
    made = cpu.envpool({**about, "rows": rows})
    assert made.rows == [["A", "8", "3.00 M", "2.00 M", "1.00 M", "", "8.0", "4.0"]]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (136, "136"),
        (999.6, "1.00 k"),
        (8_250, "8.25 k"),
        (62_744_694, "62.7 M"),
        (1.07e9, "1.07 G"),
    ],
)
def test_numbers_keep_three_digits(number, shown):
    assert text.short(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(0.971, "0.97"), (8.78, "8.8"), (225.5, "226"), (1627.7, "1,628")]
)
def test_factors(number, shown):
    assert text.ratio(number) == shown


def test_a_curve_passes_at_its_first_point():
    curve = {"curve": {"steps": [10, 20, 30], "returns": [[None], [0.5], [0.9]]}}
    assert runs.passes(curve, 0.5) == 20 and runs.passes(curve, 1.0) is None
    assert runs.near(curve, 26) == (30, [0.9])
