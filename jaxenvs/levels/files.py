"""Files of levels: texts of levels, separated by lines `---`."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from ..core import param_values, registry
from ..core.checks import suggestion
from ..core.env import Env
from ..core.files import read_text, replacing
from . import api, blocks
from .api import Entry
from .errors import LevelError

# Constructor fields that `id_of` ignores, because they only change observations, or because the
# text of a level contains their values.
OBSERVED = ("obs", "view_size", "see_through_walls", "tile_size", "task")
SHIPPED = Path(__file__).parent / "shipped"  # levels that come with jaxenvs
LARGEST = 256 * 2**20  # maximum size of a file, in bytes


def load(path: str | os.PathLike[str], env: Env | None = None, strict: bool = False) -> list[Entry]:
    """Return the levels of a file, or of all `.txt` files of a folder, sorted by path.

    path: a path, or the name of levels that come with jaxenvs (see `shipped`), such as `mazes` or
        `mazes/Labyrinth`. A name that is also the path of a file or folder means the file or
        folder.
    env: environment of the levels; None: each level names its environment in a line `id:`.
    strict: whether an ambiguous or unusual level is an error, not only a warning.

    Raises `LevelError` with file, line and column, and `ValueError` if there is no level or no such
    file.
    """
    found = [entry for file in text_files(path) for entry in _of_file(file, env, strict)]
    if not found:
        raise ValueError(f"levels={str(path)!r} contains no level")
    return found


def save(
    path: str | os.PathLike[str],
    levels: Sequence[PyTree[Any] | Entry],
    env: Env | None = None,
    form: str | None = None,
) -> None:
    """Write levels to a file that `load` can read; an `Entry` keeps its params and notes.

    env: environment of the levels; None: each level must be an `Entry` with an id.
    form: format of the texts, as for `write`; None: the usual format.

    Raises `ValueError` for no levels, and the errors of `write`.
    """
    content = text(levels, env, form)
    with replacing(path) as temporary:
        temporary.write_text(f"{content}\n", "utf-8", newline="\n")


def text(
    levels: Sequence[PyTree[Any] | Entry], env: Env | None = None, form: str | None = None
) -> str:
    """Return the text of a file with levels; see `save`."""
    found = api.listed(levels, "levels.save")
    if not found:
        raise ValueError("levels.save: no levels were given; give at least one")
    entries = [level if isinstance(level, Entry) else Entry(level) for level in found]
    id, params = ("", {}) if env is None else id_of(env)
    texts = [api.write(_env_of(e, env), _named(e, id, params), form) for e in entries]
    return f"\n{blocks.SEPARATOR}\n".join(texts)


def id_of(env: Env) -> tuple[str, dict[str, Any]]:
    """Return the id of an environment ("" if it has none), and the params given to `make`.

    The id is the one whose environment has the same class and the same fields, except for the
    fields in `OBSERVED`.
    """
    inner = api.bare(env)
    params = dict(getattr(inner, param_values.FIELD))
    plain = dataclasses.replace(inner, **{param_values.FIELD: ()})
    for id in registry.list():
        spec = registry.spec(id)
        if spec.env_class is type(inner):
            made = spec.make()
            seen = {name: getattr(inner, name) for name in OBSERVED if hasattr(made, name)}
            if (dataclasses.replace(made, **seen) if seen else made) == plain:
                return id, params
    return "", params


def name_of(env: Env) -> str:
    """Return the id of an environment for messages; the name of its class if it has no id."""
    return id_of(env)[0] or type(api.bare(env)).__name__


def _named(entry: Entry, id: str, params: dict[str, Any]) -> Entry:
    """Return an entry with `id` ("": none) and `params` added.

    An entry that already has an id is returned unchanged.
    """
    if "id" in entry.notes:
        return entry
    notes = {**entry.notes, **({"id": id} if id else {})}
    return dataclasses.replace(entry, params={**params, **entry.params}, notes=notes)


def _env_of(entry: Entry, env: Env | None) -> Env:
    if env is not None:
        return env
    if "id" not in entry.notes:
        raise ValueError("levels.save: a level has no id; give its environment as env")
    return registry.make(entry.notes["id"])


def text_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the file, or all `.txt` files of the folder; raise `ValueError` if there is none."""
    path = Path(path).expanduser()
    if not os.path.exists(path):  # Path.exists raises an error for a name that is too long
        path = _shipped(path)
    if not path.is_dir():
        return [path]
    # Leave out pipes, because reading a pipe would wait for its writer. Keep broken links, because
    # the user should see the error that reading a broken link raises.
    files = sorted(p for p in path.rglob("*.txt") if p.is_file() or not p.exists())
    if not files:
        raise ValueError(f"levels={str(path)!r}: the folder has no .txt file")
    return files


def shipped() -> list[str]:
    """Return the names of the sets of levels, and of the levels, that come with jaxenvs."""
    found = [*SHIPPED.iterdir(), *SHIPPED.glob("*/*.txt")]
    return sorted(path.relative_to(SHIPPED).with_suffix("").as_posix() for path in found)


def _shipped(name: Path) -> Path:
    """Return the path of levels that come with jaxenvs; raise `ValueError` for another name."""
    known = shipped()
    if name.as_posix() not in known:
        near = suggestion(name.as_posix(), known)
        raise ValueError(f"levels={str(name)!r}: no such file or folder{near}")
    path = SHIPPED / name
    return path if path.is_dir() else path.with_name(f"{path.name}.txt")


def _of_file(file: Path, env: Env | None, strict: bool) -> Iterator[Entry]:
    text = read_text(file, LARGEST, errors="replace")
    split = blocks.split if env is None else api.splitter(env)
    for part, first in split(text):
        try:
            yield api.parse(env or _of_id(part, first), part, strict, line=first)
        except LevelError as error:
            raise LevelError(error.message, error.line, error.column, str(file)) from None


def _of_id(text: str, first: int) -> Env:
    """Make the environment that the line `id:` of a text names."""
    return registry.make(id_in(text, first))


def id_in(text: str, first: int) -> str:
    """Return the id in the line `id:` of a text.

    Raises `LevelError` if the line is missing, if no environment has this id, or if the id names a
    module.

    first: line number of the text in its file.
    """
    for number, line in enumerate(text.split("\n"), first):
        name, colon, value = line.removeprefix(";").partition(":")
        if name.strip() == "id" and colon:
            api.check_no_module(value.strip(), number, 5)
            try:
                registry.spec(value.strip())
            except registry.UnknownIdError as error:
                raise LevelError(str(error), number, 5) from None
            return value.strip()
    raise LevelError(
        "the level has no line `id:`; add one, or name its environment (`--id`)", first
    )
