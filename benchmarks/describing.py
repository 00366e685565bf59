"""Measure how many states per second `jaxenvs.text.describe_batch` turns into text, on one core.

    python -m jaxenvs.benchmarks.describing --ids Grid-DoorKey-8x8-v0 --json describing.json

The states come from random play with automatic resets. Every repeat describes new states, drawn
before the clock starts, and the reported number is the median over the repeats. The clock counts
CPU time, on which other programs have little influence. The first repeat is not counted, because it
compiles the program that reads the states.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxenvs import Env, make, make_vec
from jaxenvs.text import describe_batch

from .harness import instrument
from .tables.text import tabulated
from .tables.texts import SPEED

IDS = (
    "Grid-DoorKey-8x8-v0",
    "BabyAI-GoToLocal-v0",
    "XLand-R4-13x13-v0",
    "Craft-Classic-Ids-v0",
    "Puzzle-Sokoban-10x10-v0",
    "Puzzle-SlidingTile-4x4-v0",
    "Classic-CartPole-v0",
)
STEPS = 64  # number of steps of random play; the states after the last `KEPT` steps are described
KEPT = 16  # number of states of each environment that are described
DETAILS = ("full", "short", "changes")


def measure(id: str, count: int, repeats: int) -> dict[str, Any]:
    """Describe `count` states at each level of detail; return states per second.

    `count` is rounded down to a multiple of `KEPT`. Each repeat describes new states.
    """
    env, rows = make(id), max(1, count // KEPT)
    play, count = _player(env, rows), KEPT * rows
    times: dict[str, list[float]] = {detail: [] for detail in DETAILS}
    distinct = []
    for repeat in range(repeats + 1):  # the first repeat compiles and is not counted
        before, after = play(jax.random.key(repeat))
        jax.block_until_ready(after)
        for detail in DETAILS:
            more = {"before": before} if detail == "changes" else {}
            begun = time.process_time()
            texts = describe_batch(env, after, detail, **more)
            times[detail].append(time.process_time() - begun)
            if detail == "full":
                distinct.append(len({*texts}) / count)
    speed = {detail: float(count / np.median(spent[1:])) for detail, spent in times.items()}
    return {"env_id": id, "states": count, **speed, "distinct": float(np.median(distinct))}


def _player(env: Env, rows: int) -> Any:
    """Return a compiled function that plays random actions in `rows` environments.

    The function maps a random key to two batches of `KEPT * rows` states: the states before each of
    the last `KEPT` steps, and the states after each of these steps.
    """
    venv = make_vec(env, rows)

    def play(key: jax.Array) -> tuple[PyTree, PyTree]:
        def step(state: Any, key: jax.Array) -> tuple[Any, tuple[PyTree, PyTree]]:
            actions = jax.vmap(env.action_space.sample)(jax.random.split(key, rows))
            after = venv.step(key, state, actions).state
            return after, (state.env, after.env)

        key_reset, *keys = jax.random.split(key, STEPS + 1)
        _, states = jax.lax.scan(step, venv.reset(key_reset).state, jax.numpy.stack(keys))

        def kept(leaf: jax.Array) -> jax.Array:
            return leaf[-KEPT:].reshape(KEPT * rows, *leaf.shape[2:])

        return jax.tree.map(kept, states)

    return jax.jit(play)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("describing", __doc__)
    parser.add_argument("--ids", nargs="+", default=[*IDS], help="default: one of each family")
    parser.add_argument("--states", type=int, default=4096, help="states in a batch")
    parser.add_argument("--repeats", type=int, default=7, help="repeats; medians are reported")
    args = parser.parse_args(argv)
    instrument.use_one_core()
    rows = []
    for id in args.ids:
        rows.append(measure(id, args.states, args.repeats))
        print(f"{id}: measured", file=sys.stderr, flush=True)
    print(tabulated(rows, SPEED).plain())
    instrument.write(args.json, {**instrument.about(), "repeats": args.repeats, "rows": rows})
