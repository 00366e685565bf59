"""Tools to compare with XLand-MiniGrid: convert states and tasks, and play its steps."""

import dataclasses
import functools
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import xminigrid
from xminigrid.core.actions import take_action
from xminigrid.core.observation import minigrid_field_of_view
from xminigrid.envs import xland
from xminigrid.envs.xland import XLandEnvParams, XLandMiniGrid
from xminigrid.types import AgentState, EnvCarry, State, StepType, TimeStep

from jaxenvs.core.gridworld import packed
from jaxenvs.xland import XLand, XLandState, tiles

assert version("xminigrid") == "0.9.3", "the rules are stated for xminigrid 0.9.3"

PACKAGE = XLandMiniGrid()


def loosely(function):
    """Let `function` run with JAX's standard dtype promotion; XLand-MiniGrid mixes dtypes."""

    @functools.wraps(function)
    def call(*args):
        with jax.numpy_dtype_promotion("standard"):
            return function(*args)

    return call


def state_of(grid, pose, pocket, ruleset):
    """Return XLand-MiniGrid's state for a grid of tile bytes, a pose, a carried tile and a task.

    A pose is (row, column, direction). The carried tile `pocket` is a tile byte.
    """
    agent = AgentState(
        position=pose[:2].astype(jnp.int32),
        direction=pose[2].astype(jnp.int32),
        pocket=tiles.encode(pocket),
    )
    return State(
        key=jax.random.key(0),
        step_num=jnp.int32(0),
        grid=tiles.encode(grid),
        agent=agent,
        goal_encoding=ruleset.goal,
        rule_encoding=ruleset.rules,
        carry=EnvCarry(),
    )


def params_of(size, limit):
    """Return XLand-MiniGrid's params; JAX treats them as static."""
    return XLandEnvParams(height=size, width=size, view_size=5, max_steps=limit)


@functools.cache
def play(size, limit):
    """Return a compiled function that plays actions in XLand-MiniGrid, in a batch of states.

    The function maps (grids, poses, pockets, rulesets, actions) to a dict of arrays (rows, steps,
    ...), the outputs of the steps. A row is an environment of the batch.
    """
    params = params_of(size, limit)

    def step(before, action):
        nothing = jnp.zeros((), jnp.float32)
        given = TimeStep(before, StepType.MID, nothing, nothing, nothing)
        after = PACKAGE.step(params, given, action)
        state = after.state
        grid, agent, _ = take_action(before.grid, before.agent, action)
        return state, {
            "fired": (grid != state.grid).any() | (agent.pocket != state.agent.pocket).any(),
            "grid": state.grid[..., 0] | state.grid[..., 1] << 4,
            "pose": jnp.concatenate([state.agent.position, state.agent.direction[None]]),
            "pocket": state.agent.pocket[0] | state.agent.pocket[1] << 4,
            "obs": after.observation,
            "occluded": minigrid_field_of_view(state.grid, state.agent, 5, 5),
            "reward": after.reward.astype(jnp.float32),
            "terminated": after.discount == 0,
            "ended": after.step_type == StepType.LAST,
        }

    def row(grid, pose, pocket, ruleset, actions):
        return jax.lax.scan(step, state_of(grid, pose, pocket, ruleset), actions)[1]

    return jax.jit(jax.vmap(loosely(row)))


@functools.cache
def play_ours(size, num_rules):
    """Return a compiled function that plays actions in this library, in a batch of states.

    The function has the arguments of the function that `play` returns, and the time limit as its
    last argument. It returns the same dict, but without `fired`.
    """
    env = XLand(size=size, num_rules=num_rules, num_tiles=2)
    behind_walls = dataclasses.replace(env, see_through_walls=False)

    def row(grid, pose, pocket, ruleset, actions, limit):
        params = env.default_params.replace(
            max_steps_in_episode=limit, ruleset=ruleset.sized(num_rules, 2).packed()
        )
        start = XLandState(
            time=jnp.int32(0), grid=grid, agent=packed(pose[0], pose[1], pose[2], pocket)
        )

        def step(state, action):
            made = env.step(jax.random.key(0), state, action, params)
            after = made.state
            return after, {
                "grid": after.grid,
                "pose": jnp.stack([after.row, after.column, after.direction]),
                "pocket": after.pocket,
                "obs": made.obs,
                "occluded": behind_walls.observe(after, params),
                "reward": made.reward,
                "terminated": made.terminated,
                "ended": made.terminated | made.truncated,
            }

        return jax.lax.scan(step, start, actions)[1]

    return jax.jit(jax.vmap(row, in_axes=(0, 0, 0, 0, 0, None)))


@functools.cache
def levels(name):
    """Return a compiled function that draws levels by XLand-MiniGrid's `reset`.

    It maps (keys, init_tiles) to (tile bytes, poses).
    """
    env, params = xminigrid.make(name)

    def level(key, init_tiles):
        ruleset = params.ruleset.replace(init_tiles=init_tiles)
        state = env.reset(params.replace(ruleset=ruleset), key).state
        grid = state.grid[..., 0] | state.grid[..., 1] << 4
        pose = jnp.concatenate([state.agent.position, state.agent.direction[None]])
        return grid, pose.astype(jnp.int8)

    return jax.jit(jax.vmap(loosely(level)))


def differences(theirs, ours, limit):
    """Return a dict with each output that differs -> number of steps in which it differs."""
    theirs, ours = jax.device_get((theirs, ours))
    theirs.pop("fired")
    # Compare `ended` and `reward` only before the time limit, after which XLand-MiniGrid's episodes
    # go on.
    known = np.arange(ours["ended"].shape[1]) < limit
    for name in ("ended", "reward"):  # XLand-MiniGrid's rewards are negative after the limit
        ours[name] = np.where(known, ours[name], theirs[name])
    found = {}
    for name, wanted in theirs.items():
        given = ours[name]
        same = np.isclose(wanted, given, atol=1e-6) if name == "reward" else wanted == given
        wrong = int((~same.reshape(*wanted.shape[:2], -1).all(axis=-1)).sum())
        if wrong:
            found[name] = wrong
    return found


def limit(name):
    """Return the time limit, in steps, of an id of XLand-MiniGrid."""
    return xminigrid.make(name)[1].max_steps


@loosely
def layout(name, key, size):
    """Return the tile bytes of a level that XLand-MiniGrid draws in a layout."""
    rooms = {"R1": "room", "R2": "two_rooms", "R4": "four_rooms", "R6": "six_rooms"}
    generate = getattr(xland, f"generate_{rooms.get(name, 'nine_rooms')}")
    return tiles.decode(generate(key, size, size)[1])
