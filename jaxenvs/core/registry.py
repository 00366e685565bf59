"""The registry of environments, which maps ids to environment classes and their settings.

An id has the form `Family-Name[-Size][-Variant]-vN`, such as `Grid-Empty-8x8-v0`. An alias is the
id of the same environment in another package, such as MiniGrid. The first use of an id imports the
module that registers the id.
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

# Entry point group in which other packages list modules that register ids.
ENTRY_POINTS = "jaxenvs.envs"
LEVELS = "levels"  # keyword of `make` for the levels in which episodes begin
_ID = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*-v[0-9]+")
# Pattern of an alias. Unlike an id of jaxenvs, it may lack a version.
_ALIAS = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)+")
# Matches a sentence. Its full stop follows two letters or closing marks, unlike "..." and "e.g.".
_SENTENCE = re.compile(r".*?(?<=[\w)`'\"]{2})\.(?=\s|$)")
_specs: dict[str, "EnvSpec"] = {}
_aliases: dict[str, str] = {}
# Id of another package's environment that jaxenvs does not reproduce -> reason.
_absent: dict[str, str] = {}
_modules: dict[str, str] = {}  # first word of ids, such as "Grid" -> module that registers them
_plugins_loaded = False

EnvClass = TypeVar("EnvClass", bound=type[Env])


# Abstract method -> public method that calls it. A class must override one of the two; the abstract
# method is not needed if the public method is overridden, because nothing else calls it.
_INSTEAD = {"reset_state": "reset_to", "step_state": "step"}


class UnknownIdError(LookupError):
    """Raised for an id that no environment is registered under."""


class IncompleteError(TypeError):
    """Raised if an environment class lacks methods that its author must write."""


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """One entry of the registry: an id, the class of its environment, and the id's settings."""

    id: str
    env_class: type[Env]
    fields: dict[str, Any]  # values that the id sets for constructor fields of the class
    aliases: tuple[str, ...] = ()  # ids that this environment has in the package that it reproduces
    # Whether benchmarks and pictures use this id for its class, see `representatives`.
    representative: bool = False

    @property
    def family(self) -> str:
        """First word of the id, such as `Grid` in `Grid-Empty-8x8-v0`."""
        return self.id.split("-", 1)[0]

    @property
    def upstream(self) -> str:
        """Id of this environment in the package that it reproduces: the first alias of this id.

        If this id has no alias, the result is the first alias of another id with the same class and
        fields. If there is no such alias, the result is the id itself.
        """
        mine = self.env_class, self.fields
        same = (row for row in _specs.values() if (row.env_class, row.fields) == mine)
        return next((alias for row in (self, *same) for alias in row.aliases), self.id)

    @property
    def reset_source(self) -> str:
        """Reset source that `make_vec` uses for this environment by default."""
        return self.make().reset_source

    @property
    def achievements(self) -> tuple[str, ...]:
        """Names of the flags in `info["achievements"]`, in order; empty if there are none."""
        return self.make().achievements

    @property
    def summary(self) -> str:
        """First sentence of the docstring of the environment class."""
        paragraph = re.split(r"\n\s*\n", inspect.cleandoc(self.env_class.__doc__ or ""))[0]
        line = " ".join(paragraph.split())
        sentence = _SENTENCE.match(line)
        return sentence[0] if sentence else line

    def make(self, **settings: Any) -> Env:
        """Build the environment.

        Keywords are constructor fields, which override the values that the id sets, or params such
        as `max_steps_in_episode`. With the keyword `levels`, episodes begin in the levels of a file
        or folder, see `jaxenvs.levels.from_levels`.
        """
        check_complete(self.env_class, f"make({self.id!r})")
        allowed = [field.name for field in param_values.constructor_fields(self.env_class)]
        fields = {name: value for name, value in settings.items() if name in allowed}
        env = self.env_class(**{**self.fields, **fields})
        given = {name: value for name, value in settings.items() if name not in allowed}
        if given.get(LEVELS) is not None:
            env = importlib.import_module("jaxenvs.levels").from_levels(env, given[LEVELS])
        given.pop(LEVELS, None)
        if not given:
            return env
        numbers = param_values.names(env)
        for name in given:
            if name not in numbers:
                raise TypeError(self._unknown(name, allowed, numbers))
        return param_values.with_params(env, f"make({self.id!r})", given)

    def _unknown(self, name: str, fields: Iterable[str], numbers: Iterable[str]) -> str:
        """Return the error message for a keyword that is neither a field nor a param."""
        near = checks.suggestion(name, [*fields, *numbers])
        return (
            f"make({self.id!r}): {self.env_class.__name__} has no field or param {name!r}; its "
            f"fields are {', '.join(fields) or 'none'}; its params are {', '.join(numbers)}{near}"
        )


