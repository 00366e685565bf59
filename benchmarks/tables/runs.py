"""Recorded runs of the learners (`baselines/results`, kept by `baselines/evaluation/record.py`)."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from .registry import REFERENCE, RUNS, table
from .text import Column, Table, fixed, listed, of, percent, short, tabulated, whole

MANY = 10  # seeds whose returns are not listed
EPISODES = {"1st": 0, "2nd": 1, "3rd": 2, "5th": 4, "10th episode": 9}  # of a trial, from 0
GOOD = 0.9  # a return that many seeds are counted by

COMMAND: dict[str, Column] = {"`jaxenvs train` ...": lambda row: f"`{_flags(row)}`"}


def _flags(row: dict[str, Any]) -> str:
    return row["command"].removeprefix("jaxenvs train ")


def returns_of(row: dict[str, Any]) -> list[float]:
    """Of each seed: those of the evaluation, else means of the last training episodes."""
    if row["evaluation"]:
        return [seed["mean_return"] for seed in row["evaluation"]["per_seed"]]
    return row["last_returns"]


def _middle(row: dict[str, Any]) -> str:
    known = row["evaluation"] or {}
    if "interval" not in known:
        return ""  # a single seed, or no evaluation
    low, high = known["interval"]
    return f"{known['interquartile_mean']:.3f} ({low:.3f} to {high:.3f})"


MIDDLE: dict[str, Column] = {"IQM (95 %)": _middle}


def successes(row: dict[str, Any]) -> str:
    """Share of episodes that succeeded, by seed."""
    shares = [seed["success_rate"] for seed in row["evaluation"]["per_seed"]]
    return ", ".join(percent(share) for share in dict.fromkeys(shares)) if shares else ""


def _success(row: dict[str, Any]) -> str:
    share = (row["evaluation"] or {}).get("success_rate")
    return "" if share is None else percent(share)


def _returns(row: dict[str, Any]) -> str:
    found = returns_of(row)
    mark = "" if row["evaluation"] else " (a)"
    if len(found) < MANY:
        return listed(found) + mark
    good, others = [x for x in found if x >= GOOD], [x for x in found if x < GOOD]
    text = f"{len(good)} of {len(found)} at {min(good):.3f} to {max(good):.3f}"
    return text + (f", the others {listed(others)}" if others else "") + mark


def _steps(row: dict[str, Any]) -> str:
    """Steps of a seed, and of how many where the run was ended before."""
    made, asked = row["steps"], row["steps_asked"]
    text = f"{made / 1e6:.2f} M"
    return text if made >= asked else f"{text} of {asked / 1e6:g} M"


def _made_on(row: dict[str, Any]) -> str:
    return "1 core" if row["device"].startswith("one core") else row["device"].split()[-1]


@table("runs-families", f"{RUNS}/families.json")
def families(rows: list[dict[str, Any]]) -> Table:
    """One level of each family."""
    columns = {
        **COMMAND,
        "steps per seed": _steps,
        "return of each seed": _returns,
        **MIDDLE,
        "success": _success,
        "made on": _made_on,
        "steps/s, all seeds": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-retries", f"{RUNS}/retries.json", REFERENCE)
def retries(rows: list[dict[str, Any]], reference: dict[str, Any]) -> Table:
    """Second tries that have learned, and how many others there are."""
    learned = [row for row in rows if _has_learned(row, reference)]
    learned.sort(key=lambda row: (row["id"].split("-")[0], row["id"]))
    columns: dict[str, Column] = {
        **COMMAND,
        "steps": of("steps", whole),
        "return": lambda row: listed(returns_of(row)),
        "random play": lambda row: fixed(3)(reference["random"][row["id"]]["return"]),
        "success": _success,
        "steps/s": of("steps_per_second", short),
    }
    note = f"{len(learned)} of {len(rows)} ids have learned; the others are left out."
    return tabulated(learned, columns)._replace(note=note)


@table("runs-short", f"{RUNS}/short.json", REFERENCE)
def short_runs(rows: list[dict[str, Any]], reference: dict[str, Any]) -> str:
    """How many short runs have learned."""
    learned = [row for row in rows if _has_learned(row, reference)]
    return f"In so few steps PPO has learned {len(learned)} of {len(rows)} ids."


def _has_learned(row: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Whether a recorded run has learned by the rule of the pages."""
    known = reference["trained"][row["id"]]
    return next(run["learned"] for run in known if run["command"] == row["command"])


def near(row: dict[str, Any], steps: int) -> tuple[int, list[float | None]]:
    """The kept point of the curve that is nearest to a number of steps, and its returns."""
    points = zip(row["curve"]["steps"], row["curve"]["returns"], strict=True)
    return min(points, key=lambda point: abs(point[0] - steps))


