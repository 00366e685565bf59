"""Who else is measured: packages written in JAX as batches, and NumPy's games, one in a process.

The peers run as their authors ship them, with their own auto-reset and the observation nearest to
ours: of a grid the 7 x 7 x 3 view (neither NAVIX nor XLand-MiniGrid has MiniGrid's occlusion, so
they do less work for it), of Craft the symbolic view or the pixels. craftax is measured three
times: with worlds shared by those that ended, with its own auto-reset, and without any. The puzzles
of others are in `puzzle_peers.py`.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

import jaxenvs

from . import puzzle_peers
from .contestants import Contestant

GRIDS = ("Grid", "BabyAI")
GAMES = {"Grid": "minigrid", "BabyAI": "minigrid", "Craft": "crafter"}  # written in NumPy
RATIO = 16  # rows of a batch to each new world of craftax's optimistic reset, its authors' choice
INSTALL = 'not installed (pip install "jaxenvs[bench]")'
INSTALL_CRAFTAX = "not installed (pip install --no-deps -r .ci/peers.txt)"


class Peer(NamedTuple):
    """A package written in JAX, in one way of use."""

    name: str
    families: tuple[str, ...]  # whose ids it may have
    build: Callable[[str, str, int], Contestant]  # of (name, id, environments)
    install: str = INSTALL


class Game(NamedTuple):
    """One environment of a NumPy package."""

    name: str
    obs: str  # in words
    actions: int
    reset: Callable[[], Any]
    step: Callable[[int], bool]  # whether the episode is over
    turn: int  # steps that make a fair sample, resets included


def of(env_id: str) -> list[Peer]:
    """The peers that may have a counterpart of an id."""
    return [peer for peer in PEERS if jaxenvs.spec(env_id).family in peer.families]


def peer(name: str, env_id: str, num_envs: int) -> Contestant:
    """A peer's batch of the same level.

    Raises `ImportError` when the package is missing, `LookupError` when it has no such level.
    """
    (found,) = (peer for peer in PEERS if peer.name == name)
    return found.build(name, env_id, num_envs)


def install(name: str) -> str:
    """What is missing when a peer or a NumPy game cannot be imported."""
    return next((peer.install for peer in PEERS if peer.name == name), INSTALL)


def obs_name(env_id: str) -> str:
    """The observation of the peers of an id, the nearest to ours."""
    family = jaxenvs.spec(env_id).family
    if family != "Craft":
        return "image" if family in GRIDS else "board"
    return "pixels" if "Pixels" in env_id else "symbolic"


def game_of(env_id: str) -> str | None:
    """Name of the NumPy package that has an id's game, if there is one."""
    return GAMES.get(jaxenvs.spec(env_id).family)


def game(env_id: str) -> Game:
    """The NumPy game of an id. Raises `ImportError` when its package is missing."""
    return {"minigrid": _minigrid, "crafter": _crafter}[game_of(env_id) or ""](env_id)


def time_limit(env_id: str) -> int:
    """Steps after which an episode of an id is cut."""
    return int(jaxenvs.make(env_id).default_params.max_steps_in_episode)


def navix_level(env_id: str) -> str:
    """What NAVIX calls a level; in its DoorKey the agent starts in the corner, drawn nowhere."""
    name = jaxenvs.spec(env_id).upstream.replace("MiniGrid-", "Navix-")
    return re.sub(r"(Obstacles)-Random-(\w+)", r"\1-\2-Random", name)


def xland_level(env_id: str) -> str:
    """What XLand-MiniGrid calls a level of MiniGrid; its names have no version."""
    name = jaxenvs.spec(env_id).upstream.removesuffix("-v0")
    return name.replace("Empty-Random", "EmptyRandom").replace("UnlockPickup", "UnlockPickUp")


def craftax_level(env_id: str) -> str:
    """What craftax calls a game; it has no observation of bytes, so `Ids` has the symbolic one."""
    name = jaxenvs.spec(env_id.replace("-Ids-", "-Symbolic-")).upstream
    if not name.startswith("Craftax-"):
        raise LookupError(f"craftax has no level like {env_id}")
    return name


def _one_of(levels: Iterable[str], package: str, level: str, env_id: str) -> str:
    """The level, if it is one of the package's."""
    if level not in levels:
        raise LookupError(f"{package} has no level like {env_id}")
    return level


def _navix(name: str, env_id: str, num_envs: int) -> Contestant:
    navix = importlib.import_module("navix")
    level = _one_of(navix.registry(), name, navix_level(env_id), env_id)
    env = navix.make(
        level,
        max_steps=time_limit(env_id),
        observation_fn=navix.observations.symbolic_first_person,
    )

    @jax.numpy_dtype_promotion("standard")  # not written for the strict one
    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(env.step)(state, action)
        return state, state.observation, state.reward, state.is_done()

    @jax.numpy_dtype_promotion("standard")
    def reset(key: Array) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, num_envs))

    return Contestant(name, env_id, num_envs, int(env.action_space.n), reset, step)


