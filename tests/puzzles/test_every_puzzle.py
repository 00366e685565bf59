"""Tests of every puzzle: properties that a search needs, on random boards and near the goal."""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.puzzles import (
    TSP,
    Cube,
    Hanoi,
    LightsOut,
    Maze,
    Pancake,
    PegSolitaire,
    Puzzle,
    Pyraminx,
    Skewb,
    SlidingTile,
    Sokoban,
    Sudoku,
    TopSpin,
)

PUZZLES = {
    "cube": Cube(size=2),
    "cube with half turns": Cube(size=2, turns="half"),
    "cube of all faces": Cube(size=2, all_faces=True),
    "cube 3x3": Cube(size=3, scramble=5),
    "hanoi": Hanoi(disks=4),
    "hanoi with four pegs": Hanoi(disks=6, pegs=4),
    "lights out": LightsOut(size=4),
    "lights out of two words": LightsOut(size=6),
    "maze": Maze(rows=7, columns=8),
    "pancake": Pancake(size=7),
    "peg solitaire": PegSolitaire(),
    "peg solitaire near its end": PegSolitaire(scramble=9, reward="pegs"),
    "pyraminx": Pyraminx(),
    "skewb": Skewb(),
    "sliding tile": SlidingTile(size=3, reward="dense"),
    "sliding tile of several words": SlidingTile(size=5),
    "sokoban": Sokoban(size=6, boxes=2, pulls=8),
    "sokoban with dead ends": Sokoban(size=7, boxes=3, pulls=8, dead_ends=True),
    "sudoku": Sudoku(blanks=50),
    "sudoku guided": Sudoku(blanks=50, guided=True),
    "topspin": TopSpin(size=8),
    "topspin by windows": TopSpin(size=7, moves="window"),
    "tsp": TSP(cities=6),
}
# Add the smallest id of every puzzle class that is not listed above.
PUZZLES |= {
    ids[0]: jaxenvs.make(ids[0])
    for kind, ids in jaxenvs.registry.classes("Puzzle").items()
    if issubclass(kind, Puzzle) and kind not in {*map(type, PUZZLES.values())}
}
# Classes without `predecessors`; all other classes define this method.
WITHOUT_PREDECESSORS = {TSP}
ROWS, WALKED, EDGES = 24, 8, 192

# Puzzles that are tested only with the mark `full`, because the default tests of `test_twisty.py`,
# `test_hanoi.py` and others already cover their rules.
MORE = {
    "cube with half turns",
    "cube of all faces",
    "cube 3x3",
    "hanoi",
    "hanoi with four pegs",
    "lights out",
    "peg solitaire near its end",
    "pyraminx",
    "skewb",
    "sliding tile of several words",
    "sokoban with dead ends",
    "sudoku guided",
    "topspin by windows",
}
every_puzzle = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] if name in MORE else []) for name in PUZZLES],
)


def has(puzzle, method, *args):
    """Return whether a puzzle supports an optional method: it raises no `NotImplementedError`."""
    try:
        jax.eval_shape(getattr(puzzle, method), *args)
    except NotImplementedError:
        return False
    return True


@functools.cache
def boards_of(name):
    """Return `ROWS` instances and boards of a puzzle, stacked along a first axis.

    One third are initial boards, one third are boards after a random walk, and one third are boards
    near the goal. If a puzzle has no single goal board, the last third are also boards after a
    random walk.
    """
    puzzle = PUZZLES[name]

    @jax.jit
    def draw(key):
        keys = jax.random.split(key, ROWS)
        levels = jax.vmap(puzzle.sample_level)(keys)
        walk = jax.vmap(lambda k, i, b: puzzle.walk(k, i, b, WALKED))
        walked = walk(keys, levels.instance, levels.board)
        near = walked
        if has(puzzle, "goal", first(levels.instance)):
            goals = jax.vmap(lambda _, i: puzzle.goal(i))(keys, levels.instance)
            once = jax.vmap(lambda k, i, b: puzzle.walk(k, i, b, 1))
            near = once(keys, levels.instance, goals)
            near = jax.tree.map(lambda a, b: a.at[0].set(b[0]), near, goals)
        return levels.instance, jax.tree.map(
            lambda *parts: jnp.concatenate([part[i::3] for i, part in enumerate(parts)]),
            levels.board, walked, near,
        )  # fmt: skip

    # `draw` returns instances in the order of the keys, but boards in the order of the keys 0, 3,
    # 6, ..., 1, 4, 7, ..., 2, 5, 8, ... Reorder the instances in this way, so that they match the
    # boards.
    instance, board = draw(jax.random.key(zlib.crc32(name.encode())))
    order = np.concatenate([np.arange(i, ROWS, 3) for i in range(3)])
    return jax.tree.map(lambda leaf: np.asarray(leaf)[order], instance), jax.device_get(board)


def first(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


def row(tree, index):
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[index]), tree)


