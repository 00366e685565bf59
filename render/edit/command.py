"""`jaxenvs levels edit FILE`: edit the levels of a file in a window or in a browser."""

import argparse
import os

from jaxenvs import levels
from jaxenvs.commands.parser import UsageError
from jaxenvs.core.env import Env
from jaxenvs.levels import palette

from .. import arguments
from .editor import Editor
from .files import File
from .model import Document, Model
from .rescue import rescuing
from .viewer import EditView

NO_ID = "{} does not exist; name the environment of its levels with --id to create it"


def edit(options: argparse.Namespace, env: Env | None, argv: list[str]) -> int:
    """Run `jaxenvs levels edit`; return the exit code."""
    options.gif = options.html = options.screenshot = None
    arguments.check_web(options)
    file = _file(options.file, env)
    editors: list[Editor] = []

    def prepare() -> EditView:
        view = opened(file)
        editors.append(view.editor)
        return view

    if options.web:  # the server's journal stores unsaved changes: `rescuing` is not needed
        return arguments.pages().open_pages(prepare, "levels", argv, options)
    from ..window import open_window

    with rescuing(editors):
        return open_window(prepare, file.path.name, options.tile_size)


def _file(path: str, env: Env | None) -> File:
    """Return the file to edit; raise `UsageError` for a wrong argument, before a window opens."""
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder; name one of its files")
    if env is not None:
        try:
            palette.of(env)
        except NotImplementedError as error:
            raise UsageError(str(error)) from error
    file = File(path, env)
    if not file.exists:
        if env is None:
            raise UsageError(NO_ID.format(path))
        if not file.path.parent.is_dir():
            raise UsageError(f"{path}: no folder {file.path.parent}; create it first")
    return file


def opened(file: File) -> EditView:
    """Return a viewer that edits `file`; raise `UsageError` if the file cannot be edited."""
    try:
        document = _document(file)
    except (levels.LevelError, NotImplementedError, ValueError) as error:
        raise UsageError(str(error)) from error
    model = Model(document, file.env_of)
    if not file.exists:
        model.saved = None
    return EditView(Editor(file, model))


def _document(file: File) -> Document:
    return file.read() if file.exists else file.first()
