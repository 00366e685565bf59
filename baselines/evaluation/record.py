"""Record runs as lines of a JSON table, and draw all learning curves of the table in one picture.

python -m jaxenvs.baselines.evaluation.record baselines/results/families.json \\
    --picture docs/ppo-families.png
RUN ... --device "two cores of a Xeon" adds runs, or replaces lines with the same command. Runs with
the same versions that differ only in their seeds are merged into one line, because on a CPU it
is faster to train each seed in a separate process. Evaluations that `jaxenvs eval RUN --json
RUN/eval-NAME.json` wrote are part of the line.
"""

import dataclasses
import itertools
import json
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import jaxenvs
from jaxenvs.commands.fields import FLAG, PARAM, written
from jaxenvs.commands.parser import Parser
from jaxenvs.core.typed import PROGRAM

from .. import GYM
from ..core.episodes import middle
from ..core.policy_statement import in_brackets
from ..core.schedules import UNSHOWN
from ..presets import names, preset
from ..registry import ALGORITHMS, USUAL
from ..storage import sweep
from ..storage.checkpoints import RunError
from ..storage.runs import Config, Run
from .curve import Curve, panels, points

POINTS = 40  # number of points to which a recorded learning curve is thinned
OR = " or "  # separates the names of devices in a line whose runs were made on different devices
# keys of the output of `jaxenvs eval --json` that the JSON table copies
RECORDED = ("fields", "params", "episodes", "policy", "seeds")


def command(config: Config) -> str:
    """Return the shortest command that repeats a run: a preset, and flags for other settings.

    A setting that jaxenvs got after the run was made is assumed to have its current default. If the
    preset sets another value, the command has a flag with the default.
    """
    known = names(config.id, config.algorithm)
    return min((_command(config, name) for name in known), key=len)


def _command(config: Config, name: str | None) -> str:
    tuned = preset(config.id, name, config.algorithm)
    learner = ALGORITHMS[config.algorithm].load()
    usual = dataclasses.asdict(learner.Settings(**tuned.settings))
    words = [PROGRAM, "train", config.id]
    words += [f"--algo {config.algorithm}"] if config.algorithm != USUAL else []
    words += [*([f"--preset {name}"] if name else []), f"--seeds {config.seeds_of_each}"]
    if config.seed:
        words.append(f"--seed {config.seed}")
    for name, value in (dataclasses.asdict(learner.Settings()) | config.settings).items():
        if value != usual.get(name) and name not in UNSHOWN:
            words.append(_flag(name.replace("_", "-"), value))
    if config.sweep:
        words.append(" ".join(["--sweep", *sweep.as_arguments(config.sweep)]))
    made = {} if config.id.startswith(GYM) else vars(jaxenvs.make(config.id))
    pairs = {k: v for k, v in config.env_fields.items() if k not in made or made[k] != v}
    if pairs:
        words.append(shlex.join([FLAG, *itertools.starmap(written, pairs.items())]))
    if config.params:
        words.append(shlex.join([PARAM, *itertools.starmap(written, config.params.items())]))
    return " ".join(words)


def print_sweep(run: Run) -> None:
    """Print the evaluated returns of a sweep, best first, and a command for the best settings."""
    config = run.config
    result = json.loads((run.path / "eval.json").read_text("utf-8"))
    evaluated = result["per_seed"]
    seeds = config.seeds_of_each
    settings = [setting for setting, _ in config.agents[::seeds]]
    returns = np.array([row["mean_return"] for row in evaluated]).reshape(-1, seeds)
    means = returns.mean(axis=1)
    width = max(12, *map(len, config.sweep))
    print(" ".join(name.rjust(width) for name in (*config.sweep, "return")), " of each seed")
    order = np.argsort(np.where(np.isnan(means), np.inf, -means), kind="stable")
    for i in order:
        numbers = [f"{value:g}" for value in settings[i].values()] + [f"{means[i]:.3f}"]
        each = ", ".join(f"{value:.3f}" for value in returns[i])
        print(" ".join(number.rjust(width) for number in numbers), "", each)
    print(f"Evaluated over {result['episodes']} episodes of each{in_brackets(result)}.")
    best = {**config.settings, **settings[order[0]]}
    alone = dataclasses.replace(config, sweep={}, seeds=seeds, settings=best)
    print(f"The best alone: {command(alone)}")


