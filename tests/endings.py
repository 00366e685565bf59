"""How an episode of each class ends: a level near its end, and the actions to it.

For `test_contract.py`; needs only jaxenvs.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs

_, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
EMPTY, WALL, GOAL, RED_BALL, RED_DOOR = 0x01, 0x52, 0x18, 0x06, 0x0B  # tiles; the door is shut
BLUE_BALL, BLUE_BOX, BLUE_DOOR = 0x26, 0x27, 0x2B


def facing(level, *tiles):
    """The level with the agent in the corner and these tiles in a row before it."""
    grid = jnp.asarray(level.grid).at[1, 1].set(EMPTY)
    grid = grid.at[1, 2 : 2 + len(tiles)].set(jnp.array(tiles, jnp.uint8))
    return level.replace(grid=grid, pose=jnp.array([1, 1, 0], jnp.int8))


def target(level, number):
    """Byte of a packed task."""
    return int(level.task) >> 8 * number & 255


def at_the_door(level, door):
    """The level with this door, shut but not locked, in front of the agent."""
    (row,), (column,) = np.nonzero(np.isin(np.asarray(level.grid), (door, door + 1)))
    grid = jnp.asarray(level.grid).at[row, column].set(door)
    return level.replace(grid=grid, pose=jnp.array([row, column - 1, 0], jnp.int8))


def at_the_match(level):
    row, column = target(level, 0), target(level, 1)
    up = row < level.grid.shape[0] // 2
    return level.replace(pose=jnp.array([row + 1 if up else row - 1, column, 3 if up else 1], "b"))


# Class: a level that lies near its end, and the actions to it; a goal ahead in all others.
GRID_ENDINGS = {
    "DynamicObstacles": lambda level: (
        level.replace(pose=jnp.array([1, 1, 2], jnp.int8)),
        [FORWARD],
    ),
    "Fetch": lambda level: (facing(level, RED_BALL), [PICKUP]),
    "GoToDoor": lambda level: (level, [TOGGLE]),
    "GoToObject": lambda level: (level, [DONE]),
    "KeyCorridor": lambda level: (facing(level, target(level, 0)), [PICKUP]),
    "Memory": lambda level: (at_the_match(level), [FORWARD]),
    "ObstructedDoor": lambda level: (facing(level, BLUE_BALL), [PICKUP]),
    "ObstructedMaze": lambda level: (facing(level, BLUE_BALL), [PICKUP]),
    "PutNear": lambda level: (facing(level, target(level, 3)), [PICKUP, DROP]),
    "RedBlueDoors": lambda level: (at_the_door(level, BLUE_DOOR), [TOGGLE]),
    "Unlock": lambda level: (between_key_and_door(level), [PICKUP, RIGHT, RIGHT, TOGGLE]),
    "UnlockPickup": lambda level: (facing(level, target(level, 0)), [PICKUP]),
    "Playground": lambda level: (level, None),  # never ends by itself
}


def between_key_and_door(level):
    """The level with the agent before the locked door, its back to it and the key before it."""
    grid = np.asarray(level.grid)
    (row,), (column,) = np.nonzero(grid & 15 == 12)
    key = int(grid[row, column]) & 0xF0 | 5
    grid = level.grid.at[row, column - 1].set(EMPTY).at[row, column - 2].set(key)
    return level.replace(grid=grid, pose=jnp.array([row, column - 1, 2], jnp.int8))


def grid_ending(env, level):
    name = type(env).__name__
    if name in GRID_ENDINGS:
        return GRID_ENDINGS[name](level)
    return facing(level, GOAL), [FORWARD]


def babyai_ending(env, level):
    """An empty room with what the mission speaks of, and a mission of one instruction."""
    from jaxenvs.babyai import mission as m

    verb = env.verbs[0]
    ball, box, door = m.description(6, 0), m.description(7, 2), m.description(4, 0)
    what = {
        m.GO_TO: (m.go_to(ball), [RED_BALL], [DONE]),
        m.OPEN: (m.open_door(door), [RED_DOOR], [TOGGLE]),
        m.PICK_UP: (m.pick_up(ball), [RED_BALL], [PICKUP]),
        m.PUT_NEXT: (m.put_next(ball, box), [RED_BALL, BLUE_BOX], [PICKUP, DROP]),
    }
    word, tiles, actions = what[verb]
    bare = jnp.full_like(level.grid, WALL).at[1:-1, 1:-1].set(EMPTY)
    task = jnp.zeros_like(level.task).at[0].set(word)
    # A plain level: what the mission means in it is found when the episode begins.
    plain = jaxenvs.grid.Level(grid=bare, pose=level.pose, task=task, accepted=level.accepted)
    return facing(plain, *tiles), actions


def craft_ending(env, level):
    """Lava to the right of the player, who stands in the middle."""
    from jaxenvs.craft import Action, Block

    middle = env.size // 2
    ahead = level.map.at[middle, middle + 1].set(Block.LAVA)
    return level.replace(map=ahead), [Action.NOOP, Action.RIGHT]


def one_push_left(env):
    """A player beside a box beside a target; the other boxes are on theirs."""
    rows = ["@$.".ljust(env.size - 2), " " * (env.size - 2)]
    rows.append(("*" * (env.boxes - 1)).ljust(env.size - 2))
    rows += [" " * (env.size - 2)] * (env.size - 5)
    edge = "#" * env.size
    return env.read_level("\n".join([edge, *(f"#{row}#" for row in rows), edge]))


def one_blank_left(level):
    """A full grid but for the first cell, where only 1 fits."""
    line = np.arange(9)
    grid = (3 * (line % 3) + line // 3)[:, None] + line
    board = jnp.asarray((grid % 9 + 1).astype(np.uint8)).at[0, 0].set(0)
    return level.replace(board=board, instance=board != 0)


# Two last 128s join; then a tile comes between 32 and 8, whatever it is.
LAST_MOVE = np.array([[3, 4, 3, 4], [4, 3, 4, 3], [3, 4, 3, 4], [5, 6, 7, 7]], np.uint8)
# Class: as `GRID_ENDINGS`; the last move before the goal for all others.
PUZZLE_ENDINGS = {
    "Game2048": lambda env, level: (level.replace(board=jnp.asarray(LAST_MOVE)), [1]),
    "Minesweeper": lambda env, level: (
        level.replace(board=jnp.zeros_like(level.board).at[0, 0].set(1)),
        [1, 0],
    ),
    "Sokoban": lambda env, level: (one_push_left(env), [1]),
    "Sudoku": lambda env, level: (one_blank_left(level), [0]),
    "TSP": lambda env, level: (level, range(1, env.cities)),
}


def puzzle_ending(env, level):
    name = type(env).__name__
    if name in PUZZLE_ENDINGS:
        return PUZZLE_ENDINGS[name](env, level)
    before = env.predecessors(level.instance, env.goal(level.instance))
    first = int(np.argmax(before.valid))
    board = jax.tree.map(lambda leaf: leaf[first], before.board)
    return level.replace(board=board), [before.action[first]]


def classic_ending(env, level):
    """A pole that leans to the limit and goes on falling."""
    return jnp.array([0.0, 0.0, 0.2, 1.0], jnp.float32), [1]


# Family: as `GRID_ENDINGS`.
ENDINGS = {
    "Grid": grid_ending,
    "BabyAI": babyai_ending,
    "Classic": classic_ending,
    "Craft": craft_ending,
    "Puzzle": puzzle_ending,
}
