"""BabyAI's levels in JAX, as MiniGrid 3.2 defines them; importing the package registers all ids."""

import importlib
import pkgutil

from .env import BabyEnv, BabyState

__all__ = ["BabyEnv", "BabyState"]

for _module in pkgutil.iter_modules(__path__):  # importing a module registers the ids of its levels
    importlib.import_module(f"{__name__}.{_module.name}")
