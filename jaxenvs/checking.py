"""`jaxenvs check ID`: try the contract on environments, also on those of other packages."""

import argparse
import sys

from .core.registry import UnknownIdError
from .info import parser
from .testing import ContractError, check_env

SUMMARY = """Check that environments keep the contract: what `jaxenvs.testing.check_env` tries.

Same results eager, compiled, batched and scanned; shapes, dtypes and spaces; both ends of an
episode; random and hostile play. Exit code 1: one of them breaks it, and a line says what."""
EXAMPLES = (
    "check Grid-DoorKey-8x8-v0",
    "check Mine-Walk-v0 --steps 1000000 --seed 3",
    "check $(jaxenvs list Mine | cut -d' ' -f1)",
)


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    arguments = parser("check", SUMMARY, EXAMPLES)
    arguments.add_argument("ids", nargs="+", metavar="ID", help="from `jaxenvs list`, or an alias")
    arguments.add_argument(
        "--steps",
        type=_whole,
        default=20_000,
        metavar="N",
        help="random and hostile steps beside the other checks (default 20000)",
    )
    arguments.add_argument("--seed", type=_whole, default=0, metavar="N", help="of levels and play")
    options = arguments.parse_args(argv)
    codes = [_check(id, options.steps, options.seed) for id in options.ids]
    return max(codes)


def _check(id: str, steps: int, seed: int) -> int:
    try:
        passed = check_env(id, steps=steps, seed=seed)
    except UnknownIdError as error:
        print(f"jaxenvs check: {error}", file=sys.stderr)
        return 2
    except ContractError as error:
        print(f"{id}: {error}", file=sys.stderr)
        return 1
    print(f"{id}: keeps the contract ({len(passed)} checks, {steps:,} random steps)", flush=True)
    return 0


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 to {2**31 - 1}")
    return number
