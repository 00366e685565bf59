"""The flags of a learner in groups: one for each class that declares some, headed by its docstring.

A new setting thus appears in --help once it is declared.
"""

import dataclasses
import inspect
from typing import Annotated, Any, get_args

import tyro

from jaxenvs.commands.page import comments

from ..algorithms import ALGORITHMS
from ..schedules import UNSHOWN

HOME = "baselines"
Kinds = tuple[type, ...]


def read(argv: list[str], default: Any, kinds: Kinds, prog: str, about: str) -> Any:
    """Read flags over `default`, a dataclass with another one as its field `settings`.

    `kinds` are the classes that declare fields of `default`, the most wanted first; those of the
    settings follow the first of them.
    """
    first, *rest = kinds
    groups, taken = [_group(first, default)], set[str]()
    for kind in reversed(type(default.settings).__mro__):
        made = _group(kind, default.settings, taken)
        taken |= {field.name for field in dataclasses.fields(made)}
        groups.append(made)
    groups += [_group(kind, default) for kind in rest]
    shown = {group.__name__: group for group in groups if dataclasses.fields(group)}
    page = dataclasses.make_dataclass("Flags", [(n, g, g()) for n, g in shown.items()])
    found = tyro.cli(
        page, args=argv, prog=prog, description=about, config=(tyro.conf.OmitArgPrefixes,)
    )
    values: dict[str, Any] = {}
    for name in shown:
        values |= vars(getattr(found, name))
    settings = {name: values.pop(name) for name in taken}
    return type(default)(settings=dataclasses.replace(default.settings, **settings), **values)


def _group(kind: type, default: Any, without: Any = ()) -> Any:
    """A dataclass of the fields that a class itself declares."""
    own = inspect.get_annotations(kind) if "__dataclass_fields__" in vars(kind) else ()
    notes = comments(type(default))
    fields = [
        (field.name, _shown(field.type, getattr(default, field.name), notes.get(field.name, "")))
        for field in dataclasses.fields(default)
        if field.name in own and field.name not in (*without, *UNSHOWN, "settings")
    ]
    made = [(name, kind, getattr(default, name)) for name, kind in fields]
    name, about = kind.__name__.strip("_").lower(), kind.__doc__
    if name == "settings":
        row = next(r for r in ALGORITHMS.values() if kind.__module__.endswith(HOME + r.module))
        name, about = row.name.replace("-", "_"), f"Settings of {row.title}."
    return dataclasses.make_dataclass(name, made, namespace={"__doc__": about}, frozen=True)


def _shown(kind: Any, value: Any, note: str) -> Any:
    """The type of a field with its help; without `None` among the values."""
    kinds = [one for one in get_args(kind) if one is not type(None)]
    hint: dict[str, Any] = {} if value not in (None, (), "") else {"help_behavior_hint": ""}
    if len(kinds) < len(get_args(kind)):
        hint["metavar"] = kinds[0].__name__.upper()
    return Annotated[kind, tyro.conf.arg(help=note, **hint)]
