"""PPO over a Ray cluster: actors sample on CPUs, learners update, V-trace where they do not wait.

Run it with `jaxenvs train ID --ray`; it needs the extra `ray`. It is for environments that cannot
be compiled or whose step is slow: any of Gymnasium (`gym:CartPole-v1`), or ours. `sync` is PPO as
in ppo.py; `async` is IMPALA (Espeholt et al., 2018) with PPO's clipped steps. A run that goes on
after a stop is not bit-equal to one that was never stopped: its environments begin anew.
"""

import dataclasses
import functools
import sys
from typing import Any, ClassVar, Literal

import jax

import jaxenvs
from jaxenvs.core.extras import require

from . import GYM, options, ppo
from .loop import command
from .networks import ActorCritic
from .runs import Config, RunError


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    actors: int = 4  # processes that sample, each with its share of `num_envs`
    learners: int = 1  # processes that learn, each from its share of the fragments
    mode: Literal["sync", "async"] = "sync"  # whether actors wait for the newest weights
    address: str | None = None  # HOST:PORT of a Ray cluster to join, or auto; None: start one here
    patience: int = 300  # seconds until an actor or learner that does not answer counts as dead

    counts: ClassVar[tuple[str, ...]] = (*ppo.Settings.counts, "actors", "learners", "patience")

    def check(self) -> None:
        super().check()
        if self.num_envs % self.actors:
            raise ValueError(
                f"num_envs={self.num_envs} does not divide evenly among {self.actors} actors; "
                f"try --num-envs {max(self.num_envs // self.actors, 1) * self.actors}"
            )
        if self.actors % self.learners:
            raise ValueError(
                f"the fragments of {self.actors} actors do not divide evenly among {self.learners} "
                f"learners; give a divisor of {self.actors}"
            )
        items = self.items(self.num_envs // self.learners)
        if items % self.minibatches:
            raise ValueError(
                f"the {items} steps of each of {self.learners} learners do not split into "
                f"minibatches={self.minibatches}; choose a divisor of {items}"
            )
        if self.chunk != 1:
            raise ValueError(f"chunk={self.chunk}: here each update is a call; give --chunk 1")
        if self.bonus:
            raise ValueError(f"bonus={self.bonus}: actors have no exploration bonus; omit it")


def build(cluster: Any, asked: options.Options[Settings], config: Config) -> Any:
    """Return the learner for what was asked; raises for what cannot work.

    `cluster` is a `ray_cluster.Cluster`, which is started.
    """
    from .ray_learners import FragmentPPO, VTrace

    if (asked.devices, asked.seeds, asked.coordinator) != ("1", 1, None):
        raise RunError("--devices, --seeds and --coordinator do not go with --ray; see --learners")
    settings = asked.settings
    settings.check()
    env, network = world(config.id, config.env_fields, settings)
    jax.config.update("jax_platforms", "cpu")  # accelerators are for the learners
    cluster.start(settings.address, settings.actors + settings.learners, asked.join_timeout)
    kind = VTrace if settings.mode == "async" else FragmentPPO
    return kind(env, network, settings)


def world(id: str, fields: dict[str, Any], settings: Settings) -> tuple[Any, ActorCritic]:
    """What the learner must know of the environment, and the network for it."""
    if not id.startswith(GYM):
        env = jaxenvs.make(id, **fields)
        return env, ActorCritic.of(env, settings.hidden, settings.embed)
    from . import gym_worlds

    env = gym_worlds.look(id, fields)
    parts = (env.observation_space, env.action_space.n, tuple(settings.hidden), settings.embed)
    return env, ActorCritic(*parts)


def main(argv: list[str] | None = None) -> int:
    """Train from the command line; return the exit code. Whatever was started has ended then."""
    try:
        require(("gymnasium", "ray"), "ray")
    except ImportError as error:
        print(f"{options.PROGRAM}: {error}", file=sys.stderr)
        return 2
    from .ray_cluster import Cluster, undisturbed
    from .ray_training import Training

    cluster, training = Cluster(), Training()
    learner = (Settings, "Train with PPO and Ray.", functools.partial(build, cluster))
    prepare = functools.partial(options.prepare, "ppo-ray", *learner)
    try:
        return command(prepare, training.report, argv, training.train)
    finally:
        with undisturbed():
            training.end()
            cluster.stop()
