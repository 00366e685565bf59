"""Tests of Sokoban: pushes on drawn maps, predecessors, generated levels and their solutions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bfs import distances, each
from defaults import with_full

import jaxenvs
from jaxenvs.puzzles import Sokoban, sokoban
from jaxenvs.puzzles.sokoban_levels import DEAD, WALL, push_distances

UP, RIGHT, DOWN, LEFT = range(4)
SMALL = Sokoban(size=6, boxes=2, pulls=8)


@functools.cache
def jitted(env, name):
    return jax.jit(getattr(env, name))


@functools.cache
def drawn(env, count, seed=0):
    """Return `count` levels, stacked along a first axis."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.device_get(jax.jit(jax.vmap(env.sample_level))(keys))


def nth(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def field(drawing):
    """Return a 6 x 6 field: the rows of `drawing` (separated by `/`), and walls elsewhere."""
    rows = drawing.split("/")
    rows = ["#" + row.ljust(4, "#") + "#" for row in rows]
    return "\n".join((["######", *rows] + ["######"] * 5)[:6])


# Tuples (row of cells inside the walls, action, row after the action, 10 times the reward).
MOVES = [
    ("@ $.", RIGHT, " @$.", -1),
    ("@$ .", RIGHT, " @$.", -1),
    ("@$. ", RIGHT, " @* ", 109),
    ("@*  ", RIGHT, " +$ ", -11),
    ("@$#.", RIGHT, "@$#.", -1),
    ("#@$.", RIGHT, "# @*", 109),
    (".$@#", LEFT, "*@ #", 109),
    (" $@.", LEFT, "$@ .", -1),
    ("$@ .", LEFT, "$@ .", -1),
    ("@$ .", UP, "@$ .", -1),
    ("@$ .", DOWN, "@$ .", -1),
    ("+$  ", RIGHT, ".@$ ", -1),
]


@pytest.mark.parametrize(("before", "action", "after", "tenths"), MOVES)
def test_one_box(before, action, after, tenths):
    env = Sokoban(size=6, boxes=1)
    state = jitted(env, "reset_to")(jax.random.key(0), env.read_level(field(before))).state
    out = jitted(env, "step")(jax.random.key(0), state, jnp.int32(action))
    assert env.text(out.state.instance, out.state.board) == field(after)
    assert np.round(out.reward * 10) == tenths
    assert bool(out.terminated) == bool(out.info["solved"]) == (tenths == 109)
    assert bool(env.action_mask(state)[action]) == (before != after)


# Tuples (field with two boxes, actions, field after the actions, 10 times the sum of rewards).
PLAYS = [
    ("@$$ /  ..", [RIGHT], "@$$ /  ..", -1),
    ("@$  /$   / .. ", [RIGHT, LEFT, DOWN], "  $ /@   /$.. ", -3),
    ("@$  / $. / .  ", [RIGHT, LEFT, DOWN, RIGHT], "  $ / @* / .  ", 6),
    ("@$$./ .  ", [RIGHT], "@$$./ .  ", -1),
    ("@*. / $  ", [RIGHT], " +* / $  ", -1),  # pushes a box from one target onto the next
    (" @  /.$$ / .  ", [LEFT, DOWN, RIGHT], "    /+$$ / .  ", -3),
    (" @  / $$ / .. ", [DOWN, UP, RIGHT, DOWN], "    /  @ / ** ", 10 + 110 - 4),
]


@pytest.mark.parametrize(("before", "actions", "after", "tenths"), PLAYS)
def test_two_boxes(before, actions, after, tenths):
    state = jitted(SMALL, "reset_to")(jax.random.key(0), SMALL.read_level(field(before))).state
    total = 0.0
    for action in actions:
        out = jitted(SMALL, "step")(jax.random.key(0), state, jnp.int32(action))
        state, total = out.state, total + float(out.reward)
    assert SMALL.text(state.instance, state.board) == field(after)
    np.testing.assert_allclose(total, tenths / 10, atol=1e-5)
    assert bool(out.terminated) == ("$" not in after)


def test_each_direction_pushes():
    """The same push works in all four directions, tested by rotations of the field."""
    env = Sokoban(size=6, boxes=1)
    field = np.array([list(row) for row in ("######", "#    #", "#  . #", "#@$  #", "#    #")])
    field = np.concatenate([field, field[:1]])
    for turns in range(4):
        turned = ["\n".join("".join(row) for row in np.rot90(field, -turns))]
        level = env.read_level(turned[0])
        move = env.apply(level.instance, level.board, jnp.int32((RIGHT + turns) % 4))
        wanted = np.array(field)
        wanted[3, 1:4] = list(" @$")
        wanted = "\n".join("".join(row) for row in np.rot90(wanted, -turns))
        assert env.text(level.instance, move.board) == wanted


def test_the_range_of_rewards_is_reached():
    env = Sokoban(size=6, boxes=1)
    low, high = env.reward_range
    for drawing, wanted in (("@*  ", low), ("@$. ", high)):
        level = env.read_level(field(drawing))
        reward = env.step(
            jax.random.key(0), env.reset_to(jax.random.key(0), level).state, jnp.int32(RIGHT)
        ).reward
        assert low <= reward <= high
        np.testing.assert_allclose(reward, wanted, rtol=1e-6)


def walls_and_targets(instance, size):
    cells = np.asarray(instance).reshape(size, size)
    return cells == WALL, cells == 0


def predecessors_of(env, instance, words):
    """Return packed predecessors of each board (boards, 8, words), actions, mask of valid ones."""

    def back(instance, board):
        found = env.predecessors(instance, board)
        return jax.vmap(env.pack)(found.board), found.action, found.valid

    return each(env, back, words, instance, batch=256)


@pytest.mark.parametrize("env", [SMALL, *with_full(Sokoban())])
def test_predecessors_are_complete_and_correct(env):
    """`predecessors` reverses exactly the legal moves, on boards near the start of a level."""
    moves = functools.partial(_packed_moves, env)
    for seed in range(3):
        level = nth(drawn(env, 60), seed)
        states = distances(env, level.instance, level.board, limit=12, batch=256).words[:3000]
        after, valid = each(env, moves, states, level.instance, batch=256)
        forwards = {
            (*before.tolist(), action, *after[i, action].tolist())
            for i, before in enumerate(states)
            for action in np.flatnonzero(valid[i])
        }
        reached = np.unique(after[valid], axis=0)
        back, actions, real = predecessors_of(env, level.instance, reached)
        backwards = [
            (*back[i, j].tolist(), int(actions[i, j]), *board.tolist())
            for i, board in enumerate(reached)
            for j in np.flatnonzero(real[i])
        ]
        assert len(set(backwards)) == len(backwards), "none twice"
        assert forwards <= set(backwards), "none is missing"
        # Each predecessor is valid: the player is neither on a box nor in a wall. Its action leads
        # to the board.
        boards = each(env, lambda _, board: board, back[real], level.instance, batch=256)
        assert (boards.player[:, None] != boards.boxes).all()
        assert (np.asarray(level.instance)[boards.player] != WALL).all()
        again, may = each(env, moves, back[real], level.instance, batch=256)
        rows, chosen = np.arange(len(again)), actions[real]
        assert may[rows, chosen].all()
        np.testing.assert_array_equal(again[rows, chosen], np.repeat(reached, real.sum(1), axis=0))


def _packed_moves(env, instance, board):
    moves = env.neighbours(instance, board)
    return jax.vmap(env.pack)(moves.board), moves.valid


def solution_length(env, level):
    """Return (fewest actions to a solved board, reachable boards, mask of solved boards).

    The fewest actions are None if no solved board is reachable.
    """
    states = distances(env, level.instance, level.board, batch=1024)
    goal = each(env, env.is_goal, states.words, level.instance, batch=1024)
    return (int(states.distance[goal].min()) if goal.any() else None), states, goal


def test_every_small_level_has_a_solution():
    levels = drawn(SMALL, 60)
    lengths = [solution_length(SMALL, nth(levels, i))[0] for i in range(60)]
    assert None not in lengths
    assert min(lengths) > 0
    assert len(set(lengths)) > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "count"),
    [(SMALL, 500), (Sokoban(), 25), (Sokoban(size=7, boxes=3, pulls=9), 100)],
    ids=["6x6", "10x10", "7x7"],
)
def test_more_levels_have_a_solution(env, count):
    levels = drawn(env, count, seed=9)
    lengths = [solution_length(env, nth(levels, i))[0] for i in range(count)]
    print(f"{env.size}x{env.size}: solutions of {np.mean(lengths)} steps, at most {max(lengths)}")
    assert None not in lengths
    assert min(lengths) > 0


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(Sokoban(), marks=pytest.mark.full),
        Sokoban(size=5, boxes=2, pulls=1),
        *with_full(SMALL, Sokoban(size=5, boxes=1)),
    ],
)
def test_generated_levels_are_well_formed(env):
    """No level is solved, boxes are distinct and on the floor, and the floor is connected."""
    levels, size, count = drawn(env, 500), env.size, 500
    cells, boxes = np.asarray(levels.instance), np.asarray(levels.board.boxes).astype(int)
    player = np.asarray(levels.board.player).astype(int)
    assert not np.asarray(jax.jit(jax.vmap(env.is_goal))(levels.instance, levels.board)).any()
    assert ((cells == 0).sum(axis=1) == env.boxes).all()
    assert (np.diff(boxes, axis=1) > 0).all()
    rows = np.arange(count)
    assert (cells[rows[:, None], boxes] < DEAD).all()
    assert (cells[rows, player] != WALL).all()
    assert (player[:, None] != boxes).all()
    walls = (cells == WALL).reshape(count, size, size)
    border = np.ones((size, size), bool)
    border[1:-1, 1:-1] = False
    assert walls[:, border].all()
    for wall in walls[:100]:
        reach = np.zeros_like(wall)
        reach[tuple(np.argwhere(~wall)[0])] = True
        for _ in range(size * size):
            spread = reach.copy()
            spread[1:] |= reach[:-1]
            spread[:-1] |= reach[1:]
            spread[:, 1:] |= reach[:, :-1]
            spread[:, :-1] |= reach[:, 1:]
            reach = spread & ~wall
        assert (reach == ~wall).all()


