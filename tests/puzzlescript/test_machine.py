"""The PuzzleScript interpreter equals the original engine, state by state."""

import functools
from typing import Any, NamedTuple

import engine
import jax
import jax.numpy as jnp
import numpy as np
import plays
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript.machine import START, Machine, Packer

DIGITS = 8  # of a digest


class Lanes(NamedTuple):
    """All recorded plays as one batch."""

    packers: list[Packer]
    traces: list[engine.Trace]
    machine: Machine
    tables: Any
    game: Any
    boards: Any


@functools.cache
def lanes() -> Lanes:
    """Return the recorded plays of all games, and one interpreter that holds them."""
    recorded = engine.recorded()
    packers = [Packer(puzzlescript.load(path)) for path in engine.GAMES]
    rows = [
        (number, trace)
        for number, path in enumerate(engine.GAMES)
        for trace in recorded[path.stem]
    ]
    levels = [packers[number].game.levels[trace.level] for number, trace in rows]
    size = plays.common(
        [packers[n].level_size(level) for (n, _), level in zip(rows, levels, strict=True)]
    )
    boards = [
        plays.start(packers[n], level, size) for (n, _), level in zip(rows, levels, strict=True)
    ]
    return Lanes(
        packers,
        [trace for _, trace in rows],
        Machine(size),
        plays.tables(packers, size),
        np.array([number for number, _ in rows], np.int32),
        plays.stacked(boards),
    )


def inputs(traces: list[engine.Trace], i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return action i of each play, the first one being the start, and the numbers drawn before."""
    at = [min(i, len(trace.inputs)) - 1 for trace in traces]
    rows = [*zip(traces, at, strict=True)]
    actions = [START if j < 0 else plays.ACTIONS[trace.inputs[j]] for trace, j in rows]
    drawn = [trace.drawn[j] if trace.drawn and j >= 0 else 0 for trace, j in rows]
    return np.array(actions, np.int32), np.array(drawn, np.int32)


def mistakes(lanes: Lanes, chosen: list[int], in_batch: bool = True) -> dict[int, str]:
    """Replay recorded plays, and return where each play differs from the engine first."""
    play = plays.program(lanes.machine, in_batch)
    traces = [lanes.traces[i] for i in chosen]
    game = lanes.game[np.array(chosen)]
    boards = jax.tree.map(lambda leaf: leaf[np.array(chosen)], lanes.boards)
    wrong: dict[int, str] = {}
    for i in range(max(len(trace.inputs) for trace in traces) + 1):
        actions, drawn = inputs(traces, i)
        if in_batch:
            after, _ = play(lanes.tables, game, boards, actions, drawn)
        else:
            every = zip(game, _rows(boards), actions, drawn, strict=True)
            after = plays.stacked([play(lanes.tables, *each)[0] for each in every])
        boards = jax.tree.map(np.asarray, after)
        for n, (trace, board) in enumerate(zip(traces, _rows(boards), strict=True)):
            if i > len(trace.inputs) or chosen[n] in wrong:
                continue
            found = engine.digest(plays.masks(lanes.packers[game[n]].game, board))
            ends = trace.won and i == len(trace.inputs)
            if found != trace.boards[DIGITS * i : DIGITS * (i + 1)] or board.won != ends:
                name = lanes.packers[game[n]].game.name
                wrong[chosen[n]] = f"{name}, level {trace.level}, after {trace.inputs[:i]!r}"
    return wrong


def _rows(boards: Any) -> list[Any]:
    """Return the boards of a batch."""
    return [jax.tree.map(lambda leaf: leaf[i], boards) for i in range(len(boards.width))]


def test_all_recorded_plays_equal_the_engine_in_one_batch():
    found = lanes()
    assert not mistakes(found, [*range(len(found.traces))])
    assert plays.program(found.machine, True)._cache_size() == 1


def test_a_play_alone_equals_the_engine_as_in_the_batch_and_all_games_share_a_program():
    found = lanes()
    shortest = sorted(range(len(found.traces)), key=lambda i: len(found.traces[i].inputs))
    games = {int(found.game[i]): i for i in reversed(shortest)}
    assert len(games) > 10
    assert not mistakes(found, [*games.values()], in_batch=False)
    assert plays.program(found.machine, False)._cache_size() == 1


def test_every_level_without_draws_has_a_recorded_solution():
    found = lanes()
    for path in engine.SHIPPED.glob("*.txt"):
        traces = engine.recorded()[path.stem]
        if any(trace.drawn for trace in traces):
            continue
        game = puzzlescript.load(path)
        levels = {i for i, each in enumerate(game.levels) if not isinstance(each, str)}
        assert {trace.level for trace in traces if trace.won} == levels, path.stem
    assert jnp.all(found.boards.width <= 16)
