"""The PuzzleScript interpreter of jaxenvs plays like the original engine.

Tests compare the two in the engine's demo games and recordings, in a folder of games, and in random
games. JAXENVS_PUZZLESCRIPT is the path of a checkout of the engine. JAXENVS_PUZZLESCRIPT_GAMES is
the path of the folder. With JAXENVS_PUZZLESCRIPT_STRIDE=n, only every n-th game of the folder is
played.
"""

import collections
import json
import os
import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import engine
import numpy as np
import plays
import pytest
from invented import Inventor

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError
from jaxenvs.puzzlescript.collection import LIMITS
from jaxenvs.puzzlescript.machine import START, Board, Machine, Packer, Size
from jaxenvs.puzzlescript.machine.sizes import SIZES
from jaxenvs.puzzlescript.tables import Level

COLLECTION = os.environ.get("JAXENVS_PUZZLESCRIPT_GAMES", "")
STRIDE = int(os.environ.get("JAXENVS_PUZZLESCRIPT_STRIDE", "1"))
SHARED = 12  # maximum number of games above size "small" that share a compiled program
# Limits: micro-steps of an input, and processor time of a play. A play that exceeds a limit gets
# the outcome "cut".
MOST_STEPS, MOST_SECONDS = 4000, float(os.environ.get("JAXENVS_PUZZLESCRIPT_SECONDS", "60"))
INPUTS, LEVELS = 25, 2  # number of inputs of a random play, and of levels per demo game
RANDOM = 300  # number of random games, of which about a quarter have errors
needs_engine = pytest.mark.skipif(not engine.CHECKOUT, reason="JAXENVS_PUZZLESCRIPT is not set")
pytestmark = [pytest.mark.full, needs_engine]


class Play(NamedTuple):
    """A level of a game, and the inputs to play in the level."""

    name: str
    source: str
    level: int
    inputs: list[Any]


class Player:
    """A level that is played in the interpreter; `undo` and `restart` work as in the engine."""

    def __init__(self, packer: Packer, level: Level, size: Size) -> None:
        self.game = packer.game
        self.play = plays.program(Machine(size, most_steps=MOST_STEPS), False)
        self.tables = plays.tables([packer], size)
        self.board = plays.start(level, size)
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
        """Play an input as the engine does: an action, `undo` or `restart`."""
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


def difference(packer: Packer, play: Play, size: Size, boards: list[dict]) -> str:
    """Compare a play in the interpreter with the engine's boards.

    Returns "equal", "cut" if the play exceeds a limit of time or micro-steps, or else a description
    of the first difference.
    """
    level = packer.game.levels[play.level]
    assert isinstance(level, Level)
    try:
        player = Player(packer, level, size)
        start = time.process_time()
        for i, seen in enumerate(boards):
            if i:
                player.enter(play.inputs[i - 1], boards[i - 1]["drawn"])
            if plays.masks(player.game, player.board) != [*map(int, seen["board"])]:
                return f"differs after {play.inputs[:i]}"
            if bool(player.board.won) != seen["won"]:
                return f"a win differs after {play.inputs[:i]}"
            if time.process_time() - start > MOST_SECONDS:
                return "cut"
    except TimeoutError:
        return "cut"
    return "equal"


def packed(play: Play) -> Packer | str:
    """Return the packer of a play's game, or the reason why the game cannot be played."""
    try:
        packer = Packer(puzzlescript.parse(play.source, on_error="engine"))
    except GameError:
        return "unsupported"
    if not isinstance(packer.game.levels[play.level], Level):
        return "a message"
    over = [name for name, most in LIMITS.items() if getattr(packer.size, name) > most]
    return "too large" if over else packer


def compared(games: Iterable[Play]) -> collections.Counter[str]:
    """Compare plays with the engine; return the number of plays for each outcome.

    Examples of outcomes are "equal", "differs" and "too large". The test fails if any play differs.
    """
    games = [*games]
    packers = [packed(play) for play in games]
    found = collections.Counter(each for each in packers if isinstance(each, str))
    chosen = [(p, g) for p, g in zip(packers, games, strict=True) if isinstance(p, Packer)]
    needed = [p.level_size(p.game.levels[g.level]) for p, g in chosen]  # type: ignore[arg-type]
    small = [SIZES["small"]._replace(draws=size.draws) for size in needed]
    pairs = [*zip(small, needed, strict=True)]
    large = iter(plays.shared([size for one, size in pairs if not one.holds(size)], SHARED))
    sizes = [one if one.holds(size) else next(large) for one, size in pairs]
    rows = sorted(zip(sizes, range(len(chosen)), strict=True))
    wrong, last = [], SIZES["small"]
    with engine.Engine() as node:
        for size, i in rows:
            if size != last:
                plays.program.cache_clear()
                print(tuple(size), dict(found), flush=True)
            (packer, play), last = chosen[i], size
            answer = node.ask(
                source=play.source,
                level=play.level,
                inputs=play.inputs,
                draws=engine.DRAWS,
                stay=True,
            )
            if "boards" not in answer:
                found["engine stops"] += 1
                continue
            result = difference(packer, play, size, answer["boards"])
            found[result if "differs" not in result else "differs"] += 1
            if "differs" in result:
                wrong.append(f"{play.name}, level {play.level}: {result}")
                print(wrong[-1], flush=True)
    report(found)
    assert not wrong, "\n".join(wrong)
    return found