def _xland(name: str, env_id: str, num_envs: int) -> Contestant:
    xminigrid = importlib.import_module("xminigrid")
    wrappers = importlib.import_module("xminigrid.wrappers")

    level = _one_of(xminigrid.registered_environments(), name, xland_level(env_id), env_id)
    plain, params = xminigrid.make(level, max_steps=time_limit(env_id))
    env = wrappers.GymAutoResetWrapper(plain)

    @jax.numpy_dtype_promotion("standard")  # not written for the strict one
    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(env.step, in_axes=(None, 0, 0))(params, state, action)
        return state, state.observation, state.reward, state.last()

    @jax.numpy_dtype_promotion("standard")
    def reset(key: Array) -> Any:
        keys = jax.random.split(key, num_envs)
        return jax.vmap(env.reset, in_axes=(None, 0))(params, keys)

    actions = int(env.num_actions(params))
    return Contestant(name, env_id, num_envs, actions, reset, step)


def _craftax(name: str, env_id: str, num_envs: int, own_reset: bool = False) -> Contestant:
    """A batch of craftax that starts again by itself or, without `own_reset`, never."""
    package = importlib.import_module("craftax.craftax_env")
    env = package.make_craftax_env_from_name(craftax_level(env_id), auto_reset=own_reset)
    params = env.default_params.replace(max_timesteps=time_limit(env_id))

    @jax.numpy_dtype_promotion("standard")  # not written for the strict one
    def step(key: Array, state: Any, action: Array) -> tuple:
        keys = jax.random.split(key, num_envs)
        batched = jax.vmap(env.step, in_axes=(0, 0, 0, None))
        obs, state, reward, done, _ = batched(keys, state, action, params)
        return state, obs, reward, done

    @jax.numpy_dtype_promotion("standard")
    def reset(key: Array) -> Any:
        return _craftax_worlds(env, key, num_envs, params)[1]

    return Contestant(name, env_id, num_envs, int(env.num_actions), reset, step)


def _craftax_optimistic(name: str, env_id: str, num_envs: int) -> Contestant:
    """One new world for every `RATIO` rows in each step, given to the rows that ended in turn."""
    plain = _craftax(name, env_id, num_envs)
    package = importlib.import_module("craftax.craftax_env")
    env = package.make_craftax_env_from_name(craftax_level(env_id), auto_reset=False)
    worlds = max(1, num_envs // RATIO)

    @jax.numpy_dtype_promotion("standard")
    def step(key: Array, state: Any, action: Array) -> tuple:
        key_step, key_reset = jax.random.split(key)
        state, obs, reward, done = plain.step(key_step, state, action)
        new_obs, new_state = _craftax_worlds(env, key_reset, worlds, env.default_params)
        which = in_turn(done, worlds)
        begun = jax.tree.map(lambda leaf: leaf[which], (new_state, new_obs))
        state, obs = _select(done, begun, (state, obs))
        return state, obs, reward, done

    return Contestant(name, env_id, num_envs, plain.actions, plain.reset, step)


def in_turn(done: Bool[Array, " envs"], worlds: int) -> Int32[Array, " envs"]:
    """Which new world a row gets if it is done: shared only if more are done than were made."""
    return (jnp.cumsum(done, dtype=jnp.int32) - 1) % worlds


def _craftax_worlds(env: Any, key: Array, count: int, params: Any) -> tuple[Array, Any]:
    """First observations and states of `count` new worlds."""
    return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, count), params)


def _select(done: Bool[Array, " envs"], begun: Any, going: Any) -> Any:
    """Take the rows that are done from `begun`."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(done.reshape(done.shape + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, begun, going)


def _craftax_own(name: str, env_id: str, num_envs: int) -> Contestant:
    return _craftax(name, env_id, num_envs, own_reset=True)


def _minigrid(env_id: str) -> Game:
    """What `gymnasium.make` gives."""
    importlib.import_module("minigrid")
    gymnasium = importlib.import_module("gymnasium")
    env = gymnasium.make(jaxenvs.spec(env_id).upstream)
    env.reset(seed=0)

    def step(action: int) -> bool:
        _, _, terminated, truncated, _ = env.step(action)
        return terminated or truncated

    return Game("minigrid", "dict", int(env.action_space.n), env.reset, step, turn=200)


def _crafter(env_id: str) -> Game:
    """The NumPy game that Craftax-Classic was made after; its observation is a picture."""
    env = importlib.import_module("crafter").Env(length=time_limit(env_id), seed=0)
    env.reset()
    # Random episodes last about 180 steps, and a new world costs as much as 800.
    return Game("crafter", "pixels", 17, env.reset, lambda action: env.step(action)[2], turn=1000)


PEERS = (
    Peer("NAVIX", GRIDS, _navix),
    Peer("XLand-MiniGrid", GRIDS, _xland),
    Peer(f"craftax (optimistic {RATIO})", ("Craft",), _craftax_optimistic, INSTALL_CRAFTAX),
    Peer("craftax (own reset)", ("Craft",), _craftax_own, INSTALL_CRAFTAX),
    Peer("craftax (no reset)", ("Craft",), _craftax, INSTALL_CRAFTAX),
    Peer("jumanji", ("Puzzle",), puzzle_peers.jumanji),
    Peer("pgx", ("Puzzle",), puzzle_peers.pgx),
)
