"""Tests of a release: metadata, description on PyPI, release notes and conda recipe."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import jaxenvs

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
README = (ROOT / "README.md").read_text()
RECIPE = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text()
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "https://host.org/jaxenvs"


def module(path: str):
    """Import a script of the repository that is outside the package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_script", ROOT / path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


SETUP, NOTES = module("setup.py"), module(".ci/notes.py")


def targets(text: str) -> list[str]:
    """Return the targets of the links and pictures of a page."""
    return re.findall(r"\]\(([^)]*)\)", CODE.sub("", text))


def test_the_description_on_an_index_has_only_absolute_links():
    text = SETUP.description(README, ADDRESS, "v1.2.3")
    assert len(targets(text)) == len(targets(README))
    assert all(target.startswith("https://") for target in targets(text))
    assert f"![Levels of MiniGrid and BabyAI]({ADDRESS}/raw/v1.2.3/docs/grid.png)" in text
    assert f"[first steps]({ADDRESS}/blob/v1.2.3/docs/tutorials/first-steps.md)" in text
    assert f"[`CHANGELOG.md`]({ADDRESS}/blob/v1.2.3/CHANGELOG.md)" in text
    assert CODE.findall(text) == CODE.findall(README)


def test_without_an_address_the_description_has_no_broken_link():
    text = SETUP.description(README, "", "v1.2.3")
    assert targets(text) == [t for t in targets(README) if t.startswith("https://")]
    assert "Levels of MiniGrid and BabyAI" in text and CODE.findall(text) == CODE.findall(README)


def test_the_project_links_come_from_the_addresses_and_skip_unknown_ones():
    assert SETUP.links("", "") == {}
    found = SETUP.links(ADDRESS, "https://docs.org")
    assert [*found] == ["Homepage", "Documentation", "Source", "Changelog", "Issues"]
    assert found["Homepage"] == found["Documentation"] == "https://docs.org"
    assert SETUP.links(ADDRESS, "")["Homepage"] == found["Source"] == ADDRESS


def test_addresses_have_no_slash_at_the_end():
    assert not [a for a in SETTINGS["tool"]["jaxenvs"].values() if a.endswith("/")]


def test_the_version_is_read_without_an_import():
    assert SETUP.version() == jaxenvs.__version__


def test_a_release_is_tested_on_every_python_that_the_metadata_names():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow)[1]) == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_conda_recipe_agrees_with_the_metadata():
    run = RECIPE.partition("  run:\n")[2].partition("\n\n")[0]
    needed = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    assert needed == {*PROJECT["dependencies"], "python>=${{python_min}}"}
    assert f'version: "{jaxenvs.__version__}"' in RECIPE
    assert f'python_min: "{PROJECT["requires-python"].strip(">=")}"' in RECIPE
    assert f"- jaxenvs = {PROJECT['scripts']['jaxenvs']}" in RECIPE
    assert SETTINGS["build-system"]["requires"] == ["setuptools>=77"]
    assert "- setuptools >=77" in RECIPE and f"license: {PROJECT['license']}" in RECIPE


LOG = """# Changelog

## 0.3.0 (unreleased)

new

### Added

- a

## 0.2.0 (2026-01-02)

old
"""


def test_the_notes_are_the_section_of_the_version():
    assert NOTES.section(LOG, "0.3.0") == ("(unreleased)", "new\n\n### Added\n\n- a")
    assert NOTES.section(LOG, "0.2.0") == ("(2026-01-02)", "old")
    with pytest.raises(SystemExit, match=r"no heading '## 0\.1\.0'"):
        NOTES.section(LOG, "0.1.0")


@pytest.mark.parametrize("index", ["testpypi", "pypi"])
def test_a_release_needs_equal_versions_the_address_and_a_date(index, monkeypatch):
    files = {
        "jaxenvs/__init__.py": '__version__ = "0.3.0"\n',
        "CITATION.cff": "title: t\nversion: 0.3.0\n",
        ".ci/conda/recipe.yaml": 'context:\n  version: "0.3.0"\n',
        "pyproject.toml": f'[tool.jaxenvs]\nrepository = "{ADDRESS}"\n',
        "CHANGELOG.md": LOG.replace("(unreleased)", "(2026-02-03)"),
    }
    monkeypatch.setattr(NOTES, "read", files.__getitem__)
    assert not NOTES.faults("0.3.0", index, ADDRESS)
    assert len(NOTES.faults("0.2.0", index, "https://other.org")) == 4
    files["CHANGELOG.md"] = LOG
    assert len(NOTES.faults("0.3.0", index, ADDRESS)) == (index == "pypi")
