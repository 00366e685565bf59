"""Off-policy learners by this library, by Stable-Baselines3 and by SBX, in a separate process.

    PYTHON benchmarks/off_policy_peers.py

The process reads lines of JSON: first a learner with its setting, then seeds. It trains with each
seed and answers with a line: seconds of the processor and of the clock, the same from `mark` steps
on, when all is compiled, and what was learned. `off_policy.py` starts it with the Python that has
the package, which needs nothing of this library for the others' learners.

Trained policies are judged by their likeliest actions, in the same episodes of Gymnasium: returns
depend on where they begin. The peers run as their authors ship them,
with `DummyVecEnv` around Gymnasium's environments; all learn from episodes that the time limit cuts
as from ones that go on.
"""

import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

EPISODES = 32  # of an evaluation
JUDGES = 8  # environments that play them, side by side
FIRST = 10_000  # their seeds count up from this and the seed of the training
LAST = 20  # episodes of the training whose mean return is told, as in learner_peers.py
VALUES = ("dqn", "qr-dqn")  # learners of the values of numbered actions
LOG_ROUNDS = 100  # rounds of ours that are one update, where actions are real numbers
Train = Callable[[int], dict[str, Any]]


class Clock:
    """Seconds of a training, and from the step on at which it counts as warm."""

    def __init__(self, mark: int) -> None:
        self._mark, self._marked = mark, (0, 0.0, 0.0)
        self._begun = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.perf_counter()

    def look(self, steps: int) -> None:
        """Take note of the steps made so far."""
        if steps >= self._mark and not self._marked[0]:
            self._marked = (steps, *self._now())

    def told(self, steps: int) -> dict[str, Any]:
        """What was measured, at the end."""
        seconds, wall = self._now()
        at, marked, marked_wall = self._marked
        return {
            "seconds": seconds - self._begun[0],
            "wall": wall - self._begun[1],
            "warm_steps": steps - at,
            "warm_seconds": seconds - marked,
            "warm_wall": wall - marked_wall,
        }


def ours(setting: dict[str, Any], library: str) -> Train:
    """This library's learner, in chunks of updates as `jaxenvs train` runs it."""
    import jax
    import numpy as np

    import jaxenvs
    from jaxenvs.baselines import registry
    from jaxenvs.baselines.core.policy import Policy
    from jaxenvs.baselines.run import loop
    from jaxenvs.benchmarks import learner_peers

    env = jaxenvs.make(setting["env"])
    row = registry.ALGORITHMS[setting["algorithm"]]
    settings = row.load().Settings(**our_settings(setting))
    learner = registry.build(row.name, env, settings)

    @jax.jit
    def act(weights: Any, obs: Any) -> Any:
        policy = Policy.of(env, learner.network, weights)
        _, outputs, _ = jax.vmap(policy.think, in_axes=(None, 0))(policy.begin(), obs)
        return policy.choose(jax.random.key(0), outputs, greedy=True)

    def train(seed: int) -> dict[str, Any]:
        clock, metrics = Clock(setting["mark"]), []
        runners = loop.start(learner, jax.random.split(jax.random.key(seed), 1))
        for made in range(settings.chunk, settings.updates + 1, settings.chunk):
            runners, told = loop.run_chunk(learner, runners)
            metrics.append(jax.device_get(told))
            clock.look(made * settings.steps_per_update)
        jax.block_until_ready(runners)
        told = clock.told(settings.updates * settings.steps_per_update)
        returns, episodes = (
            np.concatenate([each[name][0] for each in metrics])
            for name in ("return_sum", "episodes")
        )
        last = learner_peers.last_mean(returns, episodes)
        weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
        judged = judge(functools.partial(act, weights), setting["env"], seed)
        return {**told, "last_return": last, "evaluation": judged}

    return train


