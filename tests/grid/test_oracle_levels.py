"""Tests of the solver `jaxenvs.grid.oracle` on handmade levels: its results and lower bounds."""

import importlib

import blind
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.babyai import mission as m
from jaxenvs.core.gridworld import packed
from jaxenvs.grid import tasks, tiles
from jaxenvs.grid.oracle import bounds, solve
from jaxenvs.grid.state import Level
from jaxenvs.grid.tiles import Colour, Kind

pytestmark = pytest.mark.full

BLUE = Colour.BLUE << 4
SIGNS = {
    "#": tiles.WALL,
    ".": tiles.EMPTY,
    "G": tiles.GOAL,
    "k": Kind.KEY,
    "x": Kind.KEY_BOX,
    "L": Kind.LOCKED_DOOR,
    "r": Kind.CLOSED_DOOR,
    "R": Kind.DOOR,
    "b": Kind.CLOSED_DOOR | BLUE,
    "B": Kind.DOOR | BLUE,
    "l": Kind.LOCKED_DOOR | BLUE,
    "q": Kind.KEY | BLUE,
    "o": Kind.BALL,
    "X": Kind.BOX,
}
module = importlib.import_module("jaxenvs.grid.oracle.searching")


def level_of(picture, row, column, direction=0, task=None):
    """Return the level of a picture with one sign per cell; walls are added around it."""
    grid = np.array([[SIGNS[sign] for sign in line] for line in picture.split()], np.uint8)
    grid = np.pad(grid, 1, constant_values=tiles.WALL)
    return Level.of(grid, row, column, direction, task=task)


def compare(env, levels):
    """Check that the oracle's solutions of levels agree with breadth-first search.

    Return the fewest steps to success in each level; None if success is impossible.
    """
    search = blind.Blind(env)
    shortest = [search.shortest(level) for level in levels]
    many = jax.tree.map(lambda *leaves: jnp.stack(leaves), *levels)
    found = solve(env, many)
    assert [each.steps for each in found] == shortest
    assert [each.unsolvable for each in found] == [steps is None for steps in shortest]
    assert all(each.proven != each.unsolvable for each in found)
    return shortest


def test_red_and_blue_doors_may_be_open_locked_or_many():
    env = jaxenvs.make("Grid-RedBlueDoors-6x6-v0", size=4)
    pictures = (
        ".r..B. .#..#.",  # the agent must close the blue door, then open it again
        ".r..l. .#.q#.",  # the blue door is locked
        ".R..b. .#.r#.",  # the closed red door in another column has no effect
        ".R..b. .r..#.",  # of the two red doors in a column, one is open
    )
    levels = [level_of(picture, 1, 4) for picture in pictures]
    assert compare(env, levels) == [9, 11, 1, 1]


def test_the_wanted_key_may_be_in_a_box():
    task = tasks.pack(Kind.KEY, 0)
    level = level_of("...x .... .... ....", 1, 1, task=task)
    assert compare(jaxenvs.make("Grid-Fetch-6x6-N2-v0"), [level]) == [4]


def test_an_agent_may_carry_a_box_with_the_key_that_it_needs():
    env = jaxenvs.make("Grid-UnlockPickup-v0", room_size=5)
    level = level_of("x......" + 2 * " .######", 1, 2, 2, task=jnp.int32(Kind.KEY))
    assert compare(env, [level]) == [2]
    params = env.default_params
    state = env.reset_state(jax.random.key(0), level, params)
    tables = bounds.level_of(env, state, bounds.Sizes(0, 0))
    state, _, _, _ = env.step_state(jax.random.key(0), state, jnp.int32(3), params)
    assert state.carried == Kind.KEY_BOX
    assert bounds.lower_bound(env, tables, state) <= 3  # actions: drop, toggle, pick up


def test_an_agent_may_start_in_a_locked_doorway():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0")
    levels = [level_of(p, 1, 2, 0) for p in (".LkL .##. .##. .##G", ".LkG .#.. .#.. ....")]
    assert compare(env, levels) == [8, 3]


def test_distances_whose_sum_exceeds_a_byte_are_no_proof():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0", size=24)
    lane, (left, right) = "." * 22, ("." + "#" * 21, "#" * 21 + ".")
    rows = [lane, right, lane, left] * 5 + [lane[2:] + "LG", "#" * 22]
    level = level_of(" ".join(["k" + rows[0][1:], *rows[1:]]), 11, 12)
    first = env.reset_state(jax.random.key(0), level, env.default_params)
    bound = jax.jit(
        lambda s: bounds.lower_bound(env, bounds.level_of(env, s, bounds.Sizes(1, 4)), s)
    )(first)
    # Bound on the steps to the key, the door and the goal; a byte holds at most 255.
    assert 350 < bound < 500


