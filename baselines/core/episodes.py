"""Evaluation of a learner's policies over exactly N episodes, without a bias towards short ones.

`evaluate` returns the content of eval.json, and `as_text` formats it.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs import Env

from . import statistics
from .learner import Learner
from .planning import Search, search_of
from .playing import EpisodePlayer, Episodes
from .policy import Policy
from .policy_statement import describe, in_brackets

# Folded into the key of a run's seed, this constant gives the key of the run's evaluations. All
# evaluations of a run therefore play the same levels, drawn independently of the training levels.
EVALUATION = 0x5EED


class Agents(NamedTuple):
    """The agents that a run trains: one for each combination of a seed and swept settings."""

    env: Env  # environment of the run, without the learner's wrappers
    seeds: Sequence[int]  # seed of each agent
    labels: Sequence[dict[str, Any]]  # seed and swept settings of each agent, for eval.json
    greedy: bool  # whether evaluations take the most likely actions instead of sampling

    @property
    def keys(self) -> Array:
        """Random keys for evaluations, one per agent; every evaluation uses the same keys."""
        keys = [jax.random.fold_in(jax.random.key(seed), EVALUATION) for seed in self.seeds]
        return jnp.stack(keys)


class EvaluatedPolicy(NamedTuple):
    """A learner's policy without weights, and its evaluation environment.

    The methods take the weights as an argument, so the same compiled program can evaluate the
    policy at any time during training.
    """

    env: Env
    network: Any
    greedy: bool = False
    search: Search | None = None

    @classmethod
    def of(
        cls,
        learner: Learner[Any],
        agents: Agents,
        simulations: int | None = None,
        other: bool = False,
    ) -> "EvaluatedPolicy":
        """Return the policy that evaluations of a learner use.

        The policy is greedy if `agents.greedy`, else it samples actions; `other` reverses this
        choice. `simulations` is the number of simulations of a planner's search, see `search_of`.
        """
        env = learner.algorithm.wrapped(agents.env, vars(learner.settings))
        return cls(env, learner.network, agents.greedy != other, search_of(learner, simulations))

    @property
    def facts(self) -> dict[str, Any]:
        """Description of the policy, as eval.json stores it under "policy"."""
        policy = Policy.of(self.env, self.network, None, search=self.search)
        return describe(policy, self.greedy)

    def act(
        self,
        weights: PyTree[Array],
        key: Array,
        obs: PyTree[Array],
        state: Any,
        memory: Any,
    ) -> tuple[Array, Any]:
        """Return legal actions, sampled or greedy, and the next recurrent states of a batch."""
        policy = Policy.of(self.env, self.network, weights, search=self.search)
        memory, action = policy.decide_batch(key, memory, obs, state, self.greedy)
        return action, memory

    def player(self, agents: int, count: int) -> EpisodePlayer:
        """Return a player of `count` episodes for each of `agents` agents.

        In a sweep, agents have different settings, but the player needs only their weights: actions
        depend on settings only in a planner's search, and planners do not support sweeps.
        """
        return EpisodePlayer(self.env, self.act, count, self.network.begin(), agents)

    def play(self, weights: PyTree[Array], agents: Agents, count: int) -> dict[str, Any]:
        """Play `count` episodes with the weights of each agent; return a summary for eval.json."""
        player = self.player(len(agents.seeds), count)
        played = player.finish(player.begin(weights, agents.keys))
        found = summary(played, agents.labels, self.env.achievements)
        return {"policy": self.facts, **found, "success_is": self.env.success_is}


def evaluate(
    learner: Learner[Any], weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Play `count` episodes with each agent's policy; return the content of eval.json.

    If the policy has a search, two more evaluations follow: one without the search, and one with
    sampled instead of greedy actions (or greedy instead of sampled ones).
    """
    main = EvaluatedPolicy.of(learner, agents)
    others: dict[str, EvaluatedPolicy] = {}
    if main.search:
        name = "sampled_search" if main.greedy else "greedy_search"
        others = {name: EvaluatedPolicy.of(learner, agents, other=True)}
        others["without_search"] = EvaluatedPolicy.of(learner, agents, simulations=0)
    result = main.play(weights, agents, count)
    return result | {name: each.play(weights, agents, count) for name, each in others.items()}