def _along(rows: list[dict[str, Any]], most: int, marks: Iterable[int]) -> Table:
    """Rows along their curves, each the mean of its seeds, at some numbers of steps that a run
    has reached but for one in a hundred; `most` is the sum of all rewards."""

    def at(steps: int) -> Column:
        def mean(row: dict[str, Any]) -> str:
            return fixed(2)(_mean(near(row, steps)[1])) if steps <= 1.01 * row["steps"] else ""

        return mean

    def evaluated(row: dict[str, Any]) -> str:
        return listed(returns_of(row), 2) + ("" if row["evaluation"] else " (a)")

    columns = {
        **COMMAND,
        **{short(steps): at(steps) for steps in marks},
        "evaluation of each seed": evaluated,
        **MIDDLE,
        f"of {most}": lambda row: percent(_mean(returns_of(row)) / most),
        "steps/s": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-craft", f"{RUNS}/craft.json")
def craft(rows: list[dict[str, Any]]) -> Table:
    """Craft-Classic."""
    return _along(rows, 22, (100_000, 250_000, 500_000, 750_000, 1_000_000))


@table("runs-craft-full", f"{RUNS}/craft_full.json")
def craft_full(rows: list[dict[str, Any]]) -> Table:
    """The whole game."""
    return _along(rows, 226, (100_000, 250_000, 500_000, 1_000_000, 2_000_000, 5_000_000))


@table("runs-dyna", f"{RUNS}/dyna.json")
def dyna(rows: list[dict[str, Any]]) -> Table:
    """Craft-Classic in few steps, with a model of the world and without."""
    return _along(rows, 22, (50_000, 100_000, 200_000, 300_000))


def _mean(numbers: Iterable[float | None]) -> float:
    return statistics.mean(number for number in numbers if number is not None)


def _by_seed(row: dict[str, Any]) -> str:
    return ", ".join(f"{100 * s['success_rate']:.0f} %" for s in row["evaluation"]["per_seed"])


BY_SEED: dict[str, Column] = {
    "steps per seed": of("steps", whole),
    "return of each seed over 256 episodes": lambda row: listed(returns_of(row)),
    **MIDDLE,
    "success": _by_seed,
    "steps/s, all seeds": of("steps_per_second", short),
}


def _level(row: dict[str, Any]) -> str:
    return row["id"].removeprefix("Grid-").removesuffix("-v0")


@table("runs-memory", f"{RUNS}/memory.json")
def memory(rows: list[dict[str, Any]]) -> Table:
    """With a memory and without."""
    names = {"ppo-rnn": "recurrent PPO", "ppo": "PPO", "ppo-trxl": "PPO with a transformer"}
    names |= {"pqn-rnn": "recurrent PQN", "pqn": "PQN", "r2d2": "R2D2"}
    learner: Column = lambda row: names[row["algorithm"]]  # noqa: E731
    return tabulated(rows, {"level": _level, "learner": learner, **BY_SEED})


@table("runs-rl2", f"{RUNS}/rl2.json")
def rl2(rows: list[dict[str, Any]]) -> Table:
    """The episodes of trials under held-out tasks: means over seeds, and the rise of each."""

    def seeds(row: dict[str, Any]) -> list[dict[str, Any]]:
        return row["evaluation"]["per_seed"]

    def at(episode: int, what: str, text: Column) -> Column:
        return lambda row: text(
            statistics.fmean(seed["by_episode"][what][episode] for seed in seeds(row))
        )

    def sums(row: dict[str, Any]) -> str:
        names = ("mean", "median", "p20")
        return listed(statistics.fmean(seed["trials"][n] for seed in seeds(row)) for n in names)

    def rises(row: dict[str, Any]) -> str:
        known = (seed["rise"] for seed in seeds(row))
        return ", ".join(f"{rise['mean']:.3f} ± {rise['error']:.3f}" for rise in known)

    success = [at(episode, "success_rate", percent) for episode in (0, 9)]
    columns: dict[str, Column] = {
        "run": lambda row: row.get("run", "`rl2`"),
        "seeds": lambda row: str(len(seeds(row))),
        "steps": of("steps", whole),
        **{name: at(episode, "mean", fixed(3)) for name, episode in EPISODES.items()},
        "10th minus 1st, each seed": rises,
        "success, 1st to 10th": lambda row: ", ".join(share(row) for share in success),
        "sum of ten: mean, median, 20th percentile": sums,
        "steps/s": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-exploration", f"{RUNS}/exploration.json")
def exploration(rows: list[dict[str, Any]]) -> Table:
    """With a bonus and without."""
    flags: Column = lambda row: f"`{_flags(row).partition(' ')[2]}`"  # noqa: E731
    return tabulated(rows, {"level": _level, "`jaxenvs train ID` ...": flags, **BY_SEED})


def passes(row: dict[str, Any], least: float, seed: int = 0) -> int | None:
    """Steps at the first kept point of the curve where a seed's return is at least `least`."""
    points = zip(row["curve"]["steps"], row["curve"]["returns"], strict=True)
    known = ((steps, found[seed]) for steps, found in points if found[seed] is not None)
    return next((steps for steps, found in known if found >= least), None)


def _option(row: dict[str, Any]) -> str:
    return "PPO" if row["algorithm"] == "ppo" else f"`--algo {row['algorithm']}`"


@table("runs-doorkey", f"{RUNS}/doorkey_8x8.json")
def doorkey(rows: list[dict[str, Any]]) -> Table:
    """DoorKey-8x8 by PPO: when the last seed has learned it."""

    def last(row: dict[str, Any]) -> int | None:
        found = [passes(row, 0.95, seed) for seed in range(row["seeds"])]
        known = [steps for steps in found if steps is not None]
        return max(known) if len(known) == len(found) else None

    def minutes(row: dict[str, Any]) -> str:
        steps = last(row)
        if steps is None:
            return ""
        after = row["seeds"] * (row["steps"] - steps) / row["steps_per_second"]
        return f"{(row['seconds'] - after) / 60:.1f}"

    columns = {
        **COMMAND,
        "return of each seed": _returns,
        **MIDDLE,
        "steps until every seed's training return has been at 0.95": lambda row: whole(last(row)),
        "minutes until then, all seeds": minutes,
        "steps/s, all seeds": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-q-doorkey", f"{RUNS}/q_learning.json")
def q_doorkey(rows: list[dict[str, Any]]) -> Table:
    """DoorKey by action values and by PPO."""

    def first(row: dict[str, Any]) -> str:
        return ", ".join(whole(passes(row, 0.9, seed)) or "-" for seed in range(row["seeds"]))

    columns = {
        "DoorKey": lambda row: f"{row['id'].split('-')[2]} {_option(row)}",
        "steps": of("steps", whole),
        "return of each seed": lambda row: listed(returns_of(row)),
        "success": successes,
        "training return first at 0.9": first,
        "steps/s, all seeds": of("steps_per_second", short),
    }
    return tabulated([row for row in rows if "DoorKey" in row["id"]], columns)


@table("runs-q-craft", f"{RUNS}/q_learning.json", f"{RUNS}/craft.json")
def q_craft(rows: list[dict[str, Any]], ppo: list[dict[str, Any]]) -> Table:
    """Craft by action values; PPO's curve beside them, the mean of its seeds."""

    def training(row: dict[str, Any]) -> str:
        found = [near(row, steps)[1] for steps in (100_000, 250_000, 500_000)]
        return listed(map(_mean, found), 2)

    known = [row for row in rows if "Craft" in row["id"]]
    ours = [{**ppo[0], "algorithm": "ppo"}]
    ends: Callable[[Column], Column] = lambda cell: (  # noqa: E731 - PPO's run went on
        lambda row: "" if row["algorithm"] == "ppo" else cell(row)
    )
    columns = {
        "Craft-Classic-Ids": _option,
        "steps": ends(of("steps", whole)),
        "training return near 100 k, 250 k, 500 k": training,
        "evaluation of each seed": ends(lambda row: listed(returns_of(row), 2)),
        **{name: ends(cell) for name, cell in MIDDLE.items()},
        "steps/s": ends(of("steps_per_second", short)),
    }
    return tabulated([*known, *ours], columns)


@table("runs-few-steps", f"{RUNS}/few_steps.json")
def few_steps(rows: list[dict[str, Any]]) -> Table:
    """Pendulum by learners from a replay buffer."""

    def first(row: dict[str, Any]) -> str:
        found = [passes(row, -200.0, seed) for seed in range(row["seeds"])]
        known = sorted(steps for steps in found if steps is not None)
        return f"{whole(known[0])} to {whole(known[-1])} ({len(known)} seeds)" if known else ""

    columns = {
        **COMMAND,
        "steps": of("steps", whole),
        "return of each seed": lambda row: listed(returns_of(row), 0),
        **MIDDLE,
        "training return first at -200": first,
        "steps/s, all seeds": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-classic", f"{RUNS}/classic.json")
def classic(rows: list[dict[str, Any]]) -> Table:
    """CartPole by seed."""
    (row,) = rows
    columns = {
        "seed": str,
        "return over 256 episodes after the run (500 is the most)": lambda seed: fixed(0)(
            returns_of(row)[seed]
        ),
        "steps at which the mean of the latest 200 episodes has passed 475": lambda seed: whole(
            passes(row, 475, seed)
        ),
    }
    return tabulated(range(row["seeds"]), columns)


@table("runs-elsewhere", f"{RUNS}/elsewhere/*.json")
def elsewhere(runs: list[dict[str, Any]]) -> Table:
    """Policies that were trained here, in the packages whose rules are reproduced."""

    def returns(name: str) -> Column:
        def cell(line: tuple[dict[str, Any], dict[str, Any]]) -> str:
            figures = line[1][name]
            return f"{figures['mean_return']:.3f} ± {figures['error']:.3f}"

        return cell

    columns: dict[str, Column] = {
        "trained in": lambda line: f"`{line[0]['id']}`",
        "by, steps": lambda line: f"{line[0]['algorithm']}, {short(line[0]['steps'])}",
        "return here": returns("here"),
        "package": lambda line: f"{line[0]['package']} {line[0]['versions'][line[0]['package']]}",
        "return there": returns("there"),
        "apart, in standard errors": lambda line: f"{abs(line[1]['standard_errors_apart']):.1f}",
    }
    return tabulated([(run, seed) for run in runs for seed in run["seeds"]], columns)
