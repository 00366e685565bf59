"""Tests that the PuzzleScript interpreter reaches the same states as the original engine."""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import engine
import jax
import jax.numpy as jnp
import numpy as np
import plays
import pytest

from jaxenvs import puzzlescript
from jaxenvs.puzzlescript.machine import START, Machine, Packer, Size, matches, planes
from jaxenvs.puzzlescript.machine import lanes as batching
from jaxenvs.puzzlescript.tables import Level

DIGITS = 8  # number of hexadecimal digits of the digest of a board
BATCH = 40  # number of plays in a batch; a CPU plays at most 16 together, so in three groups
QUICK = 14  # number of inputs of each random play that the default tests replay
SLOW = ("porter.txt", "prism.txt", "garden.txt")


class Lanes(NamedTuple):
    """Recorded plays as one batch, and an interpreter for them."""

    packers: list[Packer]
    traces: list[engine.Trace]
    machine: Machine
    tables: Any
    game: Any
    boards: Any


def rare_feature(packer: Packer) -> str:
    """Return a game's rare feature: "rigid" (rules), "middle" (rows with two ellipses) or ""."""
    return next((each for each in ("rigid", "middle") if getattr(packer.size, each)), "")


@functools.cache
def lanes(feature: str = "") -> Lanes:
    """Return the recorded plays of all games with this rare feature, and one interpreter for them.

    `feature` is "rigid" (rigid rules), "middle" (rows with two ellipses) or "" (neither).
    """
    recorded = engine.recorded()
    packers = [Packer(puzzlescript.load(path)) for path in engine.GAMES]
    packers = [each for each in packers if rare_feature(each) == feature]
    rows = [
        (number, trace)
        for number, packer in enumerate(packers)
        for trace in recorded[Path(packer.game.name).stem]
    ]
    levels = [packers[number].game.levels[trace.level] for number, trace in rows]
    size = Size.over(
        packers[n].level_size(level) for (n, _), level in zip(rows, levels, strict=True)
    )
    boards = [plays.start(level, size) for level in levels]
    return Lanes(
        packers,
        [trace for _, trace in rows],
        Machine(size),
        plays.tables(packers, size),
        np.array([number for number, _ in rows], np.int32),
        plays.stacked(boards),
    )


