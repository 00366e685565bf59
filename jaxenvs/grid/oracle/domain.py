"""Definition of the search problem whose nodes are states of a grid world, see `nodes`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt32

from ...puzzles.puzzle import Move
from ...search.domain import Domain
from ..env import GridEnv
from ..state import Action
from . import bounds, nodes


@functools.lru_cache(maxsize=64)
def domain(env: GridEnv, most: int, is_short: bool) -> Domain:
    """Return the search problem whose nodes can store up to `most` changed cells.

    A changed cell is one that differs from the first state of the level.

    is_short: whether states can have more than `most` changed cells. One goal node with the flag
        `CUT` then replaces all of these states. An action that leads to the `CUT` node has as its
        cost the lower bound on the steps from the state before the action.

    If the search ends in the `CUT` node, the cost of the path is a lower bound on the steps of
    every plan. If the search ends in another goal node, its plan is optimal.
    """
    key, params = jax.random.key(0), env.default_params

    def bound(level: bounds.Level, words: UInt32[Array, " words"]) -> Float32[Array, ""]:
        is_over = words[0] & (nodes.WON | nodes.CUT) != 0
        state = nodes.state_of(nodes.Node.of(words), level.first)
        return jnp.where(is_over, jnp.float32(0), bounds.lower_bound(env, level, state))

    def move(
        level: bounds.Level, words: UInt32[Array, " words"], rest: Array, action: Array
    ) -> Move:
        node = nodes.Node.of(words)
        state = nodes.state_of(node, level.first)
        after, reward, terminated, _ = env.step_state(key, state, action, params)
        won = terminated & (reward > 0)
        made, fits = nodes.after(node, level.first, after, bounds.front_cell(state), action)
        made = made._replace(agent=made.agent | jnp.where(won, nodes.WON, np.uint32(0)))
        new, cost = made.words, jnp.float32(1)
        if is_short:
            sink = jnp.zeros_like(new).at[0].set(nodes.CUT)
            new, cost = jnp.where(fits, new, sink), jnp.where(fits, cost, rest)
        valid = (won | ~terminated) & (new != words).any() & jnp.isfinite(cost)
        cost = jnp.where(valid, cost, jnp.float32(1))
        return Move(board=jnp.where(valid, new, words), cost=cost, valid=valid)

    def neighbours(level: bounds.Level, words: UInt32[Array, " words"]) -> Move:
        actions = jnp.arange(len(Action), dtype=jnp.int32)
        rest = bound(level, words) if is_short else jnp.float32(1)
        return jax.vmap(move, (None, None, None, 0))(level, words, rest, actions)

    def is_goal(level: bounds.Level, words: UInt32[Array, " words"]) -> Bool[Array, ""]:
        return words[0] & (nodes.WON | nodes.CUT) != 0

    return Domain(
        neighbours=neighbours,
        is_goal=is_goal,
        pack=lambda words: words,
        unpack=lambda words: words,
        num_actions=len(Action),
        num_words=most + 2,
        heuristic=bound,
        unit_cost=not is_short,
    )
