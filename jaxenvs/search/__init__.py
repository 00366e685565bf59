"""Batched search over any puzzle, or any functions of the same form: A*, Q*, beam, both ends."""

from .astar import astar, qstar
from .beam import beam
from .bidirectional import bidirectional
from .domain import Domain
from .memory import bytes_per_node
from .result import Result

__all__ = ["Domain", "Result", "astar", "beam", "bidirectional", "bytes_per_node", "qstar"]
