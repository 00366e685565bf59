"""The real `minigrid` package beside our worlds: layouts carried over both ways, play recorded.

The package indexes by [x, y] = [column, row]; ours by (row, column).
"""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import minigrid  # registers the package's ids with gymnasium
import numpy as np
from minigrid.core import world_object
from minigrid.core.constants import IDX_TO_COLOR
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.minigrid_env import MiniGridEnv

from jaxenvs.grid import GridEnv, Kind, Level, tiles

assert minigrid.__version__ == "3.2.0", "the rules are stated for minigrid 3.2.0"

FIELDS = ("image", "direction", "reward", "terminated", "truncated")


def make(id, **fields):
    """The package's environment for one of our ids or aliases, without gymnasium's checks."""
    name = id.replace("Grid-", "MiniGrid-", 1) if id.startswith("Grid-") else id
    name = {"MiniGrid-v0": "MiniGrid-Empty-8x8-v0"}.get(name, name)
    return gymnasium.make(name, disable_env_checker=True, **fields).unwrapped


def grid_of(env):
    """The package's grid as our tile bytes, (rows, columns)."""
    return tiles.decode(env.grid.encode()).T


def lift(env):
    """The package's present layout as our level."""
    x, y = env.agent_pos
    return Level.of(jnp.asarray(grid_of(env)), int(y), int(x), int(env.agent_dir))


def thing(code):
    """The package's object for a tile byte; None for an empty cell."""
    kind, colour = Kind(int(code) & 15), IDX_TO_COLOR[int(code) >> 4]
    if kind == Kind.EMPTY:
        return None
    if kind in (Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR):
        return world_object.Door(colour, kind == Kind.DOOR, kind == Kind.LOCKED_DOOR)
    plain = {
        Kind.WALL: world_object.Wall,
        Kind.GOAL: world_object.Goal,
        Kind.LAVA: world_object.Lava,
    }
    if kind in plain:
        return plain[kind]()
    painted = {
        Kind.FLOOR: world_object.Floor,
        Kind.KEY: world_object.Key,
        Kind.BALL: world_object.Ball,
        Kind.BOX: world_object.Box,
    }
    return painted[kind](colour)


class DrawnUpstream(MiniGridEnv):
    """A world of the package with the grid it is given."""

    def __init__(self, codes, pose, max_steps, **fields):
        self.codes, self.pose = np.asarray(codes), np.asarray(pose).tolist()
        height, width = self.codes.shape
        mission = MissionSpace(mission_func=lambda: "play")
        super().__init__(mission, width=width, height=height, max_steps=max_steps, **fields)

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        for (row, column), code in np.ndenumerate(self.codes):
            self.grid.set(column, row, thing(code))
        row, column, self.agent_dir = self.pose
        self.agent_pos = (column, row)
        self.mission = "play"


class DrawnGrid(GridEnv):
    """A world of ours that is always started by `reset_to`, so that its layout is never drawn."""

    rows: int
    columns: int
    limit: int = 1000

    @property
    def height(self):
        return self.rows

    @property
    def width(self):
        return self.columns

    @property
    def max_steps(self):
        return self.limit

    def layout(self, key):
        return Level.of(jnp.full((self.rows, self.columns), tiles.EMPTY, jnp.uint8), 0, 0, 0)


@dataclasses.dataclass
class Episode:
    """What the package did: the level, the actions, and every output; index 0 is the reset."""

    level: Level
    mission: str
    actions: list
    image: list
    direction: list
    reward: list
    terminated: list
    truncated: list  # in our sense: and not terminated


def record(env, actions, *, stop=True, seed=None, image=lambda obs: obs["image"]):
    """Play `actions` in the package from a reset; `stop` ends with the episode.

    `env` may be wrapped by the package's wrappers; `image` picks what to compare of an observation.
    """
    obs, _ = env.reset(seed=seed)
    base = env.unwrapped
    level = lift(base)
    if callable(actions):
        actions = actions(level)
    episode = Episode(
        level, obs["mission"], [], [image(obs)], [obs["direction"]], [0.0], [False], [False]
    )
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(int(action))
        episode.actions.append(int(action))
        episode.image.append(image(obs))
        episode.direction.append(int(obs["direction"]))
        episode.reward.append(float(reward))
        episode.terminated.append(bool(terminated))
        episode.truncated.append(bool(truncated) and not terminated)
        if stop and (terminated or truncated):
            break
    return episode


def replay(env, episodes, params=None):
    """Play the episodes' actions in our world: one compilation, padded to the longest.

    Returns a dict of arrays (episode, time + 1, ...) and the states over time.
    """
    longest = max(len(e.actions) for e in episodes)
    actions = np.zeros((len(episodes), longest), np.int32)
    for row, episode in enumerate(episodes):
        actions[row, : len(episode.actions)] = episode.actions
    levels = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[e.level for e in episodes])
    params = env.default_params if params is None else params
    key = jax.random.key(0)  # a step draws nothing

    @jax.jit
    def play(levels, actions):
        def one_episode(level, actions):
            first = env.reset_to(key, level, params)

            def one(state, action):
                step = env.step(key, state, action, params)
                return step.state, (step, step.state.direction)

            steps, directions = jax.lax.scan(one, first.state, actions)[1]
            return first, steps, first.state.direction, directions

        return jax.vmap(one_episode)(levels, actions)

    first, steps, first_direction, directions = jax.device_get(play(levels, actions))
    nothing = np.zeros((len(episodes), 1))
    join = lambda a, b: np.concatenate([a[:, None], b], axis=1)  # noqa: E731
    return {
        "image": jax.tree.map(join, first.obs, steps.obs),
        "direction": join(first_direction, directions),
        "reward": np.concatenate([nothing, steps.reward], axis=1),
        "terminated": np.concatenate([nothing, steps.terminated], axis=1).astype(bool),
        "truncated": np.concatenate([nothing, steps.truncated], axis=1).astype(bool),
    }, jax.tree.map(join, first.state, steps.state)


def differences(env, episodes, params=None):
    """Replay the episodes and count, for each output, the moments at which the two sides differ."""
    ours, states = replay(env, episodes, params)
    counts = dict.fromkeys(FIELDS, 0)
    for row, episode in enumerate(episodes):
        moments = len(episode.actions) + 1
        for field in FIELDS:
            theirs = np.asarray(getattr(episode, field))
            mine = ours[field][row, :moments]
            assert mine.shape == theirs.shape, (field, mine.shape, theirs.shape)
            wrong = abs(mine - theirs) > 1e-6 if field == "reward" else mine != theirs
            counts[field] += int(wrong.reshape(moments, -1).any(axis=1).sum())
    return counts, states
