"""README's code runs as it stands, and its pictures and links exist."""

import re
from pathlib import Path

import jax
import pytest

import jaxenvs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINKS = re.compile(r"\]\((?!https:)([^)#]+)(?:#[^)]*)?\)")  # to files of the repository


def test_the_python_of_the_readme_runs_in_order(capsys):
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    shapes = []
    for block in blocks:
        with jax.numpy_dtype_promotion("standard"):  # as a user has it
            exec(compile(block, "README.md", "exec"), names)
        shapes.append(names["obs"].shape)
    assert "131072 steps" in capsys.readouterr().out
    assert {(8, 40, 40, 3), (445,), (64, 7, 7, 3)} <= set(shapes)
    assert names["result"].optimal.all()
    assert names["floats"].shape == (8268,)


@pytest.mark.parametrize("target", sorted(set(LINKS.findall(README))))
def test_what_the_readme_points_to_exists(target):
    assert (ROOT / target).is_file()


def test_the_commands_of_the_readme_exist():
    from jaxenvs.cli import COMMANDS

    named = set(re.findall(r"^jaxenvs (\w+)", README, re.MULTILINE))
    assert named == set(COMMANDS)


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {jaxenvs.__version__}\n" in citation