def summary(run: Run, device: str) -> dict[str, Any]:
    """Return the record of a run, a line of the JSON table of recorded runs.

    The entry `evaluation` is None if the run did not finish.
    """
    records = run.records()
    if not records:
        raise RunError(
            f"{run.path} has no record in its log; give a run that has learned something"
        )
    steps, returns = points(records)
    kept = np.unique(np.linspace(0, len(steps) - 1, POINTS).round().astype(int))
    read = {name: run.path / f"{name}.json" for name in ("eval", "heuristic")}
    found = {k: json.loads(f.read_text("utf-8")) for k, f in read.items() if f.is_file()}
    made = (run.path / "log.jsonl").stat().st_mtime
    return {
        "id": run.config.id,
        "algorithm": run.config.algorithm,
        "command": command(run.config),
        **({"setup": setup} if (setup := run.config.env_fields.get("setup")) else {}),
        "device": device,
        "date": time.strftime("%Y-%m-%d", time.gmtime(made)),
        "versions": run.config.versions,
        "seeds": run.config.seeds,
        "steps": records[-1]["steps"],  # number of steps of each seed
        "steps_asked": run.config.settings["total_steps"],
        **{name: value for name in UNSHOWN if (value := run.config.settings.get(name))},
        "seconds": records[-1]["seconds"],  # time from the first compilation to the last update
        "steps_per_second": records[-1]["steps_per_second"],  # sum over seeds, without compilation
        "evaluation": found.get("eval"),
        **({"search": found["heuristic"]} if "heuristic" in found else {}),
        **({"evaluations": others} if (others := _others(run, records[-1]["steps"])) else {}),
        "last_returns": _rounded(returns[-1]),
        "curve": {"steps": steps[kept].tolist(), "returns": [_rounded(x) for x in returns[kept]]},
    }


def _others(run: Run, steps: int) -> dict[str, Any]:
    """Return the evaluations in the run's directory that `jaxenvs eval --json` wrote, by name.

    The file `eval-NAME.json` contains the evaluation NAME. Raises `RunError` for a file that lacks
    a key of `RECORDED`, as files of older versions do, and for a file whose weights have made
    another number of steps than the run, `steps`.
    """
    found = {}
    for file in sorted(run.path.glob("eval-*.json"), key=lambda file: file.stem):
        each = json.loads(file.read_text("utf-8"))
        if lacking := ", ".join(part for part in RECORDED if part not in each):
            raise RunError(
                f"{file} has no {lacking}; remove it, or write it again with `{PROGRAM} eval "
                f"{run.path} --json {file}`"
            )
        if each.get("steps") not in (None, steps):
            raise RunError(
                f"{file} evaluates weights after {each['steps']:,} steps, and {run.path} has made "
                f"{steps:,}; remove it, or write it again"
            )
        found[file.stem.removeprefix("eval-")] = {part: each[part] for part in RECORDED}
    return found


