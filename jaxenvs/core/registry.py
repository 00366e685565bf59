"""Registry of environments: ids `Family-Name[-Size][-Variant]-vN`, and aliases.

An alias is the id of the same environment in the package that it reproduces, such as MiniGrid.
"""

import dataclasses
import importlib
import importlib.metadata
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import checks, param_values
from .env import Env

ENTRY_POINTS = "jaxenvs.envs"  # a third party's entry point names a module that registers its ids
_ID = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*-v[0-9]+")
_ALIAS = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)+")  # aliases may lack a version
# A sentence ends with a full stop after two letters or closing marks: not with "..." or "e.g.".
_SENTENCE = re.compile(r".*?(?<=[\w)`'\"]{2})\.(?=\s|$)")
_specs: dict[str, "EnvSpec"] = {}
_aliases: dict[str, str] = {}
_absent: dict[str, str] = {}  # id of a reproduced package that is missing here -> reason
_modules: dict[str, str] = {}  # first word of ids -> module that registers them
_plugins_loaded = False

EnvClass = TypeVar("EnvClass", bound=type[Env])


# Abstract method -> public method that calls it. A class that overrides the public method need not
# define the abstract one.
_INSTEAD = {"reset_state": "reset_to", "step_state": "step"}


class UnknownIdError(LookupError):
    """No environment is registered under the given id."""


class IncompleteError(TypeError):
    """The class of an environment lacks methods that its author must write."""


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """One entry of the registry."""

    id: str
    env_class: type[Env]
    fields: dict[str, Any]  # constructor fields that the id sets
    aliases: tuple[str, ...] = ()  # ids of the same environment in the reproduced package
    representative: bool = False  # whether the id stands for its class, see `representatives`

    @property
    def family(self) -> str:
        """First word of the id, `Grid` of `Grid-Empty-8x8-v0`."""
        return self.id.split("-", 1)[0]

    @property
    def upstream(self) -> str:
        """Id in the reproduced package: the first alias of this environment, or its id."""
        mine = self.env_class, self.fields
        same = (row for row in _specs.values() if (row.env_class, row.fields) == mine)
        return next((alias for row in (self, *same) for alias in row.aliases), self.id)

    @property
    def reset_source(self) -> str:
        """Default reset source of `make_vec`."""
        return self.make().reset_source

    @property
    def achievements(self) -> tuple[str, ...]:
        """Names of the flags in `info["achievements"]`, in order; empty if there are none."""
        return self.make().achievements

    @property
    def summary(self) -> str:
        """First sentence of the environment's docstring."""
        paragraph = re.split(r"\n\s*\n", inspect.cleandoc(self.env_class.__doc__ or ""))[0]
        line = " ".join(paragraph.split())
        sentence = _SENTENCE.match(line)
        return sentence[0] if sentence else line

    def make(self, **settings: Any) -> Env:
        """Build the environment.

        Keywords are constructor fields, which override the id's fields, or params such as
        `max_steps_in_episode`.
        """
        check_complete(self.env_class, f"make({self.id!r})")
        allowed = [field.name for field in param_values.constructor_fields(self.env_class)]
        fields = {name: value for name, value in settings.items() if name in allowed}
        env = self.env_class(**{**self.fields, **fields})
        given = {name: value for name, value in settings.items() if name not in allowed}
        if not given:
            return env
        numbers = param_values.names(env)
        for name in given:
            if name not in numbers:
                raise TypeError(self._unknown(name, allowed, numbers))
        return param_values.with_params(env, f"make({self.id!r})", given)

    def _unknown(self, name: str, fields: Iterable[str], numbers: Iterable[str]) -> str:
        """Return the message for a keyword that is neither a field nor a param."""
        near = checks.suggestion(name, [*fields, *numbers])
        return (
            f"make({self.id!r}): {self.env_class.__name__} has no field or param {name!r}; its "
            f"fields are {', '.join(fields) or 'none'}; its params are {', '.join(numbers)}{near}"
        )


def register(
    id: str, *, aliases: Iterable[str] = (), representative: bool = False, **fields: Any
) -> Callable[[EnvClass], EnvClass]:
    """Register a subclass of `Env` under `id`, with constructor fields; a class decorator.

    `representative` makes the id stand for its class, see `representatives`. An alias, the id of
    another package, needs no version. Raises `ValueError` for a malformed or taken id, and
    `TypeError` if the decorated object is not a subclass of `Env`.
    """
    aliases = tuple(aliases)
    for name in (id, *aliases):
        if not (_ID if name == id else _ALIAS).fullmatch(name):
            raise ValueError(
                f"register({name!r}): an id is Family-Name[-Size][-Variant]-vN, such as "
                "Grid-Empty-8x8-v0"
            )
        _load(name)
        if name in _specs or name in _aliases:
            raise ValueError(
                f"register({name!r}): this id is taken; raise the version or rename it"
            )

    def add(env_class: EnvClass) -> EnvClass:
        if not (isinstance(env_class, type) and issubclass(env_class, Env)):
            raise TypeError(f"register({id!r}): {env_class!r} must be a subclass of jaxenvs.Env")
        _specs[id] = EnvSpec(id, env_class, fields, aliases, representative)
        _aliases.update(dict.fromkeys(aliases, id))
        return env_class

    return add


