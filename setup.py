"""Metadata that depends on the addresses in `[tool.jaxenvs]` of pyproject.toml.

An index shows README.md without the repository, so its links to files become absolute. Without an
address of the repository, links and pictures become plain text.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
ADDRESSES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["jaxenvs"]
# Code, in a fence or in backquotes, or a link or a picture whose target is a file.
LINK = re.compile(
    r"^```.*?^```$|(?<!\[)`[^`\n]+`|(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def description(readme: str, repository: str, revision: str) -> str:
    """Return README.md with absolute links to the files of a revision of the repository."""

    def link(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        if target is None:  # code
            return match[0]
        if not repository:
            return text
        return f"{mark}[{text}]({repository}/{'raw' if mark else 'blob'}/{revision}/{target})"

    return LINK.sub(link, readme)


def links(repository: str, documentation: str) -> dict[str, str]:
    """Return the project's links by name; those whose address is unknown are left out."""
    found = {"Homepage": documentation or repository, "Documentation": documentation}
    if repository:
        found["Source"] = repository
        found["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
        found["Issues"] = f"{repository}/issues"
    return {name: address for name, address in found.items() if address}


def version() -> str:
    """Return the version, read without an import of jax."""
    code = (ROOT / "jaxenvs" / "__init__.py").read_text("utf-8")
    (found,) = re.findall(r'^__version__ = "(.+)"$', code, re.MULTILINE)
    return found


if __name__ == "__main__":
    setup(
        version=version(),
        long_description=description(
            (ROOT / "README.md").read_text("utf-8"), ADDRESSES["repository"], f"v{version()}"
        ),
        long_description_content_type="text/markdown",
        project_urls=links(**ADDRESSES),
    )
