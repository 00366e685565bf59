"""Build the page of an environment, which `jaxenvs info` prints and the web site shows.

The content comes from the code: docstrings, spaces, shapes of the state, fields and their comments.
Only the returns come from `reference.json`, which `benchmarks/reference.py` writes.
"""

import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import registry
from ..core.checks import counted
from ..core.controls import sign
from ..core.env import Env
from ..core.param_values import constructor_fields
from ..core.registry import EnvSpec
from ..core.spaces import Box, Dict, Space
from .learned import ADDED, UNLEARNED, is_plain, with_additions

REFERENCE = Path(__file__).with_name("reference.json")
LABELS = ("Actions", "Observation", "Reward", "Episode ends", "Resets", "State")
_WORD = rf"({'|'.join(LABELS)})(?: \(field `\w+`\))?: "
_LABEL = re.compile(rf"(?:^|(?<=\. )){_WORD}")
_NEXT = re.compile(rf"\n(?={_WORD.replace('(', '(?:', 1)})")
_DTYPE = re.compile(r"`|(u?int|float)\d+|bool")
_FIELD = re.compile(r"^    (\w+): [^#]*?(?:  # (.*))?$")
Rows = tuple[tuple[str, ...], ...]


class Section(NamedTuple):
    """A section of a page: a heading with paragraphs, a table, or both."""

    title: str
    text: tuple[str, ...] = ()  # paragraphs of text, in which backquotes mark code
    head: tuple[str, ...] = ()  # headings of the table's columns
    rows: Rows = ()


class Page(NamedTuple):
    """The content of the page of one id."""

    id: str
    family: str
    summary: str
    sections: tuple[Section, ...]


def page(id: str) -> Page:
    """Build the page of an id or an alias; raises `UnknownIdError` for an unknown id."""
    spec = registry.spec(id)
    env = spec.make()
    texts = docstring(spec.env_class)
    sections = [
        Section("Rules", texts["Rules"]),
        Section("In short", (), ("property", "value"), _facts(spec, env)),
        _actions(env, texts["Actions"]),
        Section("Observation", texts["Observation"], *_observations(spec, env)),
        Section("Observation layout", (), ("index", "meaning"), env.observation_layout),
        Section("Reward", (*texts["Reward"], f"Range per step: {_range(env)}.")),
        *(Section(label, texts[label]) for label in ("Episode ends", "Resets")),
        _state(env, texts["State"]),
        _fields(env),
        _params(env),
        Section("Achievements", (), ("index", "name"), _numbered(spec.achievements)),
        _returns(spec.id),
    ]
    return Page(spec.id, spec.family, spec.summary, tuple(s for s in sections if s.text or s.rows))