def spec(id: str) -> EnvSpec:
    """Return the registry's entry for an id or an alias.

    For `module:Id`, the module is imported first to register its ids. Raises `UnknownIdError`,
    which names the closest ids.
    """
    if not isinstance(id, str):
        raise TypeError(
            f"an environment id is a string such as 'Grid-v0', got {type(id).__name__} {id!r}"
        )
    module, named, name = id.partition(":")
    if named:
        _import(id, module)
        id = name
    if id not in _specs and id not in _aliases:
        _load(id)
    if id not in _specs and id not in _aliases:
        _load_plugins()
    found = _specs.get(_aliases.get(id, id))
    if found is None:
        raise UnknownIdError(_unknown(id))
    return found


def _import(id: str, module: str) -> None:
    try:
        importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise UnknownIdError(
            f"{id}: the module {module!r} cannot be imported ({error}); give module:Id of a module "
            f"that Python finds, such as one in this folder"
        ) from error


def make(id: str, **settings: Any) -> Env:
    """Build the environment registered under `id`.

    Keywords are constructor fields such as `obs="rgb"` and params such as
    `max_steps_in_episode=50`. Raises `UnknownIdError`, `TypeError` for an unknown name,
    `ValueError` for a bad value, and `IncompleteError` if the class lacks a required method.
    """
    return spec(id).make(**settings)


def check_complete(env_class: type[Env], where: str) -> None:
    """Raise `IncompleteError` that names the abstract methods which a class has not written."""

    def inherits(name: str) -> bool:
        return getattr(env_class, name) is getattr(Env, name)

    lacking = [
        name
        for name in dir(env_class)
        if getattr(getattr(env_class, name), "__isabstractmethod__", False)
        and (name not in _INSTEAD or inherits(_INSTEAD[name]))
    ]
    if lacking:
        *most, last = lacking
        names = f"{', '.join(most)} and {last}" if most else last
        raise IncompleteError(
            f"{where}: {env_class.__name__} lacks {names}; every environment defines "
            f"{'them' if most else 'it'} (see 'Write your own environment' in the documentation)"
        )


def families() -> list[str]:
    """Return the families that have registered ids, sorted."""
    _load_all()
    return sorted({s.family for s in _specs.values()})


def classes(family: str | None = None) -> dict[type[Env], list[str]]:
    """Return the registered ids of each class, in the order of `list`: usually smallest first."""
    ids = list(family)
    kinds = dict.fromkeys(_specs[id].env_class for id in ids)
    return {kind: [id for id in ids if _specs[id].env_class is kind] for kind in kinds}


def representatives(family: str | None = None) -> list[str]:
    """Return one id of each class, for benchmarks and pictures, in the order of `list`.

    It is the id registered with `representative=True`, such as the size that papers quote; else
    the id that sets no fields; else the last in order, usually the largest.
    """
    found = []
    for ids in classes(family).values():
        rows = [_specs[id] for id in ids]
        marked = [row.id for row in rows if row.representative]
        plain = [row.id for row in rows if not row.fields]
        found.append((*marked, *plain, ids[-1])[0])
    return sorted(found, key=_natural)


def list(family: str | None = None) -> list[str]:  # callers write `registry.list`
    """Return the registered ids of one family or of all, sorted, `8x8` before `16x16`."""
    known = families()
    if family is not None:
        checks.one_of("registry.list", "family", family, known)
    return sorted((id for id, s in _specs.items() if family in (None, s.family)), key=_natural)


def _natural(id: str) -> tuple[str | int, ...]:
    """Return a sort key that puts `8x8` before `16x16`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", id))


def absent(ids: Iterable[str], reason: str) -> None:
    """Record why ids of a reproduced package are missing here, and what to use instead.

    The error for such an unknown id ends with `reason`. No effect for registered ids.
    """
    _absent.update(dict.fromkeys(ids, reason))


def absences() -> dict[str, str]:
    """Return the ids of reproduced packages that are missing here, each with the reason."""
    _load_all()
    return {id: why for id, why in _absent.items() if id not in _specs and id not in _aliases}


def _unknown(id: str) -> str:
    for name, reason in absences().items():
        if re.fullmatch(re.escape(id) + r"(-v[0-9]+)?", name):
            return f"unknown environment id {id!r}: {reason}"
    ids = [*_specs, *_aliases]
    versions = [name for name in ids if re.fullmatch(re.escape(id) + r"-v[0-9]+", name)]
    if versions:
        return f"unknown environment id {id!r}: an id ends in its version; use {versions[-1]!r}"
    near = checks.suggestion(id, ids)
    return f"unknown environment id {id!r}{near} (all ids: jaxenvs.registry.list())"


def expect(modules: Mapping[str, str]) -> None:
    """Declare, for each first word of ids, the module that registers them; imported when needed."""
    _modules.update(modules)


def homes() -> set[str]:
    """Return the modules that `expect` named."""
    return {*_modules.values()}


def _load(id: str) -> None:
    """Import the module that registers ids with the first word of this one."""
    if module := _modules.get(id.partition("-")[0]):
        importlib.import_module(module)


def _load_all() -> None:
    """Import every module that registers ids."""
    for word in _modules:
        _load(word)
    _load_plugins()


def _load_plugins() -> None:
    """Import the modules that installed packages name under the entry point group, once."""
    global _plugins_loaded
    if not _plugins_loaded:
        _plugins_loaded = True
        for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                entry.load()
            except (Exception, SystemExit) as error:  # the other plugins are still loaded
                owner = entry.dist.name if entry.dist else entry.module
                warnings.warn(
                    f"the environments of {owner} (entry point {entry.name} = {entry.value}) "
                    f"are missing, their import failed: {type(error).__name__}: {error}",
                    stacklevel=3,
                )
