"""Grid worlds with the rules of MiniGrid. Importing this package registers their ids."""

import importlib
import pkgutil

from .env import GridEnv
from .state import Action, GridState, Level
from .tiles import Colour, Kind

__all__ = ["Action", "Colour", "GridEnv", "GridState", "Kind", "Level"]

# Modules that are not imported here, because they define no levels and have unwanted side effects:
# importing `view` gives a deprecation warning, importing `oracle` also imports `jaxenvs.search`.
NO_LEVELS = ("view", "oracle")

for _module in pkgutil.iter_modules(__path__):  # importing a module registers the ids of its levels
    if _module.name not in NO_LEVELS:
        importlib.import_module(f"{__name__}.{_module.name}")
