"""Tests of `python benchmarks NAME`: running a benchmark in a checkout, and missing packages."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(tmp_path: Path, *words: str, hidden: str = "") -> subprocess.CompletedProcess:
    """Run a benchmark from another folder; `hidden` is a package that seems to be missing."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {hidden!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
    )
    command = [sys.executable, str(ROOT / "benchmarks"), *words]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_benchmark_of_the_checkout_runs(tmp_path):
    """The checkout's benchmarks run, even if `jaxenvs` is not installed.

    `hidden` is the import hook of an editable install, so `jaxenvs` seems not to be installed.
    """
    done = run(tmp_path, "card", "--list", hidden="__editable___jaxenvs_0_1_0_finder")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("craft ")


def test_a_checkout_may_be_named_like_the_package(tmp_path):
    """The script finds its checkout even if the folder is `jaxenvs`, the name from `git clone`."""
    checkout = tmp_path / "jaxenvs"
    script = checkout / "benchmarks" / "__main__.py"
    script.parent.mkdir(parents=True)
    script.write_text((ROOT / "benchmarks" / "__main__.py").read_text())
    found = runpy.run_path(str(script))
    assert found["ROOT"] == checkout


def test_a_missing_package_is_named(tmp_path):
    done = run(tmp_path, "card", hidden="jaxtyping")
    assert done.returncode == 2
    assert "jaxtyping is missing: install it, or put a folder with it on PYTHONPATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_name_it_shows_its_help(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2 and "python benchmarks card" in done.stdout
