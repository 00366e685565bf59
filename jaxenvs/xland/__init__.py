"""Rule worlds: tasks are data, with the rules of XLand-MiniGrid; importing registers all ids."""

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

if TYPE_CHECKING:  # what `__getattr__` finds
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

if not TYPE_CHECKING:  # a type checker would take any name to be there

    def __getattr__(name: str) -> Any:
        """Import the solver, and with it the search, when it is first named."""
        if name in ("Solution", "solve"):
            from . import solver

            return getattr(solver, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
