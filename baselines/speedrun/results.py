"""Results files of speedruns: reading, appending and checking.

A file has the attempts of one entry on one machine with the same flags and versions. It is a JSON
object: `format`, the name `entry`, and the list `attempts`. `FIELDS` describes an attempt.
"""

import json
import math
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.benchmarks.harness import instrument
from jaxenvs.benchmarks.tables.speedruns import SEEDS
from jaxenvs.commands.parser import UsageError, check_outputs
from jaxenvs.core.files import read_text, replacing

from .attempts import PLAIN, reaches
from .entries import ENTRIES, Entry
from .training import check_flags

FORMAT = 1
LARGEST = 2**22  # largest file that is read, in bytes
RECORDED = Path(__file__).resolve().parents[1] / "results" / "speedruns"  # accepted rows
SURPLUS = 1.1  # largest ratio of steps to budget, because steps are rounded up to whole updates
DIRTY = "-dirty"  # end of the commit if files differ from it

NUMBER = (int, float)
FIELDS: dict[str, Any] = {
    "seed": int,
    "reached": bool,
    "bar": NUMBER,
    "measure": str,
    "budget": int,
    "flags": list,  # arguments of `jaxenvs train`
    "steps": int,
    "seconds": NUMBER,  # time until the last update, with compilation
    "training_seconds": NUMBER,  # time after the first call of the compiled program
    "here": dict,  # see `FIGURES`
    "there": (dict, type(None)),  # the same in the original package; null without a replay
    "date": str,
    "commit": str,  # of jaxenvs; "" if it is not installed from a checkout
    "versions": dict,
    "device": str,
    "processor": str,
    "cpus": int,
}
FIGURES: dict[str, Any] = {"mean": NUMBER, "low": NUMBER, "high": NUMBER, "episodes": int}
ALIKE = ("flags", "commit", "versions", "device", "processor", "cpus")  # equal in all attempts
VERSIONS = ("python", "jaxenvs", "jax")


def conditions() -> dict[str, Any]:
    """Return the date, versions, commit and machine of an attempt."""
    about = instrument.about()
    kept = ("python", "jaxenvs", "jax", "jaxlib", "flax", "optax")
    versions = {name: about["versions"][name] for name in kept if name in about["versions"]}
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "commit": commit(),
        "versions": versions,
        **{name: about[name] for name in ("device", "processor", "cpus")},
    }


def commit() -> str:
    """Return the commit of the checkout, with `-dirty` if files differ; "" without a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def read(path: Path) -> dict[str, Any]:
    """Return the content of a results file; `UsageError` if it is not one."""
    try:
        content = json.loads(read_text(path, LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from error
    problem = _structure(content)
    if problem:
        raise UsageError(f"{path}: {problem}")
    return content


def add(path: Path, entry: Entry, attempt: dict[str, Any]) -> None:
    """Append an attempt to a results file, which may not exist yet."""
    known = read(path)["attempts"] if path.is_file() else []
    content = {"format": FORMAT, "entry": entry.name, "attempts": [*known, attempt]}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def check_free(path: Path, entry: Entry, seeds: Sequence[int]) -> None:
    """Raise `UsageError` if attempts of `seeds` cannot be appended to a results file."""
    check_outputs({"--json": path})
    if not path.is_file():
        return
    known = read(path)
    if known["entry"] != entry.name:
        raise UsageError(f"{path} has attempts of {known['entry']}; give another --json FILE")
    again = {each["seed"] for each in known["attempts"]} & {*seeds}
    if again:
        raise UsageError(
            f"{path} already has seed {min(again)}; give another --seed or --json FILE"
        )


def problems(content: dict[str, Any]) -> list[str]:
    """Return what prevents a results file from becoming a ranked row; `read` gives the content."""
    entry = ENTRIES[content["entry"]]
    attempts = content["attempts"]
    found = [
        f"seed {attempt['seed']}: {text}"
        for attempt in attempts
        for text in _of_attempt(entry, attempt)
    ]
    seeds = sorted(attempt["seed"] for attempt in attempts)
    if len(seeds) < SEEDS:
        found.append(f"{len(seeds)} of {SEEDS} seeds: run more seeds into the same file")
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        found.append(f"the seeds {seeds} are not consecutive: no attempt may be left out")
    for name in ALIKE:
        if any(attempt[name] != attempts[0][name] for attempt in attempts):
            found.append(f"the attempts differ in {name}: one row has one machine and version")
    return found


def _structure(content: Any) -> str:
    """Return the first fault in the structure of a results file, or ""."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return f"it is not a results file of format {FORMAT}, as `jaxenvs speedrun` writes it"
    if content.get("entry") not in ENTRIES:
        return f"no entry is named {content.get('entry')!r}; choose one of {', '.join(ENTRIES)}"
    attempts = content.get("attempts")
    if not isinstance(attempts, list) or not attempts:
        return "attempts must be a list with at least one attempt"
    faults = (fault for i, attempt in enumerate(attempts) for fault in _faults(attempt, i))
    return next(faults, "")


