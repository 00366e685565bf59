"""For each id: the fraction of levels with a proven shortest plan, and the time of the search.

    python -m jaxenvs.benchmarks.optima --ids Grid-LockedRoom-v0 BabyAI-BossLevel-v0 --json a.json

The levels of an id are drawn by `sample_level` from one random key. A level counts as proven if the
search proves that its plan is the shortest, or that no plan exists. A search of several levels may
store `--states` states for each level. All searches of an id are timed together, with compilation.
If the file of `--json` exists, its rows of other ids are kept.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxenvs import levels, make, registry
from jaxenvs.levels import Solution

from .harness import instrument
from .tables.solutions import OPTIMA
from .tables.text import tabulated

FAMILIES = ("Grid", "BabyAI")  # families of the default ids


def measure(id: str, count: int, states: int, together: int, seed: int) -> dict[str, Any]:
    """Solve `count` levels of an id, `together` levels per search; return a row of figures."""
    env, began = make(id), time.monotonic()
    drawn = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(seed), count))
    found: list[Solution] = []
    for at in range(0, count, together):
        # If fewer than `together` levels are left, fill the last search with copies of the last
        # level.
        places = jnp.minimum(jnp.arange(at, at + together), count - 1)
        group = jax.tree.map(lambda leaf, places=places: leaf[places], drawn)
        found += levels.solve(env, group, node_budget=states * together)
        found = found[:count]
        seconds = time.monotonic() - began
        done = f"{id}: {len(found)} of {count} levels, {_proven(found)} proven, {seconds:.0f} s"
        print(done, file=sys.stderr)
    steps = [each.steps for each in found if each.proven and each.steps is not None]
    return {
        "env_id": id,
        "levels": count,
        "proven": _proven(found),
        "unsolvable": sum(each.unsolvable for each in found),
        "fewest": min(steps, default=None),
        "most": max(steps, default=None),
        "seconds": round(time.monotonic() - began, 2),
        "steps": [each.steps for each in found],
        "states": states,
        "together": together,
        "seed": seed,
    }


def _proven(found: Sequence[Solution]) -> int:
    return sum(each.proven or each.unsolvable for each in found)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("optima", __doc__)
    parser.add_argument("--ids", nargs="+", metavar="ID", help="default: Grid and BabyAI, all ids")
    parser.add_argument("--levels", type=int, default=8, help="levels of each id (default 8)")
    parser.add_argument("--states", type=int, default=200_000, help="states stored for each level")
    parser.add_argument("--together", type=int, default=8, help="levels in a search (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="key of the levels (default 0)")
    args = parser.parse_args(argv)
    every = [id for family in FAMILIES for id in registry.list(family)]
    rows = json.loads(args.json.read_text())["rows"] if args.json and args.json.exists() else []
    for id in args.ids or every:
        jax.clear_caches()  # free memory: one process cannot keep the programs of all ids
        try:
            row = measure(id, args.levels, args.states, args.together, args.seed)
        except (NotImplementedError, TypeError) as error:  # the id has no solver
            print(f"{id}: left out, {error}", file=sys.stderr)
            continue
        rows = sorted(
            [*(old for old in rows if old["env_id"] != id), row],
            key=lambda row: every.index(row["env_id"]) if row["env_id"] in every else len(every),
        )
        print(f"{id}: {row['proven']} of {row['levels']}, {row['seconds']} s", file=sys.stderr)
        instrument.write(args.json, {**instrument.about(), "rows": rows})
    print(tabulated(rows, OPTIMA).plain())