def summary(
    episodes: Episodes, labels: Sequence[dict[str, Any]], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the content of eval.json: means over all agents, and each agent's means.

    `labels` (`Config.labels`) are the seed and swept settings of each agent; `names` are the names
    of the environment's achievements. `success_rate` is None if the environment does not define
    success.
    """

    episodes = jax.tree.map(np.asarray, episodes)
    return {
        "episodes": int(np.shape(episodes.returns)[1]),  # episodes per seed
        **means(episodes, names),
        **middle(np.asarray(episodes.returns).mean(axis=1)),
        "per_seed": per_seed(episodes, labels, names),
    }


def per_seed(
    episodes: Episodes, labels: Sequence[dict[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a dict for each agent: its seed and swept settings, and means over its episodes."""
    return [
        {**label, **means(jax.tree.map(operator.itemgetter(i), episodes), names)}
        for i, label in enumerate(labels)
    ]


def means(episodes: Episodes, names: Sequence[str]) -> dict[str, Any]:
    """Return the means of return, success, length and so on over `episodes`, rounded."""
    succeeded = episodes.succeeded
    return {
        "mean_return": round(float(np.mean(episodes.returns)), 6),
        "success_rate": None if succeeded is None else round(float(np.mean(succeeded)), 6),
        "mean_length": round(float(np.mean(episodes.lengths)), 3),
        "terminated_rate": round(float(np.mean(episodes.terminated)), 6),
        **achievements(episodes, names),
    }


def achievements(episodes: Episodes, names: Sequence[str]) -> dict[str, Any]:
    """Return the fraction of episodes that earn each achievement, and Crafter's score in percent.

    The score (Hafner, 2021) is computed for each seed and then averaged. The result is {} if the
    environment has no achievements.
    """
    if episodes.achieved is None:
        return {}
    rates = np.asarray(episodes.achieved).mean(axis=-2)
    of_all = rates.reshape(-1, len(names)).mean(axis=0)
    return {
        "score": round(float(np.mean(score(rates))), 6),
        "achievements": dict(zip(names, np.round(of_all.astype(float), 6).tolist(), strict=True)),
    }


def score(rates: np.ndarray) -> Any:
    """Return Crafter's score in percent: the geometric mean of (1 + rate in percent), minus 1.

    `rates` (..., achievements) are fractions from 0 to 1. The mean is taken over the achievements.
    """
    return np.expm1(np.log1p(100.0 * rates).mean(axis=-1))


def table(seeds: Sequence[dict[str, Any]], columns: int = 3) -> str:
    """Return a text table of the mean achievement rates, and the mean score, over the seeds.

    `seeds` are the entries under `per_seed` in eval.json.
    """
    rates = {
        name: np.mean([seed["achievements"][name] for seed in seeds])
        for name in seeds[0]["achievements"]
    }
    cells = [f"{rate:7.1%}  {name:<28}" for name, rate in rates.items()]
    rows = -(-len(cells) // columns)
    lines = ["".join(cells[row::rows]).rstrip() for row in range(rows)]
    mean = np.mean([seed["score"] for seed in seeds])
    return "\n".join([*lines, f"score {mean:.2f} % (geometric mean, as in Crafter)"])


def middle(returns: np.ndarray) -> dict[str, Any]:
    """Return the interquartile mean of `returns` (one per seed) and its bootstrap interval.

    Return {} for a single seed.
    """
    if len(returns) == 1:
        return {}
    iqm = statistics.interquartile_mean([returns])
    bounds = statistics.interval(statistics.interquartile_mean, [returns])
    return {
        "interquartile_mean": round(float(iqm), 6),
        "interval": [round(float(end), 6) for end in bounds],
    }


def as_text(result: Mapping[str, Any]) -> str:
    """Return the result of `evaluate` as text, one line for each policy that was evaluated."""
    others = [part for part in result.values() if isinstance(part, Mapping) and "per_seed" in part]
    return "\n".join(map(_line, (result, *others)))


def _line(result: Mapping[str, Any]) -> str:
    seeds = result["per_seed"]
    each = ", ".join(f"{seed['mean_return']:.3f}" for seed in seeds)
    rate, name = result["success_rate"], result.get("success_is", Env.success_is)
    success = "" if rate is None else f"{name} {rate:.1%}, "
    success += f"score {result['score']:.2f} %, " if "score" in result else ""
    return (
        f"Evaluated over {result['episodes']} episodes{' per seed' if seeds[1:] else ''}: "
        f"return {result['mean_return']:.3f}{f' ({each})' if seeds[1:] else ''}, "
        f"{success}length {result['mean_length']:.1f}{in_brackets(result)}"
    )
