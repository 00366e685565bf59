"""A PuzzleScript game gives the same results in a batch of different games as when played alone.

JAXENVS_PUZZLESCRIPT is the path of a checkout of the original engine. JAXENVS_PUZZLESCRIPT_GAMES is
the path of a folder of games.
"""

import functools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import engine
import jax
import jax.numpy as jnp
import numpy as np
import plays
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxenvs
from jaxenvs import puzzlescript
from jaxenvs.puzzlescript import GameError, collection
from jaxenvs.puzzlescript.machine import START, Board, Machine, Packer, Size
from jaxenvs.puzzlescript.machine.sizes import SIZES
from jaxenvs.puzzlescript.tables import Level

COLLECTION = os.environ.get("JAXENVS_PUZZLESCRIPT_GAMES", "")
SMALL = SIZES["small"]._replace(draws=True)  # size "small" for games with random numbers
# Shipped games that are not played: garden and wildfire draw random numbers, prism has long turns,
# and the rigid rules of freight need a larger program.
LEFT_OUT = ("garden", "wildfire", "prism", "freight")
STEPS = 5  # number of random actions in each shipped game that is played
GAMES, INPUTS = 64, 30  # number of games of the folder that are played, and of inputs in each
MOST_STEPS = 4000  # maximum number of micro-steps of an input


class Lane(NamedTuple):
    """A play of a level in the engine: the inputs, and the board before and after each input."""

    packer: Packer
    level: Level
    inputs: list[int]
    boards: list[dict[str, Any]]


class Alone:
    """A game that is played without a batch, in an interpreter whose tables have only this game."""

    def __init__(self, packer: Packer, level: Level, size: Size) -> None:
        self.play = plays.program(Machine(size, most_steps=MOST_STEPS), False)
        self.tables, self.board = plays.tables([packer], size), plays.start(level, size)

    def turn(self, action: int, drawn: int = 0) -> np.ndarray:
        """Play an action; return the objects of the board."""
        rest = np.int32(0), self.board, np.int32(action), np.int32(drawn)
        self.board = self.play(self.tables, *rest)[0]
        return np.asarray(self.board.objects)


@pytest.mark.full
def test_shipped_games_play_in_a_batch_as_alone(tmp_path):
    for path in collection.SHIPPED.glob("*.txt"):
        if path.stem not in LEFT_OUT:
            shutil.copy(path, tmp_path)
    env = jaxenvs.make("PuzzleScript-v0", game=str(tmp_path))
    games, key = env.collection.games, jax.random.key(0)
    levels = plays.stacked([env.level_of(0, i) for i in range(len(games))])
    state = jax.vmap(lambda level: env.reset_to(key, level).state)(levels)

    @jax.jit
    @jax.vmap
    def step(state, action):
        after = env.step(key, state, action).state
        return after, env.objects(after.instance, after.board)

    firsts = [next(each for each in game.levels if isinstance(each, Level)) for game in games]
    alone = [
        Alone(Packer(game), level, env.collection.size)
        for game, level in zip(games, firsts, strict=True)
    ]
    for each in alone:
        each.turn(START)
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = draw.integers(0, 4, len(games)).astype(np.int32)
        state, objects = step(state, jnp.asarray(actions))
        for each, action, mine in zip(alone, actions, objects, strict=True):
            np.testing.assert_array_equal(mine, each.turn(action))


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("varying", range(4))
def test_a_batch_can_be_sharded_over_devices(count, varying):
    """`shard_map` accepts a batch of plays, even if only one of the arguments is sharded."""
    packer = Packer(puzzlescript.load(collection.SHIPPED / "crates.txt"))
    level = next(each for each in packer.game.levels if isinstance(each, Level))
    size = packer.level_size(level)
    tables = plays.tables([packer], size)
    row = np.int32(0), plays.start(level, size), np.int32(0), np.int32(0)
    play = jax.vmap(functools.partial(plays.turn, Machine(size)), (None, 0, 0, 0, 0))
    specs = [P(), P(), P(), P()]
    specs[varying] = P("envs")
    mesh = jax.make_mesh((1,), ("envs",), axis_types=(AxisType.Auto,))
    spread = jax.shard_map(
        functools.partial(play, tables), mesh=mesh, in_specs=tuple(specs), out_specs=P("envs")
    )
    steps = jax.eval_shape(spread, *plays.stacked([row] * count))[1]
    assert steps.shape == (count,)


