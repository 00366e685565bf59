"""Who is measured: this library, NAVIX and XLand-MiniGrid behind one batched interface.

The peers run as their authors ship them, with their own auto-reset and the 7 x 7 x 3 view nearest
to MiniGrid's image. Neither has MiniGrid's occlusion, so they do less work for an observation.
"""

import dataclasses
import importlib
import importlib.metadata
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Int, PyTree

import jaxenvs
from jaxenvs.core.spaces import Discrete

PEERS = ("NAVIX", "XLand-MiniGrid")  # written in JAX; minigrid itself is NumPy
STEP_SCOPE = "environment_step"  # marks the environment's part of a compiled rollout
PACKAGES = {"minigrid": "minigrid", "NAVIX": "navix", "XLand-MiniGrid": "xminigrid"}
CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")  # whose compiler made a GPU's program
INSTALL = 'not installed (pip install "jaxenvs[bench]")'

# One id of every environment class: its largest, or the size that is usually quoted.
FAMILIES = (
    "Grid-BlockedUnlockPickup-v0",
    "Grid-DistShift2-v0",
    "Grid-DoorKey-8x8-v0",
    "Grid-Dynamic-Obstacles-8x8-v0",
    "Grid-Empty-8x8-v0",
    "Grid-Fetch-8x8-N3-v0",
    "Grid-FourRooms-v0",
    "Grid-GoToDoor-8x8-v0",
    "Grid-GoToObject-8x8-N2-v0",
    "Grid-KeyCorridorS6R3-v0",
    "Grid-LavaCrossingS11N5-v0",
    "Grid-LavaGapS7-v0",
    "Grid-LockedRoom-v0",
    "Grid-MemoryS13-v0",
    "Grid-MultiRoom-N6-v0",
    "Grid-ObstructedMaze-1Dlhb-v0",
    "Grid-ObstructedMaze-Full-v1",
    "Grid-Playground-v0",
    "Grid-PutNear-8x8-N3-v0",
    "Grid-RedBlueDoors-8x8-v0",
    "Grid-Unlock-v0",
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-BossLevel-v0",
    "BabyAI-FindObjS7-v0",
    "BabyAI-GoTo-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToObj-v0",
    "BabyAI-GoToObjDoor-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-KeyCorridor-v0",
    "BabyAI-KeyInBox-v0",
    "BabyAI-MoveTwoAcrossS8N9-v0",
    "BabyAI-OneRoomS20-v0",
    "BabyAI-Open-v0",
    "BabyAI-OpenDoor-v0",
    "BabyAI-OpenDoorsOrderN4-v0",
    "BabyAI-OpenRedDoor-v0",
    "BabyAI-OpenTwoDoors-v0",
    "BabyAI-Pickup-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-PickupDist-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-PutNextS7N4-v0",
    "BabyAI-PutNextS7N4Carrying-v0",
    "BabyAI-Unlock-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockPickup-v0",
    "BabyAI-UnlockToUnlock-v0",
)

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


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A batch of environments with random actions in mind: pure functions of arrays."""

    name: str
    env_id: str  # the id here; the level is the same for every contestant
    num_envs: int
    actions: int
    reset: Callable[[Array], PyTree[Array]]
    step: Callable[
        [Array, PyTree[Array], Int[Array, " num_envs"]],
        tuple[PyTree[Array], PyTree[Array], Float[Array, " num_envs"], Bool[Array, " num_envs"]],
    ]  # (key, state, action) -> state, obs, reward, done
    refresh: Callable[[Array, PyTree[Array]], PyTree[Array]] = lambda key, state: state

    def rollout(self, length: int) -> Callable[[Array, PyTree[Array]], tuple[PyTree, tuple]]:
        """Return (key, state) -> state, (obs, reward): `length` steps of random actions.

        One step per trip, every observation and reward stored, as a learner's rollout does; a pool
        of levels is drawn anew before.
        """

        def body(state: PyTree[Array], key: Array) -> tuple[PyTree[Array], tuple]:
            key_action, key_step = jax.random.split(key)
            action = jax.random.randint(key_action, (self.num_envs,), 0, self.actions)
            with jax.named_scope(STEP_SCOPE):
                state, obs, reward, _ = self.step(key_step, state, action)
            return state, (obs, reward)

        def run(key: Array, state: PyTree[Array]) -> tuple[PyTree[Array], tuple]:
            key_refresh, key_steps = jax.random.split(key)
            state = self.refresh(key_refresh, state)
            return jax.lax.scan(body, state, jax.random.split(key_steps, length), unroll=1)

        return run


def own(env_id: str, num_envs: int, reset_source: str | None = None, **fields: Any) -> Contestant:
    """This library's batch, with same-step auto-reset."""
    venv = jaxenvs.make_vec(env_id, num_envs, reset_source=reset_source, **fields)
    if not isinstance(venv.env.action_space, Discrete):
        raise LookupError(f"{env_id}: only discrete actions can be drawn here")

    def step(key: Array, state: Any, action: Array) -> tuple:
        stepped = venv.step(key, state, action)
        return stepped.state, stepped.obs, stepped.reward, stepped.done

    return Contestant(
        name="jaxenvs",
        env_id=env_id,
        num_envs=num_envs,
        actions=venv.env.action_space.n,
        reset=lambda key: venv.reset(key).state,
        step=step,
        refresh=venv.refresh,
    )


