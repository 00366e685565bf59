"""Prompts: the text that an agent receives before each action.

A prompt has parts, separated by empty lines. The parts begin as follows; the last two lines below
belong to one part:

    Rules: ...          rules, reward and end of an episode, from the environment's documentation
    Answer refused: ... only after an invalid answer: the reason
    Step 3 of at most 640. Last action: forward.
    Changes: ...        from the second prompt on: `Env.describe_changes`
    Observation:        `Env.describe`
    Legal actions: ...  names, separated by semicolons
    Answer with one legal action. ...
"""

from typing import Any, NamedTuple

import numpy as np

from ..core.drawing import unwrapped
from ..core.env import Env
from ..core.spaces import Discrete
from .actions import action_names, how_to_write, legal_indices
from .describing import described

FORMAT = 1  # version of the format of prompts, for result files
REQUEST = 'Answer with one legal action. A longer answer must end in a line "Action: NAME".'


class PromptError(ValueError):
    """Raised by a reference agent that cannot answer the prompts of an environment."""


class Moment(NamedTuple):
    """Data of one prompt: the environment's state and the agent's last answer."""

    env: Env
    state: Any
    detail: str = "full"
    before: Any = None  # state before the last action; None at the start of an episode
    action: str = ""  # name of the last action; "" at the start of an episode
    refused: str = ""  # error message about the last answer, "" if it was valid
    step: int = 0  # number of answers in the episode before this prompt
    limit: int = 0  # maximum number of answers in the episode


def prompt(moment: Moment, rules: str, legal: Any) -> str:
    """Return the prompt for the data in `moment`; the module's docstring explains the format.

    `rules` is the text of `rules_of`, `legal` the legal actions as `parse_action` takes them.
    """
    env, state = moment.env, moment.state
    last = f" Last action: {moment.action}." if moment.action else ""
    parts = [
        rules,
        f"Answer refused: {moment.refused}" if moment.refused else "",
        f"Step {moment.step} of at most {moment.limit}.{last}",
        "" if moment.before is None else f"Changes: {env.describe_changes(moment.before, state)}",
        f"Observation:\n{described(env, state, moment.detail)}",
        f"{legal_line(env, legal)}\n{REQUEST}",
    ]
    return "\n\n".join(filter(None, parts))


def legal_line(env: Env, legal: Any) -> str:
    """Return the line that lists the legal actions.

    If actions are not discrete, the line tells how to write an action.
    """
    names = action_names(env)
    if not isinstance(env.action_space, Discrete):
        return f"Actions: {how_to_write(env)}."
    return f"Legal actions: {'; '.join(names[i] for i in legal_indices(legal, len(names)))}"


def legal_names(text: str) -> list[str]:
    """Return the names of the legal actions that a prompt lists.

    Raises `PromptError` if it lists none, because the actions are not discrete.
    """
    lines = [line for line in text.splitlines() if line.startswith("Legal actions: ")]
    if not lines:
        raise PromptError(
            "the reference agents choose among the legal actions that a prompt lists, and this "
            "environment's actions are not discrete; give --agent module:function"
        )
    return lines[-1].removeprefix("Legal actions: ").split("; ")


def observation(text: str) -> list[str]:
    """Return the lines of the observation in a prompt."""
    return text.partition("\nObservation:\n")[2].partition("\n\n")[0].splitlines()


def rules_of(env: Env) -> str:
    """Return the rules of an environment for a prompt, from the docstring of its class."""
    # Imported here, because the import loads many other modules.
    from ..commands.page import docstring

    texts = docstring(type(unwrapped(env)))
    labels = ("Rules", "Reward", "Episode ends")
    found = ((label, " ".join(texts[label]).replace("`", "")) for label in labels)
    return "\n".join(f"{label}: {text}" for label, text in found if text)


def limit_of(env: Env, state: Any) -> int:
    """Return the time limit of an episode, in steps."""
    return int(np.asarray(env.time_limit(state, env.default_params)))