def test_levels_differ_and_rooms_fill_the_field():
    levels = drawn(Sokoban(), 500)
    floor = np.asarray(levels.instance) != WALL
    assert len(np.unique(floor, axis=0)) > 495
    share = floor.mean(axis=0).reshape(10, 10)[1:-1, 1:-1]
    assert share.min() > 0.1
    assert share.max() < 0.95


def test_push_distances_are_those_of_a_single_box():
    """The push distances in levels are the fewest pushes that bring a single box to a target.

    The test finds them by a backward search, as if the player could reach every free cell.
    """
    env = Sokoban()
    levels = drawn(env, 500)
    for i in range(10):
        walls, targets = walls_and_targets(levels.instance[i], 10)
        wanted = np.where(walls, WALL, DEAD)
        wanted[targets] = 0
        layer, number = list(map(tuple, np.argwhere(targets))), 0
        while layer:
            number += 1
            farther = []
            for row, column in layer:
                for down, right in ((-1, 0), (0, 1), (1, 0), (0, -1)):
                    box, player = (row + down, column + right), (row + 2 * down, column + 2 * right)
                    if wanted[box] == DEAD and not walls[player]:
                        wanted[box] = number
                        farther.append(box)
            layer = farther
        np.testing.assert_array_equal(levels.instance[i].reshape(10, 10), wanted)


