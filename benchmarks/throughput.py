"""Steps per second of registered ids by batch size, compared with other packages.

    jaxenvs bench --ids Grid-DoorKey-8x8-v0 --batches 64 1024 8192 --out runs/bench

The compiled program draws random actions and makes one step per iteration of its loop. All figures
include observations and auto-reset, except the rows of batches that never reset: this library's
reset source `none`, and `no reset` after another package's name. Other packages that are not
installed are listed as missing.
"""

import argparse
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxenvs
from jaxenvs.commands import fields
from jaxenvs.commands.parser import Parser, decimal, number

from .harness import contestants, instrument, report, timing
from .harness.contestants import Game
from .harness.timing import Runner
from .peers import environments as peers

SHORT_LIST = ["Grid-DoorKey-8x8-v0", "Grid-Empty-8x8-v0", "Grid-FourRooms-v0"]
EXAMPLES = (
    "bench",
    "bench --ids Craft-Classic-Ids-v0 --batches 1024 --no-peers",
    "bench --ids families --quick --out runs/quick",
    "bench --ids Grid-FourRooms-v0 --param max_steps_in_episode=50",
)


def main(argv: list[str] | None = None) -> int:
    """Run `jaxenvs bench`: measure, print tables, write figures; return the exit code."""
    args = _parser().read(sys.argv[1:] if argv is None else argv)
    _fill_in(args)
    try:
        args.params = fields.parse(args.params, fields.PARAM)
        given = fields.parse(args.fields)
        for env_id in args.ids:
            fields.check_kinds(env_id, given, args.params)
            for obs in args.obs:
                keywords = contestants.obs_field(env_id, obs) | given | args.params
                jaxenvs.make(env_id, **keywords)
        args.params = given | args.params
        args.out.mkdir(parents=True, exist_ok=True)
    except (LookupError, TypeError, ValueError) as error:
        print(f"jaxenvs bench: {error.args[0]}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"jaxenvs bench: --out {args.out}: {error.strerror}", file=sys.stderr)
        return 2
    results = {**instrument.header(args), "params": args.params}
    groups: list[list[dict[str, Any]]] = []
    missing: list[dict[str, str]] = []
    for group in _measure(args, missing):
        groups.append(group)
        results["rows"] = [each for group in groups for each in group]
        results["ratios"] = report.ratios(groups)
        results["missing"] = missing
        results["load_after"] = os.getloadavg()[0]
        # Write the file after every group, so that an interrupted run keeps the complete groups.
        instrument.write(args.out / "bench.json", results)
    report.show(groups, missing)
    report.write(results, args.out)
    return 0


def _parser() -> Parser:
    made = Parser("jaxenvs bench", (__doc__ or "").split("\n")[0], EXAMPLES)
    add, positive = made.add_argument, number(1, 2**31 - 1)
    obs = "values of the field `obs` (default: the image of a grid, else the default of the id)"
    compare: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": True}
    add("--ids", nargs="+", default=SHORT_LIST, help="ids, `families` (one of each) or `all`")
    add("--batches", nargs="+", type=positive, help="batch sizes (default: 64 1024 8192)")
    add("--seconds", type=decimal(1e-6, 1e6), help="seconds of one repeat (default: 0.5)")
    add("--repeats", type=positive, help="repeats; medians are reported (default: 5)")
    instrument.add_sources(made)
    add("--obs", nargs="+", default=[None], help=obs)
    add("--peers", help="also measure the peers that have this level (default: yes)", **compare)
    made.add_fields("levels=mylevels.txt")
    made.add_levels()
    add("--without", nargs="+", default=[], metavar="NAME", help="peers to leave out")
    add("--out", type=Path, default=Path("runs/bench"), help="folder for bench.json and bench.png")
    add("--quick", action="store_true", help="one small batch and short repeats, to try it out")
    return made


def _fill_in(args: argparse.Namespace) -> None:
    """Fill in the defaults of omitted options; the defaults are smaller with `--quick`."""
    args.batches = args.batches or ([64] if args.quick else [64, 1024, 8192])
    args.seconds = args.seconds or (0.05 if args.quick else 0.5)
    args.repeats = args.repeats or (3 if args.quick else 5)
    args.ids = contestants.chosen(args.ids)


def _measure(
    args: argparse.Namespace, missing: list[dict[str, str]]
) -> Iterator[list[dict[str, Any]]]:
    """Measure each group of contestants in turns; yield the group's records.

    A group has all contestants for one id and batch size. Contestants that are not available are
    not measured, but appended to `missing` with the reason.
    """
    for env_id, num_envs in itertools.product(args.ids, args.batches):
        runners = []
        for name, build in _builders(args, env_id, num_envs):
            try:
                runners.append(build())
                continue
            except ImportError:
                reason = peers.install(name)
            except LookupError as error:
                reason = str(error.args[0])
            found = {"contestant": name, "id": env_id, "reason": reason}
            if found not in missing:
                missing.append(found)
        group = timing.take_turns(runners, args.repeats)
        report.progress(group)
        yield group


def _builders(
    args: argparse.Namespace, env_id: str, num_envs: int
) -> Iterator[tuple[str, Callable[[], Runner]]]:
    """Yield the name of each contestant and a function that builds its runner.

    A contestant is a batch of environments to measure. The function compiles the batch, warms it
    up, and returns a runner, which times it.
    """
    for obs, source in itertools.product(args.obs, args.reset_source):
        asked = (env_id, num_envs, source, obs, args.params, args.seconds)
        yield "jaxenvs", functools.partial(_own, *asked)
    for other in peers.of(env_id) if args.peers else ():
        if other.name not in args.without:
            asked = (other.name, env_id, num_envs, args.params, args.seconds)
            yield other.name, functools.partial(_peer, *asked)


def _own(
    env_id: str,
    num_envs: int,
    source: str,
    obs: str | None,
    params: dict[str, Any],
    seconds: float,
) -> Runner:
    keywords = {**contestants.obs_field(env_id, obs), **params}
    return timing.BatchRunner(contestants.ours(env_id, num_envs, source, **keywords), seconds)


def _peer(name: str, env_id: str, num_envs: int, params: dict[str, Any], seconds: float) -> Runner:
    if params:
        raise LookupError(
            f"{name} has fixed settings; measure it without {fields.PARAM} and {fields.FLAG}"
        )
    made = peers.peer(name, env_id, num_envs)
    if isinstance(made, Game):
        return timing.GameRunner(made, env_id, seconds)
    return timing.BatchRunner(made, seconds)


if __name__ == "__main__":
    sys.exit(main())
