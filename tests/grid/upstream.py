"""Compare this library with MiniGrid: convert MiniGrid's levels, record and replay its episodes.

MiniGrid indexes by [x, y] = [column, row], this library by (row, column).
"""

import contextlib
import dataclasses
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import minigrid  # registers MiniGrid's ids with gymnasium
import numpy as np
import tasks
import wfc_upstream
from minigrid.core import world_object
from minigrid.core.constants import COLOR_TO_IDX, IDX_TO_COLOR
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.minigrid_env import MiniGridEnv

from jaxenvs import registry
from jaxenvs.grid import GridEnv, Kind, Level, dynamicobstacles, missions, tiles

assert minigrid.__version__ == "3.2.0", "the rules are stated for minigrid 3.2.0"

# Ids of this library with levels that MiniGrid has as well.
IDS = [id for id in registry.list("Grid") if registry.spec(id).upstream != id]
IDS += registry.list("BabyAI")
FIELDS = ("image", "direction", "mission", "reward", "terminated", "truncated")


def make(id, **fields):
    """Make MiniGrid's environment for an id or alias of this library.

    Gymnasium's checks are disabled. For ids with `WFC`, the environment has recorded levels,
    because MiniGrid's wheel lacks the images from which it makes levels.
    """
    if "-WFC-" in id:
        return wfc_upstream.Recorded(id.split("-")[2], **fields)
    name = id.replace("Grid-", "MiniGrid-", 1) if id.startswith("Grid-") else id
    name = {"MiniGrid-v0": "MiniGrid-Empty-8x8-v0"}.get(name, name)
    with warnings.catch_warnings():  # Gymnasium warns about ids that have a newer version
        warnings.simplefilter("ignore", DeprecationWarning)
        return gymnasium.make(name, disable_env_checker=True, **fields).unwrapped


def family(env):
    """Return the name of an environment's family, such as a key of `expert.PLAYERS`."""
    if hasattr(env, "instrs"):
        return "BabyAI"
    name = type(env).__name__.removesuffix("Env").split("_")[0]
    lava = name == "Crossing" and env.obstacle_type is world_object.Lava
    return "LavaCrossing" if lava else name


def grid_of(env):
    """Return MiniGrid's grid as tile bytes (rows, columns), which include the contents of boxes.

    An object that the agent carries at the start is put into the cell where MiniGrid first placed
    it, as in this library's levels.
    """
    grid = tiles.decode(env.grid.encode()).T
    if env.carrying is not None:
        column, row = env.carrying.init_pos
        grid[row, column] = tasks.tile(env.carrying.type, env.carrying.color)
    if not hasattr(env, "instrs"):
        for place, thing in enumerate(env.grid.grid):
            if thing is not None and thing.contains is not None:
                row, column = divmod(place, env.grid.width)
                grid[row, column] = Kind.KEY_BOX | COLOR_TO_IDX[thing.contains.color] << 4
    return grid


def lift(env):
    """Return MiniGrid's grid and agent after a reset as a level of this library."""
    x, y = env.agent_pos
    grid = jnp.asarray(grid_of(env))
    return Level.of(grid, int(y), int(x), int(env.agent_dir), **tasks.fields(env))


def thing(code):
    """Return MiniGrid's object for a tile byte; None for an empty cell."""
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
    """MiniGrid environment whose grid and pose are arguments of the constructor."""

    def __init__(self, codes, pose, max_steps, **fields):
        self.codes, self.pose = np.asarray(codes), np.asarray(pose).tolist()
        height, width = self.codes.shape
        mission = MissionSpace(mission_func=lambda: "")
        super().__init__(mission, width=width, height=height, max_steps=max_steps, **fields)

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        for (row, column), code in np.ndenumerate(self.codes):
            self.grid.set(column, row, thing(code))
        row, column, self.agent_dir = self.pose
        self.agent_pos = (column, row)
        self.mission = ""


class DrawnGrid(GridEnv):
    """Environment for levels that tests pass to `reset_to`; `generate` returns an empty grid."""

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

    def generate(self, key):
        return Level.of(jnp.full((self.rows, self.columns), tiles.EMPTY, jnp.uint8), 0, 0, 0)


@dataclasses.dataclass
class Episode:
    """Recorded episode of MiniGrid: level, actions and all outputs; index 0 is the reset.

    Each list except `actions` has one entry for the reset and one for each step.
    """

    level: Level
    actions: list
    image: list
    direction: list
    mission: list
    reward: list
    terminated: list
    truncated: list  # never together with `terminated`, as in this library
    balls: list  # cells of the moving balls after the reset and after each step