@pytest.mark.parametrize("nested", [False, True])
def test_tables_with_a_batch_axis_are_an_error(nested):
    packer = Packer(puzzlescript.load(collection.SHIPPED / "crates.txt"))
    level = next(each for each in packer.game.levels if isinstance(each, Level))
    size = packer.level_size(level)
    tables = plays.tables([packer], size)
    arguments = [np.int32(0), plays.start(level, size), np.int32(0), np.int32(0)]
    play: Any = functools.partial(plays.turn, Machine(size))
    if nested:
        play, arguments = jax.vmap(play, (None, 0, 0, 0, 0)), plays.stacked([arguments])
    with pytest.raises(ValueError, match="play: the tables have a batch axis; stack the games"):
        jax.vmap(play)(plays.stacked([tables]), *plays.stacked([arguments]))


def lanes(node: engine.Engine) -> Iterator[Lane]:
    """Yield a random play of each game of the folder that fits into size "small"."""
    for path in sorted(Path(COLLECTION).glob("*.txt")):
        source = path.read_text("utf-8", errors="replace")
        try:
            packer = Packer(puzzlescript.parse(source, path.name))
        except GameError:
            continue
        for number, level in enumerate(packer.game.levels):
            if isinstance(level, Level) and SMALL.holds(packer.level_size(level)):
                inputs = random.Random(path.stem).choices(range(4), k=INPUTS)
                asked = {"level": number, "inputs": inputs, "draws": engine.DRAWS, "stay": True}
                answer = node.ask(source=source, **asked)
                if "boards" in answer:
                    yield Lane(packer, level, inputs, answer["boards"])
                break


@pytest.mark.full
@pytest.mark.skipif(not (engine.CHECKOUT and COLLECTION), reason="no checkout, or no games")
def test_games_of_a_collection_play_in_a_batch_as_alone_and_as_in_the_engine():
    with engine.Engine() as node:
        found = [lane for lane, _ in zip(lanes(node), range(GAMES), strict=False)]
    size, game = SMALL, np.arange(GAMES, dtype=np.int32)
    tables = plays.tables([lane.packer for lane in found], size)
    board: Any = plays.stacked([plays.start(lane.level, size) for lane in found])
    play = plays.program(Machine(size, most_steps=MOST_STEPS), True)
    alone = [Alone(lane.packer, lane.level, size) for lane in found]
    cut, compared = set[int](), 0
    for i in range(INPUTS + 1):
        actions = [plays.ACTIONS[str(lane.inputs[i - 1])] if i else START for lane in found]
        drawn = [lane.boards[min(i, len(lane.boards)) - 1]["drawn"] if i else 0 for lane in found]
        turn = np.array(actions, np.int32), np.array(drawn, np.int32)
        board, steps = play(tables, game, board, *turn)
        board = Board(*map(np.asarray, board))
        cut |= set(np.flatnonzero(np.asarray(steps) >= MOST_STEPS).tolist())
        for n, lane in enumerate(found):
            if n in cut or i >= len(lane.boards):
                continue
            mine: Any = jax.tree.map(lambda leaf, n=n: leaf[n], board)
            np.testing.assert_array_equal(mine.objects, alone[n].turn(actions[n], drawn[n]))
            name = f"{lane.packer.game.name} after {lane.inputs[:i]}"
            assert plays.masks(lane.packer.game, mine) == [*map(int, lane.boards[i]["board"])], name
            assert bool(mine.won) == lane.boards[i]["won"], name
            compared += 1
    assert len(found) == GAMES and len(cut) < GAMES // 16 and compared > GAMES * INPUTS / 2
