"""Environments of other packages: in JAX, in NumPy, and the C++ engine EnvPool.

The peers run as their authors ship them, with their own auto-reset. They return the observation
nearest to this library's: the 7 x 7 x 3 view of a grid, the symbolic view or the pixels of Craft,
or the state of Gymnasium's classic control.

XLand-MiniGrid and NAVIX (0.7 to 4.0) do less work for the view of a grid: neither has MiniGrid's
occlusion, and NAVIX never shows a carried object. Apart from this, NAVIX's view is MiniGrid's with
the first two axes swapped. NAVIX resets one step after the end of an episode.

craftax is measured with three resets: its own auto-reset, no auto-reset, and its optimistic reset.
With the optimistic reset, each step generates a few worlds, and all environments whose episode
ended share these worlds. Puzzles are in `puzzles.py`.
"""

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

import jaxenvs
from jaxenvs.core.spaces import Box
from jaxenvs.core.typed import installation, pip

from ..harness.contestants import GRIDS, Contestant, Game, craftax_level, foreign, one_of, silence
from . import envpool, puzzles

# craftax's optimistic reset generates one new world per step for this many environments. The number
# is the choice of craftax's authors.
RATIO = 16
INSTALL = f"not installed ({installation('bench')})"
INSTALL_CRAFTAX = f"not installed ({pip()} install --no-deps -r .ci/peers.txt)"


class Peer(NamedTuple):
    """Another package in one configuration, with which this library is compared."""

    name: str
    # Families of ids, such as `Grid`. The package has the levels of at least some of these ids.
    families: tuple[str, ...]
    build: Callable[[str, str, int], Any]  # function (name, id, num_envs) -> Contestant or Game
    install: str = INSTALL
    in_jax: bool = True  # whether the package is written in JAX, so that `gpu_work` can compile it


def of(env_id: str) -> list[Peer]:
    """Return the peers for an id's family; a peer may still lack the level of this id."""
    return [peer for peer in PEERS if jaxenvs.spec(env_id).family in peer.families]


def peer(name: str, env_id: str, num_envs: int) -> Contestant | Game:
    """Return the batch, or the single environment, of peer `name` for the level of `env_id`.

    Raises `ImportError` when the package is missing, `LookupError` when it lacks the level.
    """
    (found,) = (peer for peer in PEERS if peer.name == name)
    with silence():
        return found.build(name, env_id, num_envs)


def install(name: str) -> str:
    """Return the instruction to install a peer that cannot be imported."""
    return next(peer.install for peer in PEERS if peer.name == name)


def time_limit(env_id: str) -> int:
    """Return the number of steps after which an episode of `env_id` is truncated."""
    return int(jaxenvs.make(env_id).default_params.max_steps_in_episode)


