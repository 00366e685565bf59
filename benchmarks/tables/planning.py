"""Tables of recorded runs of learners that plan or search, on puzzles and with learned models."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .registry import RUNS, table
from .runs import COMMAND, MIDDLE, returns_of
from .text import Column, Table, fixed, listed, of, percent, short, tabulated, whole

# Two searches by A* are recorded: one with the learned heuristic, one whose heuristic is the
# puzzle's own lower bound on the cost. A result of the second search is stored under this name, in
# which `{}` is the name of the same result of the first search.
OWN = "{}_with_own_bound"


@table("runs-eight", f"{RUNS}/puzzles.json")
def eight(rows: list[dict[str, Any]]) -> Table:
    """Build a table that compares AlphaZero, with and without search, and PPO on the 8-puzzle."""
    tiles = (row for row in rows if "3x3" in row["id"])
    alphazero, ppo = (row for row in tiles if row["algorithm"] in ("alphazero", "ppo"))
    evaluation = alphazero["evaluation"]
    lines = [
        (f"Gumbel AlphaZero, 32 simulations, {acted(evaluation)}", evaluation),
        ("the same networks without search", evaluation["without_search"]),
        ("PPO", ppo["evaluation"]),
    ]

    def solved(line: tuple[str, dict[str, Any]]) -> str:
        return ", ".join(percent(seed["success_rate"]) for seed in line[1]["per_seed"])

    columns = {
        f"8-puzzle, 10 random moves from solved, {whole(ppo['steps'])} steps per seed": (
            lambda line: line[0]
        ),
        "solved, each seed": solved,
        "moves, unsolved ones counted as 180": lambda line: fixed(1)(line[1]["mean_length"]),
    }
    return tabulated(lines, columns)


class _Seed(NamedTuple):
    """Recorded results of one seed of a run on a puzzle."""

    run: dict[str, Any]  # line of the JSON table
    greedy: dict[str, Any]  # evaluation without search
    searched: dict[str, Any]  # evaluation with search, see `evaluation.heuristic.compare`


def _seeds(rows: list[dict[str, Any]], algorithm: str) -> list[_Seed]:
    """Return the seeds of all runs of a learner."""
    return [
        _Seed(row, greedy, searched)
        for row in rows
        if row["algorithm"] == algorithm
        for greedy, searched in zip(
            row["evaluation"]["greedy"],
            row["search"].get("per_seed", [row["search"]]),
            strict=True,
        )
    ]


def _puzzle(seed: _Seed) -> str:
    """Return the puzzle's id, and the number of random moves if levels have a fixed number."""
    scramble = re.search(r" scramble=(\d+)", seed.run["command"])
    moves = f", {scramble[1]} random moves" if scramble else ""
    return f"`{seed.run['id']}`{moves}"


def _lengths(seed: _Seed) -> str:
    """Return the mean length of solutions, the least possible one, and their ratio."""
    found = seed.searched
    above = 100 * (found["ratio"] - 1)
    return f"{found['mean_cost']:.3f}, {found['least_mean_cost']:.3f}: {above:.1f} %"


# First and last columns of tables with a row for each seed of a learner on puzzles.
_TRAINED: dict[str, Callable[[_Seed], str]] = {
    "puzzle": _puzzle,
    "seed": lambda seed: str(seed.greedy["seed"]),
    "boards trained on": lambda seed: f"{seed.run['steps'] / 1e6:.2f} M",
    "solved without search": lambda seed: percent(seed.greedy["success_rate"]),
}
_SOLVED: dict[str, Callable[[_Seed], str]] = {
    "mean length, the least possible: above it": _lengths,
    "in the least number of moves": lambda seed: percent(seed.searched["optimal"]),
}


@table("runs-davi", f"{RUNS}/puzzles.json")
def davi(rows: list[dict[str, Any]]) -> Table:
    """Build a table of A* with a learned heuristic, one row for each puzzle and seed."""
    found = _seeds([row for row in rows if " --q" not in row["command"]], "davi")

    def both(name: str, text: Column) -> Callable[[_Seed], str]:
        return lambda seed: "; ".join(text(seed.searched[n]) for n in (name, OWN.format(name)))

    columns = {
        **_TRAINED,
        "solved by A*": lambda seed: percent(seed.searched["solved"]),
        **_SOLVED,
        "boards expanded per search; with the built-in heuristic": both(
            "expanded_per_board", fixed(0)
        ),
        "processor seconds of all searches; with the built-in heuristic": both(
            "processor_seconds", fixed(1)
        ),
    }
    return tabulated(found, columns)


@table("runs-last-move", f"{RUNS}/puzzles.json")
def last_moves(rows: list[dict[str, Any]]) -> Table:
    """Build a table of beam search with a learned policy, one row for each puzzle and seed."""
    columns = {
        **_TRAINED,
        "beam": lambda seed: str(seed.searched["width"]),
        "solved by beam search": lambda seed: percent(seed.searched["solved"]),
        **_SOLVED,
        "processor seconds of all searches": lambda seed: fixed(1)(
            seed.searched["processor_seconds"]
        ),
    }
    return tabulated(_seeds(rows, "last-move"), columns)