def docstring(env_class: type[Env]) -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of an environment class's docstring, by label.

    A label is a word such as `Actions:` at the start of a line or after a sentence. Text without a
    label gets the label `Rules`. If the class lacks a label, its paragraph comes from the nearest
    base class that has the label. Observations are an exception: the result has the paragraphs of
    the class and of all its bases, because each class describes only the differences from its base.
    """
    texts: dict[str, tuple[str, ...]] = dict.fromkeys(("Rules", *LABELS), ())
    for kind in env_class.__mro__:
        if kind is Env:
            break
        for label, text in _labelled(kind):
            if label == "Rules" and kind is not env_class:
                continue
            if label == "Rules" or label == "Observation" or not texts[label]:
                texts[label] += (text,)
    return texts


def _labelled(kind: type) -> Iterator[tuple[str, str]]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(kind.__doc__ or "")):
        # A label stands at the start of a line or after a sentence.
        for part in _NEXT.split(paragraph):
            line = " ".join(part.split())
            found = list(_LABEL.finditer(line))
            if not found:
                yield "Rules", line
                continue
            ends = [match.start() for match in found[1:]] + [len(line)]
            for match, end in zip(found, ends, strict=True):
                yield match[1], _sentence(line[match.end() : end].strip())


def _sentence(text: str) -> str:
    return text if _DTYPE.match(text) else text[:1].upper() + text[1:]


def _facts(spec: EnvSpec, env: Env) -> Rows:
    kind = spec.env_class
    rows = {
        "id": f"`{spec.id}`",
        "aliases": ", ".join(f"`{alias}`" for alias in spec.aliases) or "none",
        "class": f"`{kind.__module__}.{kind.__qualname__}`",
        "actions": f"`{env.action_space}`",
        "observation": f"`{env.observation_space}`",
        "fully observed": _sight(env),
        "state": f"{state_bytes(env)} bytes",
        "levels of a batch": _source(spec),
    }
    return tuple(rows.items())


def _source(spec: EnvSpec) -> str:
    """Return text that names the default `reset_source`: how a batch makes levels for resets."""
    accelerator = ", on an accelerator `'stock'`" if spec.reset_source == "exact" else ""
    return f"`reset_source={spec.reset_source!r}`{accelerator}"


def _sight(env: Env) -> str:
    """Return text that says whether one observation determines the state.

    If the answer depends on the field `obs`, the text lists the values of `obs` for which
    observations determine the state.
    """
    if env.fully_observed:
        return "yes"
    full = " or ".join(f"`obs={name!r}`" for name in env.full_observations)
    return f"no; yes with {full}" if full else "no"


def _actions(env: Env, text: tuple[str, ...]) -> Section:
    """Return the section about actions: their names, and the keys or clicks of `jaxenvs play`."""
    actions, pointing, values = env.controls
    if pointing is not None:
        places = f"{pointing.rows} x {pointing.columns} places"
        text += (f"A person clicks on the picture, divided into {places}: {pointing.does}.",)
    keys = [", ".join(map(sign, row.keys)) for row in actions]
    if values:  # the actions are continuous, and the table lists the values that keys select
        first = [", ".join(f"{x:g}" for x in np.ravel(value).tolist()) for value in values]
        named = [
            (number, f"`{name}`") for number, name in zip(first, env.controls.names, strict=True)
        ]
    else:
        named = _numbered(env.action_names or env.controls.names) if actions else ()
    rows = [(*row, key) for row, key in zip(named, keys, strict=True)]
    shown = 3 if any(keys) else 2
    head = ("action", "name", "keys of `jaxenvs play`")[:shown]
    return Section("Actions", text, head, tuple(row[:shown] for row in rows))


def _numbered(names: tuple[str, ...]) -> Rows:
    return tuple((str(i), f"`{name}`") for i, name in enumerate(names))


def _observations(spec: EnvSpec, env: Env) -> tuple[tuple[str, ...], Rows]:
    """Return headings and rows of the table of observation arrays, for each value of `obs`."""
    head = ("array", "dtype", "shape", "values", "bytes")
    if not env.observations:
        return head, tuple(_arrays("observation", env.observation_space))
    chosen = getattr(env, "obs")  # noqa: B009 - a field of classes that set `observations`
    names = sorted(env.observations, key=lambda name: name != chosen)
    made = [(name, spec.make(obs=name).observation_space) for name in names]
    rows = [row for name, space in made for row in _arrays(f"obs={name!r}", space)]
    return head, tuple(rows)


def _arrays(name: str, space: Space) -> Iterator[tuple[str, ...]]:
    if isinstance(space, Dict):
        for part, inner in space.spaces.items():
            yield from _arrays(f"{name} {part}", inner)
        return
    values = "any"
    if isinstance(space, Box) and space.low.size:
        values = f"{_number(space.low.min())} to {_number(space.high.max())}"
    shape = jax.ShapeDtypeStruct(space.shape, space.dtype)
    yield f"`{name}`", str(space.dtype), _shape(space.shape), values, str(_bytes(shape))


def _range(env: Env) -> str:
    low, high = env.reward_range
    return f"{_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    return {float("inf"): "infinity", -float("inf"): "-infinity"}.get(value, f"{value:.6g}")


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def state_bytes(env: Env) -> int:
    """Return the size of a state of one environment, in bytes."""
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(env.state_shape))


def _bytes(leaf: Any) -> int:
    return int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize


def _state(env: Env, text: tuple[str, ...]) -> Section:
    leaves = jax.tree_util.tree_flatten_with_path(env.state_shape)[0]
    rows = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path).lstrip(".")
        note = _innermost(env.state_shape, name)
        rows.append((f"`{name}`", str(leaf.dtype), _shape(leaf.shape), str(_bytes(leaf)), note))
    total = ("all", "", "", str(state_bytes(env)), "")
    return Section("State", text, ("field", "dtype", "shape", "bytes", "meaning"), (*rows, total))


def _innermost(state: Any, name: str) -> str:
    """Return the comment that explains a leaf of the state.

    name: path of the leaf, such as `board.player`.

    The result is the comment of the last field in the path that has a comment: of `player`, or else
    of `board`.
    """
    note = ""
    for part in re.split(r"[.\[]", name):
        note = comments(type(state)).get(part, note)
        state = getattr(state, part, None)
    return note


def _fields(env: Env) -> Section:
    notes = comments(type(env))
    rows = tuple(
        (f"`{f.name}`", f"`{getattr(env, f.name)!r}`", notes.get(f.name, ""))
        for f in constructor_fields(env)
    )
    text = ("Keywords of `jaxenvs.make` that change a shape or the compiled program.",)
    return Section("Constructor fields", text, ("field", "value", "meaning"), rows)


def _params(env: Env) -> Section:
    params = env.default_params
    notes = comments(type(params))
    rows = tuple(
        (f"`{f.name}`", _shown(getattr(params, f.name)), notes.get(f.name, ""))
        for f in dataclasses.fields(params)
    )
    text = (
        "Numbers of `env.default_params`, which may differ between environments of a batch. "
        "Keywords of `jaxenvs.make` and `--param NAME=VALUE` set them for all.",
    )
    return Section("Params", text, ("param", "default", "meaning"), rows)


def _shown(value: Any) -> str:
    """Return the text for a param: the number, or the dtypes and shapes of arrays."""
    leaves = jax.tree.leaves(value)
    if all(np.ndim(leaf) == 0 for leaf in leaves):
        return f"`{value!s}`"
    return ", ".join(f"{np.asarray(leaf).dtype} {_shape(np.shape(leaf))}" for leaf in leaves)


@functools.cache
def comments(kind: type) -> dict[str, str]:
    """Return the comments of the annotated fields of a class and its bases: name -> comment.

    The comments are read from the source code; without source code, the result is empty. The
    comment of a field is at the end of the field's line, on the lines above it, or a docstring
    below it. If a subclass annotates a field again without a comment, the comment of the base class
    is used.
    """
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            lines = inspect.getsource(base).splitlines()
        except (OSError, TypeError):
            continue
        above: list[str] = []
        last = ""
        for line in lines:
            field = _FIELD.match(line)
            last = field[1] if field else last
            if line.startswith('    """') and last:
                notes[last] = line.strip(' "')
            if field and (note := field[2] or " ".join(above)):
                notes[field[1]] = note
            above = [*above, line[6:]] if line.startswith("    # ") else []
    return notes


