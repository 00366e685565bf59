"""Functions of the level editor that run JAX: random edits, and the cells that a plan visits."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from jaxenvs import levels
from jaxenvs.levels import palette


def visited(env: Any, entry: levels.Entry, plan: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the agent's cell at the start of a plan and after each action of the plan.

    Ends at the first state without an agent.
    """
    made, key = levels.env_of(env, entry), jax.random.key(0)
    state = entry.level
    if type(state) is type(made.level_shape):
        state = made.reset_to(key, entry.level).state
    for action in (None, *plan):
        if action is not None:
            state = made.step(key, state, np.int32(action)).state
        cell = palette.place(made, state)
        if cell is None:
            return
        yield cell


@functools.lru_cache(maxsize=8)
def mutated(env: Any) -> Callable[..., Any]:
    """Return a compiled function of (key, level) that returns the level after a random edit."""
    return jax.jit(lambda key, level: levels.mutate(env, key, level))
