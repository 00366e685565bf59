"""PPO on CartPole by this library and by others, each a `Trainer` in a separate process.

    python -m jaxenvs.benchmarks.learner_peers NAME SETTING [--purejaxrl PATH]

The process reads seeds from its input, a line each, trains with each, and answers with a line of
JSON: the seconds of the processor, those of the clock, the return of the last episodes, and that of
an evaluation, which is the same for all who have one. `learners.py` starts it and takes turns.

Nobody evaluates or prints inside the clock. The peers run as their authors ship them: PureJaxRL
from a clone (it is not on PyPI), rejax without its evaluations, Stable-Baselines3 with its
`DummyVecEnv`. They take an episode that the time limit cuts for one that ended, except SB3.
"""

import dataclasses
import functools
import importlib.util
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

ID = "Classic-CartPole-v0"  # of the others: CartPole-v1
HIDDEN = (64, 64)  # layers of each network, tanh
LAST = 20  # episodes whose mean return is told
EPISODES = 128  # of an evaluation


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every learner is told."""

    name: str
    num_envs: int
    rollout_steps: int
    epochs: int
    minibatches: int
    steps: int = 500_000  # of one training
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    value_clip: float = 0.2  # 0: none; PureJaxRL and rejax always take `clip`

    @property
    def batch(self) -> int:
        """Environment steps of an update."""
        return self.num_envs * self.rollout_steps

    def lasting(self, steps: int) -> "Setting":
        """The same for another number of steps, in whole updates."""
        return dataclasses.replace(self, steps=max(1, steps // self.batch) * self.batch)


EQUAL = (
    Setting("4 x 128", 4, 128, epochs=4, minibatches=4),  # what PureJaxRL comes with
    Setting("64 x 128", 64, 128, epochs=4, minibatches=8, learning_rate=1e-3),
)
# What each comes with, PureJaxRL with the first of those above; rejax is given tanh all the same.
# Ours: its preset of CartPole.
OWN = {
    "jaxenvs, shared": Setting(
        "own", 16, 64, 4, 8, learning_rate=1e-3, value_weight=0.01, entropy=0.0, value_clip=0.0
    ),
    "rejax": Setting("own", 64, 64, 8, 16, learning_rate=3e-4),
    "stable-baselines3": Setting(
        "own", 1, 2048, 10, 32, learning_rate=3e-4, entropy=0.0, value_clip=0.0
    ),
}


class Trainer(NamedTuple):
    """One learner with one setting."""

    # Train with a seed; return the mean return of the last episodes, or None where nobody counted,
    # and the weights.
    train: Callable[[int], tuple[float | None, Any]]
    # Logits of a batch of observations by those weights; None: its policies are not evaluated.
    logits: Callable[[Any, jax.Array], jax.Array] | None = None


def ours(setting: Setting, apart: bool = True) -> Trainer:
    """This library's PPO, in chunks of updates as `jaxenvs train` runs it.

    The others have a network for the actor and one for the critic; so has ours for equal work, and
    the one that it has by itself, which both share, unless `apart`.
    """
    import jaxenvs
    from jaxenvs.baselines import registry
    from jaxenvs.baselines.core import rollouts
    from jaxenvs.baselines.on_policy import ppo
    from jaxenvs.baselines.run import loop

    equal = dataclasses.asdict(setting)  # under the names of our own settings
    del equal["name"]
    steps = equal.pop("steps")
    settings = ppo.Settings(**equal, total_steps=steps, hidden=HIDDEN, chunk=chunk_of(setting))
    learner = registry.build("ppo", jaxenvs.make(ID), settings)
    if apart:
        network = two_networks(learner.env.env)
        learner = dataclasses.replace(learner, network=network)

    def train(seed: int) -> tuple[float | None, Any]:
        runners = loop.start(learner, jax.random.split(jax.random.key(seed), 1))
        metrics = []
        for _ in range(settings.updates // settings.chunk):
            runners, told = loop.run_chunk(learner, runners)
            metrics.append(jax.device_get(told))
        jax.block_until_ready(runners)
        returns, episodes = (
            np.concatenate([told[name][0] for told in metrics])
            for name in ("return_sum", "episodes")
        )
        return last_mean(returns, episodes), jax.tree.map(lambda leaf: leaf[0], runners.weights)

    return Trainer(train, lambda weights, obs: rollouts.predict(learner, weights, obs)[0])


def chunk_of(setting: Setting) -> int:
    """Updates in one call: a divisor of all of them, about 30,000 steps."""
    updates = setting.steps // setting.batch
    fitting = [n for n in range(1, updates + 1) if updates % n == 0]
    return min(fitting, key=lambda n: abs(n * setting.batch - 30_000))


def two_networks(env: Any) -> Any:
    """An actor and a critic that share nothing."""
    import flax.linen as nn

    from jaxenvs.baselines.networks import layers, policies

    class Apart(policies.ActorCritic):
        @nn.compact
        def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = []
            for width, scale in ((self.num_actions, 0.01), (1, 1.0)):
                features = obs
                for hidden in self.hidden:
                    features = nn.tanh(layers.dense(hidden, 2**0.5)(features))
                outputs.append(layers.dense(width, scale)(features))
            return outputs[0], outputs[1][0]

    return Apart(env.observation_space, env.action_space.n, HIDDEN, embed=0)


def purejaxrl(setting: Setting, path: Path) -> Trainer:
    """PureJaxRL's `ppo.py`, from a clone; a gymnax that is installed there is preferred."""
    if not (path / "purejaxrl" / "ppo.py").is_file():
        raise LookupError(f"{path} has no purejaxrl/ppo.py; clone luchris429/purejaxrl there")
    sys.path[:0] = [str(path), str(path / "purejaxrl")]  # its imports have been of both kinds
    stand_in("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training")
    stand_in("navix")
    from purejaxrl.ppo import ActorCritic, make_train  # type: ignore[import-not-found]

    config = {
        "ENV_NAME": "CartPole-v1",
        "TOTAL_TIMESTEPS": setting.steps,
        "NUM_ENVS": setting.num_envs,
        "NUM_STEPS": setting.rollout_steps,
        "UPDATE_EPOCHS": setting.epochs,
        "NUM_MINIBATCHES": setting.minibatches,
        "LR": setting.learning_rate,
        "GAMMA": setting.gamma,
        "GAE_LAMBDA": setting.gae_lambda,
        "CLIP_EPS": setting.clip,
        "ENT_COEF": setting.entropy,
        "VF_COEF": setting.value_weight,
        "MAX_GRAD_NORM": setting.max_grad_norm,
        "ACTIVATION": "tanh",
        "ANNEAL_LR": True,
        "DEBUG": False,
    }
    run = jax.jit(make_train(config))

    def train(seed: int) -> tuple[float | None, Any]:
        out = jax.block_until_ready(run(jax.random.key(seed)))
        told = out["metrics"]
        ended = np.asarray(told["returned_episode"]).reshape(-1)
        returns = np.asarray(told["returned_episode_returns"]).reshape(-1)
        weights = out["runner_state"][0].params
        return last_mean(np.where(ended, returns, 0.0), ended), weights

    network = ActorCritic(2, activation=config["ACTIVATION"])
    return Trainer(train, lambda weights, obs: network.apply(weights, obs)[0].logits)


