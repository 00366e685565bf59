"""What the learners over Ray share: their command, and what is refused before anything starts."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax

from jaxenvs.core.extras import require

from .. import GYM, registry
from ..core.learner import Algorithm, Learner
from ..registry import ALGORITHMS
from ..run import loop, options
from ..run.keeping import Callback
from ..storage.runs import Config, RunError


def check(settings: Any) -> None:
    """Raise `ValueError` for settings of actors that cannot work, and say how to fix them."""
    envs, actors = settings.num_envs, settings.actors
    if envs % actors:
        raise ValueError(
            f"num_envs={envs} does not divide evenly among {actors} actors; "
            f"try --num-envs {max(envs // actors, 1) * actors}"
        )
    for name, reason in (("chunk", "each update is a call"), ("unroll", "actors use CPUs")):
        if getattr(settings, name) != 1:
            raise ValueError(f"{name}={getattr(settings, name)}: here {reason}; give --{name} 1")


def command(
    algorithm: Algorithm,
    argv: list[str],
    parts: Callable[[], Any],
    callback: Callback | None = None,
) -> int:
    """Train from the command line; return the exit code. Whatever was started has ended then.

    `parts` returns the `training.Parts` of the algorithm.
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
    """Return the learner for what was asked; raises for what cannot work.

    `cluster` is a `cluster.Cluster`, which is started.
    """
    if (asked.devices, asked.seeds, asked.coordinator) != ("1", 1, None):
        raise RunError("--devices, --seeds and --coordinator do not go with --ray; see --learners")
    settings = asked.settings
    settings.check()
    env = world(config)
    learner = Learner(
        row := ALGORITHMS[config.algorithm],
        env,
        registry.network(row, env, vars(settings)),
        settings,
    )
    if hasattr(row.load(), "check"):
        row.load().check(learner, asked.seeds, asked.eval_episodes)
    jax.config.update("jax_platforms", "cpu")  # accelerators are for the learners
    cluster.start(settings.address, settings.workers, asked.join_timeout)
    return learner


def world(config: Config) -> Any:
    """What a learner must know of the environment of a run."""
    if config.id.startswith(GYM):
        from . import gym_envs

        return gym_envs.look(config.id, config.keywords)
    return config.env
