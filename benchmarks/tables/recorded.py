"""The table of learners with a recorded run of each."""

from typing import Any

from .registry import REFERENCE, table
from .text import Column, Table, fixed, of, short, tabulated

NONE = "none exists"


@table("runs-learners", REFERENCE)
def learners(reference: dict[str, Any]) -> Table:
    """A row for each learner: its run with the most seeds, or that there is none."""
    columns: dict[str, Column] = {
        "option": lambda row: f"`{row['option']}`",
        "learner": of("learner"),
        "ids with a recorded run": of("ids"),
        "its run with the most seeds": lambda row: f"`{row['id']}`" if row["ids"] else NONE,
        "observation": of("observation"),
        "seeds": of("seeds"),
        "steps of each": of("steps", short),
        "mean return": _mean_return,
        "made on": of("made"),
    }
    return tabulated(reference["learners"], columns)


def _mean_return(row: dict[str, Any]) -> str:
    """The mean over the seeds; a learned heuristic has plans instead."""
    if not row["ids"]:
        return ""
    return "see below" if row["return"] is None else fixed(3)(row["return"])
