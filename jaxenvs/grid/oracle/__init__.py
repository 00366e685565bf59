"""Oracle: the shortest plans of levels, with proofs."""

from .labels import check, first_actions
from .solve import Solution, solve

__all__ = ["Solution", "check", "first_actions", "solve"]
