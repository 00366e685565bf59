"""XLand-MiniGrid's environments, in which goal and rules are data that can differ per episode.

The package also has the generator of tasks, xminigrid's task sets, a text format for tasks, RL²
trials and a solver. Importing it registers the ids of all environments.
"""

from typing import TYPE_CHECKING, Any

from .env import XLand
from .generator import sample_ruleset
from .language import format_ruleset, parse_ruleset
from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .sets import SETS, Benchmark, benchmark
from .state import Action, Level, XLandParams, XLandState
from .tiles import Colour, Kind
from .trials import Trials, episode_returns
from .words import describe

if TYPE_CHECKING:  # for type checkers only; at run time, `__getattr__` imports both
    from .solver import Solution, solve

__all__ = [
    "SETS",
    "Action",
    "Benchmark",
    "Colour",
    "Goal",
    "Kind",
    "Level",
    "PackedRuleset",
    "Rule",
    "Ruleset",
    "Solution",
    "Trials",
    "XLand",
    "XLandParams",
    "XLandState",
    "benchmark",
    "describe",
    "episode_returns",
    "format_ruleset",
    "parse_ruleset",
    "sample_ruleset",
    "solve",
]

if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept every attribute

    def __getattr__(name: str) -> Any:
        """Import `solve` and `Solution` on first use, because they import the search package."""
        if name in ("Solution", "solve"):
            from . import solver

            return getattr(solver, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
