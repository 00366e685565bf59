"""PPO of this library and of its peers on CartPole, each as a `Trainer` in a separate process.

    python benchmarks peers.ppo        # started by the command `learners`, see `off_policy.serve`

Timed runs neither evaluate nor print, so rejax runs without its evaluations. PureJaxRL runs from
a clone (it is not on PyPI), Stable-Baselines3 (SB3) with its `DummyVecEnv`. PureJaxRL and rejax
treat an episode truncated by the time limit as terminated. All policies that return logits are
evaluated in the same way.
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

from .off_policy import LAST, last_mean, result, serve, trained

ID = "Classic-CartPole-v0"  # this library's id; the other libraries use CartPole-v1
HIDDEN = (64, 64)  # layer widths of the actor and of the critic, with tanh activation
EPISODES = 128  # number of episodes of an evaluation


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hyperparameters of PPO with which all compared learners train."""

    name: str
    num_envs: int
    rollout_steps: int
    epochs: int
    minibatches: int
    steps: int = 500_000  # number of environment steps of a training run
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    # Clip range of the value loss (0: no clipping). PureJaxRL and rejax always use `clip` instead.
    value_clip: float = 0.2

    @property
    def batch(self) -> int:
        """Number of environment steps per update."""
        return self.num_envs * self.rollout_steps

    def lasting(self, steps: int) -> "Setting":
        """Return the setting with `steps` environment steps, rounded down to whole updates."""
        return dataclasses.replace(self, steps=max(1, steps // self.batch) * self.batch)


EQUAL = (
    Setting("4 x 128", 4, 128, epochs=4, minibatches=4),  # PureJaxRL's defaults
    Setting("64 x 128", 64, 128, epochs=4, minibatches=8, learning_rate=1e-3),
)
# Each library's own defaults, except that this library uses its preset of CartPole and rejax uses
# tanh activation. PureJaxRL has no entry, because EQUAL[0] has its defaults.
OWN = {
    "jaxenvs, shared": Setting(
        "own", 16, 64, 4, 8, learning_rate=1e-3, value_weight=0.01, entropy=0.0, value_clip=0.0
    ),
    "rejax": Setting("own", 64, 64, 8, 16, learning_rate=3e-4),
    "stable-baselines3": Setting(
        "own", 1, 2048, 10, 32, learning_rate=3e-4, entropy=0.0, value_clip=0.0
    ),
}


# Field of `Setting` -> names of this hyperparameter in PureJaxRL, rejax and Stable-Baselines3. A
# name is None if the constructor in Stable-Baselines3 has no parameter with the same meaning. The
# function `sb3` then passes the value in another way.
NAMES: dict[str, tuple[str | None, ...]] = {
    "steps": ("TOTAL_TIMESTEPS", "total_timesteps", None),
    "num_envs": ("NUM_ENVS", "num_envs", None),
    "rollout_steps": ("NUM_STEPS", "num_steps", "n_steps"),
    "epochs": ("UPDATE_EPOCHS", "num_epochs", "n_epochs"),
    "minibatches": ("NUM_MINIBATCHES", "num_minibatches", None),
    "learning_rate": ("LR", "learning_rate", None),
    "gamma": ("GAMMA", "gamma", "gamma"),
    "gae_lambda": ("GAE_LAMBDA", "gae_lambda", "gae_lambda"),
    "clip": ("CLIP_EPS", "clip_eps", "clip_range"),
    "entropy": ("ENT_COEF", "ent_coef", "ent_coef"),
    "value_weight": ("VF_COEF", "vf_coef", "vf_coef"),
    "max_grad_norm": ("MAX_GRAD_NORM", "max_grad_norm", "max_grad_norm"),
}


def renamed(setting: Setting, library: int) -> dict[str, Any]:
    """Return a setting's values under the names of a library; `library` is its index in `NAMES`."""
    named = {names[library]: getattr(setting, field) for field, names in NAMES.items()}
    return {name: value for name, value in named.items() if name}


class Trainer(NamedTuple):
    """PPO of one library, configured by a `Setting`."""

    # Function from a seed to a pair: the mean return of the last training episodes (None if it is
    # not recorded), and the trained weights.
    train: Callable[[int], tuple[float | None, Any]]
    # Function (weights, observations) -> logits, or None if the policy is not to be evaluated.
    logits: Callable[[Any, jax.Array], jax.Array] | None = None


def ours(setting: Setting, apart: bool = True) -> Trainer:
    """Return this library's PPO; like `jaxenvs train`, a compiled call makes several updates.

    With `apart`, actor and critic are separate networks, as in the other libraries. Otherwise they
    share layers, which is this library's default.
    """
    import jaxenvs
    from jaxenvs.baselines import registry
    from jaxenvs.baselines.core import rollouts
    from jaxenvs.baselines.on_policy import ppo

    # Except `name` and `steps`, all fields of `Setting` have the same names in this library.
    equal = dataclasses.asdict(setting)
    del equal["name"]
    steps = equal.pop("steps")
    settings = ppo.Settings(**equal, total_steps=steps, hidden=HIDDEN, chunk=chunk_of(setting))
    learner = registry.build("ppo", jaxenvs.make(ID), settings)
    if apart:
        network = two_networks(learner.env.env)
        learner = dataclasses.replace(learner, network=network)

    def train(seed: int) -> tuple[float | None, Any]:
        return result(*trained(learner, seed, lambda steps: None))

    return Trainer(train, lambda weights, obs: rollouts.predict(learner, weights, obs)[0])


def chunk_of(setting: Setting) -> int:
    """Return the number of updates per call of the training program.

    The result is a divisor of the total number of updates: the one for which the number of
    environment steps per call is closest to 30,000.
    """
    updates = setting.steps // setting.batch
    fitting = [n for n in range(1, updates + 1) if updates % n == 0]
    return min(fitting, key=lambda n: abs(n * setting.batch - 30_000))


def two_networks(env: Any) -> Any:
    """Return an actor-critic network whose actor and critic share no weights."""
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
    """Return PureJaxRL's PPO, imported from the clone at `path`.

    If the clone contains a copy of gymnax, this copy is used in place of an installed gymnax.
    """
    if not (path / "purejaxrl" / "ppo.py").is_file():
        raise LookupError(f"{path} has no purejaxrl/ppo.py; clone luchris429/purejaxrl there")
    # Add both folders: some versions of PureJaxRL import from `path`, others from `purejaxrl` in
    # it.
    sys.path[:0] = [str(path), str(path / "purejaxrl")]
    stand_in("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training")
    stand_in("navix")
    from purejaxrl.ppo import ActorCritic, make_train  # type: ignore[import-not-found]

    config = {"ENV_NAME": "CartPole-v1", "ACTIVATION": "tanh", "ANNEAL_LR": True, "DEBUG": False}
    run = jax.jit(make_train(config | renamed(setting, 0)))

    def train(seed: int) -> tuple[float | None, Any]:
        out = jax.block_until_ready(run(jax.random.key(seed)))
        metrics = out["metrics"]
        ended = np.asarray(metrics["returned_episode"]).reshape(-1)
        returns = np.asarray(metrics["returned_episode_returns"]).reshape(-1)
        weights = out["runner_state"][0].params
        return last_mean(np.where(ended, returns, 0.0), ended), weights

    network = ActorCritic(2, activation=config["ACTIVATION"])
    return Trainer(train, lambda weights, obs: network.apply(weights, obs)[0].logits)


def stand_in(package: str, *modules: str) -> None:
    """Register empty modules in place of `package` if the package is not installed.

    PureJaxRL imports the package, but does not use it on CartPole.
    """
    if importlib.util.find_spec(package) is None:
        for name in (package, *modules):
            empty: Any = types.ModuleType(name)
            empty.__getattr__ = lambda name: None
            sys.modules[name] = empty


def rejax(setting: Setting) -> Trainer:
    """Return rejax's PPO without its evaluations, which would take most of the time."""
    from rejax import PPO  # type: ignore[import-not-found]

    learner = PPO.create(
        env="CartPole-v1",
        eval_freq=setting.steps,
        skip_initial_evaluation=True,
        **renamed(setting, 1),
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
    """Return Stable-Baselines3's PPO with torch on the CPU."""
    from stable_baselines3 import PPO  # type: ignore[import-not-found]
    from stable_baselines3.common.env_util import (  # type: ignore[import-not-found]
        make_vec_env,
    )

    def train(seed: int) -> tuple[float | None, Any]:
        envs = make_vec_env("CartPole-v1", setting.num_envs, seed=seed)
        learner = PPO(
            "MlpPolicy",
            envs,
            **renamed(setting, 2),
            batch_size=setting.batch // setting.minibatches,
            learning_rate=lambda left: setting.learning_rate * left,
            clip_range_vf=setting.value_clip or None,
            policy_kwargs={"net_arch": list(HIDDEN)},
            device="cpu",
            seed=seed,
        )
        learner.learn(setting.steps)
        returns = [episode["r"] for episode in list(learner.ep_info_buffer)[-LAST:]]
        return float(np.mean(returns)) if returns else None, None

    return Trainer(train)


@functools.cache
def evaluated(logits: Callable[[Any, jax.Array], jax.Array]) -> Callable[[Any, int], float]:
    """Return a function that evaluates a policy: (weights, seed) -> mean return.

    The mean is over `EPISODES` episodes. Actions are sampled from the policy. The policies of all
    libraries play this library's CartPole.
    """
    import jaxenvs
    from jaxenvs.baselines.core.playing import first_episodes

    env = jaxenvs.make(ID)

    @jax.jit
    def play(weights: Any, key: jax.Array) -> jax.Array:
        def act(key: jax.Array, obs: jax.Array, state: Any) -> jax.Array:
            return jax.random.categorical(key, logits(weights, obs)).astype(np.int32)

        return first_episodes(env, act, key, EPISODES).returns.mean()

    return lambda weights, seed: float(play(weights, jax.random.key(-1 - seed)))


def trainer(name: str, setting: Setting, clone: Path | None) -> Trainer:
    """Return the learner `name`; raise `ImportError` or `LookupError` if it is not installed.

    `clone` is the path of PureJaxRL's clone, or None.
    """
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


def train(learner: Trainer, seed: int) -> dict[str, Any]:
    """Train with `seed`; return CPU and wall seconds, training return and evaluation return.

    The training return is the mean over the last training episodes.
    """
    start, start_wall = time.process_time(), time.perf_counter()
    last, weights = learner.train(seed)
    spent = {"seconds": time.process_time() - start, "wall": time.perf_counter() - start_wall}
    score = evaluated(learner.logits)(weights, seed) if learner.logits else None
    return {**spent, "last_return": last, "evaluation": score}


def build(asked: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """Return a function that trains with a given seed.

    `asked` (from JSON) has the learner's name, its setting, and the path of PureJaxRL's clone or
    None.
    """
    clone = asked["clone"] and Path(asked["clone"])
    return functools.partial(train, trainer(asked["learner"], Setting(**asked["setting"]), clone))


if __name__ == "__main__":
    serve(build)
