"""Functions for levels as text (`read`, `write`, `check`) and as arrays (`stack`, `mutate`)."""

import dataclasses
import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from ..core import checks, param_values, registry
from ..core.env import Env
from ..core.random import Key
from ..core.struct import Struct
from . import blocks
from .blocks import NOTES, Block, Header
from .errors import LevelError

LIMIT = "limit"  # name of the param `max_steps_in_episode` in the text of a level


@dataclasses.dataclass(frozen=True)
class Entry:
    """A level that was read from a text, with the other settings in this text."""

    level: PyTree[Any]  # the level; or the state, if the text describes a state
    # Params of the level, by name, such as the time limit.
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Header lines without effect on the level: name -> value. The names are seed, source, author,
    # title, optimal and id.
    notes: dict[str, str] = dataclasses.field(default_factory=dict)
    # Constructor fields of the environment that the text sets, such as the task of XLand.
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)


def read(env: Env, text: str, strict: bool = False, form: str | None = None) -> PyTree[Any]:
    """Return the level in a text, for `env.reset_to`, or the state in it, for `env.step`.

    The text has the format of the environment's family. A text of MiniGrid, BabyAI, XLand or Craft
    with a header `time` describes a state. Mazes have a second format, `form="maze"`, which is
    recognised even without `form`. A maze in this format lacks the outer wall. Its characters are
    `# . G` and, for the agent, one of `> v < ^`.

    Raises `LevelError`, a `ValueError` with line and column. Ambiguous or unusual levels cause a
    `LevelWarning`, or an error if `strict`.
    """
    return parse(env, text, strict, form).level


def parse(
    env: Env, text: str, strict: bool = False, form: str | None = None, line: int | None = None
) -> Entry:
    """Parse a text as `read` does; return its level with the params, notes and fields.

    line: number of the text's first line in its file, for error messages; None: the text is not
        part of a file, so its first line is line 1.
    """
    if not isinstance(text, str):
        raise TypeError(f"levels.read: the text must be a str, got {type(text).__name__}")
    format = _format(env, "read")
    checks.one_of("levels.read", "form", form, format.FORMS)
    text = text.removeprefix("\ufeff")  # byte order mark
    whole, first = blocks.one(text) if line is None else (text, line)
    blocks.check_plain(whole, first)
    block = format.block(whole, first, form) if hasattr(format, "block") else None
    block = blocks.parse(whole, first) if block is None else block
    inner, repeated = format.names(bare(env))
    params = _param_names(env)
    block.check_names((*NOTES, "id", LIMIT, *params, *inner), repeated)
    _check_id(env, block)
    level = format.read(bare(env), block, strict=strict)
    notes = {h.name: h.value for h in block.headers if h.name in (*NOTES, "id")}
    fields = format.fields(bare(env), block) if hasattr(format, "fields") else {}
    return Entry(level, _params(env, block, params), notes, fields)


def write(env: Env, level: PyTree[Any] | Entry, form: str | None = None) -> str:
    """Return a level or a state as text, without a newline at its end.

    `read` turns this text into equal arrays. `form="minigrid"` writes only the picture, exactly as
    minigrid's `pprint_grid` does. This text lacks some colours and all header lines.

    Raises `ValueError` for a value that no text can describe, and if the text would be larger than
    64 KiB.
    """
    format = _format(env, "write")
    checks.one_of("levels.write", "form", form, format.FORMS)
    entry = level if isinstance(level, Entry) else Entry(level)
    _check_single(env, entry.level)
    _check_entry(env, entry)
    inner = dataclasses.replace(bare(env), **entry.fields)
    headers, picture = format.write(inner, entry.level, form)
    if form is None:
        first = [("id", entry.notes["id"])] if "id" in entry.notes else []
        notes = [(name, value) for name, value in entry.notes.items() if name != "id"]
        numbers = [(_short(name), f"{value}") for name, value in entry.params.items()]
        headers = [*first, *notes, *headers, *numbers]
    text = getattr(format, "layout", blocks.format)(headers, picture)
    if (size := len(text.encode())) > blocks.MOST_BYTES:
        raise ValueError(
            f"levels.write: the text has {size:,} bytes, and only texts of up to "
            f"{blocks.MOST_BYTES:,} can be read; save_state stores states of any size"
        )
    return text