def test_dead_squares_in_a_drawing():
    env = Sokoban(size=6, boxes=1)
    level = env.read_level("######\n#   ##\n# $.@#\n#    #\n#    #\n######")
    cells = np.asarray(level.instance).reshape(6, 6)[1:-1, 1:-1]
    no, wall = DEAD, WALL
    wanted = [[no, no, no, wall], [no, 1, 0, no], [no, 2, 1, no], [no, no, no, no]]
    np.testing.assert_array_equal(cells, wanted)


def test_dead_ends_end_the_episode_if_the_field_is_set():
    drawing = field("    / @  / $. ")
    for asked in (False, True):
        env = Sokoban(size=6, boxes=1, dead_ends=asked)
        state = env.reset_to(jax.random.key(0), env.read_level(drawing)).state
        out = env.step(jax.random.key(0), state, jnp.int32(DOWN))
        assert not out.terminated, "into the wall of the drawing"
        level = env.read_level(field("    / @  / $. /    "))
        state = env.reset_to(jax.random.key(0), level).state
        out = env.step(jax.random.key(0), state, jnp.int32(DOWN))
        assert bool(out.terminated) == asked
        assert not out.info["solved"]
        np.testing.assert_allclose(out.reward, -0.1)


def test_dead_boards_are_unsolvable_and_the_heuristic_is_a_lower_bound():
    """Boards that `is_dead` recognises are unsolvable, and the heuristic is a lower bound.

    All boards of small levels are tested, with distances from a backward search from the solved
    boards.
    """
    env = Sokoban(size=6, boxes=2, pulls=8, dead_ends=True)
    dead_boards = 0
    for i in range(12):
        level = nth(drawn(SMALL, 60), i)
        _, states, goal = solution_length(SMALL, level)
        after, valid = each(
            env, functools.partial(_packed_moves, env), states.words, level.instance, batch=1024
        )
        number = {tuple(words): j for j, words in enumerate(states.words.tolist())}
        links = np.array(
            [
                [number[tuple(a)] if ok else j for a, ok in zip(row, may, strict=True)]
                for j, (row, may) in enumerate(zip(after.tolist(), valid, strict=True))
            ]
        )
        left = np.where(goal, 0, np.inf)
        while (closer := np.minimum(left, left[links].min(axis=1) + 1)).tolist() != left.tolist():
            left = closer
        h = each(env, env.heuristic, states.words, level.instance, batch=1024)
        assert (h <= left).all()
        assert (h[goal] == 0).all()
        assert (h[:, None] <= h[links] + 1).all(), "consistent"
        dead = each(env, env.is_dead, states.words, level.instance, batch=1024)
        assert np.isinf(left[dead]).all()
        dead_boards += dead.sum()
    assert dead_boards > 100


