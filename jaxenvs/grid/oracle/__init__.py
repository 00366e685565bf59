"""Shortest plans of levels of Grid and BabyAI environments, with proofs that they are shortest."""

from .labels import first_actions
from .solve import TAKES_STATES, check, solve, solve_levels

__all__ = ["TAKES_STATES", "check", "first_actions", "solve", "solve_levels"]
