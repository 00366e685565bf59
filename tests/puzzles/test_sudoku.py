"""Tests of Sudoku: placements against a simple reference, solvable levels, text, dead ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

from jaxenvs.puzzles.puzzle import PuzzleLevel
from jaxenvs.puzzles.sudoku import Sudoku

env, guided = Sudoku(), Sudoku(guided=True)
key = jax.random.key(0)
NO_CLUES = np.zeros((9, 9), bool)
LEVELS = 2048

# The example in Wikipedia's article "Sudoku".
EXAMPLE = """
53. | .7. | ...
6.. | 195 | ...
.98 | ... | .6.
----+-----+----
8.. | .6. | ..3
4.. | 8.3 | ..1
7.. | .2. | ..6
----+-----+----
.6. | ... | 28.
... | 419 | ..5
... | .8. | .79
"""
SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


def allowed(board):
    """Return a dict: cell -> set of the digits allowed in the cell, empty if the cell is filled."""
    found = {}
    for row, column in np.ndindex(9, 9):
        r, c = row // 3 * 3, column // 3 * 3
        seen = {*board[row], *board[:, column], *board[r : r + 3, c : c + 3].ravel()}
        found[row, column] = set() if board[row, column] else set(range(1, 10)) - seen
    return found


def tightest(board, digits):
    empty = [cell for cell in np.ndindex(9, 9) if not board[cell]]
    return min(empty, key=lambda cell: len(digits[cell]), default=(0, 0))


def solution(board):
    """Fill a grid by backtracking, fewest candidates first; return None if it is impossible."""
    digits = allowed(board)
    cell = tightest(board, digits)
    if board[cell]:
        return board
    for digit in digits[cell]:
        after = board.copy()
        after[cell] = digit
        if (found := solution(after)) is not None:
            return found
    return None


def is_full(grid):
    units = [*grid, *grid.T, *grid.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)]
    return all(set(unit) == set(range(1, 10)) for unit in units)


@pytest.fixture(scope="module")
def levels():
    drawn = jax.jit(jax.vmap(lambda key: env.draw_level(key, None)))(
        jax.random.split(jax.random.key(1), LEVELS)
    )
    return np.asarray(drawn.board), np.asarray(drawn.instance)


@pytest.fixture(scope="module")
def played():
    """Return all boards of random episodes, which include full boards and boards without a move."""
    rng, boards = np.random.default_rng(0), []
    for seed in range(6):
        level = Sudoku(blanks=(2, 30, 40, 60, 75, 81)[seed]).sample_level(jax.random.key(seed))
        board = np.array(level.board)
        while True:
            boards.append(board.copy())
            moves = [(cell, digit) for cell, ds in allowed(board).items() for digit in ds]
            if not moves:
                break
            cell, digit = moves[rng.integers(len(moves))]
            board[cell] = digit
    return boards


def test_the_mask_marks_the_digits_that_row_column_and_box_allow(played):
    masks = jax.jit(lambda state: (env.action_mask(state), guided.action_mask(state)))
    moves = jax.jit(env.neighbours)
    for board in played:
        digits = allowed(board)
        right = np.array([[d in digits[cell] for d in range(1, 10)] for cell in np.ndindex(9, 9)])
        state = env.reset_state(key, PuzzleLevel(board=jnp.asarray(board)), None)
        every, narrow = masks(state)
        np.testing.assert_array_equal(every, right.ravel())
        np.testing.assert_array_equal(
            narrow, right.reshape(9, 9, 9)[tightest(board, digits)], "guided"
        )
        after = moves(NO_CLUES, state.board)
        np.testing.assert_array_equal(after.valid, right.ravel())
        reached = np.asarray(after.board)
        changed = reached != board
        assert (changed.sum(axis=(1, 2)) == right.ravel()).all()
        for action in np.flatnonzero(right)[:5]:
            assert reached[action].ravel()[action // 9] == action % 9 + 1


def test_guided_moves_fill_the_cell_with_the_fewest_candidates(played):
    moves = jax.jit(guided.neighbours)
    for board in played[::5]:
        after, digits = moves(NO_CLUES, jnp.asarray(board)), allowed(board)
        cell = tightest(board, digits)
        assert set(np.flatnonzero(after.valid) + 1) == digits[cell]
        for digit in digits[cell]:
            assert after.board[digit - 1][cell] == digit


def test_ends(played):
    goal, dead, stuck = map(jax.jit, (env.is_goal, env.is_dead, guided.is_dead))
    found = []
    for board in played:
        digits = allowed(board)
        assert bool(goal(NO_CLUES, board)) == is_full(board)
        without = not any(digits.values())
        assert bool(dead(NO_CLUES, board)) == (without and not board.all())
        assert bool(stuck(NO_CLUES, board)) == (
            not board.all() and not digits[tightest(board, digits)]
        )
        found.append((is_full(board), without))
    assert {(False, False), (False, True), (True, True)} <= set(found)
    wrong = np.tile(
        np.arange(1, 10, dtype=np.uint8), (9, 1)
    )  # each row of this board is valid, but its columns are not
    for board in (wrong, wrong.T):
        assert not goal(NO_CLUES, board) and not is_full(board)


def drawn(count, seed=4, blanks=1):
    """Return the boards of `count` levels; by default, one cell of each board is empty."""
    draw = jax.jit(jax.vmap(lambda key: Sudoku(blanks=blanks).draw_level(key, None).board))
    return np.asarray(draw(jax.random.split(jax.random.key(seed), count)))


def test_levels_come_from_full_grids(levels):
    boards, clues = levels
    assert ((boards == 0).sum(axis=(1, 2)) == 40).all()
    np.testing.assert_array_equal(clues, boards > 0)
    blank = (boards == 0).mean(axis=0)
    assert abs(blank - 40 / 81).max() < 5 * (0.25 / LEVELS) ** 0.5
    for grid in drawn(200, seed=2):
        full = solution(grid.copy())
        assert full is not None and is_full(full)


@pytest.mark.parametrize("blanks", [40, *with_full(55)])
def test_every_level_is_solvable(blanks):
    for board in drawn(25, seed=3, blanks=blanks):
        full = solution(board.copy())
        assert full is not None and is_full(full) and (full == board)[board > 0].all()


def test_all_symmetries_are_drawn():
    """Random symmetries of Sudoku, applied to a fixed grid, move digits to all possible cells.

    Every cell outside row 0, column 0 and box 0 has the digit of cell (0, 0) in over 5 % of the
    grids. Each digit is about equally frequent in every cell.
    """
    grids = drawn(LEVELS)
    possible = np.ones((9, 9), bool)
    possible[0, 1:] = possible[1:, 0] = possible[:3, :3] = False
    for lines in (grids, grids.swapaxes(1, 2)):
        places = (lines == lines[:, :1, :1]).sum(axis=0)
        assert (places[possible] > LEVELS / 20).all()
    digits = np.array([(grids == digit).sum(axis=0) for digit in range(1, 10)])
    assert abs(digits - LEVELS / 9).max() < 6 * (LEVELS / 9) ** 0.5


def test_digits_are_permuted_uniformly():
    """In a quarter of the grids, the digits 1 and 2 of the first row are in the same box.

    A quarter is expected of a random order of digits: of the 8 cells that remain for the 2, the box
    of the 1 has 2.
    """
    first = drawn(LEVELS)[:, 0]
    whole = first[(first > 0).all(axis=1)]
    together = np.argmax(whole == 1, axis=1) // 3 == np.argmax(whole == 2, axis=1) // 3
    assert abs(together.mean() - 1 / 4) < 5 * (3 / 16 / len(whole)) ** 0.5


def test_half_of_the_grids_are_transposed():
    """About half of the grids are transposed.

    A triple is the set of digits in a row or column of a 3x3 box. A grid that is not transposed has
    9 different horizontal triples and 3 vertical ones. In a transposed grid, the numbers are 3 and
    9.
    """
    sets = []
    for grid in drawn(200):
        if (full := solution(grid)) is not None:
            sets.append(
                tuple(len({frozenset(s) for s in x.reshape(27, 3)}) for x in (full, full.T))
            )
    assert set(sets) == {(9, 3), (3, 9)}
    assert 60 < sets.count((9, 3)) < 140


def test_predecessors_erase_one_placed_digit(played):
    for puzzle in (env, guided):
        predecessors, moves = jax.jit(puzzle.predecessors), jax.jit(puzzle.neighbours)
        forward = jax.jit(jax.vmap(puzzle.apply, in_axes=(None, 0, 0)))
        for before in played[1::9]:
            clues = jnp.asarray(before > 0)
            after = moves(clues, before)
            for action in np.flatnonzero(after.valid)[:3]:
                back = predecessors(clues, after.board[action])
                found = [
                    int(back.action[i])
                    for i in np.flatnonzero(back.valid)
                    if (back.board[i] == before).all()
                ]
                assert found == [action]
                assert (np.asarray(back.board)[back.valid] > 0)[:, before > 0].all(), "clues stay"
            back = predecessors(NO_CLUES, before)
            again = forward(NO_CLUES, back.board, back.action)
            leads = (again.board == before).all(axis=(1, 2)) & again.valid
            np.testing.assert_array_equal(back.valid, leads & (before > 0).ravel())


def test_read_level_inverts_text():
    level = env.read_level(EXAMPLE)
    line = "".join(c for c in EXAMPLE if c in "123456789.")
    for text in (line, line.replace(".", "0"), env.text(level.instance, level.board)):
        again = env.read_level(text)
        assert (again.board == level.board).all() and (again.instance == level.instance).all()


def test_the_example_has_its_known_unique_solution():
    level = env.read_level(EXAMPLE)
    board, state = np.asarray(level.board).ravel(), env.reset_to(key, level).state
    step = jax.jit(env.step)
    blanks = [cell for cell in range(81) if not board[cell]]
    for left, cell in zip(range(len(blanks) - 1, -1, -1), blanks, strict=True):
        taken = step(key, state, jnp.int32(9 * cell + int(SOLUTION[cell]) - 1))
        state = taken.state
        assert env.heuristic(state.instance, state.board) == left
        assert bool(taken.terminated) == bool(taken.info["solved"]) == (left == 0)
        assert float(taken.reward) == (left == 0)
    assert "".join(map(str, np.asarray(taken.obs).ravel())) == SOLUTION
    tiles = np.asarray(env.tiles(state)) % 19
    np.testing.assert_array_equal(tiles > 9, np.asarray(level.board) > 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXAMPLE.replace("53.", "53x"), "line 2 has 'x'"),
        (EXAMPLE.replace("53. |", "53 |"), "line 2 has 8 cells"),
        (EXAMPLE[: EXAMPLE.rindex("...")], "has 8 lines|has 3 cells"),
        ("", "has 0 lines"),
        (EXAMPLE.replace("53.", "533"), "line 2, column 2: the digit 3 occurs twice in its row"),
        (EXAMPLE.replace("4.. | 8", "5.. | 8"), "line 2, column 1: .* its column"),
        (EXAMPLE.replace("6.. | 1", "6.5 | 1"), "line 2, column 1: the digit 5 .* in its box"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(ValueError, match=message):
        env.read_level(text)


@pytest.mark.parametrize("blanks", [0, 82])
def test_bad_fields(blanks):
    with pytest.raises(ValueError, match="from 1 to 81"):
        Sudoku(blanks=blanks)
