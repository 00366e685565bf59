"""Off-policy learners of this library, Stable-Baselines3 and SBX, in a separate process.

    PYTHON benchmarks/peers/off_policy.py        # started by the command `off_policy`, see `serve`

PYTHON is an interpreter in which the learner's package is installed. This library is needed there
only for its own learners.

Policies are evaluated with deterministic actions: no sampling, no exploration noise. All learners
that train with the same seed are evaluated from the same initial states of Gymnasium's
environments, because returns depend on the initial states. The peers run as their authors ship
them, with `DummyVecEnv` around Gymnasium's environments. All learners bootstrap at truncated
episodes.
"""

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

EPISODES = 32  # number of episodes of an evaluation
EVAL_ENVS = 8  # number of environments of an evaluation
# Seed of an evaluation's first environment, minus the seed of the training run. Each further
# environment has a seed that is larger by one.
FIRST = 10_000
LAST = 20  # number of last episodes over which the reported training return is a mean
VALUES = ("dqn", "qr-dqn")  # learners of action values, which need discrete actions
# Maximum number of iterations per update of this library's learners with continuous actions. In
# each iteration, every environment makes one step, and the learner takes its gradient steps.
LOG_STEPS = 100
Train = Callable[[int], dict[str, Any]]


class Clock:
    """Timer of a training run; also times the part after `mark` steps, without compilation."""

    def __init__(self, mark: int) -> None:
        self._mark, self._marked = mark, (0, 0.0, 0.0)
        self._begun = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.perf_counter()

    def look(self, steps: int) -> None:
        """Store the current time if the training has just reached `mark` environment steps.

        `steps` is the number of environment steps made so far. The time after `mark` steps is
        reported separately.
        """
        if steps >= self._mark and not self._marked[0]:
            self._marked = (steps, *self._now())

    def figures(self, steps: int) -> dict[str, Any]:
        """Return CPU and wall seconds of the whole training, and of its part after `mark` steps.

        The part after `mark` steps contains no compilation. `steps` is the number of environment
        steps of the whole training.
        """
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
    """Return a function that trains this library's learner in chunks, like `jaxenvs train`.

    A chunk is a number of updates that one call of the compiled program makes.
    """
    import jax

    import jaxenvs
    from jaxenvs.baselines import registry
    from jaxenvs.baselines.core.policy import Policy

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
        clock = Clock(setting["mark"])
        ended = trained(learner, seed, clock.look)
        figures = clock.figures(settings.updates * settings.steps_per_update)
        last, weights = result(*ended)
        score = evaluate(functools.partial(act, weights), setting["env"], seed)
        return {**figures, "last_return": last, "evaluation": score}

    return train


def trained(learner: Any, seed: int, look: Callable[[int], None]) -> tuple[Any, Any]:
    """Train a learner of this library in chunks; return the final state and all chunks' metrics.

    `look` is called after each chunk with the number of steps made so far.
    """
    import jax

    from jaxenvs.baselines.run import loop

    settings, metrics = learner.settings, []
    runners = loop.start(learner, jax.random.split(jax.random.key(seed), 1))
    for made in range(settings.chunk, settings.updates + 1, settings.chunk):
        runners, chunk = loop.run_chunk(learner, runners)
        metrics.append(jax.device_get(chunk))
        look(made * settings.steps_per_update)
    return jax.block_until_ready(runners), metrics


def result(runners: Any, metrics: list[dict[str, Any]]) -> tuple[float | None, Any]:
    """Return the mean return of the last training episodes, and the trained weights."""
    import jax

    returns, episodes = (
        np.concatenate([chunk[name][0] for chunk in metrics]) for name in ("return_sum", "episodes")
    )
    return last_mean(returns, episodes), jax.tree.map(lambda leaf: leaf[0], runners.weights)


def last_mean(returns: np.ndarray, episodes: np.ndarray) -> float | None:
    """Return the mean return of about the last `LAST` episodes; None if there are no episodes.

    Both arrays have one entry per update or per environment step, in order of time: `episodes` is
    the number of episodes that ended, and `returns` the sum of their returns. The mean is over the
    last entries that together have at least `LAST` episodes.
    """
    following = np.cumsum(episodes[::-1])[::-1]
    first = np.flatnonzero(following >= min(LAST, int(following[0])))[-1] if following[0] else 0
    count = int(episodes[first:].sum())
    return float(returns[first:].sum()) / count if count else None


