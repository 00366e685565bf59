"""Shell commands in messages, for the user to paste into a terminal in the current folder.

The commands run `jaxenvs` or pip with the same Python that runs this program.
"""

import importlib.metadata
import json
import os
import shlex
import shutil
import sys
import urllib.parse
from pathlib import Path

PROGRAM = "jaxenvs"
# folder of the repository, or site-packages if jaxenvs is installed
ROOT = Path(__file__).resolve().parents[2]


def program() -> str:
    """Return the command that runs `jaxenvs`, in the form in which the user called it.

    It is `jaxenvs` if the shell finds this program on PATH, else the program's path, such as
    ".venv/bin/jaxenvs". If the user ran `python -m jaxenvs`, the command ends in `-m jaxenvs`.
    """
    called = Path((sys.argv or [""])[0])
    if called.name == "__main__.py" and called.parent.name == PROGRAM:
        return f"{_shown(Path(sys.executable))} -m {PROGRAM}"
    return _shown(called) if called.stem == PROGRAM else PROGRAM


def installation(extra: str) -> str:
    """Return the pip command that installs an optional extra of jaxenvs.

    The command installs from the source of this jaxenvs: a package index, a URL or a folder.
    """
    return f"{pip()} install {_requirement(extra)}"


def pip() -> str:
    """Return the command that runs pip for the Python that runs this program."""
    script = Path(sys.executable).with_name("pip")
    return _shown(script) if script.exists() else f"{_shown(Path(sys.executable))} -m pip"


def _requirement(extra: str) -> str:
    """Return the argument with which `pip install` adds an extra to this installation of jaxenvs.

    If jaxenvs was installed from a package index, the argument is `"jaxenvs[extra]"`. Otherwise it
    also contains the URL or the folder from which jaxenvs was installed.
    """
    # `distributions` often yields two results for jaxenvs, because a build leaves an egg-info
    # folder in the repository. The first result that has a `direct_url.json` names the source.
    there = importlib.metadata.distributions(name=PROGRAM)
    origin = next(filter(None, (found.read_text("direct_url.json") for found in there)), None)
    if origin is None:
        # True if jaxenvs is imported from a repository without being installed.
        is_checkout = (ROOT / "pyproject.toml").exists()
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
    """Return a program's name if the shell would find this file on PATH, else its path."""
    found = shutil.which(path.name)
    is_on_path = found is not None and os.path.abspath(found) == os.path.abspath(path)
    return path.name if is_on_path else shlex.quote(_here(path))


def _here(path: Path) -> str:
    """Return a path, made relative if it lies in the current folder."""
    # Unlike `Path.resolve`, `abspath` keeps symbolic links, such as a virtual environment's Python.
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
