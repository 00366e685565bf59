"""EnvPool, a C++ engine of MiniGrid, BabyAI and Craftax, in one process that chooses its threads.

It runs as its authors ship it: one synchronous call steps all environments, with its own
auto-reset. Its steps are not stored, to its advantage. Grids return a dict of image, direction and
mission, the step after the end of an episode starts the next one, and BabyAI's missions set the
time limit as here. Craftax (from envpool 1.2.7) returns craftax's float32 observation, symbolic or
pixels, and reproduces craftax 1.6.1, random numbers included: a seed gives craftax's trajectory. Of
its two ids `AutoReset` is measured. It resets in the step that ends an episode, as ours does, and
generates a world only then, unlike craftax.
"""

import importlib

import jaxenvs

from ..harness.contestants import GRIDS, Game, craftax_level, one_of, peer_obs

TURN = 100  # steps of the batch that count as a rollout


def level(env_id: str) -> str:
    """Return EnvPool's id of a level: MiniGrid's id, or for Craft the id with auto-reset."""
    spec = jaxenvs.spec(env_id)
    if spec.family in GRIDS:
        return spec.upstream
    return craftax_level(env_id).replace("-v1", "-AutoReset-v1")


def build(name: str, env_id: str, num_envs: int) -> Game:
    """Return EnvPool's batch of the same level.

    Raises `ImportError` if the package is missing, `LookupError` if it has no such level.
    """
    envpool = importlib.import_module("envpool")
    found = one_of(envpool.list_all_envs(), name, level(env_id), env_id)
    env = envpool.make_gymnasium(found, num_envs=num_envs, seed=0)
    env.reset()
    obs = "dict" if jaxenvs.spec(env_id).family in GRIDS else peer_obs(env_id)
    return Game(name, obs, num_envs, int(env.action_space.n), env.step, TURN)