def evaluate(act: Callable[[Any], Any], env: str, seed: int) -> float:
    """Return a policy's mean return over `EPISODES` episodes.

    As in Stable-Baselines3's `evaluate_policy`, each environment plays equally many episodes, and
    only its first reset is seeded. `act` maps the observations of all environments to actions.
    """
    import gymnasium

    envs = [gymnasium.make(env) for _ in range(EVAL_ENVS)]
    seeds = range(FIRST + seed, FIRST + seed + EVAL_ENVS)
    obs = [each.reset(seed=first)[0] for each, first in zip(envs, seeds, strict=True)]
    sums, returns = [0.0] * EVAL_ENVS, [[] for _ in envs]
    while any(len(found) < EPISODES // EVAL_ENVS for found in returns):
        for i, action in enumerate(np.asarray(act(np.stack(obs)))):
            obs[i], reward, terminated, truncated, _ = envs[i].step(action)
            sums[i] += float(reward)
            if terminated or truncated:
                returns[i].append(sums[i])
                obs[i], sums[i] = envs[i].reset()[0], 0.0
    counted = [each for found in returns for each in found[: EPISODES // EVAL_ENVS]]
    return sum(counted) / len(counted)


def our_settings(setting: dict[str, Any]) -> dict[str, Any]:
    """Return this library's settings for a setting of the comparison.

    Settings that are not in the result have the same defaults in all compared libraries.
    """
    same = ("num_envs", "learning_rate", "gamma", "batch_size", "warm_up", "capacity")
    given: dict[str, Any] = {name: setting[name] for name in same}
    given |= {"total_steps": setting["steps"], "hidden": tuple(setting["hidden"]), "anneal": False}
    if setting["algorithm"] not in VALUES:
        rollout_steps = min(LOG_STEPS, setting["steps"] // setting["num_envs"])
        updates = setting["steps"] // (setting["num_envs"] * rollout_steps)
        given |= {"rollout_steps": rollout_steps, "replays": setting["gradient_steps"]}
        given |= {"chunk": max(1, updates // 20)}
        if setting["algorithm"] == "crossq":
            given |= {"critic_hidden": tuple(setting["hidden"])}
        return given
    rollout_steps, updates = setting["rollout_steps"], setting["gradient_steps"]
    between = max(1, setting["target_steps"] // (rollout_steps * setting["num_envs"]))
    given |= {
        "rollout_steps": rollout_steps,
        "gradient_steps": setting["gradient_steps"],
        **{"n_step": 1, "dueling": False, "double": False, "layer_norm": False},
        "max_grad_norm": 10.0,
        **{"target_rate": 1.0, "target_every": updates * between},
        "epsilon_end": setting["epsilon_end"],
        "epsilon_share": setting["epsilon_share"],
        "chunk": max(1, setting["steps"] // (rollout_steps * setting["num_envs"]) // 20),
    }
    if setting["algorithm"] == "qr-dqn":
        given |= {"quantiles": setting["quantiles"]}
    return given


def theirs(setting: dict[str, Any], library: str) -> Train:
    """Return a function that trains a learner of Stable-Baselines3 (torch, one thread) or SBX."""
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
        figures = clock.figures(learner.num_timesteps)
        last = [episode["r"] for episode in list(learner.ep_info_buffer)[-LAST:]]
        others = common.make_vec_env(setting["env"], EVAL_ENVS, seed=FIRST + seed)
        mean, _ = evaluate(learner, others, EPISODES, deterministic=True)
        mean_last = sum(last) / len(last) if last else None
        return {**figures, "last_return": mean_last, "evaluation": float(mean)}

    return train


def named(algorithm: str, library: str) -> Any:
    """Return the class of a learner in `library`; raise `LookupError` if the library lacks it."""
    name = {"qr-dqn": "QRDQN", "crossq": "CrossQ"}.get(algorithm, algorithm.upper())
    packages = {"sbx": ("sbx",), "sb3": ("stable_baselines3", "sb3_contrib")}[library]
    found = [getattr(importlib.import_module(package), name, None) for package in packages]
    if kinds := [kind for kind in found if kind is not None]:
        return kinds[0]
    raise LookupError(f"{' and '.join(packages)} have no {name}")


def their_settings(setting: dict[str, Any], library: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that computes the keyword arguments of a peer's learner.

    The function's argument is the peer's batch of environments, because the exploration noise of
    TD3 needs the shape of the actions.
    """
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


def serve(build: Callable[[dict[str, Any]], Train]) -> None:
    """Train on request: read JSON lines from stdin, answer each with one line on stdout.

    The first line describes a learner, which `build` makes. Its answer has the entry `missing`:
    None, or the reason why the learner is not available. Each further line is a seed. Its answer
    has the seconds and returns of a training run with this seed. Packages print to stderr.
    """
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(content: dict[str, Any]) -> None:
        print(json.dumps(content), file=answers, flush=True)

    try:
        train = build(json.loads(sys.stdin.readline()))
    except (ImportError, LookupError) as error:
        answer({"missing": str(error.args[0])})
        return
    answer({"missing": None})
    for line in sys.stdin:
        answer(train(int(line)))


if __name__ == "__main__":
    # Drop this folder from `sys.path`: its modules have the names of packages, such as `envpool`.
    sys.path[:1] = []
    serve(lambda asked: TRAINERS[asked["learner"]](asked["setting"], asked["learner"]))
