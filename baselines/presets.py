"""Presets: settings tuned per environment, from the `presets` modules of the learners' packages.

If several presets match an environment's id, later ones override earlier ones. A preset with a name
applies only if `--preset` gives this name.
"""

import re

import jaxenvs
from jaxenvs.core.spaces import Dict

from .core.preset import Preset
from .model_based import presets as model_based
from .off_policy import presets as off_policy
from .on_policy import presets as on_policy
from .puzzles import presets as puzzles

PRESETS = tuple(
    row for package in (on_policy, off_policy, model_based, puzzles) for row in package.PRESETS
)


def preset(id: str, name: str | None = None, algorithm: str = "ppo") -> Preset:
    """Merge all presets of a learner that match an id into one preset.

    The presets are those without a name and those with the name `name`. `id` must be a registered
    id, not an alias. Raises `ValueError` if the id has no preset of this name.
    """
    if name not in names(id, algorithm):
        known = ", ".join(filter(None, names(id, algorithm))) or "none"
        raise ValueError(f"--preset {name}: {id} has {known}; omit it for the usual settings")
    rows = [row for row in _rows(id, algorithm) if row.name in (None, name)]
    settings = {name: value for row in rows for name, value in row.settings.items()}
    return Preset(id, settings, name, algorithm)


def names(id: str, algorithm: str = "ppo") -> list[str | None]:
    """Return the names that `preset` accepts for an id. The first is None: no named preset."""
    return list(dict.fromkeys([None, *(row.name for row in _rows(id, algorithm))]))


def _rows(id: str, algorithm: str) -> list[Preset]:
    rows = [row for row in PRESETS if row.algorithm == algorithm and re.fullmatch(row.ids, id)]
    return [row for row in rows if not row.mission or reads_mission(id)]


def has_setups(id: str) -> bool:
    """Return whether the environment with this id has the constructor field `setup`."""
    return bool(jaxenvs.make(id).setups)


def reads_mission(id: str) -> bool:
    """Return whether the environment with this id observes a mission text by default.

    It does if its default is `obs="dict"`, and the Dict observation has an entry "mission".
    """
    env = jaxenvs.make(id)
    space, chosen = env.observation_space, getattr(env, "obs", None)
    return chosen == "dict" and isinstance(space, Dict) and "mission" in space.spaces
