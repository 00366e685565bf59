"""Tests of every benchmark command: `--help` works, and benchmarks/README.md lists it."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
LISTED = (FOLDER / "README.md").read_text("utf-8").partition("<!-- end -->")[0]
MODULES = [path for path in FOLDER.glob("*.py") if path.stem[0] != "_"]
MODULES += FOLDER.glob("*/__main__.py")
COMMANDS = {
    path.parent.name if path.stem == "__main__" else path.stem: path
    for path in MODULES
    if "def main(" in path.read_text("utf-8")
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_its_help(name, capsys):
    parts = COMMANDS[name].relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(("jaxenvs", *parts)))
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "usage" in shown.lower()
    assert name in shown or "jaxenvs bench" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_lists_a_command(name):
    assert f"| `{'jaxenvs bench' if name == 'throughput' else name}` |" in LISTED
