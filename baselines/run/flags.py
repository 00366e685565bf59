"""Command-line flags of a learner, generated from the fields of its `Settings`.

A new field of a settings class adds a flag, and the field's comment becomes the text in --help. In
--help, each settings class, including base classes, has a group with the flags that it declares.
The heading of the group is the docstring of the class. A learner's own class, named `Settings`, has
the heading `Settings of` and the learner's title.
"""

import dataclasses
import inspect
import itertools
import os
import shutil
from typing import Annotated, Any, get_args

import tyro

from jaxenvs.commands.page import comments
from jaxenvs.commands.parser import suggested, whole
from jaxenvs.core.typed import PROGRAM, program

from ..core.bounds import python_type
from ..core.schedules import UNSHOWN
from ..old_names import current_settings
from ..registry import ALGORITHMS, join_names
from ..storage.checkpoints import RunError

HOME = "baselines"
LEAST_COLUMNS = 20  # in a narrower terminal, tyro does not finish to lay out its help
MOST_NAMED = 8  # largest number of learners that a message about an unknown flag names
Kinds = tuple[type, ...]


def read(argv: list[str], default: Any, kinds: Kinds, prog: str, about: str) -> Any:
    """Read the flags in `argv`; return a copy of `default` with their values.

    `default` is a dataclass with the default of every flag. Its field `settings` holds the
    learner's settings. `kinds` are the classes that declare its other fields. --help lists the
    fields of the first of these classes, then the learner's settings, then the other classes.
    """
    if shutil.get_terminal_size().columns < LEAST_COLUMNS:
        os.environ["COLUMNS"] = str(LEAST_COLUMNS)
    first, *rest = kinds
    prog = prog.replace(PROGRAM, program(), 1)  # show the command that works on this machine
    groups, taken = [_group(first, default)], set[str]()
    for kind in reversed(type(default.settings).__mro__):
        made = _group(kind, default.settings, taken)
        taken |= {field.name for field in dataclasses.fields(made)}
        groups.append(made)
    groups += [_group(kind, default) for kind in rest]
    shown = {group.__name__: group for group in groups if dataclasses.fields(group)}
    page = dataclasses.make_dataclass("Flags", [(n, g, g()) for n, g in shown.items()])
    found, unknown = tyro.cli(
        page,
        args=_spelled(argv, default.settings),
        prog=prog,
        description=about,
        config=(tyro.conf.OmitArgPrefixes,),
        return_unknown_args=True,
    )
    if unknown:
        names = [field.name for group in groups for field in dataclasses.fields(group)]
        raise RunError(_refusal(prog, unknown, names))
    values: dict[str, Any] = {}
    for name in shown:
        values |= vars(getattr(found, name))
    settings = {name: values.pop(name) for name in taken}
    return type(default)(settings=dataclasses.replace(default.settings, **settings), **values)


def _spelled(argv: list[str], settings: Any) -> list[str]:
    """Return the arguments with a value after each flag of a boolean that may be None.

    `--x` becomes `--x True`, and `--no-x` becomes `--x False`. tyro reads such pairs only for
    booleans that cannot be None. Raises `RunError` for a value of `--no-x`.
    """
    kinds = {field.name: python_type(field.type) for field in dataclasses.fields(settings)}
    flags = {f"--{name}".replace("_", "-") for name, kind in kinds.items() if kind == bool | None}
    texts = []
    for given, following in itertools.zip_longest(argv, argv[1:], fillvalue=""):
        name, has_equals, _ = given.replace("_", "-").partition("=")
        positive = "--" + name.removeprefix("--no-")
        if name in flags and not has_equals and following not in ("True", "False", "None"):
            texts += [name, "True"]
        elif name.startswith("--no-") and positive in flags:
            if has_equals or following in ("True", "False", "None"):
                raise RunError(f"{name} takes no value; give {positive} or {name} alone")
            texts += [positive, "False"]
        else:
            texts.append(given)
    return texts


def _refusal(prog: str, unknown: list[str], names: list[str]) -> str:
    """Return the error message for unknown arguments; the caller adds the program's name."""
    options = ["--" + name.replace("_", "-") for name in names]
    option = unknown[0].partition("=")[0]
    near = suggested(option, options) if option.startswith("-") else ""
    having = _learners_with(option) if option.startswith("--") else []
    if 0 < len(having) <= MOST_NAMED:
        near = f"; {option} is a flag of --algo {join_names(having)}"
    return f"unrecognized arguments: {' '.join(unknown)}{near}; `{prog} --help` lists the arguments"


def _learners_with(option: str) -> list[str]:
    """Return the names of the learners that have a flag, by its new or its old name."""
    given, found = option.removeprefix("--").replace("-", "_"), []
    for row in ALGORITHMS.values():
        (name,) = current_settings(row.name, {given: None})
        fields = {field.name for field in dataclasses.fields(row.load().Settings)}
        found += [row.name] if name in fields - set(UNSHOWN) else []
    return found


def _group(kind: type, default: Any, taken: Any = ()) -> Any:
    """Return a group of flags: a dataclass with the fields that the class `kind` itself declares.

    Inherited fields and the fields named in `taken` are left out. Defaults are the values of
    `default`, an instance of `kind` or of a subclass.
    """
    own = inspect.get_annotations(kind) if "__dataclass_fields__" in vars(kind) else ()
    notes = comments(type(default))
    fields = [
        (field.name, _shown(field, getattr(default, field.name), notes.get(field.name, "")))
        for field in dataclasses.fields(default)
        if field.name in own and field.name not in (*taken, *UNSHOWN, "settings")
    ]
    made = [(name, kind, getattr(default, name)) for name, kind in fields]
    name, about = kind.__name__.strip("_").lower(), kind.__doc__
    if name == "settings":
        row = next(r for r in ALGORITHMS.values() if kind.__module__.endswith(HOME + r.module))
        name, about = row.name.replace("-", "_"), f"Settings of {row.title}."
    return dataclasses.make_dataclass(name, made, namespace={"__doc__": about}, frozen=True)


def _count(optional: bool) -> Any:
    """Return the tyro type of an integer flag, whose value may also be written as 1e5.

    If `optional`, the value may also be None.
    """

    def read(texts: list[str]) -> int | None:
        return None if optional and texts == ["None"] else whole(texts[0])

    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int) or (optional and value is None),
        str_from_instance=lambda value: [str(value)],
    )
    return Annotated[int | None if optional else int, spec]


def _shown(field: dataclasses.Field[Any], value: Any, note: str) -> Any:
    """Return the tyro type of a field, with the help text `note`.

    An optional field accepts None as a value, which --help does not mention. A boolean that may be
    None is shown as a pair of flags, like other booleans, see `_spelled`.
    """
    kind = python_type(field.type)
    kinds = [one for one in get_args(kind) if one is not type(None)]
    hint: dict[str, Any] = {} if value not in (None, (), "") else {"help_behavior_hint": ""}
    if kinds == [bool]:
        names = [f"--no-{field.name.replace('_', '-')}"]
        return Annotated[kind, tyro.conf.arg(help=note, metavar="", aliases=names, **hint)]
    if kind is int or kinds == [int]:
        return Annotated[_count(kind is not int), tyro.conf.arg(help=note, **hint)]
    if len(kinds) < len(get_args(kind)):
        hint["metavar"] = kinds[0].__name__.upper()
    return Annotated[kind, tyro.conf.arg(help=note, **hint)]
