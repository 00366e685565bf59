"""Helpers of the editor's tests: files with levels, editors with a stand-in solver, key presses."""

from collections.abc import Callable
from pathlib import Path

import jaxenvs
from jaxenvs.render.edit.editor import Editor
from jaxenvs.render.edit.files import File
from jaxenvs.render.edit.model import Model
from jaxenvs.render.edit.viewer import EditView
from jaxenvs.render.plans import Answer, Planner
from jaxenvs.render.shown import PRESS

DOOR = """id: Grid-GoToDoor-5x5-v0
title: two doors
seed: 7
mission: go to the red door
grid:
WGDRWGWGWG
WG      WG
WG  >>  WG
WG      DB
WGWGWGWGWG"""
KEY = """id: Grid-DoorKey-5x5-v0
grid:
WGWGWGWGWG
WG>>WG  WG
WGKYLY  WG
WG  WGGGWG
WGWGWGWGWG"""


def written(tmp_path: Path, *texts: str) -> Path:
    """Write a file of levels and return its path."""
    path = tmp_path / "levels.txt"
    path.write_text("\n---\n".join(texts) + "\n")
    return path


def editor_of(
    path: Path, id: str = "", solve: Callable[..., Answer] | None = None, **fields: int
) -> Editor:
    """Return the editor of a file; by default with a fake solver that solves levels in 5 steps."""
    file = File(path, jaxenvs.make(id, **fields) if id else None)
    model = Model(file.read() if file.exists else file.first(), file.env_of)
    if not file.exists:
        model.saved = None
    planner = Planner(solve or (lambda env, level: Answer(5, (2,) * 5, 5, True)))
    return Editor(file, model, planner)


def pressed(view: EditView, *keys: str) -> None:
    """Press keys."""
    for key in keys:
        view.run(PRESS, key)