def record(env, actions, *, stop=True, seed=None, image=lambda obs: obs["image"]):
    """Play an episode of MiniGrid from a reset; without `stop`, continue after its end.

    `actions` is a list, or a function that returns a list for the environment after the reset.
    `env` may have MiniGrid's wrappers. `image` selects the part of an observation to record.
    """
    with contextlib.redirect_stdout(None):  # BabyAI prints the levels that it rejects.
        obs, _ = env.reset(seed=seed)
    base = env.unwrapped
    episode = Episode(
        lift(base), [], [image(obs)], [obs["direction"]], [obs["mission"]], [0.0], [False], [False],
        [tasks.balls(base)] if hasattr(base, "obstacles") else [],
    )  # fmt: skip
    for action in actions(base) if callable(actions) else actions:
        obs, reward, terminated, truncated, _ = env.step(int(action))
        episode.actions.append(int(action))
        episode.image.append(image(obs))
        episode.direction.append(int(obs["direction"]))
        episode.mission.append(obs["mission"])
        episode.reward.append(float(reward))
        episode.terminated.append(bool(terminated))
        episode.truncated.append(bool(truncated) and not terminated)
        if episode.balls:
            episode.balls.append(tasks.balls(base))
        if stop and (terminated or truncated):
            break
    return episode


class FollowedBalls(dynamicobstacles.DynamicObstacles):
    """Dynamic-Obstacles in which the balls repeat recorded moves instead of random ones.

    The field `task` of levels and states has the balls' cells at each time step.
    """

    moments: int = 1

    def generate(self, key):
        level = super().generate(key)
        return level.replace(task=jnp.tile(level.task, (self.moments, 1)))

    def step_state(self, key, state, action, params):
        then, now = state.task[state.time - 1], state.task[state.time]
        step = self.outcome(key, state.replace(task=then), now, action, params)
        return step._replace(state=step.state.replace(task=state.task))


def followed(env, episodes, longest):
    """Return the environment in which `replay` plays the episodes, and their stacked levels.

    The environment is `env`, unless the episodes have moving balls. Then it is a `FollowedBalls`,
    in which the balls repeat their recorded moves. longest: actions of the longest episode.
    """
    levels = [episode.level for episode in episodes]
    if episodes[0].balls:
        fields = {f.name: getattr(env, f.name) for f in dataclasses.fields(env)}
        env = FollowedBalls(**fields, moments=longest + 1)
        for row, episode in enumerate(episodes):
            cells = [*episode.balls, *episode.balls[-1:] * (longest + 1 - len(episode.balls))]
            levels[row] = levels[row].replace(task=jnp.asarray(np.array(cells)))
    return env, jax.tree.map(lambda *leaves: jnp.stack(leaves), *levels)


def replay(env, episodes, params=None):
    """Play the recorded actions in this library's environment, padded to the longest episode.

    Returns a dict of arrays (episodes, longest + 1, ...): all outputs of the reset and the steps,
    and `grid` and `carried` of the states.
    """
    longest = max(len(e.actions) for e in episodes)
    actions = np.zeros((len(episodes), longest), np.int32)
    for row, episode in enumerate(episodes):
        actions[row, : len(episode.actions)] = episode.actions
    env, levels = followed(env, episodes, longest)
    params = env.default_params if params is None else params
    key = jax.random.key(0)  # the key has no effect: steps use no random numbers

    def outputs(obs, state):
        rest = {"direction": state.direction, "mission": env.mission_words(state)}
        seen = obs if isinstance(obs, dict) else {"image": obs, **rest}
        return {**seen, "grid": state.grid, "carried": state.carried}

    @jax.jit
    def play(levels, actions):
        def one_episode(level, actions):
            first = env.reset_to(key, level, params)

            def one(state, action):
                step = env.step(key, state, action, params)
                ends = {name: getattr(step, name) for name in ("reward", "terminated", "truncated")}
                return step.state, {**outputs(step.obs, step.state), **ends}

            return outputs(*first), jax.lax.scan(one, first.state, actions)[1]

        return jax.vmap(one_episode)(levels, actions)

    first, then = jax.device_get(play(levels, actions))
    nothing = {
        name: np.zeros(len(episodes), then[name].dtype) for name in then if name not in first
    }
    join = lambda a, b: np.concatenate([a[:, None], b], axis=1)  # noqa: E731
    return jax.tree.map(join, {**first, **nothing}, then)


def said(words):
    """Convert word ids along the last axis to sentences; return a flat array of strings."""
    flat = words.reshape(-1, words.shape[-1])
    each, where = np.unique(flat, axis=0, return_inverse=True)
    return np.array([missions.text(row) for row in each])[where.reshape(-1)]


def differences(env, episodes, params=None):
    """Replay the episodes; return a dict of differences, and the result of `replay`.

    The dict has for each output the number of time steps with a difference.
    """
    ours = replay(env, episodes, params)
    counts = dict.fromkeys(FIELDS, 0)
    for row, episode in enumerate(episodes):
        moments = len(episode.actions) + 1
        for field in FIELDS:
            theirs = np.asarray(getattr(episode, field))
            mine = ours[field][row, :moments]
            mine = said(mine) if field == "mission" else mine
            assert mine.shape == theirs.shape, (field, mine.shape, theirs.shape)
            wrong = abs(mine - theirs) > 1e-6 if field == "reward" else mine != theirs
            counts[field] += int(wrong.reshape(moments, -1).any(axis=1).sum())
    return counts, ours
