"""Find the shortest plans of levels, for `jaxenvs levels solve` and `jaxenvs solve`.

A plan is a sequence of actions from the start of a level to success. The plans are printed as a
table, and written as JSON or drawn as a GIF.
"""

import argparse
import importlib
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import levels
from ..core.env import Env
from ..core.files import replacing
from ..levels import Entry, Solution
from .parser import UsageError, check_outputs

WIDTH = 96  # maximum width of the lines of printed plans, in characters
BUDGET = 1_000_000  # default of --node-budget: maximum number of states that a search stores


def run(env: Env, entries: Sequence[Entry], options: argparse.Namespace) -> int:
    """Solve levels of one environment, print a table, and write the files of --json and --gif.

    Returns exit code 0 if each level has a plan that is proven to be the shortest, otherwise 1. It
    is also 1 if there is no plan to draw.
    """
    if options.gif and len(entries) > 1:
        raise UsageError(f"--gif draws one level, the file has {len(entries)}; give it one level")
    check_outputs({f"--{name}": getattr(options, name, None) for name in ("json", "gif")})
    if options.gif:  # raises now, not after the search, if the format or a package is missing
        importlib.import_module("jaxenvs").render.pictures.check_format(options.gif, "--gif")
    found = levels.solve(env, list(entries), node_budget=options.node_budget or BUDGET)
    # Files come first, because the program that reads the table may end early.
    wrote = _write(env, entries, found, options)
    names = getattr(env, "action_names", ())
    print("level  steps      return  plan")
    for place, solution in enumerate(found):
        print(_row(place, solution, names))
    for file in wrote:
        print(f"wrote {file}")
    is_drawn = not options.gif or options.gif in wrote
    if not is_drawn:
        why = "the level is unsolvable" if found[0].unsolvable else "try a larger --node-budget"
        why = "the level begins solved" if found[0].steps == 0 else why
        print(f"{options.gif} was not written: there is no plan to draw; {why}", file=sys.stderr)
    return 0 if is_drawn and all(solution.proven for solution in found) else 1


def _write(
    env: Env, entries: Sequence[Entry], found: Sequence[Solution], options: argparse.Namespace
) -> list[str]:
    """Write the files of --json and --gif; return their names. Without a plan, there is no GIF."""
    wrote = []
    if getattr(options, "json", None):
        with replacing(Path(options.json)) as temporary:
            text = json.dumps([_as_dict(solution) for solution in found], indent=2)
            temporary.write_text(f"{text}\n", "utf-8")
        wrote.append(options.json)
    if options.gif and found[0].plan:
        _draw(env, entries[0], found[0], options.gif)
        wrote.append(options.gif)
    return wrote


def _row(place: int, found: Solution, names: Sequence[str]) -> str:
    """Return the lines of one level in the printed table; a long plan takes several lines."""
    best = "-" if found.optimal_return is None else f"{found.optimal_return:.4f}"
    first = f"{place:5}  {_length(found):9}  {best:>6}  "
    between = ", " if any(" " in name for name in names) else " "
    words = between.join(names[action] if len(names) else str(action) for action in found.plan)
    return textwrap.fill(words or "-", WIDTH, initial_indent=first, subsequent_indent=" " * 26)


def _length(found: Solution) -> str:
    """Return the length of a level's shortest plan as text.

    The text is the number of steps, bounds such as `>=5` or `5-9`, or `no plan`.
    """
    if found.unsolvable:
        return "no plan"
    if found.proven:
        return str(found.steps)
    return f">={found.lower}" if found.steps is None else f"{found.lower}-{found.steps}"


def _as_dict(found: Solution) -> dict[str, Any]:
    return {**found._asdict(), "upper": found.upper}


def _draw(env: Env, entry: Entry, found: Solution, path: str) -> None:
    """Write an animation of a plan to the GIF file `path`."""
    key = jax.random.key(0)
    given = levels.env_of(env, entry)
    states = [jax.jit(given.reset_to)(key, entry.level).state]
    step = jax.jit(given.step)
    for action in found.plan:
        states.append(step(key, states[-1], np.int32(action)).state)
    importlib.import_module("jaxenvs").animate(given, states, path)
