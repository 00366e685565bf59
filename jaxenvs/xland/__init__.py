"""Rule worlds: tasks are data, with the rules of XLand-MiniGrid; importing registers all ids."""

from .env import XLand
from .generator import sample_ruleset
from .language import format_ruleset, parse_ruleset
from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .sets import SETS, Benchmark, benchmark
from .state import Action, Level, XLandParams, XLandState
from .tiles import Colour, Kind
from .trials import Trials, episode_returns
from .words import describe

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
]
