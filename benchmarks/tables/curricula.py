"""Table of the curricula over mazes that `benchmarks/curricula.py` compares on a CPU."""

import re
import statistics
from typing import Any

from .registry import RUNS, of_rows
from .text import Column, fixed, of, short, whole

# Algorithm -> flag that the table shows even if the command omits it, because it is the default.
USUAL = {"plr": "--score maxmc"}


def _worst(name: str) -> Column:
    """Return a column: mean and range over the seeds of a figure of `jaxenvs eval --worst`."""

    def text(row: dict[str, Any]) -> str:
        found = [seed["worst"][name] for seed in row["evaluations"]["worst"]["seeds"]]
        return f"{statistics.fmean(found):.3f} ({min(found):.3f} to {max(found):.3f})"

    return text


def _learner(row: dict[str, Any]) -> str:
    """Format a learner: its algorithm, and the flags by which it differs from the others."""
    name = row["algorithm"]
    if name == "ppo":
        return "`ppo` (domain randomisation)"
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
        "steps/s, all seeds": of("steps_per_second", short),
    },
)
