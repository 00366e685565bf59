"""Tests of README.md: code runs, links lead to files, measured numbers equal those in the docs."""

import re
from pathlib import Path

import jax
import pytest

import jaxenvs
from jaxenvs.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINKS = re.compile(r"\]\((?!https:)([^)#]+)(?:#[^)]*)?\)")  # links to files of the repository


def commands(text: str) -> set[str]:
    """Return the commands in the code blocks of a page."""
    code = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    return set(re.findall(r"^(?:\.venv/bin/)?jaxenvs (\w[\w-]*)", code, re.MULTILINE))


def test_the_code_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    # Run the code as users do, with standard dtype promotion; the tests set strict promotion.
    with jax.numpy_dtype_promotion("standard"):
        exec(compile(block, "README.md", "exec"), names)
    assert "131072 steps" in capsys.readouterr().out
    assert names["obs"].shape == (7, 7, 3) and names["picture"].ndim == 3


@pytest.mark.parametrize("target", sorted(set(LINKS.findall(README))))
def test_links_lead_to_files(target):
    assert (ROOT / target).is_file()


def test_its_commands_exist_and_the_page_of_commands_has_all():
    assert {"play", "train"} <= commands(README) <= set(COMMANDS)
    assert commands((ROOT / "docs" / "commands.md").read_text()) == set(COMMANDS)


def test_its_figures_are_those_of_the_tables():
    """Each measured number in README.md occurs in a table of docs/performance.md.

    A script writes these tables from the JSON results of measurements.
    """
    figures = README.partition("## Three figures")[2].partition("\n## ")[0]
    quoted = re.findall(r"(\d+(?:\.\d+)? [Mk])\b", figures) + re.findall(r"(\d+) times", figures)
    performance = (ROOT / "docs" / "performance.md").read_text()
    tables = "".join(re.findall(r"<!-- table: .*?<!-- end -->", performance, re.DOTALL))
    assert len(quoted) == 7
    assert not [figure for figure in quoted if not re.search(rf"(?<![\d.]){figure}\b", tables)]


def test_the_number_of_ids():
    """There are more ids than README.md says; it states only a lower bound."""
    (bound,) = re.findall(r"more than (\d+) ids", README)
    assert int(bound) < len(jaxenvs.registry.list())


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {jaxenvs.__version__}\n" in citation