@functools.cache
def at_boards(name):
    """Return the tested properties of all boards of `boards_of`, as a dict of NumPy arrays."""
    puzzle = PUZZLES[name]

    def look(instance, board):
        words = puzzle.pack(board)
        moves = puzzle.neighbours(instance, board)
        state = puzzle.reset_state(
            jax.random.key(0), jaxenvs.puzzles.PuzzleLevel(board=board, instance=instance), None
        )
        seen = {
            "board": board,
            "words": words,
            "unpacked": puzzle.unpack(words),
            "moves": moves,
            "reached": jax.vmap(puzzle.pack)(moves.board),
            "shown": jax.vmap(lambda b: puzzle.observe_board(instance, b))(moves.board),
            "mask": puzzle.action_mask(state),
            "goal": puzzle.is_goal(instance, board),
            "dead": puzzle.is_dead(instance, board),
            "bound": puzzle.heuristic(instance, board),
        }
        if has(puzzle, "oracle", instance, board):
            seen["least"] = puzzle.oracle(instance, board)
            seen["next_least"] = jax.vmap(lambda b: puzzle.oracle(instance, b))(moves.board)
        if type(puzzle) not in WITHOUT_PREDECESSORS:
            before = puzzle.predecessors(instance, board)
            led = jax.vmap(lambda b, a: puzzle.apply(instance, b, a))(before.board, before.action)
            seen["before"] = before
            seen["led"] = jax.vmap(puzzle.pack)(led.board), led.cost, led.valid
        return seen

    return jax.device_get(jax.jit(jax.vmap(look))(*boards_of(name)))


@functools.cache
def edges_of(name):
    """Return random legal moves: board index, action, properties before and after the move."""
    puzzle = PUZZLES[name]
    rows, actions = np.nonzero(at_boards(name)["moves"].valid)
    chosen = np.random.default_rng(0).integers(len(rows), size=EDGES)
    rows, actions = rows[chosen], actions[chosen].astype(np.int32)
    instance, board = jax.tree.map(lambda leaf: leaf[rows], boards_of(name))

    def look(instance, board, action):
        move = puzzle.apply(instance, board, action)
        solved = puzzle.is_goal(instance, move.board)
        seen = {
            "from": puzzle.pack(board),
            "to": puzzle.pack(move.board),
            "move": move,
            "bound": puzzle.heuristic(instance, move.board),
            "reward": puzzle.step_reward(instance, board, move, solved),
        }
        if puzzle.inverse is not None:
            back = puzzle.apply(instance, move.board, jnp.asarray(puzzle.inverse)[action])
            seen["back"] = puzzle.pack(back.board), back.cost, back.valid
        if type(puzzle) not in WITHOUT_PREDECESSORS:
            before = puzzle.predecessors(instance, move.board)
            words = jax.vmap(puzzle.pack)(before.board)
            here = (words == puzzle.pack(board)).all(axis=-1) & (before.action == action)
            seen["known"] = (here & before.valid).sum(dtype=jnp.int32)
        return seen

    seen = jax.jit(jax.vmap(look))(instance, board, jnp.asarray(actions))
    return rows, actions, jax.device_get(seen)


@every_puzzle
def test_the_mask_marks_the_actions_that_change_the_board(name):
    seen = at_boards(name)
    changed = (seen["reached"] != seen["words"][:, None]).any(axis=-1)
    np.testing.assert_array_equal(changed, seen["moves"].valid)
    np.testing.assert_array_equal(seen["mask"], seen["moves"].valid)
    assert (seen["goal"] | seen["dead"] | seen["mask"].any(axis=1)).all()
    assert seen["moves"].valid.any()


@every_puzzle
def test_an_action_is_one_of_the_neighbours(name):
    puzzle, seen = PUZZLES[name], at_boards(name)
    rows, actions, edge = edges_of(name)
    assert edge["move"].valid.all()
    np.testing.assert_array_equal(edge["to"], seen["reached"][rows, actions])
    np.testing.assert_array_equal(edge["move"].cost, seen["moves"].cost[rows, actions])
    assert (edge["move"].cost > 0).all()
    assert not puzzle.unit_cost or (edge["move"].cost == 1).all()


@every_puzzle
def test_packing_is_exact(name):
    """Packing and unpacking restores the exact board; different boards have different words."""
    puzzle, seen = PUZZLES[name], at_boards(name)
    for given, back in zip(
        jax.tree.leaves(seen["board"]), jax.tree.leaves(seen["unpacked"]), strict=True
    ):
        assert given.dtype == back.dtype
        np.testing.assert_array_equal(given, back)
    assert seen["words"].dtype == np.uint32 and seen["words"].ndim == 2
    count = ROWS * puzzle.num_actions
    flat = [np.asarray(x).reshape(count, -1) for x in jax.tree.leaves(seen["moves"].board)]
    boards = {tuple(x[i].tobytes() for x in flat) for i in range(count)}
    assert len(boards) == len(np.unique(seen["reached"].reshape(count, -1), axis=0)) > 6


