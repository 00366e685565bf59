"""A search in PuzzleScript games has the same result as a breadth-first search of the engine.

JAXENVS_PUZZLESCRIPT is the path of a checkout of the engine. The searched games are the shipped
games and the engine's demo games, except those that draw random numbers.
"""

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import engine
import jax
import plays
import pytest

from jaxenvs import puzzlescript, search
from jaxenvs.puzzlescript import Game, GameError, PuzzleScript
from jaxenvs.puzzlescript.features import is_random
from jaxenvs.puzzlescript.machine import Packer, Size
from jaxenvs.puzzlescript.tables import Level

BOARDS = 2_000  # maximum number of boards that the engine's search visits
EACH = 4  # maximum number of levels per game that are compared
LEVELS = 50  # minimum number of levels that are compared in total
# Maximum size of a game that is searched.
LARGEST = Size(16, 32, 16, 512, 3, 16, 16, 8, 8, 512, 512, 8, False)
INPUTS: dict[str, Any] = {"up": 0, "left": 1, "down": 2, "right": 3, "action": 4, "tick": "tick"}
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT is not set"),
]


class Problem(NamedTuple):
    """A level for which the engine found a shortest solution, or visited every reachable board."""

    source: str
    number: int  # index of the level, not counting messages
    level: int  # index of the level, messages included
    shortest: int | None  # number of inputs of a shortest solution; None: there is none
    boards: int  # number of boards that the engine has visited


def games() -> Iterator[tuple[Path, str, Game]]:
    """Yield (path, source, game): games up to the size `LARGEST` that draw no random numbers."""
    demo = Path(engine.CHECKOUT, "src", "demo").glob("*.txt")
    for path in (*sorted(engine.SHIPPED.glob("*.txt")), *sorted(demo)):
        source = path.read_text("utf-8")
        try:
            game = puzzlescript.parse(source, path.name)
            packer = Packer(game)
        except GameError:
            continue
        levels = [each for each in game.levels if isinstance(each, Level)]
        fits = all(LARGEST.holds(packer.level_size(each)) for each in levels)
        if fits and not is_random(game):
            yield path, source, game


def problems(node: engine.Engine, source: str, game: Game) -> Iterator[Problem]:
    """Yield the first `EACH` levels of a game whose search the engine finishes."""
    inputs, found = engine.inputs_of(game), 0
    levels = [i for i, each in enumerate(game.levels) if isinstance(each, Level)]
    for number, level in enumerate(levels):
        answer = node.ask(source=source, level=level, solve=inputs, most=BOARDS)
        solution = answer.get("solution")
        if solution or answer.get("exhausted"):
            shortest = len(solution) if solution else None
            yield Problem(source, number, level, shortest, answer["boards_seen"])
            found += 1
        if found == EACH:
            return


def mistake(node: engine.Engine, env: PuzzleScript, problem: Problem, found: search.Result) -> str:
    """Return how the result of a search differs from the engine's; "" if they are equal."""
    if problem.shortest is None:
        if found.unsolvable and found.expanded == problem.boards:
            return ""
        return f"unsolvable: {found.unsolvable}, {found.expanded} boards; engine {problem.boards}"
    if not found.optimal or found.length != problem.shortest:
        return f"optimal: {found.optimal}, {found.length} actions; engine {problem.shortest}"
    inputs = [INPUTS[env.action_names[i]] for i in found.actions[: problem.shortest]]
    seen = node.ask(source=problem.source, level=problem.level, inputs=inputs, stay=True)["boards"]
    wins = seen[-1]["won"] and len(seen) == len(inputs) + 1
    return "" if wins else f"{inputs} does not win in the engine"


def test_search_and_proofs_equal_breadth_first_search_in_the_engine():
    wrong, counts = [], collections.Counter[str]()
    with engine.Engine() as node:
        for path, source, game in games():
            given = [*problems(node, source, game)]
            if not given:
                continue
            env = PuzzleScript(game=str(path))
            run = jax.jit(
                lambda level, env=env: search.astar(env, level, batch_size=32, node_budget=8000),
                compiler_options=plays.OPTIONS,
            )
            for each in given:
                found = jax.device_get(run(env.level_of(each.number)))
                message = mistake(node, env, each, found)
                wrong += [f"{path.name}, level {each.level}: {message}"] if message else []
                counts["unsolvable" if each.shortest is None else "solved"] += 1
            print(path.name, [each.shortest for each in given], wrong[-1:], flush=True)
            counts["games"] += 1
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["solved"] >= LEVELS and counts["unsolvable"]
