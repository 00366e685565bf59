"""Jobs of the command `card` that measure A*: nodes per second, and Korf's hundred 15-puzzles."""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs import search
from jaxenvs.core.memory import device_memory

from ..harness import device_lock
from . import korf
from .results import Records, Work
from .steps import alone, flat

PUZZLES = (
    "Puzzle-SlidingTile-5x5-v0",
    "Puzzle-Cube-3x3-v0",
    "Puzzle-2048-v0",
    "Puzzle-Maze-10x10-v0",
)
SEARCHED = (
    ("Puzzle-SlidingTile-4x4-v0", 10_000),
    ("Puzzle-SlidingTile-4x4-v0", 100_000),
    ("Puzzle-Cube-2x2-v0", 10_000),
)
FIFTEEN = "Puzzle-SlidingTile-4x4-v0"
BATCHES = (100_000, 400_000, 20_000)  # batch sizes of A*: numbers of nodes expanded together
# Fraction of the device's memory that a search may use; other jobs need memory at the same time.
SHARE = 0.3
# Limit on the number of nodes that one search may store, even if more fit into memory.
MOST_NODES = 600_000_000
# No further pass (see `passes`) starts once all passes have stored this many nodes in total.
MANY = 1_000_000_000


def puzzles(work: Work) -> None:
    """Measure nodes per second of A*, then environment steps per second of some puzzles."""
    for env_id, batch_size in (("Puzzle-SlidingTile-3x3-v0", 64),) if work.tiny else SEARCHED:
        figures = functools.partial(_searched, work, env_id, batch_size)
        work.measure(figures, id=env_id, batch_size=batch_size)
    for num_envs in (8,) if work.tiny else (4096, 65_536):
        for env_id in PUZZLES[:1] if work.tiny else PUZZLES:
            alone(work, env_id, num_envs, "default")


def _searched(work: Work, env_id: str, batch_size: int) -> Records:
    from .. import searching

    levels, budget, repeats = (1, 100_000, 1) if work.tiny else (4, 8_000_000, 3)
    found = flat(searching.measure(env_id, batch_size, levels, budget, 0, repeats))
    return [{"id": found.pop("env_id"), "algorithm": "astar", **found}]


def korf_hundred(work: Work) -> None:
    """Solve Korf's hundred 15-puzzles together, with proof of optimality, for each batch size.

    All puzzles store their nodes in the same table. If it becomes full, the puzzles that are not
    solved yet are searched again (see `passes`).
    """
    for batch_size in (256,) if work.tiny else BATCHES:
        figures = functools.partial(_solved, batch_size, 2 if work.tiny else len(korf.LEVELS))
        work.measure(figures, id=FIFTEEN, batch_size=batch_size)


def _solved(batch_size: int, count: int) -> Records:
    """Solve the `count` easiest of Korf's puzzles together; return one record.

    The search makes several passes, see `passes`. The record has their totals.
    """
    puzzle: Any = jaxenvs.make(FIFTEEN)
    chosen = korf.LEVELS[:count]
    boards = jnp.stack([puzzle.level(level.numbers).board for level in chosen])
    budget = node_budget(boards.shape[1] + 1, small=count < len(korf.LEVELS))

    def run(boards: jax.Array) -> search.Result:
        return search.astar(
            puzzle, boards, terminate="optimal", batch_size=batch_size, node_budget=budget
        )

    begun = time.perf_counter()
    compiled = jax.jit(run).lower(boards).compile()
    compile_seconds = time.perf_counter() - begun
    cost, _, counts = passes(compiled, boards, puzzle.goal(()))
    known = np.array([level.optimal for level in chosen])
    case = {"id": FIFTEEN, "algorithm": "astar", "batch_size": batch_size, "levels": count}
    found = {
        "solved": int(np.isfinite(cost).sum()),  # number of levels solved with proof of optimality
        # Number of levels whose solution is as long as the known shortest solution.
        "as_known": int((cost == known).sum()),
        "node_budget": budget,
        "compile_seconds": compile_seconds,
    }
    return [case | found | counts]


class Passes(NamedTuple):
    """Results of a search in several passes."""

    cost: np.ndarray  # cost of each board's shortest solution; inf if unsolved, (boards,)
    actions: np.ndarray  # the solutions; -1 after the last action, and if unsolved
    # Totals: numbers of nodes, expanded nodes and passes, and the time of all passes in seconds.
    counts: dict[str, Any]


def passes(
    compiled: Callable[[jax.Array], Any], boards: jax.Array, goal: jax.Array, most: int = MANY
) -> Passes:
    """Search for the solutions of `boards` in several passes.

    Each pass starts with an empty table of nodes and searches all boards that are not solved yet. A
    board stays unsolved if the table becomes full. Solved boards are replaced by the goal board, so
    that array shapes stay the same and one compiled program serves all passes. No further pass
    starts when all boards are solved, when a pass has solved none, or when the passes have stored
    `most` nodes.
    """
    cost, actions, better = np.full(len(boards), np.inf), None, True
    counts = {"nodes": 0, "expanded": 0, "passes": 0}
    with device_lock.held():
        begun = time.perf_counter()
        while better and not np.isfinite(cost).all() and counts["nodes"] < most:
            left = ~np.isfinite(cost)
            found = jax.device_get(compiled(jnp.where(left[:, None], boards, goal)))
            new = left & found.optimal
            actions = np.full_like(found.actions, -1) if actions is None else actions
            cost[new], actions[new], better = found.cost[new], found.actions[new], bool(new.any())
            more = {"nodes": int(found.nodes), "expanded": int(found.expanded), "passes": 1}
            counts = {name: number + more[name] for name, number in counts.items()}
        seconds = time.perf_counter() - begun
    assert actions is not None  # there is a first pass
    return Passes(cost, actions, {**counts, "times_s": [seconds]})


def node_budget(key_words: int, small: bool) -> int:
    """Return the number of nodes that fit into the fraction `SHARE` of the device's memory.

    `key_words` is the length in 32-bit words of the key of a node in the table. `small` selects a
    fixed small number, for tests of the job.
    """
    if small:
        return 400_000
    memory = device_memory(jax.devices()[0]) or 1 << 30
    return min(MOST_NODES, int(SHARE * memory) // search.bytes_per_node(key_words))
