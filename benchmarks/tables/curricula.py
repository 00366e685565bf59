"""Tables of `curricula.py` and `level_scores.py`: curricula over mazes, and scores of levels."""

import re
import statistics
from typing import Any

from .registry import RESULTS, RUNS, of_rows, table
from .text import Column, Table, fixed, of, short, tabulated, whole

# Algorithm -> flag that the table shows even if the command omits it, because it is the default.
USUAL = {"plr": "--score maxmc"}


def _worst(name: str) -> Column:
    """Return a column: mean and range over the seeds of a figure of `jaxenvs eval --worst`."""

    def text(row: dict[str, Any]) -> str:
        found = [seed["worst"][name] for seed in row["evaluations"]["worst"]["seeds"]]
        return f"{statistics.fmean(found):.3f} ({min(found):.3f} to {max(found):.3f})"

    return text


def _learner(row: dict[str, Any]) -> str:
    """Format a learner: its algorithm and its flags `--score`, `--edits` and `--replay-prob`."""
    name = row["algorithm"]
    if name == "ppo":
        length = re.findall(r"--rollout-steps (\d+)", row["command"])[0]
        return f"`ppo` (domain randomisation), rollouts of {length} steps"
    given = re.findall(r"--(?:score|edits|replay-prob) \S+", row["command"])
    usual = USUAL.get(name, "")
    known = [usual] if usual and not any(flag.startswith("--score") for flag in given) else []
    return f"`{' '.join([name, *known, *given])}`"


of_rows(
    "runs-curricula",
    f"{RUNS}/curricula.json",
    {
        "learner": _learner,
        "seeds": of("seeds", whole),
        "steps of each": of("steps", short),
        "return": lambda row: fixed(3)(row["evaluation"]["mean_return"]),
        "success": _worst("mean"),
        "worst 10 %": _worst("worst_10_percent"),
        "worst 1 %": _worst("worst_1_percent"),
        "steps/s of a run": of("steps_per_second", short),
    },
)


@table("level-scores", f"{RESULTS}/level_scores.json")
def level_scores(given: dict[str, Any]) -> Table:
    """Build a table of how well scores of levels (such as `maxmc`) predict regret and success.

    It has a row for each score and number of training steps. The learner `plr` replays the levels
    with the highest scores.
    """
    rows = sorted(given["rows"], key=lambda row: row["steps"])
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        for kind, found in row["scores"].items():
            groups.setdefault((kind, row["steps"]), []).append(found)
    scores = list(rows[0]["scores"]) if rows else []
    ordered = sorted(groups, key=lambda group: (scores.index(group[0]), group[1]))

    def mean(name: str, digits: int = 2) -> Column:
        def text(group: tuple[str, int]) -> str:
            known = [found[name] for found in groups[group] if found[name] is not None]
            if not known:
                return "all scores equal"
            low, high = fixed(digits)(min(known)), fixed(digits)(max(known))
            return f"{fixed(digits)(statistics.fmean(known))} ({low} to {high})"

        return text

    columns: dict[str, Column] = {
        "score": lambda group: f"`{group[0]}`" if "," not in group[0] else group[0],
        "steps": lambda group: short(group[1]),
        "correlation with regret": mean("regret"),
        "correlation with success": mean("success"),
        "regret of the top 10 %": mean("regret_of_top", 3),
        "of these unsolvable": mean("unsolvable_of_top", 3),
    }
    return tabulated(ordered, columns)
