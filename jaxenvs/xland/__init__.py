"""Rule worlds: tasks are data, with the rules of XLand-MiniGrid."""

from .generator import sample_ruleset
from .language import format_ruleset, parse_ruleset
from .rulesets import Goal, PackedRuleset, Rule, Ruleset
from .sets import SETS, Benchmark, benchmark
from .tiles import Colour, Kind
from .words import describe

__all__ = ["Colour", "Goal", "Kind", "PackedRuleset", "Rule", "Ruleset"]
__all__ += ["SETS", "Benchmark", "benchmark", "describe", "format_ruleset", "parse_ruleset"]
__all__ += ["sample_ruleset"]
