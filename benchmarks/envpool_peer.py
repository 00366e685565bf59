"""EnvPool, a C++ engine of MiniGrid, BabyAI and Craftax: one process, threads as it chooses.

It is stepped as its authors ship it: all environments in one synchronous call with its own
auto-reset. Its steps are not stored, to its advantage. Grids return its dict of image, direction
and mission; the step after an episode's end starts the next episode; BabyAI's missions set the time
limit as they do here. Craftax (from envpool 1.2.7) returns craftax's own float32 observation,
symbolic or pixels, and reproduces craftax 1.6.1, random numbers included: one seed gives craftax's
trajectory. Of its two ids `AutoReset` is measured: it resets in the step that ends an episode, as
ours does, and unlike craftax it generates a world only then.
"""

import importlib

import jaxenvs

from .contestants import GRIDS, Game, craftax_level, one_of, peer_obs

TURN = 100  # steps of the batch in what counts as a rollout


def level(env_id: str) -> str:
    """EnvPool's id of a level: the name of the original, for Craft the one that resets itself."""
    spec = jaxenvs.spec(env_id)
    if spec.family in GRIDS:
        return spec.upstream
    return craftax_level(env_id).replace("-v1", "-AutoReset-v1")


def build(name: str, env_id: str, num_envs: int) -> Game:
    """EnvPool's batch of the same level.

    Raises `ImportError` when the package is missing, `LookupError` when it has no such level.
    """
    envpool = importlib.import_module("envpool")
    found = one_of(envpool.list_all_envs(), name, level(env_id), env_id)
    env = envpool.make_gymnasium(found, num_envs=num_envs, seed=0)
    env.reset()
    obs = "dict" if jaxenvs.spec(env_id).family in GRIDS else peer_obs(env_id)
    return Game(name, obs, num_envs, int(env.action_space.n), env.step, TURN)