def test_wrong_fields_are_refused(as_a_user):
    with pytest.raises(TypeError, match="levels must be a path"):
        Sokoban(levels=3)
    with pytest.raises(ValueError, match="size=17 is out of range"):
        Sokoban(size=17)
    with pytest.raises(ValueError, match="boxes=5 is out of range"):
        Sokoban(size=6, boxes=5)
    with pytest.raises(ValueError, match="dead_ends='yes'"):
        Sokoban(dead_ends="yes")


def test_the_ids():
    assert jaxenvs.make("Puzzle-Sokoban-10x10-v0") == Sokoban(size=10, boxes=4, pulls=16)
    assert jaxenvs.make("Puzzle-Sokoban-6x6-v0") == SMALL
    assert SMALL.default_params.max_steps_in_episode == 120


def test_push_distances_of_no_floor():
    nothing = jnp.zeros((5, 5), jnp.bool_)
    assert (jax.jit(push_distances)(nothing, nothing) == WALL).all()


def test_reading_compiles_once_for_each_size():
    """The loop over push distances is compiled once per size, not once per level (0.2 s each)."""
    level = field("  . / @$ / $. /    ")
    SMALL.read_level(level)
    programs = sokoban._push_distances._cache_size()
    SMALL.read_level(level.replace("@", " ").replace(" . ", "@. "))
    assert sokoban._push_distances._cache_size() == programs