def check(env: Env, level: PyTree[Any]) -> list[str]:
    """Return a list: the first error in a level or, if there is no error, all warnings.

    The level is written as text and read again, so all rules of `read` apply. An empty list means
    that there is nothing to report.
    """
    try:
        text = write(env, level)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read(env, text)
    except (LevelError, ValueError, TypeError) as error:
        return [str(error)]
    return [str(warning.message) for warning in caught]


def mutate(env: Env, key: Key, level: PyTree[Any], edits: int | Array = 1) -> PyTree[Any]:
    """Return a level after random edits, such as an added wall, a removed wall or a moved object.

    The result is valid for `reset_to`, and its mission names only objects that exist, but the level
    may be unsolvable. An edit that is impossible in the level is skipped. Works inside `jit` and
    `vmap`.
    """
    module = _format(env, "mutate")
    if not hasattr(module, "mutate"):
        raise NotImplementedError(
            f"levels.mutate: there are no edits of {type(bare(env)).__name__}; families with edits "
            "are Grid, BabyAI and Puzzle-Sokoban"
        )
    return module.mutate(bare(env), checks.single_key(key, "levels.mutate"), level, edits)


def stack(levels: Sequence[PyTree[Any]]) -> PyTree[Any]:
    """Stack levels of equal shapes along a new first axis, for `jax.vmap`.

    Levels are never padded. Raises `ValueError` for no levels, or for different structures or
    shapes.
    """
    found = [level.level if isinstance(level, Entry) else level for level in levels]
    if not found:
        raise ValueError("levels.stack: no levels were given; give at least one")
    first = jax.tree_util.tree_leaves_with_path(found[0])
    for number, level in enumerate(found):
        if jax.tree.structure(level) != jax.tree.structure(found[0]):
            raise ValueError(
                f"levels.stack: level {number} has other parts than level 0; stack levels of one "
                "environment"
            )
        for (path, a), b in zip(first, jax.tree.leaves(level), strict=True):
            if jnp.shape(a) != jnp.shape(b):
                name = jax.tree_util.keystr(path)
                raise ValueError(
                    f"levels.stack: level{name} has shape {jnp.shape(b)} in level {number} and "
                    f"{jnp.shape(a)} in level 0; stack levels of equal size"
                )
    return jax.tree.map(_stacked, *found)


def _stacked(*leaves: Any) -> Array:
    """Stack arrays, on the host if possible.

    XLA takes a minute to compile a stack of 4,000 arrays.
    """
    on_device = any(isinstance(leaf, Tracer) for leaf in leaves) or jnp.issubdtype(
        jnp.asarray(leaves[0]).dtype, jax.dtypes.prng_key
    )
    if on_device:
        return jnp.stack([jnp.asarray(leaf) for leaf in leaves])
    return jnp.asarray(np.stack(jax.device_get(leaves)))


def splitter(env: Env) -> Any:
    """Return the function that splits a file with levels of `env` into texts."""
    return getattr(_format(env, "load"), "split", blocks.split)


def bare(env: Env) -> Any:
    """Return the environment without wrappers."""
    return getattr(env, "unwrapped", env)


def with_fields(env: Any, fields: dict[str, Any]) -> Any:
    """Return `env` with other constructor fields; a wrapper around it stays."""
    if not fields:
        return env
    if env is bare(env):
        return dataclasses.replace(env, **fields)
    return dataclasses.replace(env, env=with_fields(env.env, fields))


def _format(env: Env, what: str) -> Any:
    """Return the module that reads and writes the levels of `env`."""
    name = bare(env).level_format
    if not name:
        raise NotImplementedError(
            f"levels.{what}: levels of {type(bare(env)).__name__} have no text; families with "
            "texts are Grid, BabyAI, XLand, Craft and Puzzle"
        )
    return importlib.import_module(name)


