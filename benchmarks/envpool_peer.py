"""EnvPool, a C++ engine of MiniGrid's and BabyAI's levels: one process, threads as it chooses.

It is stepped as its authors ship it (envpool 1.2.5): all environments in one synchronous call, its
own auto-reset, in which the step after an episode's end starts the next one, and its own
observation, the dict of image, direction and mission. BabyAI's missions set its time limit there as
they do here. Nothing is stored of its steps, to its advantage.
"""

import importlib

import jaxenvs

from .contestants import Game, one_of

TURN = 100  # steps of the batch in what counts as a rollout


def build(name: str, env_id: str, num_envs: int) -> Game:
    """EnvPool's batch of the same level.

    Raises `ImportError` when the package is missing, `LookupError` when it has no such level.
    """
    envpool = importlib.import_module("envpool")
    level = one_of(envpool.list_all_envs(), name, jaxenvs.spec(env_id).upstream, env_id)
    env = envpool.make_gymnasium(level, num_envs=num_envs, seed=0)
    env.reset()
    return Game(name, "dict", num_envs, int(env.action_space.n), env.step, TURN)
