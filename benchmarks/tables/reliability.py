"""Table of the results of two robustness tests: fuzzing, and killed training runs."""

import collections
from typing import Any

from .registry import RESULTS, table
from .text import Table, whole

WORDS = {  # phase in which a training run was killed -> words in the table
    "compiling": "while compiling",
    "training": "while training",
    "saving": "within a save",
    "leaving": "while leaving",
}


@table("reliability", f"{RESULTS}/fuzzing.json", f"{RESULTS}/kills.json")
def reliability(fuzzing: dict[str, Any], kills: dict[str, Any]) -> Table:
    """Build a table of the results of two tests: fuzzing every id, and resuming killed runs."""
    played = (
        f"{whole(fuzzing['steps'])} steps of {len(fuzzing['ids'])} ids, {fuzzing['broken']} break "
        "one of the nine rules ([figures](../benchmarks/results/fuzzing.json))"
    )
    same = sum(kill["same"] for kill in kills["kills"])
    phases = collections.Counter(kill["phase"] for kill in kills["kills"])
    when = ", ".join(f"{phases[phase]} {words}" for phase, words in WORDS.items() if phases[phase])
    resumed = (
        f"{same} of {len(kills['kills'])} the same, in {kills['arrays']} arrays; killed: {when} "
        "([figures](../benchmarks/results/kills.json))"
    )
    rows = [
        (
            "hostile steps of every id: actions in, masked and out of range, time limits from 1 to "
            "2^31 - 1, other params up to 16 times larger or smaller",
            played,
            "a million steps of some ids",
            "`python tests/proofs/fuzzing.py --steps 100000000`, `pytest tests/test_properties.py`",
        ),
        (
            "`kill -9` during training, then `--resume`: every array of the last checkpoint and "
            "the log as without",
            resumed,
            "nothing",
            "`python tests/proofs/kills.py --json kills.json`",
        ),
    ]
    return Table(("what", "figure", "`make test`", "command"), rows)
