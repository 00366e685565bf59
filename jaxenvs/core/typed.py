"""Commands for messages, as a user can type them in the current folder with this Python."""

import importlib.metadata
import json
import os
import shlex
import shutil
import sys
import urllib.parse
from pathlib import Path

PROGRAM = "jaxenvs"
ROOT = Path(__file__).resolve().parents[2]  # the checkout, or site-packages


def program() -> str:
    """Return the command that runs `jaxenvs`, such as ".venv/bin/jaxenvs" where PATH lacks it."""
    called = Path((sys.argv or [""])[0])
    if called.name == "__main__.py" and called.parent.name == PROGRAM:
        return f"{_shown(Path(sys.executable))} -m {PROGRAM}"
    return _shown(called) if called.stem == PROGRAM else PROGRAM


def installation(extra: str) -> str:
    """Return the command that installs an extra from the source that jaxenvs was installed from."""
    return f"{pip()} install {_requirement(extra)}"


def pip() -> str:
    """Return the command that runs the pip of this Python."""
    script = Path(sys.executable).with_name("pip")
    return _shown(script) if script.exists() else f"{_shown(Path(sys.executable))} -m pip"


def _requirement(extra: str) -> str:
    """Return pip's argument; it names an index's package only if jaxenvs came from an index."""
    there = importlib.metadata.distributions(name=PROGRAM)  # often two: a build leaves an egg-info
    origin = next(filter(None, (found.read_text("direct_url.json") for found in there)), None)
    if origin is None:
        is_checkout = (ROOT / "pyproject.toml").exists()  # on the path, but not installed
        return f'-e "{_here(ROOT)}[{extra}]"' if is_checkout else f'"{PROGRAM}[{extra}]"'
    found = json.loads(origin)
    if "vcs_info" in found:
        return f'"{PROGRAM}[{extra}] @ {found["vcs_info"]["vcs"]}+{found["url"]}"'
    parts = urllib.parse.urlsplit(found["url"])
    if parts.scheme != "file":
        return f'"{PROGRAM}[{extra}] @ {found["url"]}"'
    editable = "-e " if found.get("dir_info", {}).get("editable") else ""
    return f'{editable}"{_here(Path(urllib.parse.unquote(parts.path)))}[{extra}]"'


def _shown(path: Path) -> str:
    """Return a program's name if PATH finds that very file, else its path."""
    found = shutil.which(path.name)
    is_on_path = found is not None and os.path.abspath(found) == os.path.abspath(path)
    return path.name if is_on_path else shlex.quote(_here(path))


def _here(path: Path) -> str:
    """Return a path, relative to the current folder if it lies in it."""
    path = Path(os.path.abspath(path))  # keeps links: a virtual environment's Python is a link
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
