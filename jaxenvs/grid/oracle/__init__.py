"""Oracle: the shortest plans of levels, with proofs."""

from .labels import first_actions
from .solve import TAKES_STATES, check, solve, solve_levels

__all__ = ["TAKES_STATES", "check", "first_actions", "solve", "solve_levels"]
