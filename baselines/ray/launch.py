"""Shared code of the learners on Ray: the `train` command, and checks before processes start."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from jaxenvs.core.extras import require

from .. import GYM, registry
from ..core import minibatches
from ..core.learner import Algorithm, Learner
from ..registry import ALGORITHMS
from ..run import loop, options
from ..run.keeping import Callback
from ..storage.runs import Config, RunError


def check(settings: Any) -> None:
    """Raise `ValueError` if `settings` do not work with actors in separate processes."""
    envs, actors = settings.num_envs, settings.actors
    if envs % actors:
        raise ValueError(
            f"num_envs={envs} does not divide evenly among {actors} actors; "
            f"try --num-envs {max(envs // actors, 1) * actors}"
        )
    for name, reason in (("chunk", "each update is a call"), ("unroll", "actors use CPUs")):
        if getattr(settings, name) != 1:
            raise ValueError(f"{name}={getattr(settings, name)}: here {reason}; give --{name} 1")


def fresh(learner: Learner[Any], key: Array) -> tuple[Any, Any, Array]:
    """Return initial weights, the optimiser's state, and the data of the run's PRNG key."""
    key_weights, key_obs, key_rest = jax.random.split(key, 3)
    weights = learner.network.init(key_weights, learner.env.observation_space.sample(key_obs))
    optimiser = minibatches.optimiser(learner.settings).init(weights)
    return weights, optimiser, jax.random.key_data(key_rest)


def command(
    algorithm: Algorithm,
    argv: list[str],
    parts: Callable[[], Any],
    callback: Callback | None = None,
) -> int:
    """Train with the command-line arguments `argv`, stop all processes, and return the exit code.

    `parts` returns the algorithm's `training.Parts`.
    """
    try:
        require(("gymnasium", "ray"), "ray")
    except ImportError as error:
        print(f"{options.PROGRAM}: {error}", file=sys.stderr)
        return 2
    from .cluster import Cluster, undisturbed
    from .training import Training

    cluster, training = Cluster(), Training(parts())
    begun = functools.partial(build, cluster)
    try:
        return loop.command(algorithm, argv, begun, training.train, training.report, callback)
    finally:
        with undisturbed():
            training.end()
            cluster.stop()


def build(cluster: Any, asked: options.Options[Any], config: Config) -> Learner[Any]:
    """Return the learner for the options `asked`; also start or join the Ray cluster.

    Raises `ValueError` or `RunError` for options that do not work with Ray.
    """
    if (asked.devices, asked.seeds, asked.coordinator) != ("1", 1, None):
        raise RunError("--devices, --seeds and --coordinator do not go with --ray; see --learners")
    settings = asked.settings
    settings.check()
    env, row = world(config), ALGORITHMS[config.algorithm]
    registry.check_forced(row, env, settings)
    learner = Learner(
        row,
        env,
        registry.network(row, env, vars(settings)),
        settings,
    )
    if hasattr(row.load(), "check"):
        row.load().check(learner, asked.seeds, asked.eval_episodes)
    jax.config.update("jax_platforms", "cpu")  # leave accelerators to the learner processes
    cluster.start(settings.address, settings.workers, asked.join_timeout)
    return learner


def world(config: Config) -> Any:
    """Return the environment of a run, or the name and spaces of a Gymnasium environment."""
    if config.id.startswith(GYM):
        from . import gym_envs

        return gym_envs.look(config.id, config.keywords)
    return config.env