def stand_in(package: str, *modules: str) -> None:
    """Let a package be imported that is not installed and whose names are never called."""
    if importlib.util.find_spec(package) is None:
        for name in (package, *modules):
            empty: Any = types.ModuleType(name)
            empty.__getattr__ = lambda name: None
            sys.modules[name] = empty


def rejax(setting: Setting) -> Trainer:
    """rejax's PPO; without its evaluations, which would be most of its time."""
    from rejax import PPO  # type: ignore[import-not-found]

    learner = PPO.create(
        env="CartPole-v1",
        total_timesteps=setting.steps,
        eval_freq=setting.steps,
        skip_initial_evaluation=True,
        num_envs=setting.num_envs,
        num_steps=setting.rollout_steps,
        num_epochs=setting.epochs,
        num_minibatches=setting.minibatches,
        learning_rate=setting.learning_rate,
        gamma=setting.gamma,
        gae_lambda=setting.gae_lambda,
        clip_eps=setting.clip,
        ent_coef=setting.entropy,
        vf_coef=setting.value_weight,
        max_grad_norm=setting.max_grad_norm,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": HIDDEN},
    )
    learner = learner.replace(eval_callback=lambda algorithm, state, key: ())
    run = jax.jit(learner.train)

    def train(seed: int) -> tuple[float | None, Any]:
        state, _ = jax.block_until_ready(run(jax.random.key(seed)))
        return None, state.actor_ts.params

    def logits(weights: Any, obs: jax.Array) -> jax.Array:
        return learner.actor.apply(weights, obs, method="_action_dist").logits

    return Trainer(train, logits)


