"""Rule worlds: tasks are data, with the rules of XLand-MiniGrid."""

from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .sets import SETS, Benchmark, benchmark
from .tiles import Colour, Kind

__all__ = ["Colour", "Goal", "Kind", "PackedRuleset", "Rule", "Ruleset"]
__all__ += ["SETS", "Benchmark", "benchmark"]
