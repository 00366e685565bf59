"""`jaxenvs check ID`: test environments of jaxenvs or of other packages with `check_env`."""

import sys

from ..core import registry
from ..core.typed import program
from ..testing import ContractError, check_env
from .parser import Parser, guarded, number

SUMMARY = """Check that environments satisfy the contract of `jaxenvs.testing.check_env`.

The checks: equal results eager, compiled, batched and scanned; shapes, dtypes and spaces;
termination and truncation; random and out-of-range actions. Exit code 1: a check failed."""
EXAMPLES = (
    "check Grid-DoorKey-8x8-v0",
    "check Mine-Walk-v0 --steps 1000000 --seed 3",
    "check $(jaxenvs list Mine | cut -d' ' -f1)",
)


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("check", _run, argv)


def _run(argv: list[str]) -> int:
    arguments, whole = Parser("jaxenvs check", SUMMARY, EXAMPLES), number(0, 2**31 - 1)
    known = f"an id listed by `{program()} list`, or an alias"
    arguments.add_argument("ids", nargs="+", metavar="ID", help=known)
    arguments.add_argument(
        "--steps",
        type=whole,
        default=20_000,
        metavar="N",
        help="steps of random and out-of-range actions (default 20000)",
    )
    arguments.add_argument(
        "--seed", type=whole, default=0, metavar="N", help="seed of levels and actions (default 0)"
    )
    options = arguments.read(argv)
    for id in options.ids:  # find unknown ids before the first check, which is slow
        registry.spec(id)
    codes = [_check(id, options.steps, options.seed) for id in options.ids]
    return max(codes)


def _check(id: str, steps: int, seed: int) -> int:
    try:
        passed = check_env(id, steps=steps, seed=seed)
    except (ContractError, registry.IncompleteError) as error:
        print(f"{id}: {error}", file=sys.stderr)
        return 1
    print(f"{id}: keeps the contract ({len(passed)} checks, {steps:,} random steps)", flush=True)
    return 0
