"""Labels for training: an optimal action for each state, computed inside `jit`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ...core.env import Env
from ...puzzles.puzzle import PuzzleLevel
from ...search.astar import astar
from . import bounds, nodes
from .domain import domain
from .searching import LONG, SIZES
from .solve import checked, together


def first_actions(
    env: Env, states: Any, *, node_budget: int = 1 << 16, batch_size: int = 256
) -> tuple[Int32[Array, " states"], Bool[Array, " states"]]:
    """Return the first action of a shortest plan from each state, and a mask of known actions.

    states: states of `env` without its wrappers, arrays (states, ...), at any time of an episode.
    node_budget: largest number of states that a search stores. One search handles up to 64 of
        `states`.
    batch_size: number of states that a search expands together.

    An action is known if its plan is proven to be shortest. It is unknown if success is impossible,
    if `node_budget` does not suffice, if a shorter plan may exist that changes more than eight
    cells, or if the plan has more than 512 actions. The time limit is ignored. Works inside `jit`.
    Raises `TypeError` for the same environments as `solve`.
    """
    world = checked(env)
    count, short = len(states.time), SIZES[0]
    groups = -(-count // together(world))
    size = -(-count // groups)
    rows = np.minimum(np.arange(groups * size), count - 1).reshape(groups, size)

    def timeless(state: Any) -> Any:
        # Set the time to 0. The search recognises success by a positive reward, which a late
        # success might not have. Nodes do not store the time, so all states of the search have the
        # time 0.
        return state.replace(time=jnp.zeros_like(state.time))

    def search(rows: Array) -> tuple[Array, Array]:
        first = jax.vmap(timeless)(jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], states))
        begin = jax.vmap(lambda state: nodes.start(state, short).words)(first)
        tables = jax.vmap(lambda state: bounds.level_of(world, state, bounds.Sizes(0, 0)))(first)
        levels = PuzzleLevel(board=begin, instance=tables)
        found = astar(
            domain(world, short, True),
            levels,
            node_budget=node_budget,
            batch_size=batch_size,
            max_length=LONG,
        )
        is_cut = found.board[:, 0] & nodes.CUT != 0
        known = found.solved & found.optimal & ~is_cut & (found.length <= LONG)
        return jnp.where(known, found.actions[:, 0], 0).astype(jnp.int32), known

    actions, known = jax.lax.map(search, jnp.asarray(rows))
    return actions.reshape(-1)[:count], known.reshape(-1)[:count]
