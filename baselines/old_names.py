"""Old names of modules of `jaxenvs.baselines`, which work for one release, with a warning.

For example, `jaxenvs.baselines.ppo` is now `jaxenvs.baselines.on_policy.ppo`. Importing the old
name gives a module that has the attributes of the new module, or of several modules if the old one
was split.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from typing import Any

PACKAGE = "jaxenvs.baselines"
MOVED = {  # MOVED[old package][new package]: names of the modules that moved
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
RENAMED = {  # old module -> new modules that have its attributes
    "acting": ("core.rollouts",),
    "algorithms": ("registry", "core.learner"),
    "davi": ("puzzles.davi", "storage.heuristics"),
    "elsewhere": ("evaluation.upstream",),
    "evaluate": ("core.episodes", "evaluation.final"),
    "evaluating": ("evaluation.command",),
    "ray.gym_worlds": ("ray.gym_envs",),
    "stated": ("core.policy_statement",),
}


def modules_of(name: str) -> tuple[str, ...]:
    """Return the new names of the module that had this old name; () if it is no old name."""
    if name in RENAMED:
        return RENAMED[name]
    folder, _, module = name.rpartition(".")
    for package, modules in MOVED.get(f"{folder}." if folder else "", {}).items():
        if module in modules.split():
            return (f"{package}.{module}",)
    return ()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that finds old names, and loads modules that forward to the new ones."""

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
        today = " and ".join(f"{PACKAGE}.{name}" for name in _names(module.__name__))
        warnings.warn(
            f"{module.__name__} is now {today}; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )


class _Moved(types.ModuleType):
    """Module that looks its attributes up in other modules, which it imports on first use."""

    def __init__(self, name: str, sources: list[str]) -> None:
        super().__init__(name, f"Old name of {' and '.join(sources)}.")
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for source in self._sources:
                module = importlib.import_module(source)
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {self.__name__} has no attribute {name}")


def _names(fullname: str) -> tuple[str, ...]:
    return modules_of(fullname.removeprefix(f"{PACKAGE}."))


def install() -> None:
    """Append the import hook to `sys.meta_path`, so that existing modules are found first."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