def merged(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge the records of evaluated runs that differ only in their seeds.

    Runs are merged if they have the same versions, number of steps and, apart from the seed,
    command, and were evaluated with the same policy description and number of episodes. If two of
    these runs have a seed in common, none of them are merged.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        command = _without_seed(record)
        known = record["evaluation"] or {}
        evaluated, played = "per_seed" in known, (known.get("episodes"), str(known.get("policy")))
        named = (command, record["steps"], evaluated, played, str(record["versions"]))
        groups.setdefault(named, []).append(record)
    return [
        each
        for (command, _, evaluated, *_), group in groups.items()
        for each in (
            [_merge(command, group)] if evaluated and _have_distinct_seeds(group) else group
        )
    ]


def _without_seed(record: dict[str, Any]) -> str:
    return re.sub(r" --seed [\d{},]+", "", record["command"])


def _seeds(record: dict[str, Any]) -> list[int]:
    return [seed["seed"] for seed in record["evaluation"]["per_seed"]]


def _have_distinct_seeds(group: list[dict[str, Any]]) -> bool:
    """Return whether `group` has at least two records, and no seed occurs twice in it."""
    seeds = [seed for record in group for seed in _seeds(record)]
    return len(group) > 1 and len({*seeds}) == len(seeds)


def _merge(command: str, group: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the records of several runs into one record, which contains all their seeds."""
    of_a_run = int(command.partition(" --seeds ")[2].partition(" ")[0])
    first = (str(seed) for record in group for seed in _seeds(record)[::of_a_run])
    evaluation = _evaluation([record["evaluation"] for record in group])
    returns = zip(*(record["curve"]["returns"] for record in group), strict=True)
    runs = [record["seeds"] for record in group]
    speed = np.average([record["steps_per_second"] for record in group], weights=runs)
    return {
        **group[0],
        "command": f"{command} --seed {{{','.join(first)}}}",
        "device": _devices([record["device"] for record in group]),
        "date": max(record["date"] for record in group),
        "seeds": len(evaluation["per_seed"]),
        "seconds": round(sum(record["seconds"] for record in group), 3),
        "steps_per_second": round(float(speed), 1),
        "evaluation": evaluation,
        **({"evaluations": _joined(group)} if "evaluations" in group[0] else {}),
        "last_returns": [x for record in group for x in record["last_returns"]],
        "curve": {**group[0]["curve"], "returns": [[*itertools.chain(*line)] for line in returns]},
    }


def _devices(names: list[str]) -> str:
    """Return the different names of devices, separated by "or"; a name may itself list several."""
    return OR.join(dict.fromkeys(one for name in names for one in name.split(OR)))


def _joined(group: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the entries `evaluations` (results of `jaxenvs eval --json`) of a group of records.

    The result has only those evaluations that every record contains, with the seeds of all records.
    """
    found = [record.get("evaluations", {}) for record in group]
    return {
        name: {**each, "seeds": [seed for one in found for seed in _of(one[name], each)]}
        for name, each in found[0].items()
        if all(name in one for one in found)
    }


def _of(found: dict[str, Any], first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the seeds of an evaluation, with its params if the params of `first` differ."""
    more = {} if found["params"] == first["params"] else {"params": found["params"]}
    return [{**seed, **more} for seed in found["seeds"]]


def _evaluation(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the contents of eval.json files of runs that differ only in their seeds.

    Nested evaluations, such as a planner's `without_search`, are merged in the same way.
    """
    seeds = [seed for each in found for seed in each["per_seed"]]
    values = {name: [seed[name] for seed in seeds] for name in seeds[0] if name != "seed"}
    inside = [k for k, v in found[0].items() if isinstance(v, dict) and "per_seed" in v]
    return {
        **{name: found[0][name] for name in ("policy", "unit", "episodes") if name in found[0]},
        **{name: _mean(of_seeds) for name, of_seeds in values.items()},
        **middle(np.array(values["mean_return"])),
        "per_seed": seeds,
        **{name: _evaluation([each[name] for each in found]) for name in inside},
    }


def _mean(values: list[Any]) -> Any:
    """Return the mean of the values of several seeds, or None if a value is None.

    If the values are dicts, return a dict with the mean of each entry.
    """
    if None in values:
        return None
    if isinstance(values[0], dict):
        return {name: _mean([value[name] for value in values]) for name in values[0]}
    return round(float(np.mean(values)), 6)


def curves(records: list[dict[str, Any]]) -> list[Curve]:
    """Return the learning curves of recorded runs, one `Curve` per panel.

    Runs that differ only in their seeds share a panel. Records without a curve, such as
    records of other packages' scripts, are left out.
    """
    groups: dict[tuple[str, str], list[Curve]] = {}
    drawn = [record for record in records if record["curve"] is not None]
    for record in drawn:
        named = (_without_seed(record), str(record["curve"]["steps"]))
        made = curve(record)
        like = [_rollout(other) for other in drawn if _title(other) == made.title]
        if len(set(like)) == len(like) > 1:  # the lengths of rollouts tell the panels apart
            made = made._replace(title=made.title + _rollout(record))
        groups.setdefault(named, []).append(made)
    return [
        first._replace(
            returns=np.concatenate([first.returns, *(each.returns for each in others)], axis=1)
        )
        for first, *others in groups.values()
    ]


def curve(record: dict[str, Any]) -> Curve:
    """Return the learning curves of a recorded run, one curve per seed."""
    returns = [[np.nan if x is None else x for x in line] for line in record["curve"]["returns"]]
    return Curve(_title(record), np.array(record["curve"]["steps"]), np.array(returns))


def _rollout(record: dict[str, Any]) -> str:
    """Return the flag with the length of rollouts in the record's command, or ""."""
    return "".join(re.findall(r" --rollout-steps \S+", record["command"]))


def _title(record: dict[str, Any]) -> str:
    """Return the title of a record's panel: id, learner, preset, and what chooses levels or games.

    Curricula over levels have their score and number of edits, unless these are defaults. For
    PuzzleScript, one game is given by its name, several by their number. If the record has a field
    `run` with the run's name, the title is the id and this name instead.
    """
    if "run" in record:
        return f"{record['id']} {record['run']}".replace("`", "")
    title = record["command"].removeprefix(f"{PROGRAM} train ").partition(" --seeds")[0]
    for flag in ("--algo ", "--preset "):
        title = title.replace(flag, "")
    title = title.partition(" --")[0]  # drop all other flags
    title += "".join(re.findall(r" --(?:score|edits) \S+", record["command"]))
    chosen = dict(re.findall(r" (games?)=(\S+)", record["command"]))
    if "game" in chosen:
        title += f" game={chosen['game']}"
    if "," in chosen.get("games", ""):
        title += f", {chosen['games'].count(',') + 1} games"
    return title


def main(argv: list[str] | None = None) -> int:
    """Add runs to the JSON table, then draw its learning curves."""
    parser = Parser("python -m jaxenvs.baselines.evaluation.record", __doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--device", default="", help="name of the hardware of the runs")
    parser.add_argument("--picture", type=Path, help="PNG to draw")
    args = parser.parse_intermixed_args(argv)
    try:
        known = json.loads(args.table.read_text("utf-8")) if args.table.is_file() else []
        new = [summary(Run.open(path), args.device) for path in args.runs]
    except ValueError as error:
        print(f"record: {error}", file=sys.stderr)
        return 2
    lines = {record["command"]: record for record in [*known, *new]}
    records = merged(list(lines.values()))
    text = ",\n".join(json.dumps(record) for record in records)
    args.table.write_text(f"[\n{text}\n]\n", "utf-8")
    if args.picture:
        panels(args.picture, curves(records))
    return 0


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, (list, tuple)):
        return f"--{name} {' '.join(map(str, value))}"
    return f"--{name} {value}"


def _rounded(values: np.ndarray) -> list[float | None]:
    return [round(float(x), 3) if np.isfinite(x) else None for x in values]


if __name__ == "__main__":
    sys.exit(main())
