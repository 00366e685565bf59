"""Text for agents that read and write words, such as language models."""

from .describing import describe_batch, described

__all__ = ["describe_batch", "described"]
