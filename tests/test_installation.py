"""Tests that the documented commands to install and run jaxenvs work; it is not on PyPI yet."""

import contextlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from jaxenvs import cli
from jaxenvs.baselines import NEEDED
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Config, Run

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PUBLISHED = re.compile(r"pip install.*jaxenvs\[[\w,]+\]")
FOLDERS = ("baselines", "benchmarks", "docs", "jaxenvs", "render")
SHOWN = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile")),
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*.*")),
]
SHOWN = [path for path in SHOWN if path.suffix in ("", ".md", ".py", ".ipynb")]


def test_nothing_is_installed_from_an_index_that_lacks_it():
    wrong = {str(path.relative_to(ROOT)) for path in SHOWN if PUBLISHED.search(path.read_text())}
    assert not wrong


def test_the_extras_that_pages_install_exist():
    found = set()
    for path in SHOWN:
        for extras in re.findall(r'pip install [^\n]*"(?:\.\./)*\.*\[([\w,]+)\]', path.read_text()):
            found |= {*extras.split(",")}
    assert {"train", "play", "bench", "ray", "minigrid"} <= found <= {*EXTRAS}, found


def test_readme_activates_what_make_demo_installs_before_it_says_jaxenvs():
    blocks = re.findall(
        r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    lines = [line.split("#")[0].strip() for line in blocks[0].splitlines()]
    assert lines == [
        "make demo",
        ".venv/bin/jaxenvs play Grid-DoorKey-8x8-v0",
        ". .venv/bin/activate",
    ]


def test_commands_that_make_demo_prints_can_be_typed(tmp_path):
    (tmp_path / ".demo").touch()  # pretend that `make .demo` has installed the package
    given = ["make", "-n", "-o", str(tmp_path / ".demo"), "demo", f"VENV={tmp_path}"]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=True)
    called = re.findall(r"(\S*)jaxenvs (?:play|watch|train)", done.stdout)
    assert len(called) >= 4 and {*called} == {f"{tmp_path}/bin/"}
    assert f". {tmp_path}/bin/activate" in done.stdout


def test_the_extra_train_has_every_package_of_the_learners():
    brought = {re.match(r"[\w-]+", line)[0] for line in EXTRAS["train"]}
    assert brought == {name.replace("orbax", "orbax-checkpoint") for name in NEEDED}
    assert "mctx" in brought  # the learners alphazero and muzero need it


@pytest.mark.parametrize("argv", [["--help"], ["info", "--help"], ["info"], ["nonsense"]])
def test_help_and_errors_name_the_program_as_it_was_called(argv, tmp_path, monkeypatch, capsys):
    program = tmp_path / "bin" / "jaxenvs"
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit):
        cli.main(argv)
    said = "".join(capsys.readouterr())
    commands = re.findall(r"(?:`|^  )(\S*jaxenvs) ", said, re.MULTILINE)
    assert commands and {*commands} == {"bin/jaxenvs"}


def test_the_command_that_continues_a_run_uses_the_name_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(tmp_path / "bin" / "jaxenvs")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoints, "newest", lambda folder: 3)
    run = Run(Path("runs/demo"), Config("Grid-Empty-5x5-v0", {}, 0, 1, {}))
    assert run.how_to_go_on.endswith("continue with: bin/jaxenvs train --resume runs/demo")


def test_printed_commands_use_the_name_of_the_running_program():
    written = re.compile(
        r'"[^"\n]*(?:with|it|id|run|environment): jaxenvs (?:watch|train|solve|play)'
    )
    code = [path for path in SHOWN if path.suffix == ".py"]
    assert not [str(path) for path in code if written.search(path.read_text())]


def test_the_notebooks_install_this_checkout():
    for path in (ROOT / "docs").rglob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        (line,) = ("".join(c["source"]) for c in cells if "%pip" in "".join(c["source"]))
        assert line.startswith('%pip install -q -e "../..[')
        assert (path.parent / "../.." / "pyproject.toml").exists()
