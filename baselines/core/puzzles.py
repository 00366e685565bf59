"""Tests of whether an environment is a puzzle on which certain learners can train."""

from typing import Any, TypeGuard

from jaxenvs.puzzles.puzzle import Puzzle


def has_goal(env: Any) -> TypeGuard[Puzzle]:
    """Return whether an environment is a puzzle with a single goal state."""
    return isinstance(env, Puzzle) and type(env).goal is not Puzzle.goal


def has_unit_cost(env: Any) -> bool:
    """Return whether an environment is a puzzle whose actions all cost 1."""
    return isinstance(env, Puzzle) and env.unit_cost