def report(found: collections.Counter[str]) -> None:
    """Print how many plays had each outcome, and the commit of the engine."""
    command = ["git", "-C", engine.CHECKOUT, "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(json.dumps({"engine": done.stdout.strip()[:8], **found}), flush=True)


def random_plays(folder: Path, inputs: int, levels: int, stride: int = 1) -> Iterator[Play]:
    """Yield a random play of each of the first `levels` levels of each valid game in a folder."""
    for path in sorted(folder.glob("*.txt"))[::stride]:
        source = path.read_text("utf-8", errors="replace")
        try:
            game = puzzlescript.parse(source, path.name)
        except GameError:
            continue
        for level in [i for i, each in enumerate(game.levels) if isinstance(each, Level)][:levels]:
            draw = random.Random(f"{path.stem} {level}")
            given = draw.choices(engine.inputs_of(game), k=inputs)
            yield Play(path.name, source, level, given)


def invented_plays(seeds: Iterable[int]) -> Iterator[Play]:
    """Yield random plays of random games."""
    for seed in seeds:
        inventor = Inventor(seed)
        yield Play(f"random game {seed}", inventor.game(), 0, inventor.inputs(INPUTS))


def recordings() -> Iterator[Play]:
    """Yield the plays that the engine's own tests have recorded."""
    path = Path(engine.CHECKOUT, "src/tests/resources/testdata.js")
    script = f"{path.read_text('utf-8')}\nprocess.stdout.write(JSON.stringify(testdata))"
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    for name, (source, inputs, _, *rest) in json.loads(done.stdout):
        yield Play(name, source, int(rest[0] or 0) if rest else 0, inputs)


def test_random_plays_of_the_engines_demo_games_equal_the_engine():
    found = compared(random_plays(Path(engine.CHECKOUT, "src", "demo"), INPUTS, LEVELS))
    assert found["equal"] > 50


@pytest.mark.skipif(not COLLECTION, reason="JAXENVS_PUZZLESCRIPT_GAMES is not set")
def test_random_plays_of_a_collection_equal_the_engine():
    assert compared(random_plays(Path(COLLECTION), 60, 1, STRIDE))["equal"]


def test_random_games_equal_the_engine():
    assert compared(invented_plays(range(RANDOM)))["equal"] > RANDOM / 2


def test_the_engines_recordings_are_equal_state_by_state():
    assert compared(recordings())["equal"] > 100


def test_tables_of_the_recorded_games_equal_the_engines():
    assert same_tables((play.name, play.source) for play in recordings())["equal"] > 400


@pytest.mark.skipif(not COLLECTION, reason="JAXENVS_PUZZLESCRIPT_GAMES is not set")
def test_tables_of_a_collection_equal_the_engines():
    paths = sorted(Path(COLLECTION).glob("*.txt"))[::STRIDE]
    found = same_tables((path.name, path.read_text("utf-8", errors="replace")) for path in paths)
    assert found["equal"]


def same_tables(sources: Iterable[tuple[str, str]]) -> collections.Counter[str]:
    """Compare the loader's tables with the engine's, for games without an error in the engine."""
    found: collections.Counter[str] = collections.Counter()
    wrong = []
    with engine.Engine() as node:
        for name, source in sources:
            answer = node.ask(source=source)
            if answer["count"] or "tables" not in answer:
                found["errors in the engine"] += 1
                continue
            try:
                tables = engine.of_loader(puzzlescript.parse(source, name))
            except GameError as error:
                wrong.append(str(error))
                continue
            equal = tables == engine.of_engine(answer["tables"])
            found["equal"] += equal
            wrong += [] if equal else [f"{name}: other tables"]
    report(found)
    assert not wrong, "\n".join(wrong)
    return found
