"""Steps of BabyAI's bot compared with the optimum, in the original levels of minigrid.

    python -m jaxenvs.benchmarks.bot --json benchmarks/results/bot.json

The bot acts in minigrid and knows only the cells that it has seen. `jaxenvs.levels` reads the same
levels and computes the optimum: the fewest steps to success if the whole level is known. Needs
minigrid.
"""

import contextlib
import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxenvs import Env, levels, make
from jaxenvs.core.extras import require

from .harness import instrument
from .tables.solutions import BOT
from .tables.text import tabulated

IDS = (
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToObjMaze-v0",
    "BabyAI-GoToSeqS5R2-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-OpenTwoDoors-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockPickup-v0",
    "BabyAI-UnblockPickup-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-KeyCorridorS3R2-v0",
)
# minigrid's name of an object -> letter of the object in the text of a level.
THINGS = {"wall": "W", "floor": "F", "key": "K", "ball": "A", "box": "B", "goal": "G", "lava": "V"}
COLOURS = {"red": "r", "green": "g", "blue": "b", "purple": "p", "yellow": "y", "grey": "e"}
AGENT = (">>", "VV", "<<", "^^")


def text_of(theirs: Any) -> str:
    """Return the level of a minigrid environment as text for `jaxenvs.levels`."""
    rows = []
    for row in range(theirs.height):
        things = [theirs.grid.get(column, row) for column in range(theirs.width)]
        rows.append([_pair(thing) for thing in things])
    column, row = theirs.agent_pos
    rows[row][column] = AGENT[theirs.agent_dir]
    picture = "\n".join("".join(cells) for cells in rows)
    return f"mission: {theirs.mission}\ngrid:\n{picture}"


def _pair(thing: Any) -> str:
    if thing is None:
        return "  "
    if thing.type == "wall":
        return "WG"
    if thing.type == "door":
        letter = "_" if thing.is_open else "L" if thing.is_locked else "D"
    else:
        letter = THINGS[thing.type]
    return letter + COLOURS[thing.color]


def bot_steps(theirs: Any) -> int | None:
    """Return the number of steps that the bot needs; None if it fails or gives up."""
    bot = importlib.import_module("minigrid.utils.baby_ai_bot").BabyAIBot(theirs)
    action = None
    try:
        while True:
            action = bot.replan(action)
            _, reward, terminated, truncated, _ = theirs.step(action)
            if terminated or truncated:
                return theirs.step_count if reward > 0 else None
    except AssertionError:  # the bot does not understand the level
        return None


def measure(id: str, count: int, states: int) -> dict[str, Any]:
    """Compare the bot with the optimum in the minigrid levels of seeds 0 to `count - 1`."""
    theirs, env = _upstream(id), make(id)
    drawn, bot = [], []
    for seed in range(count):
        with contextlib.redirect_stdout(None):  # discard minigrid's list of rejected levels
            theirs.reset(seed=seed)
        drawn.append(levels.read(env, text_of(theirs)))
        bot.append(bot_steps(theirs))
    return {"env_id": id, **_row(env, drawn, bot, states)}


def _upstream(id: str) -> Any:
    gymnasium = importlib.import_module("gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make(id, disable_env_checker=True).unwrapped


def _row(env: Env, drawn: list[Any], bot: list[int | None], states: int) -> dict[str, Any]:
    """Return the results for one id.

    `optimum` and `bot` are mean numbers of steps. Both means are over the same levels: the levels
    that the bot solved and for which the optimum is proven.
    """
    found = levels.solve(env, drawn, node_budget=states * len(drawn))
    pairs = [
        (one.steps, steps)
        for one, steps in zip(found, bot, strict=True)
        if one.proven and one.steps is not None and steps is not None
    ]
    if any(steps < best for best, steps in pairs):
        raise RuntimeError(f"{env.name}: the bot took fewer steps than the optimum")
    best, taken = np.array(pairs, float).reshape(-1, 2).T
    return {
        "levels": len(drawn),
        "proven": sum(one.proven for one in found),
        "bot_succeeded": sum(steps is not None for steps in bot),
        "compared": len(pairs),
        "optimum": round(float(best.mean()), 2) if pairs else None,
        "bot": round(float(taken.mean()), 2) if pairs else None,
        "equal": int((best == taken).sum()),
    }


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("bot", __doc__)
    parser.add_argument("--ids", nargs="+", default=[*IDS], metavar="ID", help="levels of BabyAI")
    parser.add_argument("--levels", type=int, default=12, help="levels of each id (default 12)")
    parser.add_argument("--states", type=int, default=100_000, help="states stored for each level")
    args = parser.parse_args(argv)
    require(["minigrid"], "minigrid")
    importlib.import_module("minigrid")  # the import registers minigrid's ids
    rows = []
    for id in args.ids:
        jax.clear_caches()
        rows.append(measure(id, args.levels, args.states))
        print(f"{id}: {rows[-1]}", file=sys.stderr, flush=True)
        instrument.write(args.json, instrument.dated(rows))
    print(tabulated(rows, BOT).plain())