def _faults(attempt: Any, i: int) -> Iterator[str]:
    place = f"attempts[{i}]"
    yield from _wrong(attempt, FIELDS, place)
    yield from _wrong(attempt["here"], FIGURES, f"{place}.here")
    if attempt["there"] is not None:
        named = FIGURES | {"package": str, "version": str}
        yield from _wrong(attempt["there"], named, f"{place}.there")
    if not all(isinstance(flag, str) for flag in attempt["flags"]):
        yield f"{place}.flags must be texts"


def _wrong(found: Any, fields: dict[str, Any], place: str) -> Iterator[str]:
    """Yield faults of one JSON object: missing fields and values of a wrong type."""
    if not isinstance(found, dict):
        yield f"{place} must be an object"
        return
    for name, kind in fields.items():
        if name not in found:
            yield f"{place} has no {name}"
        elif not _is(found[name], kind):
            yield f"{place}.{name} is {found[name]!r}, which has a wrong type"


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) and (not isinstance(value, float) or math.isfinite(value))


def _of_attempt(entry: Entry, attempt: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of one attempt, apart from its structure."""
    for name in ("bar", "measure", "budget"):
        if attempt[name] != getattr(entry, name):
            yield f"{name} is {attempt[name]}, the entry has {getattr(entry, name)}"
    if attempt["steps"] > SURPLUS * entry.budget:
        yield f"{attempt['steps']:,} steps exceed the budget of {entry.budget:,}"
    if not attempt["seconds"] > 0 or not 0 <= attempt["training_seconds"] <= attempt["seconds"]:
        yield "times must be positive, and training cannot last longer than the whole"
    try:
        check_flags(attempt["flags"])
    except UsageError as error:
        yield str(error)
    if lacking := [name for name in VERSIONS if not attempt["versions"].get(name)]:
        yield f"versions lack {', '.join(lacking)}"
    if attempt["commit"].endswith(DIRTY):
        yield "jaxenvs had uncommitted changes: commit them, and run it again"
    yield from _of_results(entry, attempt)


def _of_results(entry: Entry, attempt: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of the results of one attempt, here and in the replay."""
    here, there = attempt["here"], attempt["there"]
    yield from _of_figures(entry, "here", here)
    if there is None:
        yield "it was not replayed: run it again without --no-replay"
    else:
        yield from _of_figures(entry, "there", there)
        yield from _of_package(entry, there)
    reached = reaches(entry, here, there)
    if reached != attempt["reached"]:
        yield f"reached is {attempt['reached']}, but the results say {reached}"
    if not reached:
        shown = f"{here['mean']:g}" + (f", in the replay {there['mean']:g}" if there else "")
        yield f"missed the bar of {entry.bar:g}: {shown}"


def _of_figures(entry: Entry, name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of the results in one place, `here` or `there`."""
    if found["episodes"] != entry.episodes:
        yield f"{name} has {found['episodes']} episodes or boards, not {entry.episodes}"
    if not found["low"] <= found["mean"] <= found["high"]:
        yield f"{name}: the mean {found['mean']} is outside its interval"


def _of_package(entry: Entry, there: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of the package of the replay."""
    known = entry.package or PLAIN
    if there["package"] != known:
        yield f"it was replayed in {there['package'] or 'nothing'}, not in {known}"
    elif entry.package and not there["version"]:
        yield f"the version of {known} is missing"


def recorded(folder: Path = RECORDED) -> list[dict[str, Any]]:
    """Return the contents of the recorded files; [] if this installation has none."""
    return [read(folder / name) for name in sorted(os.listdir(folder))] if folder.is_dir() else []
