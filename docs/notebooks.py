"""Run the notebooks of `docs/notebooks`: `python docs/notebooks.py [--write]`.

A notebook fails if a cell raises or takes longer than `LIMIT`. `--write` saves the outputs in the
files, without execution times, which would differ in each run.
"""

import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent / "notebooks"
LIMIT = 300  # seconds that a cell may take on a busy machine
INSTALLS = "%pip"  # start of the cell that installs jaxenvs on Colab; `run` skips this cell


def run(path: Path, write: bool) -> float:
    """Run a notebook, and return how many seconds it took.

    Raises `CellExecutionError` if a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    skipped = [cell for cell in notebook.cells if cell.source.startswith(INSTALLS)]
    sources = [cell.source for cell in skipped]
    for cell in skipped:
        cell.source = ""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:  # for what the notebook writes
        NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": folder}}).execute()
    for cell, source in zip(skipped, sources, strict=True):
        cell.source = source
    if write:
        for number, cell in enumerate(notebook.cells):
            cell.id = f"cell-{number}"
            cell.metadata.pop("execution", None)
        notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
        nbformat.write(notebook, path)
    return time.monotonic() - start


def main(*options: str) -> None:
    """Run all notebooks; `--write` saves their outputs."""
    for path in sorted(HERE.glob("*.ipynb")):
        print(f"{path.name}: {run(path, '--write' in options):.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