def register(
    id: str, *, aliases: Iterable[str] = (), representative: bool = False, **fields: Any
) -> Callable[[EnvClass], EnvClass]:
    """Return a class decorator that registers a subclass of `Env` under `id`.

    `fields` are the values that the id sets for constructor fields. `aliases` are ids of the same
    environment in other packages; an alias needs no version. With `representative`, benchmarks and
    pictures use this id for its class (see `representatives`).

    Raises `ValueError` for a malformed or taken id, and `TypeError` if the decorated object is not
    a subclass of `Env`.
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
    """Return the registry entry of an id or an alias.

    `id` may have the form `module:Id`. The module is then imported first, so that it can register
    `Id`. Raises `UnknownIdError` for an unknown id; the message names the closest ids.
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
    """Build the environment that is registered under `id`.

    Keywords are constructor fields such as `obs="rgb"`, params such as `max_steps_in_episode=50`,
    and `levels`, the path of a file or folder of levels in which episodes begin.

    Raises `UnknownIdError` for an unknown id, `TypeError` for an unknown keyword, `ValueError` for
    a bad value, and `IncompleteError` if the class lacks a required method.
    """
    return spec(id).make(**settings)


def check_complete(env_class: type[Env], where: str) -> None:
    """Raise `IncompleteError` if a class lacks abstract methods; the message names them.

    `where` begins the message.
    """

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
    """Return the sorted names of the families that have registered ids."""
    _load_all()
    return sorted({s.family for s in _specs.values()})


def classes(family: str | None = None) -> dict[type[Env], list[str]]:
    """Return a dict: registered environment class -> list of its ids.

    Classes and ids are in the order of the function `list`, in which smaller sizes usually come
    first.
    """
    ids = list(family)
    kinds = dict.fromkeys(_specs[id].env_class for id in ids)
    return {kind: [id for id in ids if _specs[id].env_class is kind] for kind in kinds}


def representatives(family: str | None = None) -> list[str]:
    """Return one id of each environment class, for benchmarks and pictures.

    The id of a class is the one registered with `representative=True`, such as the size that papers
    report. If there is none, it is the id that sets no constructor fields, or, if every id sets
    some, the last id, which usually has the largest size. The ids are in the order of `list`.
    """
    found = []
    for ids in classes(family).values():
        rows = [_specs[id] for id in ids]
        marked = [row.id for row in rows if row.representative]
        plain = [row.id for row in rows if not row.fields]
        found.append((*marked, *plain, ids[-1])[0])
    return sorted(found, key=_natural)


# Shadows the builtin, because callers write `registry.list`.
def list(family: str | None = None) -> list[str]:
    """Return the registered ids of one family, or of all families, sorted.

    Numbers are sorted by value: `8x8` comes before `16x16`.
    """
    known = families()
    if family is not None:
        checks.one_of("registry.list", "family", family, known)
    return sorted((id for id, s in _specs.items() if family in (None, s.family)), key=_natural)


def _natural(id: str) -> tuple[str | int, ...]:
    """Return a key that sorts numbers in ids by value: `8x8` before `16x16`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", id))


def absent(ids: Iterable[str], reason: str) -> None:
    """Record why environments of another package are not reproduced, and what to use instead.

    The error message for one of these ids ends with `reason`. An id that is registered nevertheless
    works normally.
    """
    _absent.update(dict.fromkeys(ids, reason))


def absences() -> dict[str, str]:
    """Return a dict of the other packages' ids that jaxenvs does not reproduce: id -> reason."""
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
    everything = "`jaxenvs list` and jaxenvs.registry.list() have all ids"
    return f"unknown environment id {id!r}{near} ({everything})"


def expect(modules: Mapping[str, str]) -> None:
    """Declare which module registers ids, by the first word of the ids.

    `modules` maps a first word, such as "Grid", to the name of a module. The first use of an id
    with this first word imports the module.
    """
    _modules.update(modules)


def homes() -> set[str]:
    """Return the names of the modules that `expect` declared."""
    return {*_modules.values()}


def _load(id: str) -> None:
    """Import the module that registers ids with the same first word as `id`, if there is one."""
    if module := _modules.get(id.partition("-")[0]):
        importlib.import_module(module)


def _load_all() -> None:
    """Import all modules that register ids, in jaxenvs and in other installed packages."""
    for word in _modules:
        _load(word)
    _load_plugins()


def _load_plugins() -> None:
    """Import the modules that other installed packages declare as entry points, once.

    A module that fails to import causes a warning.
    """
    global _plugins_loaded
    if not _plugins_loaded:
        _plugins_loaded = True
        for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                entry.load()
            # An error in one package must not prevent the import of the others.
            except (Exception, SystemExit) as error:
                owner = entry.dist.name if entry.dist else entry.module
                warnings.warn(
                    f"the environments of {owner} (entry point {entry.name} = {entry.value}) "
                    f"are missing, their import failed: {type(error).__name__}: {error}",
                    stacklevel=3,
                )