def _check_single(env: Env, level: PyTree[Any]) -> None:
    """Raise `TypeError` unless `level` is one level, or one state, of `env`."""
    for wanted in (bare(env).level_shape, bare(env).state_shape):
        if type(wanted) is type(level):
            checks.level_like(level, lambda wanted=wanted: wanted, "levels.write")
            return
    bases = type(bare(env).level_shape).__mro__
    base = tuple(kind for kind in bases if kind not in (object, Struct))
    if not isinstance(level, base):
        raise TypeError(
            "levels.write: give a level of env.sample_level or levels.read, or a state, got "
            f"{type(level).__name__}"
        )


def _check_entry(env: Env, entry: Entry) -> None:
    """Raise `ValueError` for a note or a param that `read` would not accept."""
    for name, value in entry.notes.items():
        if name not in (*NOTES, "id") or len(f"{value}.".splitlines()) > 1:
            raise ValueError(
                f"levels.write: the note {name}={value!r} must be one line, with one of the names "
                f"{', '.join((*NOTES, 'id'))}"
            )
    known = _param_names(env)
    if unknown := [name for name in entry.params if name not in known]:
        raise ValueError(
            f"levels.write: {bare(env).name} has no param {unknown[0]!r}; params: "
            f"{', '.join(known)}"
        )
    for name, value in entry.params.items():
        default = np.asarray(getattr(bare(env).default_params, name))
        try:
            _parsed(f"{value}", default, name)
        except ValueError as error:
            raise ValueError(f"levels.write: the param {name}={value!r}: {error}") from None


def listed(levels: Any, where: str) -> list[Any]:
    """Return `levels` as a list; `TypeError` for one level or for stacked levels."""
    if isinstance(levels, (Entry, Struct)):
        raise TypeError(f"{where}: give a list of levels, got one {type(levels).__name__}")
    return list(levels)


def _param_names(env: Env) -> tuple[str, ...]:
    return param_values.names(bare(env))


def _short(name: str) -> str:
    return LIMIT if name == param_values.LIMIT else name


def _params(env: Env, block: Block, names: Sequence[str]) -> dict[str, Any]:
    """Return the params that the block sets, with the dtypes of the environment."""
    defaults, found = bare(env).default_params, {}
    for header in block.headers:
        name = param_values.LIMIT if header.name == LIMIT else header.name
        if name in found:
            raise header.error(
                f"`{LIMIT}` and `{name}` are the same param; remove one of the lines"
            )
        if name in names:
            found[name] = _number(header, np.asarray(getattr(defaults, name)), name)
    return found


def _number(header: Header, default: np.ndarray, name: str) -> Any:
    try:
        return _parsed(header.value, default, name)
    except ValueError as error:
        raise header.error(str(error)) from None


def _parsed(text: str, default: np.ndarray, name: str) -> Any:
    """Return the value of the param `name`; raise `ValueError` if its text is not allowed."""
    kind = int if default.dtype.kind in "iu" else float
    try:
        value = np.asarray(kind(text) if len(text) < 20 else "long", default.dtype)
    except (ValueError, OverflowError):
        raise ValueError(f"the value must be a number of dtype {default.dtype}") from None
    if name == param_values.LIMIT and value < 1:
        raise ValueError("a time limit must be at least 1")
    if not np.isfinite(value):
        raise ValueError("the value must be finite")
    return value[()]


def check_no_module(id: str, line: int, column: int) -> None:
    """Raise `LevelError` for an id `module:Id`: the text of a level must not import modules."""
    module, colon, name = id.partition(":")
    if colon:
        raise LevelError(
            f"the id {id!r} names a module, which a level cannot import; import {module!r} "
            f"yourself, and write the id {name!r} alone",
            line,
            column,
        )


def _check_id(env: Env, block: Block) -> None:
    """Raise `LevelError` if the block names the id of another environment class."""
    header = block.get("id")
    if header is None:
        return
    check_no_module(header.value, header.line, header.column)
    try:
        spec = registry.spec(header.value)
    except registry.UnknownIdError as error:
        raise header.error(str(error)) from None
    if spec.env_class is not type(bare(env)):
        raise header.error(
            f"this is no level of {type(bare(env)).__name__}; read it with "
            f"jaxenvs.make({header.value!r})"
        )
