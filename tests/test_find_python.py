"""Tests of `.ci/find-python`, which finds Python interpreters on the PATH, of pyenv and of uv."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "find-python"
FAKE = """#!/bin/sh
case $2 in
    *exit*) exit 0 ;;
    *ensurepip*) exit 0 ;;
    *executable*) echo {path} ;;
    *) echo {version} ;;
esac
"""


@pytest.fixture
def machine(tmp_path):
    """Return a folder for a fake PATH, a fake pyenv and a fake uv, all without any Python."""
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(path: Path, version: str) -> Path:
    """Write a fake Python that reports `version` to `find-python`; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(path=path, version=version))
    path.chmod(0o755)
    return path


def find(machine: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    folders = {"PYENV_ROOT": "pyenv", "UV_PYTHON_INSTALL_DIR": "uv", "HOME": "home", "PATH": "bin"}
    env = {name: str(machine / folder) for name, folder in folders.items()} | env
    return subprocess.run(
        ["/bin/sh", SCRIPT, *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_newest_is_the_newest_of_the_path_of_pyenv_and_of_uv(machine):
    old = install(machine / "bin" / "python3", "3.11")
    assert find(machine).stdout.strip() == find(machine, "newest").stdout.strip() == str(old)
    pyenv = install(machine / "pyenv/versions/3.12.1/bin/python3.12", "3.12")
    assert find(machine, "newest").stdout.strip() == str(pyenv)
    # A free-threaded build, which must not be chosen.
    install(machine / "pyenv/versions/3.14.0t/bin/python3.14", "3.14")
    uv = install(machine / "uv/cpython-3.13.2-linux-x86_64-gnu/bin/python3.13", "3.13")
    assert find(machine, "newest").stdout.strip() == str(uv)
    assert find(machine).stdout.strip() == str(old)
    assert find(machine, "3.12").stdout.strip() == str(pyenv)


def test_a_python_outside_the_path_is_found_where_the_path_has_none(machine):
    pyenv = install(machine / "pyenv/versions/3.12.1/bin/python3.12", "3.12")
    assert find(machine).stdout.strip() == str(pyenv)


def test_the_interpreter_of_the_variable_is_the_only_candidate(machine):
    install(machine / "bin" / "python3", "3.11")
    assert Path(find(machine, "newest", PYTHON=sys.executable).stdout.strip()).exists()
    failed = find(machine, PYTHON="/none")
    assert failed.returncode == 1 and "/none does not run" in failed.stderr


def test_a_missing_python_is_named(machine):
    failed = find(machine)
    assert failed.returncode == 1 and "jaxenvs needs Python 3.11 or newer" in failed.stderr
    failed = find(machine, "3.12")
    assert failed.returncode == 1 and "Python 3.12 was not found" in failed.stderr
    assert os.access(SCRIPT.with_name("run"), os.X_OK)