def navix_level(env_id: str, renamed: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return NAVIX's name of a level, or a name unknown to NAVIX if NAVIX lacks the level.

    NAVIX has some levels only in MiniGrid's version 1, under a name that ends in v0. `renamed` maps
    MiniGrid's names of these levels (v1) to NAVIX's names (v0). NAVIX lacks version 0 of these
    levels; for version 0 the result is MiniGrid's name.

    Difference from MiniGrid: NAVIX's DoorKey always starts the agent in a corner.
    """
    upstream = jaxenvs.spec(env_id).upstream
    if upstream in renamed:
        return renamed[upstream]
    name = upstream.replace("MiniGrid-", "Navix-")
    if name in renamed.values():
        return upstream
    return re.sub(r"(Obstacles)-Random-(\w+)", r"\1-\2-Random", name)


def xland_level(env_id: str) -> str:
    """Return XLand-MiniGrid's name of a level; unlike MiniGrid's, it does not end in a version."""
    name = jaxenvs.spec(env_id).upstream.removesuffix("-v0")
    return name.replace("Empty-Random", "EmptyRandom").replace("UnlockPickup", "UnlockPickUp")


def _navix(name: str, env_id: str, num_envs: int) -> Contestant:
    navix = importlib.import_module("navix")
    names = importlib.import_module("navix.environments.registry")
    renamed = getattr(names, "V1_ALIASES", {})  # NAVIX 0.7 has no `V1_ALIASES`
    level = one_of(navix.registry(), name, navix_level(env_id, renamed), env_id)
    env = navix.make(
        level, max_steps=time_limit(env_id), observation_fn=navix.observations.symbolic_first_person
    )

    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(env.step)(state, action)
        return state, state.observation, state.reward, state.is_done()

    def reset(key: Array) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, num_envs))

    return foreign(name, env_id, num_envs, int(env.action_space.n), reset, step)


def _xland(name: str, env_id: str, num_envs: int) -> Contestant:
    xminigrid = importlib.import_module("xminigrid")
    wrappers = importlib.import_module("xminigrid.wrappers")

    level = one_of(xminigrid.registered_environments(), name, xland_level(env_id), env_id)
    plain, params = xminigrid.make(level, max_steps=time_limit(env_id))
    env = wrappers.GymAutoResetWrapper(plain)

    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(env.step, in_axes=(None, 0, 0))(params, state, action)
        return state, state.observation, state.reward, state.last()

    def reset(key: Array) -> Any:
        keys = jax.random.split(key, num_envs)
        return jax.vmap(env.reset, in_axes=(None, 0))(params, keys)

    return foreign(name, env_id, num_envs, int(env.num_actions(params)), reset, step)


def _craftax(name: str, env_id: str, num_envs: int, own_reset: bool = False) -> Contestant:
    """Return a batch of craftax, with its own auto-reset (`own_reset`) or without auto-reset."""
    package = importlib.import_module("craftax.craftax_env")
    env = package.make_craftax_env_from_name(craftax_level(env_id), auto_reset=own_reset)
    params = env.default_params.replace(max_timesteps=time_limit(env_id))

    def step(key: Array, state: Any, action: Array) -> tuple:
        keys = jax.random.split(key, num_envs)
        batched = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        obs, state, reward, done, _ = batched(keys, state, action, params)
        return state, obs, reward, done

    def reset(key: Array) -> Any:
        return _craftax_worlds(env, key, num_envs, params)[1]

    return foreign(name, env_id, num_envs, int(env.num_actions), reset, step)


def _craftax_optimistic(name: str, env_id: str, num_envs: int) -> Contestant:
    """Return a batch of craftax with optimistic reset.

    Each step generates one new world per `RATIO` environments. All environments whose episode ended
    in this step restart in these worlds.
    """
    plain = _craftax(name, env_id, num_envs)
    package = importlib.import_module("craftax.craftax_env")
    env = package.make_craftax_env_from_name(craftax_level(env_id), auto_reset=False)
    worlds = max(1, num_envs // RATIO)

    def step(key: Array, state: Any, action: Array) -> tuple:
        key_step, key_reset = jax.random.split(key)
        state, obs, reward, done = plain.step(key_step, state, action)
        new_obs, new_state = _craftax_worlds(env, key_reset, worlds, env.default_params)
        which = in_turn(done, worlds)
        begun = jax.tree.map(lambda leaf: leaf[which], (new_state, new_obs))
        state, obs = _select(done, begun, (state, obs))
        return state, obs, reward, done

    return foreign(name, env_id, num_envs, plain.actions, plain.reset, step)


def in_turn(done: Bool[Array, " envs"], worlds: int) -> Int32[Array, " envs"]:
    """Return the index of the new world in which each done environment restarts, int32.

    The done environments get the worlds 0 to `worlds - 1` in turn, then world 0 again. The results
    of environments that are not done are to be ignored.
    """
    return (jnp.cumsum(done, dtype=jnp.int32) - 1) % worlds


def _craftax_worlds(env: Any, key: Array, count: int, params: Any) -> tuple[Array, Any]:
    """Return the first observations and the states of `count` new worlds."""
    return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, count), params)


def _select(done: Bool[Array, " envs"], begun: Any, going: Any) -> Any:
    """Return `begun` for the environments that are done, and `going` for all others.

    `begun` and `going` are pytrees of arrays whose first axis is the environment.
    """

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(done.reshape(done.shape + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, begun, going)


def _gymnasium_game(name: str, level: str, obs: str, turn: int) -> Game:
    """Return one environment made by `gymnasium.make`, with auto-reset."""
    gymnasium = importlib.import_module("gymnasium")
    env = gymnasium.make(level)
    env.reset(seed=0)
    space = env.action_space
    box = isinstance(space, gymnasium.spaces.Box)
    actions = Box(space.low, space.high, space.shape, space.dtype) if box else int(space.n)

    def step(action: Any) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return Game(name, obs, 1, actions, step, turn)


def _minigrid(name: str, env_id: str, num_envs: int) -> Game:
    importlib.import_module("minigrid")
    return _gymnasium_game(name, jaxenvs.spec(env_id).upstream, "dict", turn=200)


def _classic(name: str, env_id: str, num_envs: int) -> Game:
    registry = importlib.import_module("gymnasium").registry
    level = one_of(registry, name, jaxenvs.spec(env_id).upstream, env_id)
    return _gymnasium_game(name, level, "state", turn=1000)


def _crafter(name: str, env_id: str, num_envs: int) -> Game:
    """Return Crafter, the NumPy game that Craftax-Classic reproduces; it returns pixels."""
    env = importlib.import_module("crafter").Env(length=time_limit(env_id), seed=0)
    env.reset()

    def step(action: int) -> None:
        if env.step(action)[2]:
            env.reset()

    # Time at least 1,000 steps, so that the time includes several resets: random episodes last
    # about 180 steps. A reset matters, because it takes as long as 800 steps.
    return Game(name, "pixels", 1, 17, step, turn=1000)


_craftax_own = functools.partial(_craftax, own_reset=True)
PEERS = (
    Peer("EnvPool", (*GRIDS, "Craft"), envpool.build, in_jax=False),
    Peer("minigrid", GRIDS, _minigrid, in_jax=False),
    Peer("crafter", ("Craft",), _crafter, in_jax=False),
    Peer("gymnasium", ("Classic",), _classic, in_jax=False),
    Peer("NAVIX", GRIDS, _navix),
    Peer("XLand-MiniGrid", GRIDS, _xland),
    Peer(f"craftax (optimistic {RATIO})", ("Craft",), _craftax_optimistic, INSTALL_CRAFTAX),
    Peer("craftax (own reset)", ("Craft",), _craftax_own, INSTALL_CRAFTAX),
    Peer("craftax (no reset)", ("Craft",), _craftax, INSTALL_CRAFTAX),
    Peer("jumanji", ("Puzzle",), puzzles.jumanji),
    Peer("pgx", ("Puzzle",), puzzles.pgx),
)
