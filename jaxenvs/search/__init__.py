"""Batched search in any puzzle or `Domain`: A*, Q*, beam search and bidirectional search."""

from .astar import astar, qstar
from .beam import beam
from .bidirectional import bidirectional
from .domain import Domain
from .memory import bytes_per_node
from .result import Result

__all__ = ["Domain", "Result", "astar", "beam", "bidirectional", "bytes_per_node", "qstar"]
