"""Tests of the lower bounds and proofs (`sides.prove`) of the solver `jaxenvs.grid.oracle`.

Breadth-first search gives the true number of steps to success in small levels. Lower bounds are
compared with it in every state of a level, proofs in the first state only. Some of the levels are
randomly edited.
"""

import functools
from typing import Any

import blind
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import levels
from jaxenvs.babyai import mission as m
from jaxenvs.grid import tiles
from jaxenvs.grid.oracle import bounds, doors, nodes, sides
from jaxenvs.grid.oracle.searching import Found, Searcher
from jaxenvs.grid.state import Level
from jaxenvs.grid.tiles import Kind

pytestmark = pytest.mark.full

BATCH = 512  # number of states whose bounds are computed together
LARGEST = 20_000  # largest number of states of a level that is searched
IDS = (
    "BabyAI-GoToLocalS5N2-v0",
    "BabyAI-OpenTwoDoors-v0",
    "BabyAI-PutNextS4N1-v0",
    "Grid-DoorKey-6x6-v0",
    "Grid-MemoryS7-v0",
    "Grid-PutNear-6x6-N2-v0",
    "Grid-UnlockPickup-v0",
)
SLOW = (
    "BabyAI-KeyInBox-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-OpenDoorsOrderN2-v0",
    "BabyAI-OpenRedBlueDoors-v0",
    "BabyAI-SynthS5R2-v0",
    "BabyAI-UnlockLocal-v0",
    "Grid-Fetch-5x5-N2-v0",
    "Grid-GoToDoor-5x5-v0",
    "Grid-KeyCorridorS3R1-v0",
    "Grid-LavaGapS5-v0",
    "Grid-MultiRoom-N2-S4-v0",
    "Grid-RedBlueDoors-6x6-v0",
    "Grid-Unlock-v0",
)
BOTH = [*IDS, *(pytest.param(id, marks=pytest.mark.slow) for id in SLOW)]


def small(id):
    """Return the environment of an id, with small rooms where an exhaustive search needs them."""
    smaller = {"BabyAI-MiniBossLevel-v0": {"num_rows": 1, "room_size": 4}}
    return jaxenvs.make(id, **smaller.get(id, {}))


def drawn(env, count, seed=0):
    """Return `count` levels of the generator; every second level has four random edits."""
    keys = jax.random.split(jax.random.key(seed), count)
    change = jax.jit(functools.partial(levels.mutate, env))
    made = [jax.jit(env.sample_level)(key) for key in keys]
    return [level if i % 2 else change(keys[i], level, 4) for i, level in enumerate(made)]


def sizes_for(first):
    """Return sizes for the level that begins in `first`, the same for most levels of an id.

    Lower bounds treat a single locked door differently from several.
    """
    locked = int((tiles.kind(first.grid) == Kind.LOCKED_DOOR).sum())
    return bounds.Sizes(1 if locked < 2 else 4, doors.MOST)


@functools.lru_cache(maxsize=2)
def compiled_bounds(env, sizes):
    def of(first, states):
        level = bounds.level_of(env, first, sizes)
        return jax.vmap(lambda state: bounds.lower_bound(env, level, state))(states)

    return jax.jit(of)


