"""States of a learned world: codes of what is seen, what the model and the heuristic say of them.

Functions of a learner of world.py and of its weights, "model" and "q".
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..core.learner import Learner
from .davi import CostToGo
from .latent_world import LatentWorld, Sight

Code = Bool[Array, "cells bits"]  # a state of the learned world


@dataclasses.dataclass(frozen=True)
class Networks:
    """What is learned, and how states are seen."""

    sight: Sight
    model: LatentWorld
    q: CostToGo  # of the cost of each action


def encoded(learner: Learner, weights: PyTree[Array], seen: Array, key: Array) -> Code:
    """The code of what is seen."""
    nets = learner.network
    return nets.model.apply(weights["model"], nets.sight.split(seen, key), method="encode") > 0


def successors(learner: Learner, weights: PyTree[Array], code: Code) -> Bool[Array, "actions ..."]:
    """The code after each action, as the model foretells it."""
    code = code.astype(jnp.float32)
    return learner.network.model.apply(weights["model"], code, method="moves") > 0


def is_solved(learner: Learner, weights: PyTree[Array], goal: Any, code: Code) -> Bool[Array, ""]:
    """Whether a code is that of the goal or, if there is none, is judged to be solved."""
    if one_goal(learner.env):
        return (goal == code).all()
    judge = functools.partial(learner.network.model.apply, method="solved")
    return judge(weights["model"], code.astype(jnp.float32)) > 0


def goal_code(learner: Learner, weights: PyTree[Array], key: Array) -> Any:
    """The code of the goal's observation; () where there is not one goal for all levels."""
    env = learner.env
    if not one_goal(env):
        return ()
    level = jax.eval_shape(env.sample_level, key)
    level = PuzzleLevel(board=env.goal(level.instance), instance=level.instance)
    seen = learner.network.sight.look(env.reset_to(key, level).state)
    return encoded(learner, weights, seen, key)


def one_goal(env: Puzzle) -> bool:
    """Whether one observation is the goal of all levels."""
    instance = jax.eval_shape(env.sample_level, jax.random.key(0)).instance
    return type(env).goal is not Puzzle.goal and not jax.tree.leaves(instance)


def q_values(learner: Learner, q: PyTree[Array], code: Code) -> Float32[Array, " actions"]:
    """What the network says of each action in a state of the learned world."""
    return learner.network.q.apply(q, code.reshape(-1).astype(jnp.float32))


def action_costs(
    learner: Learner, weights: PyTree[Array], goal: Any, code: Code
) -> Float32[Array, " actions"]:
    """What each action costs with all that follows it: never negative."""
    return jnp.maximum(q_values(learner, weights["q"], code), 0.0)


def look(learner: Learner, weights: PyTree[Array], levels: PuzzleLevel, key: Array) -> PuzzleLevel:
    """Levels as they are seen, as a search in the learned world begins with them."""

    def one(level: PuzzleLevel, key: Array) -> PuzzleLevel:
        key_reset, key_see, key_goal = jax.random.split(key, 3)
        seen = learner.network.sight.look(learner.env.reset_to(key_reset, level).state)
        goal = goal_code(learner, weights, key_goal)
        return PuzzleLevel(board=encoded(learner, weights, seen, key_see), instance=goal)

    keys = jax.random.split(key, jax.tree.leaves(levels.board)[0].shape[0])
    return jax.vmap(one)(levels, keys)