def judge(act: Callable[[Any], Any], env: str, seed: int) -> float:
    """Mean return in the episodes that Stable-Baselines3's `evaluate_policy` plays.

    `act` chooses actions for the observations of all environments.
    """
    import gymnasium
    import numpy as np

    judges = [gymnasium.make(env) for _ in range(JUDGES)]
    seeds = range(FIRST + seed, FIRST + seed + JUDGES)
    obs = [each.reset(seed=first)[0] for each, first in zip(judges, seeds, strict=True)]
    sums, returns = [0.0] * JUDGES, [[] for _ in judges]
    while any(len(found) < EPISODES // JUDGES for found in returns):
        for i, action in enumerate(np.asarray(act(np.stack(obs)))):
            obs[i], reward, terminated, truncated, _ = judges[i].step(action)
            sums[i] += float(reward)
            if terminated or truncated:
                returns[i].append(sums[i])
                obs[i], sums[i] = judges[i].reset()[0], 0.0
    told = [each for found in returns for each in found[: EPISODES // JUDGES]]
    return sum(told) / len(told)


def our_settings(setting: dict[str, Any]) -> dict[str, Any]:
    """A setting under the names of ours, whose learners see to the rest in the same way."""
    same = ("num_envs", "learning_rate", "gamma", "batch_size", "warm_up", "capacity")
    given: dict[str, Any] = {name: setting[name] for name in same}
    given |= {"total_steps": setting["steps"], "hidden": tuple(setting["hidden"]), "anneal": False}
    if setting["algorithm"] not in VALUES:
        rounds = min(LOG_ROUNDS, setting["steps"] // setting["num_envs"])
        updates = setting["steps"] // (setting["num_envs"] * rounds)
        given |= {"rollout_steps": rounds, "replays": setting["gradient_steps"]}
        given |= {"chunk": max(1, updates // 20)}
        if setting["algorithm"] == "crossq":
            given |= {"critic_hidden": tuple(setting["hidden"])}
        return given
    rounds, updates = setting["rollout_steps"], setting["gradient_steps"]
    between = max(1, setting["target_steps"] // (rounds * setting["num_envs"]))
    given |= {
        "rollout_steps": rounds,
        "gradient_steps": setting["gradient_steps"],
        **{"n_step": 1, "dueling": False, "double": False, "layer_norm": False},
        "max_grad_norm": 10.0,
        **{"target_rate": 1.0, "target_every": updates * between},
        "epsilon_end": setting["epsilon_end"],
        "epsilon_share": setting["epsilon_share"],
        "chunk": max(1, setting["steps"] // (rounds * setting["num_envs"]) // 20),
    }
    if setting["algorithm"] == "qr-dqn":
        given |= {"quantiles": setting["quantiles"]}
    return given


def theirs(setting: dict[str, Any], library: str) -> Train:
    """Stable-Baselines3's learner with torch on the CPU, or SBX's."""
    kind, given = named(setting["algorithm"], library), their_settings(setting, library)
    if library == "sb3":
        importlib.import_module("torch").set_num_threads(1)
    common = importlib.import_module("stable_baselines3.common.env_util")
    base = importlib.import_module("stable_baselines3.common.callbacks").BaseCallback
    evaluate = importlib.import_module("stable_baselines3.common.evaluation").evaluate_policy

    def train(seed: int) -> dict[str, Any]:
        envs = common.make_vec_env(setting["env"], setting["num_envs"], seed=seed)
        clock = Clock(setting["mark"])

        class Look(base):
            def _on_step(self) -> bool:
                clock.look(self.num_timesteps)
                return True

        learner = kind("MlpPolicy", envs, seed=seed, **given(envs))
        learner.learn(setting["steps"], callback=Look())
        told = clock.told(learner.num_timesteps)
        last = [episode["r"] for episode in list(learner.ep_info_buffer)[-LAST:]]
        others = common.make_vec_env(setting["env"], JUDGES, seed=FIRST + seed)
        mean, _ = evaluate(learner, others, EPISODES, deterministic=True)
        mean_last = sum(last) / len(last) if last else None
        return {**told, "last_return": mean_last, "evaluation": float(mean)}

    return train


def named(algorithm: str, library: str) -> Any:
    """The class of a learner; `LookupError` where the package has none."""
    name = {"qr-dqn": "QRDQN", "crossq": "CrossQ"}.get(algorithm, algorithm.upper())
    packages = {"sbx": ("sbx",), "sb3": ("stable_baselines3", "sb3_contrib")}[library]
    found = [getattr(importlib.import_module(package), name, None) for package in packages]
    if kinds := [kind for kind in found if kind is not None]:
        return kinds[0]
    raise LookupError(f"{' and '.join(packages)} have no {name}")


def their_settings(setting: dict[str, Any], library: str) -> Callable[[Any], dict[str, Any]]:
    """A setting under the names of theirs, for a batch of environments."""
    algorithm = setting["algorithm"]
    policy: dict[str, Any] = {"net_arch": list(setting["hidden"])}
    given = {
        "learning_rate": setting["learning_rate"],
        "gamma": setting["gamma"],
        "batch_size": setting["batch_size"],
        "learning_starts": setting["warm_up"],
        "buffer_size": setting["capacity"],
        "gradient_steps": setting["gradient_steps"],
        "train_freq": setting["rollout_steps"],
    }
    given |= {"device": "cpu"} if library == "sb3" else {}
    if algorithm in VALUES:
        given |= {
            "target_update_interval": setting["target_steps"],
            "exploration_fraction": setting["epsilon_share"],
            "exploration_final_eps": setting["epsilon_end"],
        }
    if algorithm == "qr-dqn":
        policy["n_quantiles"] = setting["quantiles"]
    if algorithm == "crossq":
        policy["net_arch"] = {"pi": list(setting["hidden"]), "qf": list(setting["hidden"])}
        given["policy_delay"] = 3

    def of(envs: Any) -> dict[str, Any]:
        if algorithm != "td3":
            return {**given, "policy_kwargs": policy}
        import numpy as np

        noise = importlib.import_module("stable_baselines3.common.noise")
        size = envs.action_space.shape
        noisy = noise.NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
        return {**given, "policy_kwargs": policy, "action_noise": noisy}

    return of


TRAINERS: dict[str, Callable[[dict[str, Any], str], Train]] = {
    "jaxenvs": ours,
    "sb3": theirs,
    "sbx": theirs,
}


def main() -> None:
    """Answer until the input ends; what packages print goes to the error output."""
    answers, sys.stdout = sys.stdout, sys.stderr
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # everything is compiled anew

    def tell(told: dict[str, Any]) -> None:
        print(json.dumps(told), file=answers, flush=True)

    asked = json.loads(sys.stdin.readline())
    try:
        train = TRAINERS[asked["learner"]](asked["setting"], asked["learner"])
    except (ImportError, LookupError) as error:
        tell({"missing": str(error.args[0])})
        return
    tell({"missing": None})
    for line in sys.stdin:
        tell(train(int(line)))


if __name__ == "__main__":
    sys.path[:1] = []  # this folder, whose modules have names of others'
    main()
