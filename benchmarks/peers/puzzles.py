"""Puzzles of jumanji and pgx, batched as their authors recommend.

Differences from this library: jumanji's cubes always have half turns as actions (here only ids with
`-Half`), and its 2x2 cube can turn all six faces. jumanji scrambles cubes and sliding tiles by
random moves from the solved board. In pgx's 2048, a move that changes nothing ends the game.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

import jaxenvs

from ..harness.contestants import Contestant, foreign, one_of

# Number of random turns that scramble a cube, and of random moves that scramble sliding tiles, as
# in jumanji.
SCRAMBLES, WALK = 100, 200
PGX_IDS = {"Puzzle-2048-v0": "2048"}


class Level(NamedTuple):
    """Environment of jumanji that corresponds to one of this library's ids."""

    module: str  # name of a module inside `jumanji.environments`
    env: str  # name of the environment's class in that module
    # Name of the level generator's class in the submodule `generator`, and keyword arguments for
    # it; None selects jumanji's default generator.
    generator: tuple[str, dict[str, int]] | None = None
    actions: tuple[int, ...] = (4,)  # number of values of each component of an action
    limited: bool = True  # whether the environment has a time limit


def _cube(size: int) -> Level:
    walk = {"cube_size": size, "num_scrambles_on_reset": SCRAMBLES}
    generator = ("ScramblingGenerator", walk)
    return Level("logic.rubiks_cube", "RubiksCube", generator, (6, size // 2, 3))


def _sliding(size: int) -> Level:
    generator = ("RandomWalkGenerator", {"grid_size": size, "num_random_moves": WALK})
    return Level("logic.sliding_tile_puzzle", "SlidingTilePuzzle", generator)


def _maze(size: int) -> Level:
    return Level("routing.maze", "Maze", ("RandomGenerator", {"num_rows": size, "num_cols": size}))


JUMANJI_IDS = {
    "Puzzle-2048-v0": Level("logic.game_2048", "Game2048", limited=False),
    **{f"Puzzle-Cube-{n}x{n}-v0": _cube(n) for n in (2, 3)},
    **{f"Puzzle-Cube-{n}x{n}-Half-v0": _cube(n) for n in (2, 3)},
    **{f"Puzzle-Maze-{n}x{n}-v0": _maze(n) for n in (10, 23)},
    "Puzzle-Minesweeper-10x10-v0": Level(
        "logic.minesweeper", "Minesweeper", actions=(10, 10), limited=False
    ),
    **{f"Puzzle-SlidingTile-{n}x{n}-v0": _sliding(n) for n in (3, 4, 5, 6, 7)},
}


def jumanji(name: str, env_id: str, num_envs: int) -> Contestant:
    """Return a batch of jumanji's environments, with jumanji's wrappers for vmap and auto-reset."""
    level = JUMANJI_IDS[one_of(JUMANJI_IDS, name, env_id, env_id)]
    wrappers = importlib.import_module("jumanji.wrappers")
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(_build(level, env_id)))

    def step(key: Array, state: Any, action: Array) -> tuple:
        state, timestep = env.step(state, parts(action, level.actions))
        return state, timestep.observation, timestep.reward, timestep.last()

    def reset(key: Array) -> Any:
        return env.reset(jax.random.split(key, num_envs))[0]

    return foreign(name, env_id, num_envs, math.prod(level.actions), reset, step)


def _build(level: Level, env_id: str) -> Any:
    folder = f"jumanji.environments.{level.module}"
    fields: dict[str, Any] = {}
    if level.generator is not None:
        generator, keywords = level.generator
        made = getattr(importlib.import_module(f"{folder}.generator"), generator)
        fields["generator"] = made(**keywords)
    if level.limited:
        limit = jaxenvs.make(env_id).default_params.max_steps_in_episode
        fields["time_limit"] = int(limit)
    return getattr(importlib.import_module(f"{folder}.env"), level.env)(**fields)


def parts(action: Array, counts: tuple[int, ...]) -> Array:
    """Split discrete actions into their components; the last component varies fastest.

    `counts` has the number of values of each component. With several components, the result has an
    additional last axis over the components.
    """
    if len(counts) == 1:
        return action
    return jnp.stack(jnp.unravel_index(action, counts), axis=-1)


def pgx(name: str, env_id: str, num_envs: int) -> Contestant:
    """Return a batch of pgx's environments with pgx's auto-reset."""
    game = PGX_IDS[one_of(PGX_IDS, name, env_id, env_id)]
    env = importlib.import_module("pgx").make(game)
    auto_reset = importlib.import_module("pgx.experimental.wrappers").auto_reset
    step_one: Callable = auto_reset(env.step, env.init)

    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(step_one)(state, action, jax.random.split(key, num_envs))
        return state, state.observation, state.rewards[:, 0], state.terminated | state.truncated

    def reset(key: Array) -> Any:
        return jax.vmap(env.init)(jax.random.split(key, num_envs))

    return foreign(name, env_id, num_envs, env.num_actions, reset, step)
