"""Tests of twisty puzzles: group orders, every board of small puzzles, unreachable boards."""

import functools
import re

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sympy.combinatorics import Permutation, PermutationGroup

from jaxenvs.puzzles import Cube, Pyraminx, Skewb, groups

ORDERS = [
    (Cube(size=2), 3_674_160),
    (Cube(size=2, turns="half"), 3_674_160),
    (Cube(size=2, all_faces=True), 88_179_840),
    (Cube(size=3), 43_252_003_274_489_856_000),
    (Cube(size=3, turns="half"), 43_252_003_274_489_856_000),
    (Pyraminx(), 933_120),
    (Skewb(), 3_149_280),
]
# Number of boards at each distance from the goal, from 0; complete for the small puzzles.
LEVELS = {
    Cube(size=2): [1, 6, 27, 120, 534, 2256, 8969, 33058, 114149, 360508, 930588, 1350852, 782536,
                   90280, 276],
    Cube(size=2, turns="half"): [1, 9, 54, 321, 1847, 9992, 50136, 227536, 870072, 1887748, 623800,
                                 2644],
    Cube(size=3): [1, 12, 114, 1068, 10011],
    Cube(size=3, turns="half"): [1, 18, 243, 3240, 43239],
    Pyraminx(): [1, 8, 48, 288, 1728, 9896, 51808, 220111, 480467, 166276, 2457, 32],
    Skewb(): [1, 8, 48, 288, 1728, 10248, 59304, 315198, 1225483, 1455856, 81028, 90],
}  # fmt: skip
DEEPEST = 5000  # distances with this many boards or more are checked only by the slow tests
SMALL = [puzzle for puzzle in LEVELS if puzzle not in (Cube(size=3), Cube(size=3, turns="half"))]


# Puzzles of the default tests: one of each class, and both sizes of the cube. The other cubes (half
# turns, or turns of all faces) have tables of the same function, and are tested only with `full`.
OF_EACH_CLASS = (Cube(size=2), Cube(size=3), Pyraminx(), Skewb())


def named(puzzles, default=None):
    """Return pytest parameters, each named by its puzzle.

    Puzzles outside `default` get the mark `full`; without `default`, none does.
    """

    def marks(puzzle):
        return [] if default is None or puzzle in default else [pytest.mark.full]

    return [pytest.param(*p, id=str(p[0]), marks=marks(p[0])) for p in puzzles]


@functools.cache
def nearest(puzzle, levels):
    """Return the boards that are at most `levels` turns from the solved board."""
    return bfs.distances(puzzle, (), puzzle.goal(()), limit=levels)


@functools.cache
def drawn(puzzle, count, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: puzzle.sample_level(key).board))(keys))