def chosen(ids: list[str]) -> list[str]:
    """The ids that a command line means: `all`, `families` (one of each class), or those given."""
    named = {"all": jaxenvs.registry.list(), "families": list(FAMILIES)}
    return named.get(ids[0], ids) if len(ids) == 1 else ids


def peer(name: str, env_id: str, num_envs: int) -> Contestant:
    """A peer's batch of the same level.

    Raises `ImportError` when the package is missing, `LookupError` when it has no such level.
    """
    return {"NAVIX": _navix, "XLand-MiniGrid": _xland}[name](env_id, num_envs)


def versions() -> dict[str, str]:
    """Versions of everything that a figure depends on."""
    found = {"python": platform.python_version(), "jaxenvs": jaxenvs.__version__}
    for package in ("jax", "jaxlib", "numpy", *PACKAGES.values()):
        found[package] = _version(package) or "not installed"
    plugins = {name: _version(name) for name in CUDA_PLUGINS}
    return found | {name: version for name, version in plugins.items() if version}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """Name of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _counterpart(name: str, table: dict[str, str], env_id: str) -> str:
    if env_id not in table:
        raise LookupError(f"{name} has no level like {env_id}")
    return table[env_id]


def _navix(env_id: str, num_envs: int) -> Contestant:
    navix = importlib.import_module("navix")

    env = navix.make(
        _counterpart("NAVIX", NAVIX_IDS, env_id),
        max_steps=_time_limit(env_id),
        observation_fn=navix.observations.symbolic_first_person,
    )

    @jax.numpy_dtype_promotion("standard")  # not written for the strict one
    def step(key: Array, state: Any, action: Array) -> tuple:
        state = jax.vmap(env.step)(state, action)
        return state, state.observation, state.reward, state.is_done()

    @jax.numpy_dtype_promotion("standard")
    def reset(key: Array) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, num_envs))

    return Contestant("NAVIX", env_id, num_envs, int(env.action_space.n), reset, step)


def _xland(env_id: str, num_envs: int) -> Contestant:
    xminigrid = importlib.import_module("xminigrid")
    wrappers = importlib.import_module("xminigrid.wrappers")

    level = _counterpart("XLand-MiniGrid", XLAND_IDS, env_id)
    plain, params = xminigrid.make(level, max_steps=_time_limit(env_id))
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
    return Contestant("XLand-MiniGrid", env_id, num_envs, actions, reset, step)


def _time_limit(env_id: str) -> int:
    return int(jaxenvs.make(env_id).default_params.max_steps_in_episode)