@table("runs-muzero", f"{RUNS}/muzero.json")
def muzero(rows: list[dict[str, Any]]) -> Table:
    """Build a table that compares MuZero with learners that do not search.

    MuZero was evaluated with and without search.
    """
    inside = {"greedy search": "greedy_search", "without search": "without_search"}

    def returns(name: str) -> Column:
        def listed_of(row: dict[str, Any]) -> str:
            found = row["evaluation"].get(name)
            return listed(seed["mean_return"] for seed in found["per_seed"]) if found else ""

        return listed_of

    columns: dict[str, Column] = {
        **COMMAND,
        "steps per seed": of("steps", whole),
        "actions": lambda row: acted(row["evaluation"]),
        "return of each seed": lambda row: listed(returns_of(row)),
        **MIDDLE,
        **{
            words: returns(name)
            for words, name in inside.items()
            if any(name in row["evaluation"] for row in rows)
        },
        "steps/s, all seeds": of("steps_per_second", short),
    }
    return tabulated(rows, columns)


@table("runs-search", f"{RUNS}/search/*.json")
def searches(runs: list[dict[str, Any]]) -> Table:
    """Build a table of evaluations of one trained run, with and without search.

    `runs` are the files that `jaxenvs eval --json` wrote.
    """
    first = runs[0]  # all files belong to one trained run
    kept = sorted(runs, key=lambda run: (run["policy"]["simulations"], acted(run)), reverse=True)

    def returned(run: dict[str, Any]) -> str:
        return listed(seed["here"]["mean_return"] for seed in run["seeds"])

    columns: dict[str, Column] = {
        f"`{first['id']}`, {first['algorithm']}, {whole(first['steps'])} steps": acted,
        "simulations": lambda run: str(run["policy"]["simulations"]),
        "episodes": lambda run: str(run["episodes"]),
        "return": returned,
        "standard error": lambda run: listed(seed["here"]["error"] for seed in run["seeds"]),
        "length": lambda run: fixed(1)(run["seeds"][0]["here"]["mean_length"]),
    }
    return tabulated(kept, columns)


def acted(evaluation: dict[str, Any]) -> str:
    """Describe how a policy chose actions: `greedy`, `sampled`, `greedy search` ...

    Evaluations in old files have no entry `policy`. There, a policy with a search acted greedily,
    and a policy without a search sampled its actions.
    """
    searched = "without_search" in evaluation
    older = {"search": searched, "actions": "greedy" if searched else "sampled"}
    policy = evaluation.get("policy", older)
    return f"{policy['actions']} search" if policy["search"] else policy["actions"]


@table("runs-worlds", f"{RUNS}/puzzles.json")
def worlds(rows: list[dict[str, Any]]) -> Table:
    """Build a table: how well plans, found by search in learned models, solve the real puzzles."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["algorithm"] == "world":
            runs.setdefault(row["id"], []).append(row)

    def searched(name: str, text: Column) -> Column:
        return lambda runs: _span([run["search"][name] for run in runs], text)

    def first(text: Column) -> Column:
        return lambda runs: text(runs[0]["search"])

    columns: dict[str, Column] = {
        "learned world of": lambda runs: _levels(runs[0]),
        "seeds": lambda runs: str(len(runs)),
        "transitions predicted": lambda runs: _span(
            [_predicted(run["evaluation"]["greedy"][0]) for run in runs],
            lambda share: f"{100 * share:.2f} %",
        ),
        "search": first(lambda found: f"{found['algorithm']}, weight {found['weight']:g}"),
        "boards": first(lambda found: f"{found['boards']}"),
        "states at most": first(lambda found: whole(found["budget"])),
        "plans found": searched("plans", percent),
        "right in the true puzzle": searched("solved", percent),
        "cost above the least": searched("ratio", lambda ratio: f"{100 * (ratio - 1):.1f} %"),
        "optimal": searched("optimal", percent),
        "states kept per board": searched("nodes_per_board", lambda count: whole(round(count))),
        "states per processor second": searched("nodes_per_processor_second", whole),
    }
    return tabulated(list(runs.values()), columns)


def _predicted(seed: dict[str, Any]) -> float:
    """Return the fraction of transitions that a seed's model predicted.

    Old files store the fraction under the name `foretold`.
    """
    return seed["predicted"] if "predicted" in seed else seed["foretold"]


def _levels(row: dict[str, Any]) -> str:
    """Return the puzzle's id, followed by its level settings (`--set`) unless they are defaults."""
    *_, chosen = row["command"].partition("--set ")
    return row["id"] + (f", {chosen.split()[0]}" if chosen else "")


def _span(values: Sequence[Any], text: Column) -> str:
    """Format the range of values as `low to high`, or as one value if both texts are equal.

    `text` maps a value to its text.
    """
    low, high = (text(bound(values)) for bound in (min, max))
    return low if low == high else f"{low} to {high}"
