"""Tables of the learners' recorded runs in `baselines/results`."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from .registry import REFERENCE, RUNS, of_rows, table
from .text import Column, Table, fixed, listed, of, percent, short, tabulated, whole

# With this many seeds or more, the seeds' returns are summarised instead of listed one by one.
MANY = 10
# Column heading -> index (from 0) of the episode in an RL^2 trial, which has ten episodes.
EPISODES = {"1st": 0, "2nd": 1, "3rd": 2, "5th": 4, "10th episode": 9}
GOOD = 0.9  # smallest return that counts as good in the summary of many seeds

COMMAND: dict[str, Column] = {"`jaxenvs train` ...": lambda row: f"`{_flags(row)}`"}
STEPS, SPEED = of("steps", whole), of("steps_per_second", short)


# Setup of Craft in which a run was trained and evaluated.
SETUP: dict[str, Column] = {"setup": of("setup")}


def _flags(row: dict[str, Any]) -> str:
    return row["command"].removeprefix("jaxenvs train ")


def returns_of(row: dict[str, Any]) -> list[float]:
    """Return each seed's evaluation return or, if the run was not evaluated, training return.

    A seed's training return is the mean over its last training episodes.
    """
    if row["evaluation"]:
        return [seed["mean_return"] for seed in row["evaluation"]["per_seed"]]
    return row["last_returns"]


def shown_returns(decimals: int = 3) -> Column:
    """Return a column whose cells list the returns of a run's seeds."""
    return lambda row: listed(returns_of(row), decimals)


def _middle(row: dict[str, Any]) -> str:
    known = row["evaluation"] or {}
    if "interval" not in known:
        return ""  # the run has a single seed, or was not evaluated
    low, high = known["interval"]
    return f"{known['interquartile_mean']:.3f} ({low:.3f} to {high:.3f})"


MIDDLE: dict[str, Column] = {"IQM (95 %)": _middle}


def successes(row: dict[str, Any]) -> str:
    """Return a text with the success rates of a run's seeds; equal rates are listed once."""
    shares = [seed["success_rate"] for seed in row["evaluation"]["per_seed"]]
    return ", ".join(percent(share) for share in dict.fromkeys(shares)) if shares else ""


def _success(row: dict[str, Any]) -> str:
    return percent((row["evaluation"] or {}).get("success_rate"))


def _returns(row: dict[str, Any]) -> str:
    found = returns_of(row)
    mark = "" if row["evaluation"] else " (a)"
    if len(found) < MANY:
        return listed(found) + mark
    good, others = [x for x in found if x >= GOOD], [x for x in found if x < GOOD]
    text = f"{len(good)} of {len(found)} at {min(good):.3f} to {max(good):.3f}"
    return text + (f", the others {listed(others)}" if others else "") + mark


def _steps(row: dict[str, Any]) -> str:
    """Format the steps per seed: `2.00 M`, or `1.50 M of 2 M` if the run ended early."""
    made, asked = row["steps"], row["steps_asked"]
    text = f"{made / 1e6:.2f} M"
    return text if made >= asked else f"{text} of {asked / 1e6:g} M"


def _made_on(row: dict[str, Any]) -> str:
    return "1 core" if row["device"].startswith("one core") else row["device"].split()[-1]


of_rows(
    "runs-families",
    f"{RUNS}/families.json",
    {
        **COMMAND,
        "steps per seed": _steps,
        "return of each seed": _returns,
        **MIDDLE,
        "success": _success,
        "made on": _made_on,
        "steps/s, all seeds": SPEED,
    },
)


def _mean_return(row: dict[str, Any]) -> str:
    """Format the mean return over seeds.

    Learners that are judged by their plans have no return. Their cell is a link to the learner's
    page.
    """
    on_page = f"[on its page]({row['option']}.md)"
    return on_page if row["return"] is None else fixed(3)(row["return"])


LEARNERS: dict[str, Column] = {
    "option": of("option", "`{}`".format),
    "learner": of("learner"),
    "ids with a recorded run": of("ids"),
    "its run with the most seeds": of("id", "`{}`".format),
    "observation": of("observation"),
    "seeds": of("seeds"),
    "steps of each": of("steps", short),
    "mean return": _mean_return,
    "made on": of("made"),
}
table("runs-learners", REFERENCE)(lambda found: tabulated(found["learners"], LEARNERS))


