"""Tests that the saved notebooks have run, are small and open in Colab.

`make notebooks` runs the notebooks.
"""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "docs" / "notebooks").glob("*.ipynb"))
MOST = 400_000  # limit in bytes on the size of a notebook


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["first-steps", "train-and-watch"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_was_run_without_an_error(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert "".join(code[0]["source"]).startswith('%pip install -q -e "../..[')
    assert [cell["execution_count"] for cell in code[1:]] == [*range(1, len(code))]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    for cell in code[1:]:
        ast.parse("".join(cell["source"]))
    shown = [kind for output in outputs for kind in output.get("data", ())]
    assert "image/png" in shown and "text/html" in shown
    assert path.stat().st_size < MOST and "/opt/" not in path.read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_opens_in_colab(path):
    first = "".join(json.loads(path.read_text())["cells"][0]["source"])
    assert "[![Open in Colab](https://colab.research.google.com/" in first