def around(puzzle, face, place):
    """Return the faces of the other two stickers of a corner piece, in ascending order.

    The corner piece has sticker `place` of `face`.
    """
    beside, each = puzzle.tables.next_on_piece, puzzle.tables.goal.size // puzzle.shape[0]
    sticker = beside[face * each + place]
    return sorted((sticker // each, beside[sticker] // each))


@pytest.mark.parametrize("puzzle", [Cube(size=2), Cube(size=3), Skewb()], ids=str)
def test_the_layout_of_a_cube_describes_the_orientation_of_its_faces(puzzle):
    """The upper left corner of a face touches the two faces that `observation_layout` names."""
    layout = dict(puzzle.observation_layout)
    for face, name in enumerate("UFRBLD"):
        meaning = layout[f"`[{face}]`"]
        above, left = re.fullmatch(f"face {name}, with (.) above it and (.) .*", meaning).groups()
        upper_left = 1 if puzzle == Skewb() else 0
        assert around(puzzle, face, upper_left) == sorted(map("UFRBLD".index, above + left))


def test_the_layout_of_a_pyraminx_describes_the_order_of_its_stickers():
    puzzle, beside = Pyraminx(), Pyraminx().tables.next_on_piece
    layout = dict(puzzle.observation_layout)
    for face in range(4):
        axial, edges = re.findall("stickers at (.*), then edges (.*)", layout[f"`[{face}]`"])[0]
        # A vertex lies on every face except the face with the same index.
        for place, vertex in enumerate(axial.split(", ")):
            others = {*range(4)} - {face, "ULRB".index(vertex)}
            assert {*around(puzzle, face, place)} == others
        for place, ends in enumerate(edges.split(", "), 3):
            (other,) = {*range(4)} - {face, *map("ULRB".index, ends)}
            assert beside[6 * face + place] // 6 == other


@pytest.mark.parametrize(("puzzle", "order"), named(ORDERS))
def test_orders_of_the_groups(puzzle, order):
    assert puzzle.group.order == order


@pytest.mark.parametrize(("puzzle", "order"), named(ORDERS))
def test_another_package_finds_the_same_orders(puzzle, order):
    turns = [Permutation(turn.tolist()) for turn in puzzle.tables.moves]
    assert PermutationGroup(turns).order() == order


@pytest.mark.parametrize("puzzle", named(((p,) for p in LEVELS), default=OF_EACH_CLASS))
def test_the_number_of_boards_at_each_distance_is_the_known_one(puzzle):
    counts = LEVELS[puzzle]
    levels = sum(count < DEEPEST for count in counts[:7])
    found = nearest(puzzle, levels - 1)
    assert found.counts == counts[:levels] and levels >= 4
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and (bound[1:] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("puzzle", LEVELS, ids=str)
def test_every_board_of_the_small_puzzles(puzzle):
    """The heuristic is a lower bound on every board of the small puzzles.

    On 3x3 cubes, only boards near the goal are tested.
    """
    counts = LEVELS[puzzle]
    found = nearest(puzzle, None if puzzle in SMALL else len(counts) - 1)
    assert found.counts == counts
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and (bound[1:] > 0).all()
    print(f"{puzzle}: mean bound {bound.mean():.3f}, mean distance {found.distance.mean():.3f}")


@pytest.mark.parametrize(("puzzle", "order"), named(ORDERS))
def test_turns_have_their_periods(puzzle, order):
    """A turn has order 4 on a cube, else order 3; a half turn equals two quarter turns."""
    tables, stickers = puzzle.tables, np.arange(puzzle.tables.goal.size)
    period = 4 if isinstance(puzzle, Cube) else 3
    for action, name in enumerate(puzzle.action_names):
        source = tables.source[action]
        times = period if name[-1] != "2" else 2
        power = stickers
        for _ in range(times):
            assert (power != stickers).any() or power is stickers
            power = power[source]
        np.testing.assert_array_equal(power, stickers)
        np.testing.assert_array_equal(source[tables.source[tables.inverse[action]]], stickers)
        if name[-1] == "2":
            quarter = tables.source[puzzle.action_names.index(name[0])]
            np.testing.assert_array_equal(quarter[quarter], source)


def test_a_turn_of_the_front_follows_the_standard_notation():
    """F moves the lower row of U to the left column of R."""
    board = Cube(size=3).read_level("F").board
    assert Cube(size=3).text((), board).split() == [
        "WWWWWWOOO", "GGGGGGGGG", "WRRWRRWRR", "BBBBBBBBB", "OOYOOYOOY", "RRRYYYYYY"
    ]  # fmt: skip


def test_120_degree_turns_are_clockwise():
    """Turns by 120 degrees are clockwise.

    In the Pyraminx, U moves the axial sticker at vertex U from the front face (opposite B) to the
    left face (opposite R). In the Skewb, R turns about the corner of the faces U, R and F, and
    moves the centre of U to R.
    """
    assert Pyraminx().read_level("U").board.reshape(4, 6)[2, 0] == 3
    assert Skewb().read_level("R").board.reshape(6, 5)[2, 0] == 0


SEQUENCES = [
    (Cube(size=3), "R U R' U'", 6),
    (Cube(size=3), "R U", 105),
    (Cube(size=3, turns="half"), "R2 U2", 6),
    (Cube(size=2), "R U R' U'", 6),
    (Pyraminx(), "U R U' R'", 3),
]


@pytest.mark.parametrize(("puzzle", "turns", "period"), SEQUENCES)
def test_sequences_have_their_known_orders(puzzle, turns, period):
    for times in range(1, period):
        assert not puzzle.is_goal((), puzzle.read_level(" ".join([turns] * times)).board)
    assert puzzle.is_goal((), puzzle.read_level(" ".join([turns] * period)).board)


@pytest.mark.parametrize(("puzzle", "order"), named(ORDERS, default=OF_EACH_CLASS))
def test_random_boards_are_reachable(puzzle, order):
    for board in drawn(puzzle, 2400)[:40]:
        level = puzzle.read_level(puzzle.text((), board.reshape(-1)))
        np.testing.assert_array_equal(level.board, board)


@pytest.mark.parametrize(("puzzle", "order"), named(ORDERS, default=OF_EACH_CLASS))
def test_random_boards_are_uniform(puzzle, order):
    """Each tested sticker is uniformly distributed over the places that it can reach."""
    tables, boards = puzzle.tables, drawn(puzzle, 2400)
    for kind in np.unique(tables.kind):
        turned = (tables.source != np.arange(tables.goal.size)).any(axis=0)
        places = np.flatnonzero((tables.kind == kind) & turned)
        if not places.size:
            continue
        beside = tables.next_on_piece
        for sticker in places[[0, places.size // 2]]:
            here = boards[:, places] == tables.goal[sticker]
            here &= boards[:, beside[places]] == tables.goal[beside[sticker]]
            if kind == 1:
                assert here.sum() >= len(boards)
                continue
            counts = here.sum(axis=0)
            able = np.array([_can_go(puzzle, sticker, place) for place in places])
            assert counts.sum() == len(boards) and (counts[~able] == 0).all()
            expected = len(boards) / able.sum()
            chi_squared = ((counts[able] - expected) ** 2 / expected).sum()
            assert chi_squared < able.sum() + 5 * np.sqrt(2 * able.sum())


def _can_go(puzzle, sticker, place):
    orbit = next(o for o in groups.orbits(puzzle.tables.moves) if sticker in o)
    return place in orbit


@pytest.mark.parametrize("puzzle", named(((p,) for p in SMALL), default=OF_EACH_CLASS))
def test_a_scramble_is_at_most_its_turns_away(puzzle):
    """A scramble of n turns is at most n turns from the goal.

    No turn of a scramble undoes the previous one, so most scrambles of four turns are at least two
    turns from the goal.
    """
    pack = jax.jit(jax.vmap(puzzle.pack))
    for turns in (0, 1, 4):
        scrambled = type(puzzle)(**_fields(puzzle), scramble=turns)
        words = np.asarray(pack(drawn(scrambled, 64)))
        far = nearest(puzzle, 4).of(words)
        assert (far >= 0).all() and (far <= turns).all()
        assert turns > 1 or (far == turns).all()
        assert turns < 4 or (far >= 2).mean() > 0.8


def _fields(puzzle):
    return {"size": puzzle.size, "turns": puzzle.turns} if isinstance(puzzle, Cube) else {}


def swapped(puzzle, *pairs):
    """Return the text of the solved puzzle in which the two stickers of each pair are exchanged."""
    board = puzzle.tables.goal.copy()
    for a, b in pairs:
        board[[a, b]] = board[[b, a]]
    return puzzle.text((), board)


def corner_of(puzzle, sticker):
    """Return the indices of `sticker` and of its corner piece's other stickers, clockwise."""
    beside = puzzle.tables.next_on_piece
    return sticker, int(beside[sticker]), int(beside[beside[sticker]])


def twisted(puzzle, sticker):
    """Return the text of the solved puzzle with one corner twisted."""
    a, b, c = corner_of(puzzle, sticker)
    return swapped(puzzle, (a, b), (b, c))


# Indices of the cube's stickers: 0 to 8 on U, 9 to 17 on F, 18 to 26 on R. Stickers 7 and 10 are on
# one edge piece, stickers 5 and 19 on another.
CUBE = Cube(size=3)
UNREACHABLE = [
    (CUBE, twisted(CUBE, 8)),  # one corner is twisted
    (CUBE, swapped(CUBE, (7, 10))),  # One edge is flipped.
    (CUBE, swapped(CUBE, (7, 5), (10, 19))),  # Two edges are exchanged.
    (CUBE, swapped(CUBE, (4, 13))),  # two centres are exchanged
    # The corner piece then has a combination of colours that no piece has.
    (CUBE, swapped(CUBE, (0, 9))),
    (Cube(size=2), twisted(Cube(size=2), 3)),
    (Pyraminx(), swapped(Pyraminx(), (3, 9))),  # One edge is flipped; axial pieces turn freely.
    (Skewb(), swapped(Skewb(), (0, 5))),
]


@pytest.mark.parametrize(("puzzle", "text"), UNREACHABLE)
def test_unreachable_boards_are_refused(puzzle, text):
    with pytest.raises(ValueError, match="this board is unreachable") as raised:
        puzzle.read_level(text)
    assert "check the colours" in str(raised.value)


UNKNOWN = [
    (CUBE, "R U X", "'X' is not a turn", "54 stickers"),
    (CUBE, "R U2", "'U2' is not a turn", "U U'"),
    (CUBE, "W" * 53 + "K", "is not a turn", "WGRBOY"),
    (CUBE, "W" * 53, "is not a turn", "54 stickers as letters of WGRBOY"),
    (Cube(size=2), "L", "'L' is not a turn", "24 stickers"),
    (Pyraminx(), "F", "'F' is not a turn", "turns of U U' L L'"),
]


@pytest.mark.parametrize(("puzzle", "text", "first", "second"), UNKNOWN)
def test_unknown_turns_and_colours_are_refused(puzzle, text, first, second):
    with pytest.raises(ValueError) as raised:
        puzzle.read_level(text)
    assert first in str(raised.value) and second in str(raised.value), str(raised.value)


def test_small_letters_and_spaces_are_read():
    text = CUBE.text((), CUBE.tables.goal)
    assert CUBE.is_goal((), CUBE.read_level(text.lower().replace("w", " w")).board)


def test_a_cube_of_all_faces_is_solved_in_any_of_24_orientations():
    """A solved 2x2 cube with `all_faces` is solved in each of its 24 orientations.

    Turning opposite faces in the same direction rotates the whole cube, which gives the 24
    orientations.
    """
    puzzle, held = Cube(size=2, all_faces=True), Cube(size=2)
    source = dict(zip(puzzle.action_names, puzzle.tables.source, strict=True))
    seen, new = set(), [puzzle.tables.goal]
    while new:
        board = new.pop()
        if board.tobytes() not in seen:
            seen.add(board.tobytes())
            new += [board[source[a]][source[b]] for a, b in (("U", "D'"), ("R", "L'"), ("F", "B'"))]
    assert len(seen) == 24
    for position in seen:
        board = jnp.asarray(np.frombuffer(position, np.uint8))
        assert puzzle.is_goal((), board) and puzzle.heuristic((), board) == 0
        assert held.is_goal((), board) == (position == puzzle.tables.goal.tobytes())
        assert not puzzle.is_goal((), board[source["R"]])


BAD_FIELDS = [
    ({"size": 4}, "size"),
    ({"size": 1}, "size"),
    ({"turns": "third"}, "quarter"),
    ({"scramble": -1}, "scramble"),
]


@pytest.mark.parametrize(("fields", "word"), BAD_FIELDS)
def test_bad_fields_are_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        Cube(**fields)
