"""Command `jaxenvs speedrun`: train to a fixed bar, stop, and replay in the original package."""

import contextlib
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.benchmarks.tables import speedruns
from jaxenvs.benchmarks.tables.text import Table, tabulated
from jaxenvs.commands.parser import Parser, UsageError, guarded, number, unwritable
from jaxenvs.core.checks import suggestion
from jaxenvs.core.extras import MissingExtraError

from ..evaluation import upstream
from . import results
from .attempts import attempt
from .entries import ENTRIES, Entry
from .training import check_flags, check_learner

SUMMARY = """\
Train to a fixed bar, and stop: how long does it take?

The time contains compilation. Training stops when the 95 % interval of an evaluation lies above the
bar. New episodes then decide whether it is reached, and the policy plays in the original package.
Without NAME, all entries and their best recorded rows are listed.

Each attempt is appended to a results file. A row needs five consecutive seeds. Arguments after --
go to `jaxenvs train`. Exit code 1: an attempt missed the bar, or --check found a problem.

Settings of the learner may follow `--`, such as --num-envs 64 --learning-rate 5e-4."""
EXAMPLES = (
    "speedrun",
    "speedrun cartpole",
    "speedrun doorkey-8x8 --seeds 5 --json doorkey.json",
    "speedrun doorkey-8x8 -- --learning-rate 5e-4 --num-envs 64",
    "speedrun --check doorkey.json",
)
MISSED = 1  # exit code


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return guarded("speedrun", _run, argv)


def _run(argv: list[str]) -> int:
    at = argv.index("--") if "--" in argv else len(argv)
    args, flags = _parser().read(argv[:at]), argv[at + 1 :]
    if args.check is not None:
        return _check(args.check)
    if args.name is None:
        print(listing().plain())
        return 0
    if args.name not in ENTRIES:
        near = suggestion(args.name, ENTRIES)
        raise UsageError(f"no entry {args.name!r}; choose one of {', '.join(ENTRIES)}{near}")
    return _attempts(ENTRIES[args.name], args, flags)


def _parser() -> Parser:
    made = Parser("jaxenvs speedrun", SUMMARY, EXAMPLES)
    made.add_argument("name", metavar="NAME", nargs="?", help="entry; without it, list all")
    most = 2**31 - 1
    words = "first seed (default: 0)"
    made.add_argument("--seed", type=number(0, most), default=0, metavar="K", help=words)
    words = "number of seeds, one after another (default: 1)"
    made.add_argument("--seeds", type=number(1, 1000), default=1, metavar="N", help=words)
    words = "results file to append to (default: speedrun-NAME.json)"
    made.add_argument("--json", type=Path, metavar="FILE", help=words)
    words = "keep the runs in DIR/seed-K (default: they are deleted)"
    made.add_argument("--out", type=Path, metavar="DIR", help=words)
    words = "do not replay in the original package; the row is not accepted"
    made.add_argument("--no-replay", action="store_true", help=words)
    words = "check a results file before you submit it"
    made.add_argument("--check", type=Path, metavar="FILE", help=words)
    return made


def listing() -> Table:
    """Return a table of the entries, with the best recorded row of each."""
    files = speedruns.ordered(results.recorded(), list(ENTRIES))
    best = {file["entry"]: file for file in reversed(files)}

    def record(entry: dict[str, Any]) -> str:
        if (file := best.get(entry["name"])) is None:
            return "no recorded row"
        ranked = speedruns.is_ranked(file)
        note = "" if ranked else f" ({speedruns.standing(file, files)})"
        return f"{speedruns.seconds_of(file):,.1f} s on {speedruns.device_of(file)}{note}"

    columns = {**speedruns.BARS, "best recorded": record}
    columns["entry"] = lambda entry: entry["name"]
    columns["environment"] = lambda entry: entry["id"]
    return tabulated([entry._asdict() for entry in ENTRIES.values()], columns)


def _check(path: Path) -> int:
    """Print what prevents a results file from becoming a row; return the exit code."""
    found = results.problems(results.read(path))
    for problem in found:
        print(f"{path}: {problem}")
    if not found:
        print(f"{path} is a valid row")
    return MISSED if found else 0


def _attempts(entry: Entry, args: Namespace, flags: Sequence[str]) -> int:
    """Make the attempts of all seeds, and append each to the results file."""
    path = args.json or Path(f"speedrun-{entry.name}.json")
    seeds = range(args.seed, args.seed + args.seeds)
    if flags and not entry.trains:
        raise UsageError(f"{entry.name} trains nothing; omit {' '.join(flags)}")
    check_flags(flags)
    results.check_free(path, entry, seeds)
    if not args.no_replay:
        check_replay(entry)
    reached = []
    try:
        if entry.trains:
            check_learner(entry, flags, not args.no_replay)
        for seed in seeds:
            with _folder(args.out, seed) as folder:
                made = attempt(entry, seed, flags, folder, not args.no_replay)
            made |= results.conditions()
            print(words(entry, made), flush=True)
            results.add(path, entry, made)
            reached.append(made["reached"])
    except OSError as error:
        raise unwritable(error) from error
    except UsageError:
        raise
    except ValueError as error:  # of the learner, or of the original package
        raise UsageError(str(error)) from error
    print(f"wrote {path}; check it with: speedrun --check {path}")
    return 0 if all(reached) else MISSED


def check_replay(entry: Entry) -> None:
    """Raise `UsageError` if the original package of an entry is not installed."""
    if not entry.package:
        return
    try:
        upstream.check_installed(entry.package)
    except (MissingExtraError, upstream.NotThereError) as error:
        raise UsageError(
            f"{entry.name} replays the policy in {entry.package}; {error}; or give --no-replay, "
            f"and the row is not accepted"
        ) from error


@contextlib.contextmanager
def _folder(out: Path | None, seed: int) -> Iterator[Path]:
    """Provide the folder of an attempt's run: `out`/seed-K, or a temporary one."""
    if out is not None:
        yield out / f"seed-{seed}"
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made) / f"seed-{seed}"


def words(entry: Entry, made: dict[str, Any]) -> str:
    """Return the result of an attempt as text: time, steps, device, results and verdict."""
    first = (
        f"{entry.name}, seed {made['seed']}: {made['seconds']:.1f} s with compilation "
        f"({made['training_seconds']:.1f} s of training), {made['steps']:,} steps, "
        f"{speedruns.device_of({'attempts': [made]})}"
    )
    there = made["there"]
    lines = [first, f"  here: {_interval(entry, made['here'])}"]
    if there is None:
        lines.append("  not replayed in the original package: the row is not accepted")
    else:
        lines.append(f"  in {there['package']} {there['version']}: {_interval(entry, there)}")
    verdict = "reached" if made["reached"] else "missed"
    return "\n".join([*lines, f"  bar {entry.bar:g}: {verdict}"])


def _interval(entry: Entry, found: dict[str, Any]) -> str:
    return (
        f"{entry.measure} {found['mean']:.4g} (95 %: {found['low']:.4g} to {found['high']:.4g}) "
        f"over {found['episodes']}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
