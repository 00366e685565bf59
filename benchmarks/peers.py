"""Who else is measured: packages written in JAX as batches, and NumPy's games, one in a process.

The peers run as their authors ship them, with their own auto-reset and the observation nearest to
ours: of a grid the 7 x 7 x 3 view (neither NAVIX nor XLand-MiniGrid has MiniGrid's occlusion, so
they do less work for it), of Craft the symbolic view or the pixels. craftax is measured three
times: with worlds shared by those that ended, with its own auto-reset, and without any. The puzzles
of others are in `puzzle_peers.py`.
"""

import importlib
from collections.abc import Callable
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

# Levels of the same name on both sides; a level that is missing has no counterpart in the package.
# NAVIX starts DoorKey's agent in the corner, which spares it drawing a place.
CROSSINGS = ("S9N1", "S9N2", "S9N3", "S11N5")
CORRIDORS = ("S3R1", "S3R2", "S3R3", "S4R3", "S5R3", "S6R3")
NAVIX_IDS = {
    "Grid-v0": "Navix-Empty-8x8-v0",
    **{f"Grid-Empty-{n}x{n}-v0": f"Navix-Empty-{n}x{n}-v0" for n in (5, 6, 8, 16)},
    **{f"Grid-Empty-Random-{n}x{n}-v0": f"Navix-Empty-Random-{n}x{n}-v0" for n in (5, 6)},
    **{f"Grid-DoorKey-{n}x{n}-v0": f"Navix-DoorKey-{n}x{n}-v0" for n in (5, 6, 8, 16)},
    **{f"Grid-LavaGapS{n}-v0": f"Navix-LavaGapS{n}-v0" for n in (5, 6, 7)},
    **{f"Grid-DistShift{n}-v0": f"Navix-DistShift{n}-v0" for n in (1, 2)},
    **{f"Grid-SimpleCrossing{n}-v0": f"Navix-SimpleCrossing{n}-v0" for n in CROSSINGS},
    **{f"Grid-KeyCorridor{n}-v0": f"Navix-KeyCorridor{n}-v0" for n in CORRIDORS},
    **{f"Grid-GoToDoor-{n}x{n}-v0": f"Navix-GoToDoor-{n}x{n}-v0" for n in (5, 6, 8)},
    **{
        f"Grid-Dynamic-Obstacles-{n}x{n}-v0": f"Navix-Dynamic-Obstacles-{n}x{n}-v0"
        for n in (5, 6, 8, 16)
    },
    **{
        f"Grid-Dynamic-Obstacles-Random-{n}x{n}-v0": f"Navix-Dynamic-Obstacles-{n}x{n}-Random-v0"
        for n in (5, 6)
    },
    "Grid-FourRooms-v0": "Navix-FourRooms-v0",
}
XLAND_IDS = {
    "Grid-v0": "MiniGrid-Empty-8x8",
    **{f"Grid-Empty-{n}x{n}-v0": f"MiniGrid-Empty-{n}x{n}" for n in (5, 6, 8, 16)},
    **{f"Grid-Empty-Random-{n}x{n}-v0": f"MiniGrid-EmptyRandom-{n}x{n}" for n in (5, 6)},
    **{f"Grid-DoorKey-{n}x{n}-v0": f"MiniGrid-DoorKey-{n}x{n}" for n in (5, 6, 8, 16)},
    "Grid-FourRooms-v0": "MiniGrid-FourRooms",
    "Grid-Unlock-v0": "MiniGrid-Unlock",
    "Grid-UnlockPickup-v0": "MiniGrid-UnlockPickUp",
    "Grid-BlockedUnlockPickup-v0": "MiniGrid-BlockedUnlockPickUp",
    "Grid-LockedRoom-v0": "MiniGrid-LockedRoom",
    "Grid-Playground-v0": "MiniGrid-Playground",
}
CRAFTAX_IDS = {
    "Craft-Classic-Symbolic-v0": "Craftax-Classic-Symbolic-v1",
    "Craft-Classic-Ids-v0": "Craftax-Classic-Symbolic-v1",  # it has no bytes to offer
    "Craft-Classic-Pixels-v0": "Craftax-Classic-Pixels-v1",
}


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
    return "pixels" if "Pixels" in CRAFTAX_IDS.get(env_id, "") else "symbolic"


def game_of(env_id: str) -> str | None:
    """Name of the NumPy package that has an id's game, if there is one."""
    return GAMES.get(jaxenvs.spec(env_id).family)


def game(env_id: str) -> Game:
    """The NumPy game of an id. Raises `ImportError` when its package is missing."""
    return {"minigrid": _minigrid, "crafter": _crafter}[game_of(env_id) or ""](env_id)


def time_limit(env_id: str) -> int:
    """Steps after which an episode of an id is cut."""
    return int(jaxenvs.make(env_id).default_params.max_steps_in_episode)


def _counterpart(name: str, table: dict[str, str], env_id: str) -> str:
    if env_id not in table:
        raise LookupError(f"{name} has no level like {env_id}")
    return table[env_id]


def _navix(name: str, env_id: str, num_envs: int) -> Contestant:
    navix = importlib.import_module("navix")

    env = navix.make(
        _counterpart(name, NAVIX_IDS, env_id),
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

    level = _counterpart(name, XLAND_IDS, env_id)
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
    level = _counterpart("craftax", CRAFTAX_IDS, env_id)
    env = package.make_craftax_env_from_name(level, auto_reset=own_reset)
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
    env = package.make_craftax_env_from_name(CRAFTAX_IDS[env_id], auto_reset=False)
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
    (name, *_) = (*jaxenvs.spec(env_id).aliases, env_id)  # BabyAI's are the same
    env = gymnasium.make(name)
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
