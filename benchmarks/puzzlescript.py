"""Turns per second of PuzzleScript games, compared with the original engine on one core

    python -m jaxenvs.benchmarks.puzzlescript crates vault --engine "node engine.js CHECKOUT"

Every environment plays random actions of one game, or of a folder of games; episodes that end are
restarted. The engine plays random inputs in the first level of a file. `--engine` is the command of
tests/puzzlescript/engine.js with a checkout of increpare/PuzzleScript. Rates are per second of
processor time of one core, the best of the repeats.
"""

import json
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

import jaxenvs
from jaxenvs.puzzlescript import collection, load

from .harness import device_lock, instrument
from .tables.cpu import GAMES
from .tables.text import tabulated

INPUTS = 3_000  # number of inputs that the engine plays


def measure(game: str, lanes: int, steps: int, repeats: int) -> dict[str, Any]:
    """Play random actions; return turns per second and the time of compilation."""
    env = jaxenvs.make("PuzzleScript-v0", game=game, observation="planes")
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
    }


def engine_speed(command: str, game: str) -> float | None:
    """Return inputs per second of the engine in the first level; None for a folder of games."""
    paths = collection.paths(game)
    if len(paths) > 1:
        return None
    levels = load(paths[0]).levels
    level = next(i for i, each in enumerate(levels) if not isinstance(each, str))
    inputs = random.Random(0).choices(range(4), k=INPUTS)
    source = paths[0].read_text("utf-8")
    request = {"source": source, "level": level, "inputs": inputs, "speed": True}
    done = subprocess.run(
        command.split(),
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return INPUTS / json.loads(done.stdout)["seconds"]


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Measure as the command-line arguments ask; print a table and write `--json`."""
    parser = instrument.parser("puzzlescript", __doc__)
    add = parser.add_argument
    add("games", nargs="+", help="shipped names, files or folders of games")
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
    instrument.write(args.json, {**instrument.about(), "rows": rows})
