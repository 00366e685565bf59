"""Rule worlds: tasks are data, with the rules of XLand-MiniGrid; importing registers all ids."""

from .env import XLand
from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .state import Action, Level, XLandParams, XLandState
from .tiles import Colour, Kind

__all__ = [
    "Action",
    "Colour",
    "Goal",
    "Kind",
    "Level",
    "PackedRuleset",
    "Rule",
    "Ruleset",
    "XLand",
    "XLandParams",
    "XLandState",
]
