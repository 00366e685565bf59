"""Agents that play by text: a user's function, or a reference agent without a language model."""

import importlib
import random
from collections.abc import Callable
from typing import Any, cast

from ..core.checks import suggestion
from .prompts import legal_names
from .reader import Reader

Agent = Callable[[str], str]


class RandomAgent:
    """Agent that answers each prompt with a legal action, drawn uniformly."""

    def __init__(self, seed: int = 0) -> None:
        """Seed the random number generator."""
        self.random = random.Random(seed)

    def __call__(self, text: str) -> str:
        """Return the name of a legal action."""
        return self.random.choice(legal_names(text))


def first_legal(text: str) -> str:
    """Return the name of the first legal action that a prompt lists."""
    return legal_names(text)[0]


# Name -> function of a seed that returns the agent.
REFERENCES: dict[str, Callable[[int], Agent]] = {
    "random": RandomAgent,
    "first-legal": lambda seed: first_legal,
    "reader": Reader,
}


def load(name: str, seed: int = 0) -> Agent:
    """Return a reference agent, or the function or object that `module:function` names.

    A class is instantiated without arguments. Raises `ValueError` if `name` names no agent, or an
    object that cannot be called. `seed` is for the reference agents.
    """
    if name in REFERENCES:
        return REFERENCES[name](seed)
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        near = suggestion(name, REFERENCES)
        raise ValueError(
            f"agent {name!r} must be module:function, such as my_agent:answer, or one of "
            f"{', '.join(REFERENCES)}{near}"
        )
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "") != module.partition(".")[0] and error.name != module:
            raise
        raise ValueError(f"agent {name!r}: there is no module {module!r}") from None
    if not hasattr(found, attribute):
        raise ValueError(f"agent {name!r}: module {module!r} has no {attribute!r}")
    agent: Any = getattr(found, attribute)
    if isinstance(agent, type):
        agent = agent()
    if not callable(agent):
        raise ValueError(f"agent {name!r} is a {type(agent).__name__}, which cannot be called")
    return cast(Agent, agent)


def reset(agent: Agent) -> None:
    """Call `agent.reset()` if the agent has this method."""
    method = getattr(agent, "reset", None)
    if callable(method):
        method()
