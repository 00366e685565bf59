"""Small random graphs to test searches: exact distances, difficult costs and heuristics."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxenvs.puzzles import Move
from jaxenvs.puzzles.puzzle import Predecessors

VERTICES, ACTIONS, PREDECESSORS = 14, 3, 8


class Graph(NamedTuple):
    """A graph: the `instance` of a level in the search domain `Graphs`, whose boards are vertices.

    In a batch of graphs, each array has the graphs as an additional first axis.
    """

    after: Any  # int32 (vertices, actions): next vertex of each action, -1 if the action is illegal
    cost: Any  # float32 (vertices, actions): cost of each action
    # int32 (vertices, predecessors): the edges that lead to each vertex, padded with -1. An edge is
    # encoded as (vertex where it begins) * ACTIONS + action.
    before: Any
    bound: Any  # float32 (vertices,): value of the heuristic
    goal: Any  # int32 (): index of a vertex


class Level(NamedTuple):
    """The counterpart of `PuzzleLevel` with NumPy arrays."""

    board: Any  # int32 (): index of a vertex
    instance: Graph


@dataclasses.dataclass(frozen=True)
class Graphs:
    """Search domain of graphs. The graph is part of the level, so that `jit` compiles only once."""

    name: str = "Graphs"
    num_actions: int = ACTIONS
    num_words: int = 1
    unit_cost: bool = True
    inverse: None = None

    def neighbours(self, instance, board):
        after = instance.after[board]
        return Move(jnp.where(after >= 0, after, board), instance.cost[board], after >= 0)

    def is_goal(self, instance, board):
        return board == instance.goal

    def goal(self, instance):
        return instance.goal

    def predecessors(self, instance, board):
        edge = instance.before[board]
        at = jnp.maximum(edge, 0)
        vertex, action = at // ACTIONS, at % ACTIONS
        return Predecessors(vertex, action, instance.cost[vertex, action], edge >= 0)

    def heuristic(self, instance, board):
        return instance.bound[board]

    def pack(self, board):
        return board.astype(jnp.uint32)[None]

    def unpack(self, words):
        return words[0].astype(jnp.int32)


def level(after, cost, bound, start, goal) -> Level:
    """Return levels on graphs with the edges `after`, an int32 array as in `Graph`.

    Modifies `after` in place: if a vertex has more than PREDECESSORS incoming edges, the excess
    edges are removed.
    """
    count = len(after)
    before = np.full((count, VERTICES, PREDECESSORS), -1, np.int32)
    for number in range(count):
        fill = [0] * VERTICES
        for edge, to in enumerate(after[number].reshape(-1)):
            if to < 0:
                continue
            if fill[to] == PREDECESSORS:
                after[number, edge // ACTIONS, edge % ACTIONS] = -1
                continue
            before[number, to, fill[to]] = edge
            fill[to] += 1
    graph = Graph(after, cost, before, bound, goal)
    return Level(start, graph)


def to_goal(graph: Graph) -> np.ndarray:
    """Return the optimal cost from every vertex to the goal, float64 (graphs, vertices)."""
    count = len(graph.after)
    rows = np.arange(count)
    least = np.full((count, VERTICES), np.inf)
    least[rows, graph.goal] = 0
    for _ in range(VERTICES):
        there = least[rows[:, None, None], np.maximum(graph.after, 0)]
        there = np.where(graph.after >= 0, graph.cost + there, np.inf)
        least = np.minimum(least, there.min(axis=2))
    return least


def random_levels(
    rng: np.random.Generator, count: int, unit_cost: bool
) -> tuple[Level, np.ndarray]:
    """Return random levels and their optimal costs.

    The heuristics are admissible, but rarely consistent. All costs are 1 if `unit_cost`. Otherwise,
    the costs in a graph are drawn from one of four sets, in which float32 sums are exact: {1}, the
    integers from 0 to 2, the multiples of 1/4 from 0 to 8, and the integers from 1 to 999.
    """
    shape = (count, VERTICES, ACTIONS)
    after = rng.integers(0, VERTICES, shape).astype(np.int32)
    after[rng.random(shape) < rng.choice([0.1, 0.3, 0.5], (count, 1, 1))] = -1
    kinds = [
        np.ones(shape),
        rng.integers(0, 3, shape),
        rng.integers(0, 33, shape) / 4,
        np.floor(10 ** rng.uniform(0, 3, shape)),
    ]
    cost = np.choose(rng.integers(0, 1 if unit_cost else 4, (count, 1, 1)), kinds).astype(
        np.float32
    )
    start, goal = rng.integers(0, VERTICES, (2, count)).astype(np.int32)
    drawn = level(after, cost, np.zeros((count, VERTICES), np.float32), start, goal)
    exact = to_goal(drawn.instance)
    share = rng.random((count, VERTICES)) * rng.choice([0, 1, 2], (count, VERTICES))
    share = np.minimum(share, 1) * rng.choice([0, 1], (count, 1), p=[0.1, 0.9])
    whole = np.where(np.isfinite(exact), exact, 0)
    bound = np.floor(share * whole * 4) / 4
    # At vertices that cannot reach the goal, every value is admissible. Half of them get the value
    # inf, the others 7.
    seen = rng.random((count, VERTICES)) < 0.5
    bound = np.where(~np.isfinite(exact), np.where(seen, np.inf, 7.0), bound)
    graph = drawn.instance._replace(bound=bound.astype(np.float32))
    return Level(start, graph), exact[np.arange(count), start]


def unit_level(successors, bound, start: int, goal: int) -> Level:
    """Return a level with action costs of 1; `successors[i]` lists the vertices after vertex i."""
    after = np.full((1, VERTICES, ACTIONS), -1, np.int32)
    for vertex, to in enumerate(successors):
        after[0, vertex, : len(to)] = to
    height = np.zeros((1, VERTICES), np.float32)
    height[0, : len(bound)] = bound
    ends = np.array([start], np.int32), np.array([goal], np.int32)
    return level(after, np.ones_like(after, np.float32), height, *ends)
