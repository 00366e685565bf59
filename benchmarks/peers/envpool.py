"""EnvPool, a C++ engine of MiniGrid, BabyAI and Craftax, with its default number of threads.

EnvPool runs as its authors ship it: one synchronous call steps all environments, with EnvPool's own
auto-reset. The observations of EnvPool are not stored, which makes it faster in comparison.

Grids return a dict of image, direction and mission. They start the next episode one step after the
end of an episode. The time limit of BabyAI depends on the mission, as in this library.

Craftax (from envpool 1.2.7) returns craftax's float32 observation, symbolic or pixels. It
reproduces craftax 1.6.1, including random numbers: a seed gives the same trajectory. EnvPool has
two ids for each game of Craftax. The measured id is the one with `AutoReset`, which resets in the
step that ends an episode, as this library does. EnvPool generates a world only in a step that ends
an episode; craftax's own auto-reset generates one in every step.
"""

import importlib

import jaxenvs

from ..harness.contestants import GRIDS, Game, craftax_level, one_of, peer_obs

TURN = 100  # minimum number of batch steps in a timed run, see `Game.turn`


def level(env_id: str) -> str:
    """Return EnvPool's id of a level: MiniGrid's id or, for Craft, the id with `AutoReset`."""
    spec = jaxenvs.spec(env_id)
    if spec.family in GRIDS:
        return spec.upstream
    return craftax_level(env_id).replace("-v1", "-AutoReset-v1")


def build(name: str, env_id: str, num_envs: int) -> Game:
    """Return EnvPool's vectorised environment for the level of `env_id`.

    Raises `ImportError` if EnvPool is missing, `LookupError` if EnvPool lacks the level.
    """
    envpool = importlib.import_module("envpool")
    found = one_of(envpool.list_all_envs(), name, level(env_id), env_id)
    env = envpool.make_gymnasium(found, num_envs=num_envs, seed=0)
    env.reset()
    obs = "dict" if jaxenvs.spec(env_id).family in GRIDS else peer_obs(env_id)
    return Game(name, obs, num_envs, int(env.action_space.n), env.step, TURN)
