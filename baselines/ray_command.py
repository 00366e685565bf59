"""The command of training under Ray: what it starts has ended when it returns."""

import functools
import sys
from typing import Any

import jax

from jaxenvs.core.extras import require

from . import loop, options
from .algorithms import ALGORITHMS, Algorithm, Learner
from .ray_ppo import Settings, world
from .runs import Config, RunError


def command(algorithm: Algorithm, argv: list[str]) -> int:
    """Train from the command line; return the exit code. Whatever was started has ended then."""
    try:
        require(("gymnasium", "ray"), "ray")
    except ImportError as error:
        print(f"{options.PROGRAM}: {error}", file=sys.stderr)
        return 2
    from .ray_cluster import Cluster, undisturbed
    from .ray_training import Training

    cluster, training = Cluster(), Training()
    begun = functools.partial(build, cluster)
    try:
        return loop.command(algorithm, argv, begun, training.train, training.report)
    finally:
        with undisturbed():
            training.end()
            cluster.stop()


def build(cluster: Any, asked: options.Options[Settings], config: Config) -> Learner[Settings]:
    """Return the learner for what was asked; raises for what cannot work.

    `cluster` is a `ray_cluster.Cluster`, which is started.
    """
    if (asked.devices, asked.seeds, asked.coordinator) != ("1", 1, None):
        raise RunError("--devices, --seeds and --coordinator do not go with --ray; see --learners")
    settings = asked.settings
    settings.check()
    env, network = world(config.id, config.env_fields, settings)
    jax.config.update("jax_platforms", "cpu")  # accelerators are for the learners
    cluster.start(settings.address, settings.actors + settings.learners, asked.join_timeout)
    return Learner(ALGORITHMS[config.algorithm], env, network, settings)
