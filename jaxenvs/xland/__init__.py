"""XLand-MiniGrid's environments, whose tasks are data; importing the package registers all ids."""

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

if TYPE_CHECKING:  # imported on first use by `__getattr__`
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

if not TYPE_CHECKING:  # otherwise a type checker accepts any name

    def __getattr__(name: str) -> Any:
        """Import the solver, and with it the search, on first use."""
        if name in ("Solution", "solve"):
            from . import solver

            return getattr(solver, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