def sb3(setting: Setting) -> Trainer:
    """Stable-Baselines3's PPO with torch on the CPU."""
    from stable_baselines3 import PPO  # type: ignore[import-not-found]
    from stable_baselines3.common.env_util import (  # type: ignore[import-not-found]
        make_vec_env,
    )

    def train(seed: int) -> tuple[float | None, Any]:
        envs = make_vec_env("CartPole-v1", setting.num_envs, seed=seed)
        learner = PPO(
            "MlpPolicy",
            envs,
            n_steps=setting.rollout_steps,
            batch_size=setting.batch // setting.minibatches,
            n_epochs=setting.epochs,
            learning_rate=lambda left: setting.learning_rate * left,
            gamma=setting.gamma,
            gae_lambda=setting.gae_lambda,
            clip_range=setting.clip,
            ent_coef=setting.entropy,
            vf_coef=setting.value_weight,
            max_grad_norm=setting.max_grad_norm,
            clip_range_vf=setting.value_clip or None,
            policy_kwargs={"net_arch": list(HIDDEN)},
            device="cpu",
            seed=seed,
        )
        learner.learn(setting.steps)
        told = [episode["r"] for episode in list(learner.ep_info_buffer)[-LAST:]]
        return float(np.mean(told)) if told else None, None

    return Trainer(train)


def last_mean(returns: np.ndarray, episodes: np.ndarray) -> float | None:
    """Mean return of the last `LAST` episodes or a few more, of sums and counts in time."""
    following = np.cumsum(episodes[::-1])[::-1]
    first = np.flatnonzero(following >= min(LAST, int(following[0])))[-1] if following[0] else 0
    count = int(episodes[first:].sum())
    return float(returns[first:].sum()) / count if count else None


@functools.cache
def evaluated(logits: Callable[[Any, jax.Array], jax.Array]) -> Callable[[Any, int], float]:
    """Return what plays `EPISODES` episodes by a policy: of weights and a seed, the mean return.

    Actions are drawn; the environment is this library's, for everybody.
    """
    import jaxenvs
    from jaxenvs.baselines.core.episodes import first_episodes

    env = jaxenvs.make(ID)

    @jax.jit
    def play(weights: Any, key: jax.Array) -> jax.Array:
        def act(key: jax.Array, obs: jax.Array, state: Any) -> jax.Array:
            return jax.random.categorical(key, logits(weights, obs)).astype(np.int32)

        return first_episodes(env, act, key, EPISODES).returns.mean()

    return lambda weights, seed: float(play(weights, jax.random.key(-1 - seed)))


@functools.cache
def trainer(name: str, setting: Setting, clone: Path | None) -> Trainer:
    """Return a contestant by its name; `ImportError` or `LookupError` where it is missing."""
    if name == "purejaxrl":
        if clone is None:
            raise LookupError("give --purejaxrl PATH, a clone of github.com/luchris429/purejaxrl")
        return purejaxrl(setting, clone)
    return TRAINERS[name](setting)


TRAINERS: dict[str, Callable[[Setting], Trainer]] = {
    "jaxenvs": ours,
    "jaxenvs, shared": lambda setting: ours(setting, apart=False),
    "rejax": rejax,
    "stable-baselines3": sb3,
}


def on_cpu() -> None:
    """Make this process, before it computes, one that uses the CPU and compiles everything anew."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_compilation_cache", False)


def train(name: str, setting: Setting, clone: Path | None, seed: int) -> dict[str, Any]:
    """Train a contestant with a seed; return seconds of processor and clock, and what it learned.

    The first call in a process also imports the contestant, which no clock counts, and compiles.
    """
    learner = trainer(name, setting, clone)
    start, start_wall = time.process_time(), time.perf_counter()
    last, weights = learner.train(seed)
    told = {"seconds": time.process_time() - start, "wall": time.perf_counter() - start_wall}
    score = evaluated(learner.logits)(weights, seed) if learner.logits else None
    return {**told, "last_return": last, "evaluation": score}
