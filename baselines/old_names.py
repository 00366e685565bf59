"""Old names in `jaxenvs.baselines`, which work for one release, with a warning.

For example, `jaxenvs.baselines.ppo` is now `jaxenvs.baselines.on_policy.ppo`. Importing an old name
gives a module with the attributes of the new module, or of several new modules if the old one was
split. `python -m` with an old name runs the new module.

The flags of old settings work, too. A config.json with old names of settings loads without a
warning.
"""

import importlib
import importlib.abc
import importlib.machinery
import runpy
import sys
import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

PACKAGE = "jaxenvs.baselines"
MOVED = {  # MOVED[old package][new package]: modules that moved; "" is `PACKAGE` itself
    "": {
        "core": "devices metrics minibatches moments planning policy priorities replay_buffer "
        "returns reward_scaling schedules settings statistics target_scaling value_scales",
        "networks": "batch_renorm encoders gtrxl layers products q_network spatial two_hot",
        "exploration": "e3b noveld rnd",
        "on_policy": "hidden_tasks ppo ppo_rnn ppo_trxl pqn pqn_rnn rl2 task_memory",
        "off_policy": "actor_critic c51 crossq dqn iqn qr_dqn r2d2 rainbow sac td3 tqc",
        "model_based": "alphazero dyna dyna_network gumbel muzero muzero_loss muzero_network "
        "muzero_search",
        "puzzles": "davi latent_states latent_world world",
        "storage": "runs",
        "evaluation": "compare export heuristic planner record",
        "run": "train",
    },
    "run.": {
        "core": "processes",
        "storage": "checkpoints config_file folder older sweep",
        "evaluation": "curve",
    },
}
RENAMED = {  # old module -> modules with its attributes (run.loop: only its `layout` was renamed)
    "acting": ("core.rollouts",),
    "algorithms": ("registry", "core.learner"),
    "davi": ("puzzles.davi", "storage.heuristics"),
    "elsewhere": ("evaluation.upstream",),
    "evaluate": ("core.episodes", "core.playing", "evaluation.final"),
    "evaluating": ("evaluation.command",),
    "exploration": ("core.bonuses",),
    "networks": ("networks.policies",),
    "ray.gym_worlds": ("ray.gym_envs",),
    "run.loop": ("run.loop",),
    "stated": ("core.policy_statement",),
}

MEMBERS = {  # old module -> old names of classes and functions -> new names
    "exploration": {"asked": "of_settings", "shown": "visible", "rewarded": "add_bonus"},
    "networks": {"named": "load_network", "check_answers": "check_outputs"},
    "replay_buffer": {"Lots": "SlotDraws"},
    "run.loop": {"layout": "partition"},
    "settings": {
        "Scaled": "Scaling",
        "Remembering": "Memory",
        "Exploring": "Exploration",
        "Replayed": "Replay",
    },
}

# Learner -> old names of its settings -> new names.
SETTINGS = {"rl2": {"told": "privileged_share"}}


def current_settings(algorithm: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run of the learner `algorithm` under their new names."""
    renamed = SETTINGS.get(algorithm, {})
    return {renamed.get(name, name): value for name, value in settings.items()}


def current_flags(algorithm: str, argv: Iterable[str]) -> list[str]:
    """Return the arguments of `jaxenvs train` with the new flags of renamed settings.

    Print a warning for each old flag: Python hides a `DeprecationWarning` from users of a command.
    """
    flags = {_flag(old): _flag(new) for old, new in SETTINGS.get(algorithm, {}).items()}
    found = []
    for argument in argv:
        name, equals, value = argument.partition("=")
        if name in flags:
            message = (
                f"warning: {name} is now {flags[name]}; the old name goes with the next release"
            )
            print(message, file=sys.stderr)
        found.append(flags.get(name, name) + equals + value)
    return found


def _flag(setting: str) -> str:
    return "--" + setting.replace("_", "-")


def modules_of(name: str) -> tuple[str, ...]:
    """Return the new names of the module with the old name `name`; () if `name` is not old."""
    if name in RENAMED:
        return RENAMED[name]
    folder, _, module = name.rpartition(".")
    for package, modules in MOVED.get(f"{folder}." if folder else "", {}).items():
        if module in modules.split():
            return (f"{package}.{module}",)
    return ()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook for old module names: it loads a module that forwards to the new modules."""

    def find_spec(
        self, fullname: str, path: Any, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a module spec if `fullname` is an old name, else None."""
        folder, _, name = fullname.partition(f"{PACKAGE}.")
        if folder or not modules_of(name):
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return a module that forwards attributes to the new modules."""
        return _Moved(spec.name, [f"{PACKAGE}.{name}" for name in _names(spec.name)])

    def exec_module(self, module: types.ModuleType) -> None:
        """Warn that the name is old. The forwarding module has no code to run."""
        _warn(module.__name__, _names(module.__name__))

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the code that `python -m` runs for an old name."""
        return _as_main.__code__

    def run(self, old: str) -> None:
        """Run the new module of an old name as `python -m` does, with a warning."""
        new = _names(old)
        _warn(old, new)
        runpy.run_module(f"{PACKAGE}.{new[0]}", run_name="__main__", alter_sys=True)


class _Moved(types.ModuleType):
    """Module that takes all attributes from other modules, which it imports on first use."""

    def __init__(self, name: str, sources: list[str]) -> None:
        super().__init__(name, f"Old name of {' and '.join(sources)}.")
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # names that `import *` imports
            modules = map(importlib.import_module, self._sources)
            return [each for module in modules for each in vars(module) if each[0] != "_"]
        if not name.startswith("__"):
            name = MEMBERS.get(self.__name__.removeprefix(f"{PACKAGE}."), {}).get(name, name)
            for source in self._sources:
                module = importlib.import_module(source)
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {self.__name__} has no attribute {name}")


def _names(fullname: str) -> tuple[str, ...]:
    return modules_of(fullname.removeprefix(f"{PACKAGE}."))


def _warn(old: str, names: tuple[str, ...], level: int = 3) -> None:
    """Warn that `old` is now called `names`; `level` is the `stacklevel` of the warning."""
    today = " and ".join(f"{PACKAGE}.{name}" for name in names)
    message = f"{old} is now {today}; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def member(package: str, name: str) -> Any:
    """Return the object that had the name `name` in the old module `package`, and warn.

    The `__getattr__` of `package` calls this function. For example, `jaxenvs.baselines.networks`
    was a module and is now a package; its old members are in networks/policies.py. Raises
    `AttributeError` if the old module had no such member.
    """
    old = package.removeprefix(f"{PACKAGE}.")
    new = MEMBERS[old].get(name, name)
    (home,) = modules_of(old)
    # `module` is None only if the package's `__init__` could not import it; then nothing is found.
    module = sys.modules.get(f"{PACKAGE}.{home}")
    if not name.startswith("_") and hasattr(module, new):
        _warn(f"{package}.{name}", (f"{home}.{new}",), 4)
        return getattr(module, new)
    raise AttributeError(f"module {package} has no attribute {name}")


def _as_main() -> None:
    """Run an old command. For `python -m`, `runpy` runs this function's code as `__main__`."""
    spec = globals()["__spec__"]
    spec.loader.run(spec.name)


def install() -> None:
    """Append the import hook to `sys.meta_path`, after the finders of existing modules."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
