"""Berries: an environment in one file, the example of the guide docs/own.md."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, UInt8

import jaxenvs
from jaxenvs.core.controls import Controls, keyed
from jaxenvs.core.facts import Fact, count, drawn

MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]], np.int32)  # rows, columns
COLOURS = np.array([[96, 148, 72], [196, 40, 72], [240, 224, 160]], np.uint8)


@jaxenvs.struct
class Params(jaxenvs.Params):
    slip: Float[Any, "*batch"] | float  # probability of moving in a random direction


@jaxenvs.struct
class State(jaxenvs.State):
    berries: Bool[Array, "size size"]
    player: Int32[Array, "2"]  # row, column


@jaxenvs.register("Mine-Berries-5x5-v0", size=5)
@jaxenvs.register("Mine-Berries-8x8-v0", size=8)
class Berries(jaxenvs.Env):
    """Pick all the berries of a meadow; the grass is slippery.

    Actions: 0 up, 1 right, 2 down, 3 left; nothing moves the player over the edge.
    Observation: uint8 (size, size), 0 grass, 1 berry, 2 player.
    Reward: the berry's share of all berries.
    Episode ends: when no berry is left, or at the time limit.
    """

    size: int = 8  # cells on a side
    reward_range = (0.0, 1.0)
    fully_observed = True
    action_space = jaxenvs.spaces.Discrete(4)
    action_names = ("up", "right", "down", "left")
    controls = Controls(
        keyed(("up", "up, i"), ("right", "right, l"), ("down", "down, k"), ("left", "left, j"))
    )

    @property
    def default_params(self) -> Params:
        return Params(max_steps_in_episode=np.int32(4 * self.size**2), slip=np.float32(0.1))

    @property
    def observation_space(self) -> jaxenvs.spaces.Box:
        return jaxenvs.spaces.Box(0, 2, (self.size, self.size), np.uint8)

    def draw_level(self, key: Array, params: Any) -> Array:
        """Draw the cells of `size` berries, none of them in the player's corner."""
        return 1 + jax.random.permutation(key, self.size**2 - 1)[: self.size]

    def reset_state(self, key: Array, level: Array, params: Any) -> State:
        berries = jnp.zeros(self.size**2, jnp.bool_).at[level].set(True).reshape(self.size, -1)
        return State(time=jnp.int32(0), berries=berries, player=jnp.zeros(2, jnp.int32))

    def step_state(self, key: Array, state: State, action: Array, params: Any) -> Any:
        key_slip, key_direction = jax.random.split(key)
        slips = jax.random.uniform(key_slip, dtype=jnp.float32) < params.slip
        random = jax.random.randint(key_direction, (), 0, 4, jnp.int32)
        move = jnp.asarray(MOVES)[jnp.where(slips, random, action)]
        row, column = player = (state.player + move).clip(0, self.size - 1)
        reward = state.berries[row, column].astype(jnp.float32) / self.size
        after = state.replace(berries=state.berries.at[row, column].set(False), player=player)
        return jaxenvs.Transition(after, reward, ~after.berries.any())

    def observe(self, state: State, params: Any = None) -> UInt8[Array, "size size"]:
        return state.berries.astype(jnp.uint8).at[tuple(state.player)].set(2)

    def succeeded(self, step: jaxenvs.Step) -> Array:
        return step.terminated

    def tiles(self, state: State) -> Int32[Array, "size size"]:
        return self.observe(state).astype(jnp.int32)

    def atlas(self, tile_size: int) -> np.ndarray:
        return np.tile(COLOURS[:, None, None], (1, tile_size, tile_size, 1))

    def facts(self, state: State, params: Any = None) -> tuple[Fact, ...]:
        return (count("berries to pick", int(state.berries.sum()), icon="berry"),)

    def icon(self, name: str, size: int, background: Any) -> np.ndarray | None:
        return self.atlas(size)[1] if name == "berry" else None

    def describe(self, state: State, params: Any = None) -> str:
        cells = [[".*@"[cell] for cell in row] for row in np.asarray(self.observe(state))]
        return f"The meadow; @ is you, * a berry:\n{drawn(cells)}"