@table("runs-retries", f"{RUNS}/retries.json", REFERENCE)
def retries(rows: list[dict[str, Any]], reference: dict[str, Any]) -> Table:
    """Build a table of the ids that PPO learned in a second attempt (`reference --retry`).

    An id gets a second attempt if no recorded run on it has learned. The note below the table says
    how many of the second attempts have learned.
    """
    learned = [row for row in rows if _has_learned(row, reference)]
    learned.sort(key=lambda row: (row["id"].split("-")[0], row["id"]))
    columns: dict[str, Column] = {
        **COMMAND,
        "steps": STEPS,
        "return": shown_returns(),
        "random play": lambda row: fixed(3)(reference["random"][row["id"]]["return"]),
        "success": _success,
        "steps/s": SPEED,
    }
    note = f"{len(learned)} of {len(rows)} ids have learned; the others are left out."
    return tabulated(learned, columns)._replace(note=note)


@table("runs-short", f"{RUNS}/short.json", REFERENCE)
def short_runs(rows: list[dict[str, Any]], reference: dict[str, Any]) -> str:
    """Return a sentence that counts the short runs (`reference --train`) that have learned."""
    learned = [row for row in rows if _has_learned(row, reference)]
    return f"In so few steps PPO has learned {len(learned)} of {len(rows)} ids."


