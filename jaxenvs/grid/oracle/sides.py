"""Proof of an optimum by two bounds, for levels with many objects irrelevant to the mission.

Removing the irrelevant objects from a level makes it easier: its optimum is then a lower bound on
the steps. Replacing these objects by walls makes the level harder: its optimum is then an upper
bound. If both bounds are equal, they are the level's optimum.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .. import tiles
from ..env import GridEnv
from ..tiles import Kind
from .searching import Found, Searcher


def prove(searcher: Searcher, first: Any, found: Found) -> Found:
    """Return the results `found`, with better bounds or proofs for levels that lack a proof.

    first: states in which the levels begin.
    found: results of a search of these levels.
    """
    things = jax.device_get(_irrelevant(searcher.env)(first))
    left = ~found.closed & things.any(axis=(1, 2))
    if not left.any():
        return found
    below = searcher.answers(_with(first, things, tiles.EMPTY), left)
    lower = np.where(left, np.maximum(found.lower, below.lower), found.lower)
    unsolvable = found.unsolvable | (left & below.unsolvable)
    found = found._replace(lower=lower, unsolvable=unsolvable)
    left = left & ~unsolvable
    if (left & below.proven).any():
        # A shortest plan of the easier level that also succeeds in the level is a shortest plan.
        works = left & below.proven & _succeeds(searcher.env, first, below.actions)
        found, left = found.updated(works, below), left & ~works
    if left.any():
        above = searcher.answers(_with(first, things, tiles.WALL), left)
        shorter = ~found.solved | (above.length < found.length)
        left = left & above.solved & shorter & _succeeds(searcher.env, first, above.actions)
        kept = above._replace(lower=found.lower, proven=found.proven, unsolvable=unsolvable)
        found = found.updated(left, kept)
    return found._replace(proven=found.proven | (found.solved & (found.length <= found.lower)))


def _with(first: Any, things: np.ndarray, tile: int) -> Any:
    """Return the states `first` with `tile` in the cells of the mask `things`."""
    swapped = jax.vmap(
        lambda state, mask: state.replace(grid=jnp.where(mask, jnp.uint8(tile), state.grid))
    )
    return swapped(first, jnp.asarray(things))


def irrelevant(env: GridEnv, state: Any) -> Bool[Array, "height width"]:
    """Return a mask of the cells with an irrelevant object, one that can only block the agent.

    The relevant objects are: objects in a cell of an aim (a cell that the agent may have to face,
    see `grid.aims`), keys that fit a locked door, boxes that contain a key for a locked door, and
    an object in the agent's cell.
    """
    grid = state.grid
    named = functools.reduce(jnp.logical_or, [aim.cells for aim in env.aims(state) or ()])
    keys = (Kind.KEY, Kind.KEY_BOX)
    kinds, colours = tiles.kind(grid), tiles.colour(grid)
    is_locked = kinds == Kind.LOCKED_DOOR
    opens = (is_locked[..., None] & (colours[..., None] == np.arange(8, dtype=np.uint8))).any(
        axis=(0, 1)
    )
    inside = jnp.asarray(env.contents(state)).astype(jnp.uint8)
    has_key = tiles.is_any(inside, *keys) & opens[tiles.colour(inside)]
    needed = (tiles.is_any(grid, *keys) & opens[colours]) | ((kinds == Kind.BOX) & has_key)
    is_under = jnp.zeros(grid.shape, jnp.bool_).at[state.row, state.column].set(True)
    return tiles.is_portable(grid) & ~named & ~needed & ~is_under


@functools.lru_cache(maxsize=64)
def _irrelevant(env: GridEnv) -> Any:
    return jax.jit(jax.vmap(functools.partial(irrelevant, env)))


def _succeeds(env: GridEnv, first: Any, actions: np.ndarray) -> np.ndarray:
    """Return a mask of the plans that succeed from the states `first`; plans are padded with -1."""
    return np.asarray(_played(env)(first, jnp.asarray(actions)))


@functools.lru_cache(maxsize=64)
def _played(env: GridEnv) -> Any:
    key, params = jax.random.key(0), env.default_params

    def play(state: Any, plan: Array) -> Bool[Array, ""]:
        def step(carry: tuple[Any, Array, Array], action: Array) -> tuple[Any, None]:
            state, over, won = carry
            after, reward, terminated, _ = env.step_state(key, state, action, params)
            goes_on = ~over & (action >= 0)
            won = won | (goes_on & terminated & (reward > 0))
            state = jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, state)
            return (state, over | (goes_on & terminated), won), None

        no = jnp.zeros((), jnp.bool_)
        return jax.lax.scan(step, (state, no, no), plan)[0][2]

    return jax.jit(jax.vmap(play))
