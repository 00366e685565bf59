"""Steps per second of registered ids over batch sizes, beside other packages that have them.

    jaxenvs bench --ids Grid-DoorKey-8x8-v0 --batches 64 1024 8192 --out runs/bench

Random actions are drawn inside the compiled program, one step per trip of its loop; the reset
source and the observation are part of every figure. Peers that are missing are named, not left out.
"""

import argparse
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

import jaxenvs
from jaxenvs.commands import fields
from jaxenvs.commands.parser import Parser, decimal, number

from . import contestants, instrument, peers, report, timing
from .contestants import Game
from .timing import Runner

SHORT_LIST = ["Grid-DoorKey-8x8-v0", "Grid-Empty-8x8-v0", "Grid-FourRooms-v0"]
EXAMPLES = (
    "bench",
    "bench --ids Craft-Classic-Ids-v0 --batches 1024 --no-peers",
    "bench --ids families --quick --out runs/quick",
    "bench --ids Grid-FourRooms-v0 --param max_steps_in_episode=50",
)
POLICY = "uniform random actions drawn in the compiled program; a pool is drawn anew every rollout"


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    args = _parser().read(sys.argv[1:] if argv is None else argv)
    _fill_in(args)
    try:
        args.params = fields.parse(args.params, fields.PARAM)
        for env_id in args.ids:
            fields.check_kinds(env_id, (), args.params)
            for obs in args.obs:
                jaxenvs.make(env_id, **contestants.obs_field(env_id, obs), **args.params)
        args.out.mkdir(parents=True, exist_ok=True)
    except (LookupError, TypeError, ValueError) as error:
        print(f"jaxenvs bench: {error.args[0]}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"jaxenvs bench: --out {args.out}: {error.strerror}", file=sys.stderr)
        return 2
    results = {**header(args), "params": args.params}
    groups: list[list[dict[str, Any]]] = []
    missing: list[dict[str, str]] = []
    for group in _measure(args, missing):
        groups.append(group)
        results["rows"] = [each for group in groups for each in group]
        results["ratios"] = report.ratios(groups)
        results["missing"] = missing
        results["load_after"] = os.getloadavg()[0]
        # Now: a run that is cut short leaves what it has.
        instrument.write(args.out / "bench.json", results)
    report.show(groups, missing)
    report.write(results, args.out)
    return 0


def _parser() -> Parser:
    made = Parser("jaxenvs bench", (__doc__ or "").split("\n")[0], EXAMPLES)
    add, positive = made.add_argument, number(1, 2**31 - 1)
    add("--ids", nargs="+", default=SHORT_LIST, help="ids, `families` (one of each) or `all`")
    add("--batches", nargs="+", type=positive, help="batch sizes (default: 64 1024 8192)")
    add("--seconds", type=decimal(1e-6, 1e6), help="seconds of one repeat (default: 0.5)")
    add("--repeats", type=positive, help="repeats, of which the median is reported (default: 5)")
    instrument.add_sources(made)
    add(
        "--obs",
        nargs="+",
        default=[None],
        help="values of the field `obs` (default: the image of a grid, else the default of the id)",
    )
    add(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also measure the peers that have this level (default: yes)",
    )
    made.add_params()
    add("--without", nargs="+", default=[], metavar="NAME", help="peers to leave out")
    add("--out", type=Path, default=Path("runs/bench"), help="folder for bench.json and bench.png")
    add("--quick", action="store_true", help="one small batch and short repeats, to try it out")
    return made


def _fill_in(args: argparse.Namespace) -> None:
    """Set what was not given; `--quick` only changes these defaults."""
    args.batches = args.batches or ([64] if args.quick else [64, 1024, 8192])
    args.seconds = args.seconds or (0.05 if args.quick else 0.5)
    args.repeats = args.repeats or (3 if args.quick else 5)
    args.ids = contestants.chosen(args.ids)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What every figure of a run with turns depends on."""
    return {
        **about(),
        "policy": POLICY,
        "unroll": 1,
        "seconds": args.seconds,
        "repeats": args.repeats,
    }


def about() -> dict[str, Any]:
    """Date, versions, machine and what else is set outside the program."""
    device = jax.devices()[0]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "versions": contestants.versions(),
        "device": f"{device.platform}: {device.device_kind}",
        "processor": contestants.processor(),
        "cpus": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "compilation_cache": bool(jax.config.values["jax_compilation_cache_dir"]),
    }


def _measure(
    args: argparse.Namespace, missing: list[dict[str, str]]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the figures of those who took turns; note who was missing."""
    for env_id in args.ids:
        for num_envs in args.batches:
            runners = []
            for name, build in _field(args, env_id, num_envs):
                try:
                    runners.append(build())
                except ImportError:
                    _note(missing, name, env_id, peers.install(name))
                except LookupError as error:
                    _note(missing, name, env_id, str(error.args[0]))
            group = timing.take_turns(runners, args.repeats)
            report.progress(group)
            yield group


def _note(missing: list[dict[str, str]], name: str, env_id: str, reason: str) -> None:
    found = {"contestant": name, "id": env_id, "reason": reason}
    if found not in missing:
        missing.append(found)


def _field(
    args: argparse.Namespace, env_id: str, num_envs: int
) -> Iterator[tuple[str, Callable[[], Runner]]]:
    """Who runs, and how to build them."""
    seconds = args.seconds
    for obs, source in itertools.product(args.obs, args.reset_source):
        yield (
            "jaxenvs",
            functools.partial(_own, env_id, num_envs, source, obs, args.params, seconds),
        )
    for other in peers.of(env_id) if args.peers else ():
        if other.name not in args.without:
            build = _changed if args.params else _peer
            yield other.name, functools.partial(build, other.name, env_id, num_envs, seconds)


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


def _changed(name: str, *_: Any) -> Runner:
    raise LookupError(f"{name} has the usual params; measure it without {fields.PARAM}")


def _peer(name: str, env_id: str, num_envs: int, seconds: float) -> Runner:
    made = peers.peer(name, env_id, num_envs)
    if isinstance(made, Game):
        return timing.GameRunner(made, env_id, seconds)
    return timing.BatchRunner(made, seconds)


if __name__ == "__main__":
    sys.exit(main())
