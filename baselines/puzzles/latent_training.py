"""Data set and loss for training the model of latent_world.py.

The data set consists of transitions of a puzzle, which random actions collect once.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs.puzzles.puzzle import PuzzleState

from .latent_states import LatentLearner, encoded, one_goal, successors
from .latent_world import UNDECIDED


class Transitions(NamedTuple):
    """Data set of transitions, on which the model is trained."""

    # Observations before the actions, (*seeds, transitions, ...), as `Sight.look` returns them.
    before: Array
    action: Int32[Array, "*seeds transitions"]
    # Observations after the actions, with the shape of `before`.
    after: Array
    solved: Bool[Array, "*seeds transitions"]  # whether the puzzle is solved in `after`


def gather(learner: LatentLearner, key: Array, count: int) -> Transitions:
    """Collect `count` transitions by walks whose actions are uniformly random, legal or not.

    If all levels have the same goal, about half of the walks begin at the goal.
    """
    env, steps = learner.env, learner.settings.walk_steps

    def walk(key: Array) -> Transitions:
        key_level, key_start, key_walk = jax.random.split(key, 3)
        level = env.sample_level(key_level)
        if one_goal(env):
            from_goal = jax.random.bernoulli(key_start)
            goal = env.goal(level.instance)
            board = jax.tree.map(lambda g, b: jnp.where(from_goal, g, b), goal, level.board)
            level = level.replace(board=board)
        start = env.reset_to(key_start, level).state
        return jax.lax.scan(act, start, jax.random.split(key_walk, steps))[1]

    def act(state: PuzzleState, key: Array) -> tuple[PuzzleState, Transitions]:
        key_action, key_step = jax.random.split(key)
        action = env.action_space.sample(key_action)
        step = env.step(key_step, state, action)
        look = learner.network.sight.look
        return step.state, Transitions(look(state), action, look(step.state), env.succeeded(step))

    walks = jax.vmap(walk)(jax.random.split(key, -(-count // steps)))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], walks)


def model_loss(
    learner: LatentLearner, weights: PyTree[Array], seen: Transitions, key: Array
) -> tuple[Float32[Array, ""], Float32[Array, " losses"]]:
    """Return the model's loss on a random batch of transitions, and the four terms of the loss.

    If levels have different goals, half of the batch are transitions to solved states (if the data
    set has any), from which the model learns to classify solved states.
    """
    nets, count = learner.network, learner.settings.batch
    key_rows, key_solved, key_cells, key_noise = jax.random.split(key, 4)
    rows = jax.random.randint(key_rows, (count,), 0, len(seen.action))
    judges = not one_goal(learner.env)
    if judges:
        # met[i] is the number of transitions 0 to i that lead to solved states, so the index of the
        # n-th of these transitions is the first i where met[i] = n.
        met = jnp.cumsum(seen.solved, dtype=jnp.int32)
        rank = jax.random.randint(key_solved, (count // 2,), 1, jnp.maximum(met[-1], 1) + 1)
        solved = jnp.searchsorted(met, rank)
        rows = rows.at[: count // 2].set(jnp.where(met[-1] > 0, solved, rows[: count // 2]))
    rows = jax.tree.map(lambda leaf: leaf[rows], seen)
    split = jax.vmap(nets.sight.split)
    before, after = (
        split(leaf, jax.random.split(k, count))
        for leaf, k in zip((rows.before, rows.after), jax.random.split(key_cells), strict=True)
    )
    each = jax.vmap(functools.partial(nets.model.apply, weights))
    parts: Any = each(before, rows.action, after, rows.solved, jax.random.split(key_noise, count))
    means = jnp.stack([part.mean() for part in parts])
    return means @ jnp.array([1.0, UNDECIDED, 1.0, float(judges)], jnp.float32), means


def predicted_share(
    learner: LatentLearner, weights: PyTree[Array], seen: Transitions, key: Array
) -> Float32[Array, ""]:
    """Return the fraction of transitions whose next state the model predicts exactly."""

    def right(each: Transitions, key: Array) -> Bool[Array, ""]:
        key_before, key_after = jax.random.split(key)
        before = encoded(learner, weights, each.before, key_before)
        after = encoded(learner, weights, each.after, key_after)
        return (successors(learner, weights, before)[each.action] == after).all()

    return jax.vmap(right)(seen, jax.random.split(key, len(seen.action))).mean()
