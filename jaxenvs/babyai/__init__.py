"""BabyAI levels with the rules of MiniGrid; importing the package registers all ids."""

import importlib
import pkgutil

from .env import BabyEnv, BabyState

__all__ = ["BabyEnv", "BabyState"]

for _module in pkgutil.iter_modules(__path__):  # files of levels register their ids
    importlib.import_module(f"{__name__}.{_module.name}")
