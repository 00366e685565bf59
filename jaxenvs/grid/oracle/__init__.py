"""Oracle: the shortest plans of levels, with proofs."""

from .solve import Solution, solve

__all__ = ["Solution", "solve"]
