"""Check that a release may start, and print its notes: `notes.py VERSION INDEX REPOSITORY`.

The notes are the version's section of CHANGELOG.md. A release to PyPI needs a date in the heading.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def section(changelog: str, version: str) -> tuple[str, str]:
    """Return the rest of a version's heading and the text below, or exit with an error."""
    heading = rf"^## {re.escape(version)}( [^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no heading '## {version}'")
    return (found[1] or "").strip(), found[2].strip()


def faults(version: str, index: str, repository: str) -> list[str]:
    """Return the reasons why this commit cannot be released as `version`."""
    written = re.findall(r'^__version__ = "(.+)"$', read("jaxenvs/__init__.py"), re.MULTILINE)
    addresses = tomllib.loads(read("pyproject.toml"))["tool"]["jaxenvs"]
    title, _ = section(read("CHANGELOG.md"), version)
    found = []
    if written != [version]:
        found.append(f"jaxenvs/__init__.py has version {written[0]}, not {version}")
    if f"\nversion: {version}\n" not in read("CITATION.cff"):
        found.append(f"CITATION.cff has another version than {version}")
    if f'\n  version: "{version}"\n' not in read(".ci/conda/recipe.yaml"):
        found.append(f".ci/conda/recipe.yaml has another version than {version}")
    if addresses["repository"] != repository:
        found.append(f'set `repository = "{repository}"` below [tool.jaxenvs] in pyproject.toml')
    if index == "pypi" and not re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", title):
        found.append(f"write '## {version} (YYYY-MM-DD)' in CHANGELOG.md, with the date of today")
    return found


def read(name: str) -> str:
    """Return the text of a file of the checkout."""
    return (ROOT / name).read_text("utf-8")


def main(version: str, index: str, repository: str) -> None:
    """Print the notes, or exit with the reasons against the release."""
    if found := faults(version, index, repository):
        sys.exit("\n".join(found))
    print(section(read("CHANGELOG.md"), version)[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