def bounds_of(env, states):
    """Return the lower bounds of stacked states; the first state is the start of the level."""
    count = len(states.grid)
    rows = np.minimum(np.arange(-(-count // BATCH) * BATCH), count - 1).reshape(-1, BATCH)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), states)
    bound = compiled_bounds(env, sizes_for(first))
    parts = [jax.tree.map(lambda leaf, r=r: jnp.asarray(leaf[r]), states) for r in rows]
    return np.concatenate([bound(first, part) for part in parts])[:count]


def explored(env, count, largest=LARGEST):
    """Yield (level, states, steps to success) for drawn levels with at most `largest` states."""
    search = blind.Blind(env)
    for level in drawn(env, count):
        try:
            yield level, *search.distances(level, largest)
        except blind.TooLargeError:
            continue


@pytest.mark.parametrize("id", BOTH)
def test_no_bound_exceeds_the_distance_of_any_state(id):
    env, seen = small(id), 0
    for _, states, steps in explored(env, 8 if id in SLOW else 4):
        found, reached = bounds_of(env, states), steps > 0
        assert (found[reached] <= steps[reached]).all()
        assert (found >= 1).all()
        seen += reached.sum()
    print(f"{id}: {seen} states")
    assert seen > 20


# Rooms and instructions of levels with locked doors and with objects to bring to each other.
MISSIONS = {
    "doors": {"num_cols": 2, "num_dists": 2, "actions": ("putnext", "goto", "open")},
    "objects": {"num_cols": 2, "num_dists": 3, "actions": ("putnext", "pickup")},
    "three rooms": {"num_cols": 3, "num_dists": 2, "actions": ("putnext", "open", "pickup")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISSIONS)
def test_no_bound_exceeds_the_distance_in_a_mission_of_several_instructions(name):
    fields: Any = {"num_rows": 1, "room_size": 4, "locked_prob": 0.6} | MISSIONS[name]
    env, seen = jaxenvs.make("BabyAI-MiniBossLevel-v0", **fields), 0
    for level, states, steps in explored(env, 24, largest=400_000):
        found, reached = bounds_of(env, states), steps > 0
        assert (found[reached] <= steps[reached]).all(), levels.write(env, level)
        seen += reached.sum()
    print(f"{name}: {seen} states")
    assert seen > 100_000


def corridor(rows, *mission):
    """Return a level in which the agent looks right, in a corridor of one or two rows.

    Walls fill the rest of the room. rows: the rows of the corridor, separated by "/".
    """
    grid = np.full((HEIGHT, WIDTH), tiles.WALL, np.uint8)
    for number, things in enumerate(rows.split("/"), 1):
        grid[number, 1 : 1 + len(things)] = [THINGS[thing] for thing in things]
    task = jnp.stack([*mission, *[jnp.uint32(0)] * (4 - len(mission))])
    level = Level.of(grid, 1, rows.index(">") + 1, 0, task=task)
    return level.replace(accepted=jnp.bool_(True))


HEIGHT, WIDTH = 5, 9  # number of rows and columns of the level, with walls
THINGS = {
    ".": tiles.EMPTY, ">": tiles.EMPTY, "b": Kind.BALL, "x": Kind.BOX, "k": Kind.KEY,
    "#": tiles.WALL, "D": Kind.CLOSED_DOOR, "L": Kind.LOCKED_DOOR,
}  # fmt: skip
BALL, BOX, KEY, DOOR = (m.description(kind) for kind in (Kind.BALL, Kind.BOX, Kind.KEY, Kind.DOOR))
NONE = jnp.uint32(0)
# Name of a test case -> (rows of the corridor, instructions of the mission).
TOURS = {
    # The shortest plan carries the ball to the box, so that the agent need not go back to the ball.
    "then": ("x....>b", (m.go_to(BOX), NONE, m.go_to(BALL))),
    "after": ("x....>b", (m.go_to(BALL), NONE, m.go_to(BOX) | jnp.uint32(1 << m.AFTER))),
    # One pick-up serves both instructions.
    "serves": (">b..x", (m.put_next(BALL, BOX), m.pick_up(BALL))),
    # One toggle serves both instructions.
    "door": ("x>D..b", (m.open_door(DOOR), m.go_to(BALL))),
    "lock": ("k.>L.b", (m.open_door(DOOR), m.go_to(BALL))),
    # The pick-up of the key serves both instructions.
    "key": ("k.>L.b", (m.pick_up(KEY), NONE, m.go_to(BALL))),
    # The way to the ball and the way to the box lead through the same door.
    "shared": (">D.b/##.x", (m.go_to(BALL), m.go_to(BOX))),
    # The agent drops one object before it picks up the other.
    "two": ("k..>..b", (m.pick_up(KEY), m.pick_up(BALL))),
    # The agent cannot carry the door.
    "fixed": (">..b..D", (m.go_to(BALL), NONE, m.open_door(DOOR))),
    "beside": (">b....D", (m.put_next(BALL, DOOR), NONE, m.go_to(BALL))),
    # The shortest plan moves the box next to the ball, and then the ball next to the box.
    "swap": (">x....b/.......", (m.put_next(BALL, BOX),)),
    "both": ("k.>bx", (m.put_next(BALL, BOX), NONE, m.go_to(KEY))),
}
LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("swap", "both")]


@pytest.mark.parametrize("name", [*list(TOURS)[:-2], *LONG])
def test_no_tour_is_longer_than_the_distance(name):
    rows, mission = TOURS[name]
    env: Any = jaxenvs.make(
        "BabyAI-MiniBossLevel-v0", num_rows=1, num_cols=2, room_size=HEIGHT, locked_prob=0.0
    )
    level = env.marked(corridor(rows, *mission))
    states, steps = shared_blind(env).distances(level, 100_000)
    found, reached = bounds_of(env, states), steps > 0
    print(f"{name}: {len(steps)} states, distance {steps[0]}, bound {found[0]}")
    assert reached[0] and (found[reached] <= steps[reached]).all()
    assert found[0] > 3


@functools.lru_cache(maxsize=1)
def shared_blind(env):
    return blind.Blind(env)


def from_both_sides(env, level):
    """Return the results of `sides.prove` for a level that has not been searched before."""
    first = env.reset_state(jax.random.key(0), level, env.default_params)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], first)
    no, one = np.zeros(1, bool), np.ones(1, int)
    unknown = Found(no, no, 0 * one, np.full((1, 1), -1), one, no, no)
    sizes = sizes_for(jax.tree.map(lambda leaf: leaf[0], first))
    searcher = Searcher(env, sizes, nodes.most_changed(first), 50_000, 64)
    return sides.prove(searcher, first, unknown)


def test_keys_are_needed_and_balls_may_be_in_the_way():
    env = jaxenvs.make("Grid-DoorKey-6x6-v0")
    search = blind.Blind(env)
    ball, key, door = Kind.BALL, Kind.KEY, Kind.LOCKED_DOOR
    for place, blocks in (((4, 1), False), ((2, 2), True)):
        grid = np.full((6, 6), tiles.WALL, np.uint8)
        grid[1:5, 1], grid[1:5, 4], grid[2:5, 2] = tiles.EMPTY, tiles.EMPTY, tiles.EMPTY
        grid[2, 1] = tiles.EMPTY if not blocks else tiles.WALL
        grid[1, 2], grid[1, 3], grid[3, 2], grid[4, 4] = tiles.EMPTY, door, key, tiles.GOAL
        grid[place] = ball
        level = Level.of(grid, 1, 1, 0)
        best, found = search.shortest(level), from_both_sides(env, level)
        assert best is not None and found.lower[0] <= best and not found.unsolvable[0]
        assert found.proven[0] != blocks
        assert blocks or found.length[0] == best


def test_a_box_may_contain_a_box_with_the_needed_key():
    env: Any = jaxenvs.make("BabyAI-KeyInBox-v0", num_rows=2, num_cols=2, room_size=4)
    grid = np.full((env.height, env.width), tiles.WALL, np.uint8)
    grid[1, 1:5] = tiles.EMPTY, Kind.BOX, tiles.EMPTY, Kind.LOCKED_DOOR
    word = m.open_door(m.description(Kind.DOOR)) | jnp.uint32(Kind.KEY_BOX << m.CONTENTS)
    found = from_both_sides(env, env.marked(Level.of(grid, 1, 1, 0, task=m.single(word))))
    # Six actions succeed: open two boxes, pick up the key, take two steps to the door, toggle.
    assert found.lower[0] <= 6 and not found.unsolvable[0]


@pytest.mark.parametrize("id", BOTH)
def test_both_sides_of_the_proof_enclose_the_distance(id):
    env, compared = small(id), 0
    for level, _, steps in explored(env, 8 if id in SLOW else 4):
        found = from_both_sides(env, level)
        best = steps[0] if steps[0] > 0 else np.inf
        assert found.lower[0] <= best and not (found.unsolvable[0] and best < np.inf)
        assert not found.solved[0] or best <= found.length[0]
        assert not found.proven[0] or found.length[0] == best
        compared += bool(found.lower[0] > 1 or found.unsolvable[0])
    print(f"{id}: {compared} levels with irrelevant objects")