def _has_learned(row: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Return whether a recorded run has learned, according to `reference.json`."""
    known = reference["trained"][row["id"]]
    return next(run["learned"] for run in known if run["command"] == row["command"])


def near(row: dict[str, Any], steps: int) -> tuple[int, list[float | None]]:
    """Return the point (steps, returns) of the learning curve that is nearest to `steps`."""
    points = zip(row["curve"]["steps"], row["curve"]["returns"], strict=True)
    return min(points, key=lambda point: abs(point[0] - steps))


def _mean(numbers: Iterable[float | None]) -> float:
    return statistics.mean(number for number in numbers if number is not None)


def _along(most: int, marks: Iterable[int]) -> dict[str, Column]:
    """Return columns of a run's results, with a column for each number of steps in `marks`.

    The column of a mark shows the mean training return over seeds after that number of steps. Its
    cell is empty if the run ended more than 1 % earlier. `most` is the highest possible return.
    """

    def at(steps: int) -> Column:
        def mean(row: dict[str, Any]) -> str:
            return fixed(2)(_mean(near(row, steps)[1])) if steps <= 1.01 * row["steps"] else ""

        return mean

    def evaluated(row: dict[str, Any]) -> str:
        return listed(returns_of(row), 2) + ("" if row["evaluation"] else " (a)")

    return {
        **COMMAND,
        **SETUP,
        **{short(steps): at(steps) for steps in marks},
        "evaluation of each seed": evaluated,
        **MIDDLE,
        f"of {most}": lambda row: percent(_mean(returns_of(row)) / most),
        "steps/s": SPEED,
    }


_K = 1_000
for _name, _file, _most, _marks in (
    ("runs-craft", "craft", 22, (100, 250, 500, 750, 1000)),
    ("runs-craft-full", "craft_full", 226, (100, 250, 500, 1000, 2000, 5000)),
    ("runs-dyna", "dyna", 22, (50, 100, 200, 300)),
):
    of_rows(_name, f"{RUNS}/{_file}.json", _along(_most, [_K * mark for mark in _marks]))


def _by_seed(row: dict[str, Any]) -> str:
    return ", ".join(f"{100 * s['success_rate']:.0f} %" for s in row["evaluation"]["per_seed"])


BY_SEED: dict[str, Column] = {
    "steps per seed": STEPS,
    "return of each seed over 256 episodes": shown_returns(),
    **MIDDLE,
    "success": _by_seed,
    "steps/s, all seeds": SPEED,
}
LEVEL: dict[str, Column] = {
    "level": lambda row: row["id"].removeprefix("Grid-").removesuffix("-v0")
}
ALGORITHMS = {"ppo-rnn": "recurrent PPO", "ppo": "PPO", "ppo-trxl": "PPO with a transformer"}
ALGORITHMS |= {"pqn-rnn": "recurrent PQN", "pqn": "PQN", "r2d2": "R2D2"}
of_rows(
    "runs-memory",
    f"{RUNS}/memory.json",
    {**LEVEL, "learner": of("algorithm", ALGORITHMS.__getitem__), **BY_SEED},
)
# Last part of a dataset's name -> name of the demonstrator in tables.
DEMONSTRATORS = {"oracle-v0": "the oracle", "bot-v0": "BabyAI's bot"}


def _demonstrator(row: dict[str, Any]) -> str:
    return DEMONSTRATORS[row["command"].partition(" --demos ")[2].split()[0].rpartition("/")[2]]


of_rows(
    "runs-demos",
    f"{RUNS}/demos.json",
    {
        "level": lambda row: f"`{row['id']}`",
        "1,000 episodes of": _demonstrator,
        "return of each seed over 512 episodes": shown_returns(),
        **MIDDLE,
        "success": _by_seed,
        "demonstrated steps until the end": STEPS,
    },
)
of_rows(
    "runs-exploration",
    f"{RUNS}/exploration.json",
    {
        **LEVEL,
        "`jaxenvs train ID` ...": lambda row: f"`{_flags(row).partition(' ')[2]}`",
        **BY_SEED,
    },
)


def _seeds(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row["evaluation"]["per_seed"]


def _at_episode(episode: int, what: str, text: Column) -> Column:
    """Return a column: the mean over seeds of figure `what` in one episode of an RL^2 trial.

    `episode` is the number of the episode in the trial, counted from 0.
    """
    return lambda row: text(
        statistics.fmean(seed["by_episode"][what][episode] for seed in _seeds(row))
    )


def _sums(row: dict[str, Any]) -> str:
    names = ("mean", "median", "p20")
    return listed(statistics.fmean(seed["trials"][n] for seed in _seeds(row)) for n in names)


def _rises(row: dict[str, Any]) -> str:
    known = (seed["rise"] for seed in _seeds(row))
    return ", ".join(f"{rise['mean']:.3f} ± {rise['error']:.3f}" for rise in known)


SUCCESS = [_at_episode(episode, "success_rate", percent) for episode in (0, 9)]
of_rows(
    "runs-rl2",
    f"{RUNS}/rl2.json",
    {
        "run": lambda row: row.get("run", "`rl2`"),
        "seeds": lambda row: str(len(_seeds(row))),
        "steps": STEPS,
        **{name: _at_episode(episode, "mean", fixed(3)) for name, episode in EPISODES.items()},
        "10th minus 1st, each seed": _rises,
        "success, 1st to 10th": lambda row: ", ".join(share(row) for share in SUCCESS),
        "sum of ten: mean, median, 20th percentile": _sums,
        "steps/s": SPEED,
    },
)


def passes(row: dict[str, Any], least: float, seed: int = 0) -> int | None:
    """Return the number of steps after which a seed's training return first is >= `least`.

    Return None if the training return never reaches `least`.
    """
    points = zip(row["curve"]["steps"], row["curve"]["returns"], strict=True)
    known = ((steps, found[seed]) for steps, found in points if found[seed] is not None)
    return next((steps for steps, found in known if found >= least), None)


def _all_passed(row: dict[str, Any]) -> int | None:
    """Return the number of steps by which every seed has reached a training return of 0.95.

    The result is None if a seed never reached 0.95.
    """
    found = [passes(row, 0.95, seed) for seed in range(row["seeds"])]
    return None if None in found else max(steps for steps in found if steps is not None)


def _minutes(row: dict[str, Any]) -> str:
    steps = _all_passed(row)
    if steps is None:
        return ""
    after = row["seeds"] * (row["steps"] - steps) / row["steps_per_second"]
    return f"{(row['seconds'] - after) / 60:.1f}"


of_rows(
    "runs-doorkey",
    f"{RUNS}/doorkey_8x8.json",
    {
        **COMMAND,
        "return of each seed": _returns,
        **MIDDLE,
        "steps until every seed's training return has been at 0.95": lambda row: whole(
            _all_passed(row)
        ),
        "minutes until then, all seeds": _minutes,
        "steps/s, all seeds": SPEED,
    },
)


def _option(row: dict[str, Any]) -> str:
    return "PPO" if row["algorithm"] == "ppo" else f"`--algo {row['algorithm']}`"


@table("runs-q-doorkey", f"{RUNS}/q_learning.json")
def q_doorkey(rows: list[dict[str, Any]]) -> Table:
    """Build a table that compares value-based learners with PPO on DoorKey."""

    def first(row: dict[str, Any]) -> str:
        return ", ".join(whole(passes(row, 0.9, seed)) or "-" for seed in range(row["seeds"]))

    columns = {
        "DoorKey": lambda row: f"{row['id'].split('-')[2]} {_option(row)}",
        "steps": STEPS,
        "return of each seed": shown_returns(),
        "success": successes,
        "training return first at 0.9": first,
        "steps/s, all seeds": SPEED,
    }
    return tabulated([row for row in rows if "DoorKey" in row["id"]], columns)


@table("runs-q-craft", f"{RUNS}/q_learning.json", f"{RUNS}/craft.json")
def q_craft(rows: list[dict[str, Any]], ppo: list[dict[str, Any]]) -> Table:
    """Build a table of the returns of value-based learners and PPO on Craft.

    PPO's cells about the end of its run are empty, because that run is longer than the other runs.
    """

    def training(row: dict[str, Any]) -> str:
        found = [near(row, steps)[1] for steps in (100_000, 250_000, 500_000)]
        return listed(map(_mean, found), 2)

    known = [row for row in rows if "Craft" in row["id"]]
    ours = [{**ppo[0], "algorithm": "ppo"}]
    ends: Callable[[Column], Column] = lambda cell: (  # noqa: E731 - empty for PPO, whose run is longer
        lambda row: "" if row["algorithm"] == "ppo" else cell(row)
    )
    columns = {
        "Craft-Classic-Ids": _option,
        **SETUP,
        "steps": ends(STEPS),
        "training return near 100 k, 250 k, 500 k": training,
        "evaluation of each seed": ends(shown_returns(2)),
        **{name: ends(cell) for name, cell in MIDDLE.items()},
        "steps/s": ends(SPEED),
    }
    return tabulated([*known, *ours], columns)


def _first_at(row: dict[str, Any]) -> str:
    """Format when seeds first reach a training return of -200: `FIRST to LAST (N seeds)`.

    N seeds reach -200: the earliest of them after FIRST steps, and the latest after LAST steps.
    """
    found = [passes(row, -200.0, seed) for seed in range(row["seeds"])]
    known = sorted(steps for steps in found if steps is not None)
    return f"{whole(known[0])} to {whole(known[-1])} ({len(known)} seeds)" if known else ""


of_rows(
    "runs-few-steps",
    f"{RUNS}/few_steps.json",
    {
        **COMMAND,
        "steps": STEPS,
        "return of each seed": shown_returns(0),
        **MIDDLE,
        "training return first at -200": _first_at,
        "steps/s, all seeds": SPEED,
    },
)


@table("runs-classic", f"{RUNS}/classic.json")
def classic(rows: list[dict[str, Any]]) -> Table:
    """Build a table of the run on CartPole, one row for each seed."""
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


@table("runs-upstream", f"{RUNS}/upstream/*.json")
def upstream(runs: list[dict[str, Any]]) -> Table:
    """Build a table that compares the returns of trained policies in two implementations.

    Each policy was trained in an environment of jaxenvs. It was evaluated twice: in this
    environment, and in the package that jaxenvs reproduces, such as Gymnasium or Craftax.
    """

    def returns(name: str) -> Column:
        return lambda line: f"{line[1][name]['mean_return']:.3f} ± {line[1][name]['error']:.3f}"

    columns: dict[str, Column] = {
        "trained in": lambda line: f"`{line[0]['id']}`",
        # Evaluations of Craft that name no setup were made with masks.
        "setup": lambda line: (
            line[0].get("setup", {}).get("trained", "masked") if "Craft" in line[0]["id"] else ""
        ),
        "by, steps": lambda line: f"{line[0]['algorithm']}, {short(line[0]['steps'])}",
        "return here": returns("here"),
        "package": lambda line: f"{line[0]['package']} {line[0]['versions'][line[0]['package']]}",
        "return there": returns("there"),
        "apart, in standard errors": lambda line: f"{abs(line[1]['standard_errors_apart']):.1f}",
    }
    return tabulated([(run, seed) for run in runs for seed in run["seeds"]], columns)
