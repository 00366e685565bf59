"""Nodes per second of A* on the 15-puzzle, compile time, and bytes per node.

    python -m jaxenvs.benchmarks.searching --batch-sizes 1000 10000 --json search.json

Random levels (--seed) are searched until the solution is proven optimal or the node budget is used
up. Times exclude compilation and are medians over the repeats. A board counts as a node when the
search first reaches it, and once more each time the search reaches it at a lower cost.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax

import jaxenvs
from jaxenvs import search

from .harness import device_lock, instrument
from .tables.cpu import SEARCHED
from .tables.text import tabulated


def measure(
    env_id: str, batch_size: int, levels: int, node_budget: int, seed: int, repeats: int
) -> dict[str, Any]:
    """Search random levels; return how many were solved, node counts and nodes per second.

    Numbers of nodes and of expanded nodes are summed over the levels. The speed is the total number
    of nodes divided by the median time of the repeats.
    """
    puzzle = jaxenvs.make(env_id)
    keys = jax.random.split(jax.random.key(seed), levels)
    drawn = [jax.jit(puzzle.sample_level)(key) for key in keys]

    def run(level: object) -> search.Result:
        return search.astar(
            puzzle, level, terminate="optimal", batch_size=batch_size, node_budget=node_budget
        )

    start = time.perf_counter()
    compiled = jax.jit(run).lower(drawn[0]).compile()
    compile_seconds = time.perf_counter() - start
    seconds, results = [], []
    with device_lock.held():
        jax.block_until_ready(compiled(drawn[0]))
        for _ in range(repeats):
            start = time.perf_counter()
            results = [jax.block_until_ready(compiled(level)) for level in drawn]
            seconds.append(time.perf_counter() - start)
    nodes = sum(int(result.nodes) for result in results)
    return {
        "env_id": env_id,
        "batch_size": batch_size,
        "levels": levels,
        # Number of levels solved with proof of optimality.
        "solved": sum(bool(result.optimal) for result in results),
        "nodes": nodes,
        "expanded": sum(int(result.expanded) for result in results),
        "nodes_per_second": nodes / statistics.median(seconds),
        "compile_seconds": compile_seconds,  # seconds of tracing and compiling
        "bytes_per_node": search.bytes_per_node(0),  # bytes stored per node, without the board
        "seconds": seconds,  # seconds of each repeat, which searches all levels
    }


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("searching", __doc__)
    add = parser.add_argument
    add("--id", default="Puzzle-SlidingTile-4x4-v0", help="a puzzle (default: %(default)s)")
    add("--batch-sizes", type=int, nargs="+", default=[1000, 10_000], help="nodes expanded at once")
    add("--levels", type=int, default=4, help="number of random levels (default: %(default)s)")
    add("--node-budget", type=int, default=8_000_000, help="nodes per level (default: %(default)s)")
    add("--seed", type=int, default=0, help="random seed of the levels")
    add("--repeats", type=int, default=3, help="repeats of all levels (default: %(default)s)")
    args = parser.parse_args(argv)
    given = (args.levels, args.node_budget, args.seed, args.repeats)
    records = [measure(args.id, batch_size, *given) for batch_size in args.batch_sizes]
    print(tabulated(records, SEARCHED).plain())
    instrument.write(args.json, {**instrument.about(), "rows": records})
