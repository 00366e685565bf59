"""Exploration bonuses, which are rewards for novelty: RND, NovelD and E3B."""

from typing import Any

from .. import old_names
from ..core.bonuses import Bonus
from .e3b import E3B
from .noveld import NovelD
from .rnd import RND

# Classes of the bonuses by their names in the setting `novelty`.
KINDS: dict[str, type[Bonus]] = {"rnd": RND, "noveld": NovelD, "e3b": E3B}


def __getattr__(name: str) -> Any:
    """Return an attribute of core/bonuses.py, which was the module `exploration` before."""
    return old_names.member(__name__, name)
