"""Batched search over any puzzle, or any functions of the same form: A*, Q*, beam, both ends."""

from .astar import Result, astar, bytes_per_node, qstar
from .domain import Domain

__all__ = ["Domain", "Result", "astar", "bytes_per_node", "qstar"]
