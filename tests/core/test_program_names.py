"""Tests that commands in messages work as shown, in the current folder and the running Python."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import jaxenvs
from jaxenvs.core import typed

ROOT = Path(jaxenvs.__file__).parents[1]


@pytest.fixture
def env(tmp_path, monkeypatch):
    """Make a fake virtual environment, not on PATH, in the current folder; return its `bin`."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "pip", "jaxenvs"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(sys, "argv", [str(folder / "jaxenvs"), "train"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def test_the_program_is_named_as_it_can_be_called_here(env, monkeypatch):
    assert typed.program() == ".venv/bin/jaxenvs"
    monkeypatch.chdir(ROOT)
    assert typed.program() == str(env / "jaxenvs")
    monkeypatch.setenv("PATH", f"{env}:/bin")
    assert typed.program() == "jaxenvs"


def test_another_program_of_that_name_is_not_taken_for_it(env, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "jaxenvs").write_text("#!/bin/sh\n")
    (other / "jaxenvs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}:/bin")
    assert typed.program() == ".venv/bin/jaxenvs"


def test_a_module_and_a_program_of_the_user_are_named_too(env, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "jaxenvs" / "__main__.py")])
    assert typed.program() == ".venv/bin/python -m jaxenvs"
    for argv in (["train.py"], ["-c"], [""], []):
        monkeypatch.setattr(sys, "argv", argv)
        assert typed.program() == "jaxenvs"


def test_a_path_with_a_space_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "a b" / "jaxenvs")])
    monkeypatch.chdir(tmp_path)
    assert typed.program() == "'a b/jaxenvs'"


ORIGINS = [
    ({"dir_info": {"editable": True}, "url": "file:///home/a%20b/c"}, '-e "/home/a b/c[train]"'),
    ({"dir_info": {}, "url": "file:///home/c"}, '"/home/c[train]"'),
    ({"archive_info": {}, "url": "file:///a/jaxenvs-1-any.whl"}, '"/a/jaxenvs-1-any.whl[train]"'),
    ({"archive_info": {}, "url": "https://a.b/c.whl"}, '"jaxenvs[train] @ https://a.b/c.whl"'),
    (
        {"vcs_info": {"vcs": "git", "commit_id": "1"}, "url": "https://a.b/c"},
        '"jaxenvs[train] @ git+https://a.b/c"',
    ),
    # The package came from an index, so pip finds the extra by the package's name.
    (None, '"jaxenvs[train]"'),
]


@pytest.mark.parametrize(("origin", "wanted"), ORIGINS)
def test_an_extra_is_installed_from_where_the_package_came(env, monkeypatch, origin, wanted):
    class Known:
        def __init__(self, origin):
            self.origin = origin

        def read_text(self, name: str) -> str | None:
            return self.origin and json.dumps(self.origin)

    # Two distributions of the package are found. The first has no origin, like the metadata that a
    # build leaves in the checkout. The second is the installed package.
    found = [Known(None), Known(origin)]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: found)
    monkeypatch.setattr(typed, "ROOT", env)
    assert typed.installation("train") == f".venv/bin/pip install {wanted}"
    (env / "pip").unlink()
    assert typed.installation("train") == f".venv/bin/python -m pip install {wanted}"


def test_a_checkout_on_the_path_is_installed_from_its_folder(env, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [])
    monkeypatch.chdir(ROOT)
    assert typed.installation("play") == f'{env / "pip"} install -e ".[play]"'


@pytest.mark.full
def test_pip_accepts_the_command():
    """Let pip parse the requirement in the command; `--dry-run` installs nothing."""
    command = typed.installation("test")
    assert "pip" in command
    offline = "--dry-run --no-deps --no-build-isolation --quiet"
    subprocess.run(f"{command} {offline}", shell=True, check=True, timeout=300)