def _returns(id: str) -> Section:
    """Return the section with the recorded returns of random play and of trained policies."""
    table = reference()
    random, runs = table["random"].get(id), table["trained"].get(id, [])
    rows = [("random, legal actions", *_random_row(random))]
    if not any(map(is_plain, runs)):
        rows.append(("PPO", "not recorded", "", ""))
    rows += [_trained_row(run) for run in runs]
    text = () if all(run["learned"] for run in runs) else UNLEARNED
    head = ("policy", "return", "over", "command and date")
    return Section("Reference returns", text, head, tuple(rows))


def _random_row(row: dict[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "not recorded", "", ""
    over = f"{row['episodes']:,} episodes of {row['length']:,.1f} steps on average"
    return f"{row['return']:.4g} (standard error {row['error']:.2g})", over, _made(row)


def _trained_row(run: dict[str, Any]) -> tuple[str, str, str, str]:
    returns = run["returns"]
    mean = f"{np.mean(returns):.4g}"
    if len(returns) > 1:
        mean += f" ({min(returns):.4g} to {max(returns):.4g})"
    if not run["learned"]:
        mean = f"not learned in {run['steps']:,} steps ({mean})"
    over = f"{counted(len(returns), 'seed')}, {run['steps']:,} steps each"
    over += "" if run["evaluated"] else "; the last 200 episodes of training"
    names = {"ppo-rnn": "PPO with a GRU", "ppo-trxl": "PPO with a transformer"}
    names |= {"pqn-rnn": "PQN with a GRU", "alphazero": "AlphaZero", "muzero": "MuZero"}
    names |= {"rainbow": "Rainbow", "dyna": "Dyna", "crossq": "CrossQ"}
    policy = names.get(run["algorithm"], str(run["algorithm"]).upper())
    policy += with_additions(run)
    policy += "".join(f", `{part}`" for part in run["apart"] if part not in ADDED)
    return policy, mean, over, _made(run)


def _made(row: dict[str, Any]) -> str:
    return f"`{row['command']}`, {row['date']}, jaxenvs {row['versions']['jaxenvs']}"


@functools.cache
def reference() -> dict[str, dict[str, Any]]:
    """Return `reference.json`: for each id, the record of `random` play and the `trained` runs."""
    return json.loads(REFERENCE.read_text("utf-8"))
