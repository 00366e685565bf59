"""Descriptions of how an evaluated policy acts, for eval.json, `jaxenvs eval --json` and messages.

A description is a dict. It states, for example, the policy's observation and whether its actions
are greedy.
"""

from collections.abc import Mapping
from typing import Any

from jaxenvs.core.wrapper import Wrapper
from jaxenvs.core.wrappers import PreviousStep

from .planning import Search
from .policy import Policy


def describe(policy: Policy, greedy: bool) -> dict[str, Any]:
    """Return the description of a policy as a dict for JSON, see `describe_network`."""
    return describe_network(policy.env, policy.epsilon, greedy, policy.search)


def describe_network(
    env: Any, epsilon: float, greedy: bool, search: Search | None = None
) -> dict[str, Any]:
    """Return the description of a network that acts in an `Env` or a Gymnasium environment.

    Entries of the dict: `actions` is "sampled" or "greedy". `epsilon` is the probability of a
    random action, and present only if a Q-network's actions are sampled. `search` is whether a
    search chooses actions; `simulations` is the number of simulations per action (0 without a
    search), and `model` names the model that the search steps. `episode` is present only if
    an evaluated episode is a trial: several episodes, or a number of steps, under one task (RL²).
    """
    found: dict[str, Any] = {"actions": "greedy" if greedy else "sampled"}
    if epsilon and not greedy and search is None:
        found["epsilon"] = epsilon
    found |= {"search": search is not None, "simulations": search.simulations if search else 0}
    found |= {"model": search.model} if search else {}
    found["observation"] = observation(env)
    episode = getattr(env, "episode_is", "")
    return found | ({"episode": episode} if episode else {})


def greedily(env: Any, shown: str = "") -> dict[str, Any]:
    """Return the description of a greedy policy that minimises a puzzle's predicted cost.

    A learned heuristic predicts the cost, and there is no search. `shown` names the heuristic's
    input; "" if the input is the observation of `env`.
    """
    facts = {"actions": "greedy", "search": False, "simulations": 0}
    return {**facts, "observation": shown or observation(env)}


def observation(env: Any) -> str:
    """Return text that names the observations of an environment.

    The text is the value of the field `obs` of `env` or, if `env` has no such field, the
    observation space.
    """
    if isinstance(env, PreviousStep):
        return f"{observation(env.env)}, previous action and reward"
    if isinstance(env, Wrapper) and env.observation_space == env.env.observation_space:
        return observation(env.env)
    is_named = getattr(env, "observations", ()) and not isinstance(env, Wrapper)
    return str(vars(env)["obs"] if is_named else env.observation_space)


def as_phrase(facts: Mapping[str, Any]) -> str:
    """Return a description as a phrase, like "actions sampled, no search, observation image"."""
    parts = [f"actions {facts['actions']}"]
    if "epsilon" in facts:
        parts = [f"best action but for {facts['epsilon']:.0%} random ones"]
    search = f"search with {facts['simulations']} simulations in the {facts.get('model')}"
    parts.append(search if facts["search"] else "no search")
    parts.append(f"observation {facts['observation']}")
    parts += [f"each episode a {facts['episode']}"] if "episode" in facts else []
    return ", ".join(parts)


def in_brackets(result: Mapping[str, Any]) -> str:
    """Return the description of an evaluation's policy as a phrase in brackets.

    `result` is the content of an eval.json. Return "" if an older version wrote it, without a
    description.
    """
    return f" ({as_phrase(result['policy'])})" if "policy" in result else ""
