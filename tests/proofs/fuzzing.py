"""Play every id with random, illegal and invalid actions; count steps that break the contract.

    python tests/proofs/fuzzing.py --steps 100000000 --out benchmarks/results/fuzzing.json

`jaxenvs/testing/fuzzing.py` defines the rules of the contract. The steps are divided equally among
the ids. Results are saved after each id; a later run with the same options skips the ids that are
saved already.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import jaxenvs
from jaxenvs.commands.parser import Parser
from jaxenvs.testing import fuzz
from jaxenvs.testing.fuzzing import NEAR


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line: fuzz every id; return 1 if a rule was broken."""
    parser = Parser("python tests/proofs/fuzzing.py", __doc__)
    parser.add_argument("ids", nargs="*", help="all, if none is given")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps, all ids together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzzing.json"))
    given = parser.parse_args(argv)
    try:
        ids = [jaxenvs.spec(id).id for id in given.ids or jaxenvs.registry.list()]
    except jaxenvs.UnknownIdError as error:
        print(f"fuzzing: {error}", file=sys.stderr)
        return 2
    found = begun(given.steps, given.seed)
    if given.out.is_file():
        found |= json.loads(given.out.read_text())
    if (found["asked"], found["seed"]) != (given.steps, given.seed):
        print(f"fuzzing: {given.out} holds another run; give another --out", file=sys.stderr)
        return 2
    for number, id in enumerate(ids, start=1):
        if id in found["ids"]:
            continue
        row = played(id, -(-given.steps // len(ids)), given.seed)
        found["ids"][id] = row
        found["steps"] = sum(row["steps"] for row in found["ids"].values())
        found["broken"] = sum(sum(row["broken"].values()) for row in found["ids"].values())
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{number}/{len(ids)} {id}: {row}", flush=True)
    print(f"{found['steps']:,} steps of {len(found['ids'])} ids, {found['broken']} break a rule")
    return 1 if found["broken"] else 0


def begun(steps: int, seed: int) -> dict[str, Any]:
    """Return the contents of a new results file, before any id is played."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")},
        "asked": steps,
        "seed": seed,
        "steps": 0,
        "broken": 0,
        "ids": {},
    }


def played(id: str, steps: int, seed: int) -> dict[str, Any]:
    """Fuzz one id and return the results; then clear JAX's caches of compiled programs."""
    start = time.perf_counter()
    found = fuzz(jaxenvs.make(id), steps=steps, seed=seed, length=128, near=NEAR)
    jax.clear_caches()
    broken = {rule: count for rule, count in found.broken.items() if count}
    seconds = round(time.perf_counter() - start, 1)
    return {"steps": found.steps, "broken": broken, "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
