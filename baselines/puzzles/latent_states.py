"""Functions of states in a learned model of a puzzle: encoding, next states, heuristic values.

A state of the model is called a code and consists of the bits of all cells. Most functions take a
learner of world.py and its weights, a dict with the keys "model" and "q".
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..core.learner import Learner
from .cost_to_go import CostToGo
from .latent_world import LatentWorld, Sight

Code = Bool[Array, "cells bits"]  # state of the learned model, as bits


@dataclasses.dataclass(frozen=True)
class Networks:
    """The learned model and heuristic, and the preprocessing of observations."""

    sight: Sight
    model: LatentWorld
    q: CostToGo  # heuristic: predicts the cost to the goal for each first action


def encoded(learner: Learner, weights: PyTree[Array], seen: Array, key: Array) -> Code:
    """Return the code of `seen`, a result of `Sight.look`. `key` is for noise on pictures."""
    nets = learner.network
    return nets.model.apply(weights["model"], nets.sight.split(seen, key), method="encode") > 0


def successors(learner: Learner, weights: PyTree[Array], code: Code) -> Bool[Array, "actions ..."]:
    """Return the code that the model predicts after each action."""
    code = code.astype(jnp.float32)
    return learner.network.model.apply(weights["model"], code, method="moves") > 0


def is_solved(learner: Learner, weights: PyTree[Array], goal: Any, code: Code) -> Bool[Array, ""]:
    """Return whether the puzzle is solved in the state `code`.

    The code is compared with the goal's code or, if levels have different goals, classified by the
    model.
    """
    if one_goal(learner.env):
        return (goal == code).all()
    judge = functools.partial(learner.network.model.apply, method="solved")
    return judge(weights["model"], code.astype(jnp.float32)) > 0


def goal_code(learner: Learner, weights: PyTree[Array], key: Array) -> Any:
    """Return the code of the goal, from its observation; () if levels have different goals."""
    env = learner.env
    if not one_goal(env):
        return ()
    level = jax.eval_shape(env.sample_level, key)
    level = PuzzleLevel(board=env.goal(level.instance), instance=level.instance)
    seen = learner.network.sight.look(env.reset_to(key, level).state)
    return encoded(learner, weights, seen, key)


def one_goal(env: Puzzle) -> bool:
    """Return whether all levels have the same goal."""
    instance = jax.eval_shape(env.sample_level, jax.random.key(0)).instance
    return type(env).goal is not Puzzle.goal and not jax.tree.leaves(instance)


def q_values(learner: Learner, q: PyTree[Array], code: Code) -> Float32[Array, " actions"]:
    """Predict for each action, taken in the latent state `code`, its cost plus the cost-to-go."""
    return learner.network.q.apply(q, code.reshape(-1).astype(jnp.float32))


def action_costs(
    learner: Learner, weights: PyTree[Array], goal: Any, code: Code
) -> Float32[Array, " actions"]:
    """Return the predicted costs of `q_values`, clipped from below at 0."""
    return jnp.maximum(q_values(learner, weights["q"], code), 0.0)


def look(learner: Learner, weights: PyTree[Array], levels: PuzzleLevel, key: Array) -> PuzzleLevel:
    """Encode levels: replace each board by its code, and each instance by the goal's code."""

    def one(level: PuzzleLevel, key: Array) -> PuzzleLevel:
        key_reset, key_see, key_goal = jax.random.split(key, 3)
        seen = learner.network.sight.look(learner.env.reset_to(key_reset, level).state)
        goal = goal_code(learner, weights, key_goal)
        return PuzzleLevel(board=encoded(learner, weights, seen, key_see), instance=goal)

    keys = jax.random.split(key, jax.tree.leaves(levels.board)[0].shape[0])
    return jax.vmap(one)(levels, keys)
