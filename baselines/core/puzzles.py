"""Properties of puzzles that decide which learners can train on them."""

from typing import Any, TypeGuard

from jaxenvs.puzzles.puzzle import Puzzle


def has_goal(env: Any) -> TypeGuard[Puzzle]:
    """Return whether an environment is a puzzle with a single goal."""
    return isinstance(env, Puzzle) and type(env).goal is not Puzzle.goal


def has_unit_cost(env: Any) -> bool:
    """Return whether an environment is a puzzle whose actions all cost 1."""
    return isinstance(env, Puzzle) and env.unit_cost
