"""BabyAI levels with the rules of MiniGrid; importing the package registers all ids."""

import importlib
import pkgutil

from .env import BabyEnv, BabyState

__all__ = ["BabyEnv", "BabyState"]

for _module in pkgutil.iter_modules(__path__):  # importing a file of levels registers its ids
    importlib.import_module(f"{__name__}.{_module.name}")
