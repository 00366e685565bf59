"""The interpreter equals the engine in other authors' games and in the engine's own recordings.

JAXENVS_PUZZLESCRIPT is a checkout of the engine, JAXENVS_PUZZLESCRIPT_GAMES a folder of games.
"""

import collections
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine
import numpy as np
import plays
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError
from jaxenvs.puzzlescript.machine import START, Board, Machine, Packer
from jaxenvs.puzzlescript.machine.sizes import SIZES

COLLECTION = os.environ.get("JAXENVS_PUZZLESCRIPT_GAMES", "")
LARGEST = os.environ.get("JAXENVS_PUZZLESCRIPT_SIZE", "medium")
MOST_STEPS = 4000  # micro-steps of an input; a play that needs more is counted as cut
INPUTS, LEVELS = 25, 2  # of a random play
needs_engine = pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT is not set")
pytestmark = [pytest.mark.full, needs_engine]


class Player:
    """A level in the interpreter, with the engine's `undo` and `restart`."""

    def __init__(self, packer: Packer, level: int) -> None:
        self.game, each = packer.game, packer.game.levels[level]
        assert not isinstance(each, str)
        needed = packer.level_size(each)
        names = [*SIZES][: [*SIZES].index(LARGEST) + 1]
        sizes = (SIZES[name].extended(needed) for name in names)
        size = next((size for size in sizes if size.holds(needed)), None)
        if size is None:
            raise OverflowError
        self.play = plays.program(Machine(size, most_steps=MOST_STEPS), False)
        self.tables = plays.tables([packer], size)
        self.board = plays.start(packer, each, size)
        self.undos: list[np.ndarray] = []
        self.turn(START, 0)

    def turn(self, action: int, drawn: int) -> None:
        """Play an action; raise `TimeoutError` if it needs too many micro-steps."""
        arguments = np.int32(0), self.board, np.int32(action), np.int32(drawn)
        board, steps = self.play(self.tables, *arguments)
        self.board = Board(*map(np.asarray, board))
        if steps >= MOST_STEPS:
            raise TimeoutError

    def enter(self, value: Any, drawn: int) -> None:
        """Carry out an input of the engine."""
        before = self.board.objects
        if value == "undo":
            while self.undos and (self.undos[-1] == self.board.objects).all():
                self.undos.pop()
            if self.undos and "noundo" not in self.game.prelude:
                self.board = self.board._replace(objects=self.undos.pop())
        elif value == "restart":
            if "norestart" not in self.game.prelude:
                self.undos.append(before)
                self.board = self.board._replace(objects=self.board.start)
                self.turn(START, drawn)
        else:
            self.turn(plays.ACTIONS[str(value)[0]], drawn)
            if value != "tick" and (before != self.board.objects).any():
                self.undos.append(before)


def difference(source: str, boards: list[dict], inputs: list[Any], level: int) -> str:
    """Return how a play in the interpreter compares with the engine's: "equal", or the reason."""
    try:
        player = Player(Packer(puzzlescript.parse(source, on_error="engine")), level)
        for i, seen in enumerate(boards):
            if i:
                player.enter(inputs[i - 1], boards[i - 1]["drawn"])
            if plays.masks(player.game, player.board) != [*map(int, seen["board"])]:
                return f"differs after {inputs[:i]}"
            if bool(player.board.won) != seen["won"]:
                return f"a win differs after {inputs[:i]}"
    except GameError:
        return "unsupported"
    except OverflowError:
        return "too large"
    except TimeoutError:
        return "cut"
    return "equal"


def compared(games: Iterator[tuple[str, str, int, list[Any]]]) -> collections.Counter[str]:
    """Compare plays, given as name, source, level and inputs; return how many had each outcome."""
    found, wrong = collections.Counter[str](), []
    with engine.Engine() as node:
        for name, source, level, inputs in games:
            answer = node.ask(
                source=source, level=level, inputs=inputs, draws=engine.DRAWS, stay=True
            )
            if "boards" not in answer:
                found["engine stops"] += 1
                continue
            result = difference(source, answer["boards"], inputs, level)
            found[result if "differs" not in result else "differs"] += 1
            if "differs" in result:
                wrong.append(f"{name}, level {level}: {result}")
    print(dict(found))
    assert not wrong, "\n".join(wrong)
    return found


def random_plays(folder: Path) -> Iterator[tuple[str, str, int, list[Any]]]:
    """Yield random plays of the first levels of all games in a folder that compile."""
    for path in sorted(folder.glob("*.txt")):
        source = path.read_text("utf-8", errors="replace")
        try:
            game = puzzlescript.parse(source, path.name)
        except GameError:
            continue
        levels = [i for i, each in enumerate(game.levels) if not isinstance(each, str)]
        for level in levels[:LEVELS]:
            draw = random.Random(f"{path.stem} {level}")
            yield path.name, source, level, [draw.randrange(5) for _ in range(INPUTS)]


def recordings() -> Iterator[tuple[str, str, int, list[Any]]]:
    """Yield the engine's own recordings."""
    path = Path(engine.CHECKOUT, "src/tests/resources/testdata.js")
    script = f"{path.read_text('utf-8')}\nprocess.stdout.write(JSON.stringify(testdata))"
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    for name, (source, inputs, _, *rest) in json.loads(done.stdout):
        yield name, source, int(rest[0] or 0) if rest else 0, inputs


def test_random_plays_of_the_engines_demo_games_equal_the_engine():
    found = compared(random_plays(Path(engine.CHECKOUT, "src", "demo")))
    assert found["equal"] > 50


@pytest.mark.skipif(not COLLECTION, reason="JAXENVS_PUZZLESCRIPT_GAMES is not set")
def test_random_plays_of_a_collection_equal_the_engine():
    assert compared(random_plays(Path(COLLECTION)))["equal"]


def test_the_engines_recordings_are_equal_state_by_state():
    assert compared(recordings())["equal"] > 100
