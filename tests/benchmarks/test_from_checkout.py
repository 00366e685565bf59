"""`python benchmarks NAME`: an instrument from a checkout, or what it lacks."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(tmp_path: Path, *words: str, hidden: str = "") -> subprocess.CompletedProcess:
    """Run from elsewhere; `hidden` is a package that is not there."""
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


def test_an_instrument_runs_as_of_the_checkout(tmp_path):
    """No other folder has `jaxenvs.benchmarks` here: an installed one is hidden, too."""
    done = run(tmp_path, "card", "--list", hidden="__editable___jaxenvs_0_1_0_finder")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("craft ")


def test_what_it_needs_and_lacks_is_named(tmp_path):
    done = run(tmp_path, "card", hidden="jaxtyping")
    assert done.returncode == 2
    assert "jaxtyping is missing: install it, or put a folder with it on PYTHONPATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_name_it_explains_itself(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2 and "python benchmarks card" in done.stdout
