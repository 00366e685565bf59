"""Functions of states in a learned model of a puzzle: encoding, next states, heuristic values.

A state of the model is called a code. It consists of bits: a fixed number for each cell of the
puzzle's observation or picture. Most functions take a learner of world.py and its weights, a dict
with the keys "model" and "q".
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..core.learner import Learner
from .cost_to_go import PuzzleNetwork
from .latent_world import LatentWorld, Sight

Code = Bool[Array, "cells bits"]  # state of the learned model, as bits


@dataclasses.dataclass(frozen=True)
class Networks:
    """The learned model and heuristic, and the preprocessing of observations."""

    sight: Sight
    model: LatentWorld
    # heuristic: predicts, for each action, its cost plus the cost-to-go of the next state
    q: PuzzleNetwork


LatentLearner = Learner[Any, Networks]


def encoded(learner: LatentLearner, weights: PyTree[Array], seen: Array, key: Array) -> Code:
    """Encode a state of the puzzle; return the model's state, called its code.

    `seen` is the observation or picture of the puzzle's state, as `Sight.look` returns it. `key` is
    the random key for the noise on a picture.
    """
    nets = learner.network
    encode: Any = functools.partial(nets.model.apply, weights["model"], method="encode")
    return encode(nets.sight.split(seen, key)) > 0


def successors(
    learner: LatentLearner, weights: PyTree[Array], code: Code
) -> Bool[Array, "actions ..."]:
    """Predict, with the learned model, the next state after each action in the state `code`.

    Return the next states as codes (actions, cells, bits).
    """
    code = code.astype(jnp.float32)
    moves: Any = functools.partial(learner.network.model.apply, weights["model"], method="moves")
    return moves(code) > 0


def is_solved(
    learner: LatentLearner, weights: PyTree[Array], goal: Any, code: Code
) -> Bool[Array, ""]:
    """Return whether the puzzle is solved in the learned model's state `code`.

    If all levels have the same goal, `goal` is its code, and the puzzle is solved if `code` equals
    `goal`. Otherwise `goal` is not used, and the model's classifier of solved states decides.
    """
    if one_goal(learner.env):
        return (goal == code).all()
    judge: Any = functools.partial(learner.network.model.apply, weights["model"], method="solved")
    return judge(code.astype(jnp.float32)) > 0


def goal_code(learner: LatentLearner, weights: PyTree[Array], key: Array) -> Any:
    """Encode the observation or picture of the puzzle's goal; return its code.

    Return () if levels have different goals.
    """
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


def q_values(learner: LatentLearner, q: PyTree[Array], code: Code) -> Float32[Array, " actions"]:
    """Predict, for each action in the latent state `code`, its cost plus the cost-to-go after it.

    `q` are the weights of the heuristic.
    """
    outputs: Any = learner.network.q.apply(q, code.reshape(-1).astype(jnp.float32))
    return outputs


def action_costs(
    learner: LatentLearner, weights: PyTree[Array], goal: Any, code: Code
) -> Float32[Array, " actions"]:
    """Return the predicted costs of the actions in the state `code`, with negative values set to 0.

    The cost of an action includes the cost-to-go after it. Q* search uses these costs as its
    heuristic, and A* search their minimum. `goal` is not used.
    """
    return jnp.maximum(q_values(learner, weights["q"], code), 0.0)


def look(
    learner: LatentLearner, weights: PyTree[Array], levels: PuzzleLevel, key: Array
) -> PuzzleLevel:
    """Convert levels of the puzzle to levels of the learned model, in which a search can start.

    In a converted level, the board is replaced by its code (the state of the model), and the puzzle
    instance, which defines the goal, by the result of `goal_code`.
    """

    def one(level: PuzzleLevel, key: Array) -> PuzzleLevel:
        key_reset, key_see, key_goal = jax.random.split(key, 3)
        seen = learner.network.sight.look(learner.env.reset_to(key_reset, level).state)
        goal = goal_code(learner, weights, key_goal)
        return PuzzleLevel(board=encoded(learner, weights, seen, key_see), instance=goal)

    keys = jax.random.split(key, jax.tree.leaves(levels.board)[0].shape[0])
    return jax.vmap(one)(levels, keys)
