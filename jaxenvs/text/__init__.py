"""Text for agents that read and write words, such as language models."""

from .actions import ActionError, action_names, how_to_write, parse_action
from .describing import describe_batch, described
from .measures import Progress, progress

__all__ = [
    "ActionError",
    "Progress",
    "action_names",
    "describe_batch",
    "described",
    "how_to_write",
    "parse_action",
    "progress",
]