def inputs(traces: list[engine.Trace], i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return action i of each play, and the number of random numbers drawn before it.

    Action 0 is `START`; action i is input i, counted from 1.
    """
    at = [min(i, len(trace.inputs)) - 1 for trace in traces]
    rows = [*zip(traces, at, strict=True)]
    actions = [START if j < 0 else plays.ACTIONS[trace.inputs[j]] for trace, j in rows]
    drawn = [trace.drawn[j] if trace.drawn and j >= 0 else 0 for trace, j in rows]
    return np.array(actions, np.int32), np.array(drawn, np.int32)


def quick(lanes: Lanes) -> list[int]:
    """Return the indices of the first play of each level, and of all plays that win."""
    seen: set[tuple[int, int]] = set()
    found = []
    for i, trace in enumerate(lanes.traces):
        place = (int(lanes.game[i]), trace.level)
        if trace.won or place not in seen:
            found.append(i)
        seen.add(place)
    return found


def mistakes(lanes: Lanes, chosen: list[int], play: Any, most: int = 1000) -> list[str]:
    """Replay recorded plays with the function `play`; return where plays differ from the engine.

    Only the first `most` inputs of a play are replayed, unless the play wins.
    """
    traces = [lanes.traces[i] for i in chosen]
    game = lanes.game[np.array(chosen)]
    boards = jax.tree.map(lambda leaf: leaf[np.array(chosen)], lanes.boards)
    lengths = [length(trace, most) for trace in traces]
    wrong = {}
    for i in range(max(lengths) + 1):
        boards, _ = play(lanes.tables, game, boards, *inputs(traces, i))
        boards = jax.tree.map(np.asarray, boards)
        for n, (trace, board) in enumerate(zip(traces, rows(boards), strict=True)):
            if i > lengths[n] or n in wrong:
                continue
            name = lanes.packers[game[n]].game.name
            found = engine.digest(plays.masks(lanes.packers[game[n]].game, board))
            ends = trace.won and i == len(trace.inputs)
            if found != trace.boards[DIGITS * i : DIGITS * (i + 1)] or board.won != ends:
                wrong[n] = f"{name}, level {trace.level}, after {trace.inputs[:i]!r}"
    return [*wrong.values()]


def length(trace: engine.Trace, most: int) -> int:
    """Return how many inputs of a play are replayed: all if it wins, else at most `most`."""
    return len(trace.inputs) if trace.won else min(most, len(trace.inputs))


def rows(boards: Any) -> list[Any]:
    """Split a batch of boards into a list of single boards."""
    leaves, tree = jax.tree.flatten(boards)
    return [tree.unflatten(row) for row in zip(*leaves, strict=True)]


def one_by_one(play: Any, tables: Any, *batch: Any) -> Any:
    """Play the turns of a batch one after another."""
    game, boards, actions, drawn = batch
    each = zip(game, rows(boards), actions, drawn, strict=True)
    return plays.stacked([play(tables, *arguments) for arguments in each])


def parts(lanes: Lanes, chosen: list[int], most: int = 1000) -> list[list[int]]:
    """Split plays into batches of equal size; plays of similar length share a batch."""

    def cost(i: int) -> int:
        slow = lanes.packers[lanes.game[i]].game.name in SLOW
        return length(lanes.traces[i], most) + 1000 * slow

    order = sorted(chosen, key=cost)
    order = order[:1] * (-len(order) % BATCH) + order
    return [order[i : i + BATCH] for i in range(0, len(order), BATCH)]


def test_recorded_plays_of_different_games_equal_the_engine_in_batches():
    found = lanes()
    play = plays.program(found.machine, True)
    for part in parts(found, quick(found), QUICK):
        assert not mistakes(found, part, play, QUICK)
    assert play._cache_size() == 1  # one compiled program plays all games


@pytest.mark.full
@pytest.mark.parametrize("feature", ["rigid", "middle"])
def test_plays_with_rigid_rules_or_two_ellipses_equal_the_engine(feature):
    found = lanes(feature)
    assert getattr(found.machine.size, feature)
    play = plays.program(found.machine, False, optimised=False)
    assert not mistakes(found, quick(found), functools.partial(one_by_one, play), QUICK)


@pytest.mark.full
@pytest.mark.parametrize("count", (6, 62, 124, 129))
def test_unions_of_planes_by_parts_are_the_unions(count):
    draw = np.random.default_rng(count)
    sets = draw.integers(2**32, size=(20, -(-count // 32)), dtype=np.uint32)
    sets[:, -1] &= np.uint32((1 << (count - 1) % 32 + 1) - 1)
    base = jnp.asarray(draw.integers(2**32, size=(count, 5, 2), dtype=np.uint32))
    base &= jnp.asarray(draw.integers(2**32, size=base.shape, dtype=np.uint32))
    rare = jnp.where(draw.random((count, 1, 1)) < 0.4, base, jnp.uint32(0))
    expected = matches.unions(jnp.asarray(sets), rare)
    assert jnp.array_equal(matches.unions_by_parts(jnp.asarray(sets), rare), expected)
    assert len(np.unique(expected)) > 3


@pytest.mark.full
@pytest.mark.parametrize("feature", ["", "rigid", "middle"])
def test_recorded_plays_with_the_code_for_a_gpu_equal_the_engine(feature, monkeypatch):
    for module in (batching, matches, planes):
        monkeypatch.setattr(module, "by_platform", lambda *given, cpu, default: default(*given))
    monkeypatch.setattr(matches, "MANY", 0)  # unions of planes by parts in every size
    found = lanes(feature)
    play = plays.program.__wrapped__(found.machine, True)  # a new program, not the one of a CPU
    assert not mistakes(found, parts(found, quick(found), QUICK)[0], play, QUICK)


@pytest.mark.full
@pytest.mark.parametrize("feature", ["", "rigid", "middle"])
def test_all_recorded_plays_equal_the_engine(feature):
    found = lanes(feature)
    for part in parts(found, [*range(len(found.traces))]):
        assert not mistakes(found, part, plays.program(found.machine, True))


@pytest.mark.full
def test_plays_alone_equal_the_engine_as_in_the_batch():
    found = lanes()
    play = plays.program(found.machine, False)
    short = sorted(range(len(found.traces)), key=lambda i: len(found.traces[i].inputs))
    games = [*{int(found.game[i]): i for i in reversed(short)}.values()]
    chosen = sorted(games, key=short.index)[:5]
    assert not mistakes(found, chosen, functools.partial(one_by_one, play))
    others = np.array(games)
    boards = jax.tree.map(lambda leaf: leaf[others], found.boards)
    starts = (part[others] for part in inputs(found.traces, 0))
    one_by_one(play, found.tables, found.game[others], boards, *starts)
    assert play._cache_size() == 1


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


def test_a_random_group_is_applied_although_a_rule_behind_it_has_an_effect():
    source = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
    rules = "random [ Crate ] -> [ ]\n[ > Player ] [ Goal ] -> [ > Player ] [ ]"
    packer = Packer(puzzlescript.parse(re.sub(r"\[ > Player .*", rules, source)))
    game = packer.game
    level = next(each for each in game.levels if isinstance(each, Level))
    size = packer.level_size(level)
    play = plays.program(Machine(size), False)
    turn = np.int32(0), plays.start(level, size), np.int32(0), np.int32(0)
    after = plays.masks(game, play(plays.tables([packer], size), *turn)[0])
    left = {name for i, name in enumerate(game.objects) if any(cell >> i & 1 for cell in after)}
    assert left == {"background", "player"}


@pytest.mark.parametrize("draws", [False, True])
def test_an_again_turn_that_changes_nothing_does_not_win(draws):
    """The turn that starts a level cannot win it; the engine omits an `again` turn without effect.

    In the engine, the level is won by the first input after the start.
    """
    source = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
    source = "run_rules_on_level_start\n" + re.sub(
        r"\[ > Player .*", "[ Goal ] -> [ ] again", source
    )
    packer = Packer(puzzlescript.parse(source.replace("All Goal on Crate", "Some Crate")))
    (level,) = (each for each in packer.game.levels if isinstance(each, Level))
    size = packer.level_size(level)._replace(draws=draws)
    play, tables = plays.program(Machine(size), False), plays.tables([packer], size)
    started = play(tables, np.int32(0), plays.start(level, size), np.int32(START), np.int32(0))[0]
    assert not started.won
    assert play(tables, np.int32(0), started, np.int32(0), np.int32(0))[0].won


@pytest.mark.parametrize("draws", [False, True])
def test_a_restart_in_an_again_turn_wins_on_the_restarted_board(draws):
    """The engine tests the win conditions after the restart, as after every other turn."""
    source = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
    rules = "[ > Player ] -> [ > Player Goal ] again\n[ stationary Player ] [ Goal ] -> restart"
    source = re.sub(r"\[ > Player .*", rules, source).replace("All Goal on Crate", "No Goal")
    assert last_of(source.replace("P*O", "P."), [1], draws).won


@pytest.mark.parametrize("draws", [False, True])
def test_a_cancelled_turn_after_a_restart_is_not_tested_for_a_win(draws):
    """The turn that follows `restart` removes a crate, but is cancelled, so the crate is back.

    The engine then tests the win conditions on the restored board.
    """
    source = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
    rules = "[ action Player ] -> restart\n[ stationary Player ] [ Crate ] -> [ Player ] [ ] cancel"
    source = "run_rules_on_level_start\n" + re.sub(r"\[ > Player .*", rules, source)
    source = source.replace("P*O", "P*.")
    assert not last_of(source.replace("All Goal on Crate", "No Crate"), [4], draws).won
    assert last_of(source.replace("All Goal on Crate", "Some Crate"), [4], draws).won


def last_of(source: str, actions: list[int], draws: bool) -> Any:
    """Return the board after actions in the only level of a game.

    `draws` says whether the interpreter allows random numbers, and therefore plays trials of
    `again` turns.
    """
    packer = Packer(puzzlescript.parse(source))
    (level,) = (each for each in packer.game.levels if isinstance(each, Level))
    size = packer.level_size(level)._replace(draws=draws)
    play, tables = plays.program(Machine(size), False), plays.tables([packer], size)
    board = plays.start(level, size)
    for action in [START, *actions]:
        board = play(tables, np.int32(0), board, np.int32(action), np.int32(0))[0]
    return board


def test_a_restart_at_the_start_of_a_level_runs_the_rules_once_more():
    """A restart in the first turn of a level runs the rules once more.

    The second run draws new random numbers and ignores `restart`, as in the engine.
    """
    source = (engine.HERE / "games" / "minimal.txt").read_text("utf-8")
    rules = "random [ Crate ] -> [ ] restart"
    source = "run_rules_on_level_start\n" + re.sub(r"\[ > Player .*", rules, source)
    packer = Packer(puzzlescript.parse(source.replace("P*O", "P**********")))
    game = packer.game
    (level,) = (each for each in game.levels if isinstance(each, Level))
    size = packer.level_size(level)
    play = plays.program(Machine(size), False)
    turn = np.int32(0), plays.start(level, size), np.int32(START), np.int32(0)
    after = plays.masks(game, play(plays.tables([packer], size), *turn)[0])
    crate = 1 << game.objects.index("crate")
    left = [i for i, cell in enumerate(after) if cell & crate]
    first, second = (1 + int(draw * 10) for draw in engine.DRAWS[:2])
    assert first != second and left == [i for i in range(1, 11) if i != second]