def test_a_drop_removes_marks_of_cells_that_were_empty_from_the_start():
    env = jaxenvs.make(
        "BabyAI-MiniBossLevel-v0", num_rows=1, num_cols=1, locked_prob=0.0,
        actions=("goto", "putnext"),
    )  # fmt: skip
    ball, box, key = (m.description(kind) for kind in (Kind.BALL, Kind.BOX, Kind.KEY))
    left, right = m.put_next(ball, box), m.go_to(key)
    none = jnp.uint32(0)
    task = jnp.stack([left, none, right, none])
    level = env.marked(
        level_of("o.# ..# X.#", 1, 2, 2, task=task).replace(accepted=jnp.bool_(True))
    )
    # The level has no key, but an empty cell still has the mark of a key: facing this cell counts
    # as facing the key. Dropping the ball removes the mark.
    stale = level.replace(marks=level.marks.at[3, 2].set(np.uint8(1 << 4)))
    task = jnp.stack([right, none, left, none])
    first = stale.replace(task=task, marks=_swapped(stale.marks))
    assert compare(env, [stale, first]) == [None, 4]


def _swapped(marks):
    return (marks << np.uint8(4)) | (marks >> np.uint8(4))


def test_a_plan_longer_than_the_first_search_returns_is_complete(monkeypatch):
    monkeypatch.setattr(module, "LONG", 2)
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    (found,) = solve(env, level_of("... ... ..G", 1, 1))
    assert found.steps == 5 == len(found.plan) and found.proven
    state = env.reset_to(jax.random.key(0), level_of("... ... ..G", 1, 1)).state
    for action in found.plan:
        step = env.step(jax.random.key(0), state, action)
        state = step.state
    assert step.terminated and step.reward > 0


def test_an_agent_may_carry_the_object_of_the_mission_from_the_start():
    """The texts of such states can be read, although no episode begins in them."""
    fetch = jaxenvs.make("Grid-Fetch-6x6-N2-v0")
    maze = jaxenvs.make("Grid-ObstructedMaze-1Dl-v0")
    ball = np.uint8(Kind.BALL | Colour.BLUE << 4)
    for env, task, held in ((fetch, tasks.pack(Kind.KEY, 0), Kind.KEY), (maze, None, ball)):
        level = jax.tree.map(jnp.asarray, env.sample_level(jax.random.key(0)))
        level = level if task is None else level.replace(task=task)
        state = env.reset_state(jax.random.key(0), level, env.default_params)
        agent = packed(state.row, state.column, state.direction, jnp.uint8(held))
        (found,) = solve(env, state.replace(agent=agent))
        assert (found.steps, found.proven) == (1, True)


def test_a_carried_key_may_serve_the_mission_and_the_locked_door():
    env = mission_world()
    task = jnp.stack([m.pick_up(m.description(Kind.KEY)), m.go_to(m.description(Kind.BALL))])
    task = jnp.append(task, jnp.zeros(2, jnp.uint32))
    level = level_of("##.#### .kLo### #######", 2, 1, task=task)
    level = env.marked(level.replace(accepted=jnp.bool_(True)))
    state = env.reset_state(jax.random.key(0), level, env.default_params)
    held = state.marks[2, 2].astype(jnp.int32)
    state = state.replace(
        grid=state.grid.at[2, 2].set(tiles.EMPTY),
        marks=state.marks.at[2, 2].set(0),
        progress=held << 8 | 3 << 4,
        agent=packed(2, 1, 0, jnp.uint8(Kind.KEY)),
    )
    # The actions are: drop the key, pick it up, forward, toggle, forward.
    for batch_size in (1, 256):
        (found,) = solve(env, state, batch_size=batch_size)
        assert (found.steps, found.proven) == (5, True)


def test_a_level_without_doors_may_have_many_rooms():
    """Another level of the batch has a locked door and fewer rooms."""
    env = mission_world()
    ball, box, key = (m.description(kind) for kind in (Kind.BALL, Kind.BOX, Kind.KEY))
    none = jnp.zeros(2, jnp.uint32)
    first = level_of("k..L.o# ####### #######", 1, 2, task=jnp.append(
        jnp.stack([m.pick_up(key), m.go_to(ball)]), none))  # fmt: skip
    second = level_of(".#.#.#. ####### X..o..#", 3, 3, task=jnp.append(
        jnp.stack([m.pick_up(ball), m.go_to(box)]), none))  # fmt: skip
    both = [env.marked(each.replace(accepted=jnp.bool_(True))) for each in (first, second)]
    assert compare(env, both)[1] == 4
    many = jax.tree.map(lambda *leaves: jnp.stack(leaves), *both)
    states = jax.vmap(lambda level: env.reset_state(jax.random.key(0), level, env.default_params))
    starts = states(many)
    sizes = bounds.sizes_of(starts)
    start = jax.tree.map(lambda leaf: leaf[1], starts)
    assert bounds.lower_bound(env, bounds.level_of(env, start, sizes), start) <= 4


def mission_world():
    return jaxenvs.make(
        "BabyAI-MiniBossLevel-v0", num_rows=1, num_cols=2, room_size=5, locked_prob=0.0
    )
