"""Turns per second of PuzzleScript games, compared with the original engine on one core.

    python -m jaxenvs.benchmarks.puzzlescript crates vault --engine "node engine.js CHECKOUT"

A batch of environments plays random actions in one game, or in all games of a folder; episodes that
end are restarted. The engine plays random inputs in the first level of a file. `--engine` is the
command that runs tests/puzzlescript/engine.js on a checkout of increpare/PuzzleScript. Rates are
per second of CPU time, summed over all threads; the best repeat counts.

With `--collection FOLDER`, or the environment variable JAXENVS_PUZZLESCRIPT_GAMES, the command also
measures a batch of 64 different games from the folder, and the engine in the same games. The games
fit into the interpreter's arrays of size "small".
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs.puzzlescript import GameError, PuzzleScript, boards, collection, load
from jaxenvs.puzzlescript.features import report
from jaxenvs.puzzlescript.machine import Machine
from jaxenvs.puzzlescript.machine.lanes import GROUP

from .harness import device_lock, instrument
from .tables.cpu import GAMES
from .tables.text import tabulated

INPUTS = 3_000  # number of inputs that the engine plays in a game
# Number of games in the batch of `--collection`, and of inputs that the engine plays in each game.
MANY, EACH = 64, 500


def measure(game: str, lanes: int, steps: int, repeats: int, size: str = "exact") -> dict[str, Any]:
    """Play random actions; return turns per second, compile time and micro-steps per turn.

    A micro-step is one iteration of the interpreter's loop; a turn needs several.
    """
    env = PuzzleScript(game=game, observation="planes", size=size)
    batch = jaxenvs.make_vec(env, lanes, reset_source="exact")

    def play(key: jax.Array, state: Any) -> Any:
        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            actions = jax.random.randint(key, (lanes,), 0, env.num_actions)
            stepped = batch.step(key, state, actions)
            return stepped.state, stepped.reward.sum()

        return jax.lax.scan(step, state, jax.random.split(key, steps))

    state = jax.jit(batch.reset)(jax.random.key(0)).state
    start = time.perf_counter()
    compiled = jax.jit(play).lower(jax.random.key(1), state).compile()
    compile_seconds = time.perf_counter() - start
    seconds = []
    with device_lock.held():
        for number in range(repeats + 1):
            start = time.process_time()
            jax.block_until_ready(compiled(jax.random.key(number), state))
            seconds.append(time.process_time() - start)
    return {
        "game": Path(game).stem,
        "games": len(env.collection.games),
        "num_envs": lanes,
        "per_processor_second": lanes * steps / min(seconds[1:]),  # the first run warms up
        "compile_seconds": compile_seconds,
        **micro_steps(env, compiled(jax.random.key(0), state)[0].env),
    }


def micro_steps(env: PuzzleScript, state: Any) -> dict[str, float]:
    """Return two means of the number of micro-steps per turn.

    `mean_steps` is the mean over all environments. For `slowest_steps`, the environments are
    divided into groups of `GROUP`. The largest number in each group is taken, because a CPU steps a
    group until its slowest environment has finished the turn. The result is the mean over groups.
    """
    found = env.collection

    def one(instance: boards.Instance, words: jax.Array, action: jax.Array) -> jax.Array:
        board = boards.unpacked(found, instance, words)
        machine = Machine(found.size)
        game, draw = instance.game, jax.tree_util.Partial(lambda _: jnp.float32(0.5))
        return machine.play(found.tables, game, board, action, draw)[1]

    actions = jax.random.randint(jax.random.key(0), state.board.shape[:1], 0, 4)
    counts = jax.jit(jax.vmap(one))(state.instance, state.board, actions)
    groups = np.asarray(counts)[np.argsort(state.instance.game, stable=True)]
    slowest = [part.max() for part in np.split(groups, range(GROUP, len(groups), GROUP))]
    return {"mean_steps": float(groups.mean()), "slowest_steps": float(np.mean(slowest))}


def engine_speed(command: str, game: str, count: int = INPUTS) -> float:
    """Return how many inputs the original engine plays per second of CPU time.

    The engine plays `count` inputs in the first level of each file of `game`.
    """
    paths = collection.paths(game)
    return len(paths) * count / sum(_engine_seconds(command, path, count) for path in paths)


def _engine_seconds(command: str, path: Path, count: int) -> float:
    """Return the CPU seconds that the engine takes for `count` random inputs in a first level."""
    levels = load(path).levels
    level = next(i for i, each in enumerate(levels) if not isinstance(each, str))
    inputs = random.Random(0).choices(range(4), k=count)
    source = path.read_text("utf-8")
    request = {"source": source, "level": level, "inputs": inputs, "speed": True}
    done = subprocess.run(
        command.split(),
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)["seconds"]


def small_games(folder: str, count: int) -> list[Path]:
    """Return the first `count` files whose games fit into the interpreter's "small" arrays."""
    found = []
    for path in sorted(Path(folder).glob("*.txt")):
        try:
            is_small = report(load(path)).fits == "small"
        except GameError:
            continue
        if is_small:
            found.append(path)
        if len(found) == count:
            break
    return found


def many_games(args: Any) -> dict[str, Any]:
    """Measure one batch that plays `MANY` games of the folder `--collection`; return the record."""
    with tempfile.TemporaryDirectory() as folder:
        for path in small_games(args.collection, MANY):
            shutil.copy(path, folder)
        row = measure(folder, args.lanes, args.steps, args.repeats, "small")
        row["engine"] = engine_speed(args.engine, folder, EACH) if args.engine else None
    return {**row, "game": "a collection"}


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print a table and write the `--json` file."""
    parser = instrument.parser("puzzlescript", __doc__)
    add = parser.add_argument
    add("games", nargs="*", help="shipped names, files or folders of games")
    add(
        "--collection",
        default=os.environ.get("JAXENVS_PUZZLESCRIPT_GAMES"),
        help=f"folder of games, of which {MANY} are one batch",
    )
    add("--lanes", type=int, default=1024, help="environments (default: %(default)s)")
    add("--steps", type=int, default=20, help="turns of a repeat (default: %(default)s)")
    add("--repeats", type=int, default=3, help="repeats (default: %(default)s)")
    add("--engine", help='command of the engine, such as "node engine.js CHECKOUT"')
    args = parser.parse_args(argv)
    rows = []
    for game in args.games:
        row = measure(game, args.lanes, args.steps, args.repeats)
        row["engine"] = engine_speed(args.engine, game) if args.engine else None
        rows.append(row)
        print(tabulated([row], GAMES).plain(), flush=True)
    if args.collection:
        rows.append(many_games(args))
        print(tabulated(rows[-1:], GAMES).plain(), flush=True)
    instrument.write(args.json, {**instrument.about(), "rows": rows})