@every_puzzle
def test_different_boards_have_different_observations(name):
    """Different boards have different observations.

    Otherwise `fully_observed` would be wrong: planners would see more than the agent.
    """
    puzzle, seen = PUZZLES[name], at_boards(name)
    assert puzzle.fully_observed
    words = seen["reached"].reshape(ROWS * puzzle.num_actions, -1)
    looks = np.asarray(seen["shown"]).reshape(len(words), -1)
    known: dict[bytes, bytes] = {}
    for look, word in zip(looks, words, strict=True):
        assert known.setdefault(look.tobytes(), word.tobytes()) == word.tobytes()


@every_puzzle
def test_the_inverse_undoes(name):
    puzzle = PUZZLES[name]
    if puzzle.inverse is None:
        assert type(puzzle) in {PegSolitaire, Sokoban, Sudoku, TSP}
        return
    assert puzzle.inverse.dtype == np.int32
    every = np.arange(puzzle.num_actions)
    np.testing.assert_array_equal(puzzle.inverse[puzzle.inverse], every)
    edge = edges_of(name)[2]
    words, cost, valid = edge["back"]
    assert valid.all()
    np.testing.assert_array_equal(words, edge["from"])
    np.testing.assert_array_equal(cost, edge["move"].cost)


@every_puzzle
def test_every_predecessor_is_found_and_leads_here(name):
    puzzle = PUZZLES[name]
    if type(puzzle) in WITHOUT_PREDECESSORS:
        assert not has(puzzle, "predecessors", *row(boards_of(name), 0))
        return
    assert (edges_of(name)[2]["known"] == 1).all()
    seen = at_boards(name)
    before, (words, cost, valid) = seen["before"], seen["led"]
    assert before.valid.any()
    leads = valid & (words == seen["words"][:, None]).all(axis=-1)
    assert leads[before.valid].all()
    np.testing.assert_array_equal(cost[before.valid], before.cost[before.valid])


@every_puzzle
def test_the_heuristic_is_consistent(name):
    """The heuristic of a board is at most the cost of a move plus the heuristic after the move.

    A heuristic that is also 0 at the goal is then admissible.
    """
    seen, (rows, _, edge) = at_boards(name), edges_of(name)
    assert seen["bound"].dtype == np.float32 and np.isfinite(seen["bound"]).all()
    assert (seen["bound"] >= 0).all() and (seen["bound"][seen["goal"]] == 0).all()
    rounding = 0 if PUZZLES[name].unit_cost else 1e-5
    assert (seen["bound"][rows] <= edge["move"].cost + edge["bound"] + rounding).all()


@every_puzzle
def test_the_oracle_is_the_optimal_cost(name):
    """The oracle is 0 at a goal and satisfies the Bellman equation elsewhere."""
    seen = at_boards(name)
    if "least" not in seen:
        assert type(PUZZLES[name]) not in {LightsOut, Maze}
        return
    least, moves = seen["least"], seen["moves"]
    assert (least[seen["goal"]] == 0).all() and (seen["bound"] <= least).all()
    after = np.where(moves.valid, moves.cost + seen["next_least"], np.inf).min(axis=1)
    np.testing.assert_array_equal(least[~seen["goal"]], after[~seen["goal"]])


@every_puzzle
def test_the_goal_is_solved(name):
    puzzle = PUZZLES[name]
    instance, board = row(boards_of(name), 0)
    if not has(puzzle, "goal", instance):
        assert type(puzzle) in {Sokoban, Sudoku}
        return
    goal = puzzle.goal(instance)
    assert puzzle.is_goal(instance, goal) and not puzzle.is_dead(instance, goal)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), goal) == jax.tree.map(
        lambda x: (x.shape, x.dtype), board
    )


@every_puzzle
def test_rewards_are_in_their_range(name):
    low, high = PUZZLES[name].reward_range
    reward = edges_of(name)[2]["reward"]
    assert reward.dtype == np.float32 and (low <= reward).all() and (reward <= high).all()


@every_puzzle
def test_read_level_inverts_text(name):
    puzzle, boards = PUZZLES[name], jax.device_get(boards_of(name))
    pack = jax.jit(puzzle.pack)
    for index in (0, 1, ROWS // 2, ROWS - 1):
        instance, board = row(boards, index)
        level = puzzle.read_level(puzzle.text(instance, board))
        np.testing.assert_array_equal(pack(level.board), at_boards(name)["words"][index])
        # Compare the instances of initial boards only: in Sudoku's text, given digits and placed
        # digits look the same.
        if index < 2:
            for wrote, read in zip(
                jax.tree.leaves(instance), jax.tree.leaves(level.instance), strict=True
            ):
                assert wrote.dtype == read.dtype
                np.testing.assert_array_equal(wrote, read)


@every_puzzle
def test_the_time_limit_and_action_names_are_valid(name):
    limit = PUZZLES[name].default_params.max_steps_in_episode
    assert np.asarray(limit).dtype == np.int32 and limit > 0
    assert len(set(PUZZLES[name].action_names)) == PUZZLES[name].num_actions
