"""Runs of `jaxenvs bench` with NAVIX, EnvPool and craftax, one process after another.

    python -m jaxenvs.benchmarks.peer_runs --out benchmarks/results
    python -m jaxenvs.benchmarks.tables

Each run replaces one of the JSON files from which the tables in README.md and benchmarks/README.md
are made. A run in which a peer is missing replaces nothing. NAVIX 4 and EnvPool's Craftax need
Python 3.12 or newer.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxenvs.commands.parser import Parser

from .harness import instrument

SCRATCH = "runs/peers"  # folder in which each run leaves bench.json and bench.png


RUNS = {  # name of the JSON file that a run replaces -> the run's options of `jaxenvs bench`
    "bench_doorkey": "--ids Grid-DoorKey-8x8-v0 --batches 64 1024 8192 --reset-source auto pool "
    "--repeats 9 --without EnvPool",
    "bench_envpool": "--ids Grid-DoorKey-8x8-v0 Grid-KeyCorridorS3R3-v0 BabyAI-GoToLocal-v0 "
    "BabyAI-BossLevel-v0 --batches 1024 --obs image dict --repeats 9 "
    "--without NAVIX XLand-MiniGrid",
    "bench_craft_symbolic": "--ids Craft-Classic-Symbolic-v0 --batches 1024 256 "
    "--reset-source exact none --without 'craftax (own reset)'",
    "bench_craft_full": "--ids Craft-Ids-v0 --batches 1024 256 --reset-source exact "
    "--obs ids symbolic --without 'craftax (own reset)' 'craftax (no reset)' crafter",
}
# Options that `--quick` appends to the options in `RUNS`. The appended options take precedence.
QUICK = ("--quick", "--repeats", "1", "--batches", "64")


def arguments(name: str, quick: bool = False) -> list[str]:
    """Return the arguments of `jaxenvs bench` for the run `name`; `quick` uses one small batch."""
    folder = str(Path(SCRATCH) / name)
    return [*shlex.split(RUNS[name]), *(QUICK if quick else ()), "--out", folder]


def measure(name: str, out: Path | None, quick: bool = False) -> None:
    """Run `jaxenvs bench` with the options of `name`; copy its `bench.json` to the folder `out`.

    Raises `RuntimeError` if the run failed or lacks a peer.
    """
    program = [sys.executable, "-m", "jaxenvs.benchmarks.throughput", *arguments(name, quick)]
    done = subprocess.run(program, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed with exit code {done.returncode}")
    figures = Path(SCRATCH) / name / "bench.json"
    missing = json.loads(figures.read_text())["missing"]
    if missing:
        reasons = "; ".join(f"{each['contestant']}: {each['reason']}" for each in missing)
        raise RuntimeError(f"{name}.json is not written, because peers are missing: {reasons}")
    if out:
        shutil.copy(figures, out / f"{name}.json")
        print(f"wrote {out / name}.json", flush=True)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Make the runs that the command line names; copy their `bench.json` to the folder `--out`."""
    made = Parser("python -m jaxenvs.benchmarks.peer_runs", (__doc__ or "").split("\n")[0])
    add = made.add_argument
    add("--only", nargs="+", default=list(RUNS), choices=RUNS, metavar="NAME", help=", ".join(RUNS))
    add("--out", type=Path, help="folder of the figures (default: none, see runs/peers)")
    add("--quick", action="store_true", help="one small batch each, to check that every peer steps")
    args = made.parse_args(argv)
    if args.quick and args.out:
        raise ValueError("--quick has no figures to publish: leave out --out")
    if args.out and not args.out.is_dir():
        raise ValueError(f"--out {args.out}: no such folder")
    for name in args.only:
        measure(name, args.out, args.quick)
