"""MountainCar: drive an underpowered car out of a valley (Moore, 1990; Gymnasium 1.4).

`Classic-MountainCar-v0` has discrete actions; `Classic-MountainCarContinuous-v0` has continuous
actions and a cost for force. Deliberate differences from Gymnasium: everything is float32, while
Gymnasium keeps MountainCar's state in float64; the physical constants are params; and the state no
longer changes after termination.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32

from ..core.controls import Controls, keyed
from ..core.env import Ending, Params, State, Step, Transition
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from ..core.texts import pairs
from . import picture
from .base import ClassicEnv, Number, uniform
from .picture import Pixels, Place

LEFT, RIGHT = np.float32(-1.2), np.float32(0.6)  # positions of the road's left and right end
SPEED = np.float32(0.07)  # highest speed of the car, in units of position per step
BOTTOM, START = np.float32(-0.5), 0.1  # initial positions are uniform in BOTTOM +- START
FORCE_COST = np.float32(0.1)  # factor of force^2 in the cost of a step of MountainCarContinuous
PRIZE = np.float32(100)  # reward for reaching the flag in MountainCarContinuous


@struct
class MountainCarParams(Params):
    """Physical constants of MountainCar, float32."""

    force: Number  # change of the car's velocity in a step with a full push
    gravity: Number  # largest change of the car's velocity in a step by gravity
    goal: Number  # position of the flag
    goal_speed: Number  # lowest velocity at the flag that ends the episode


@struct
class MountainCarState(State):
    """State of MountainCar: time step, position and velocity of the car."""

    position: Float32[Array, ""]  # position, -1.2 to 0.6; the bottom of the valley is near -0.52
    velocity: Float32[Array, ""]  # velocity of the car to the right, in units of position per step


class Valley(ClassicEnv):
    """Base class of MountainCar and MountainCarContinuous: a car on a road through a valley.

    Observation: float32 (2,): position (-1.2 to 0.6), velocity (-0.07 to 0.07, per step).
    """

    place: ClassVar[Place] = picture.HILLS

    @property
    def observation_space(self) -> Space:
        """Box of the observation: lowest and highest position and velocity."""
        low, high = (np.array(ends, np.float32) for ends in ((LEFT, -SPEED), (RIGHT, SPEED)))
        return Box(low, high, (2,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the two entries of the observation, as pairs (index, meaning)."""
        return (
            ("`[0]`", "position, -1.2 to 0.6; the bottom of the valley is near -0.52"),
            ("`[1]`", "velocity to the right, per step"),
        )

    def draw_level(self, key: Key, params: Any) -> Float32[Array, "2"]:
        """Draw an initial position near the bottom of the valley; the initial velocity is 0."""
        return jnp.stack([BOTTOM + uniform(key, START)[0], jnp.float32(0)])

    def reset_state(self, key: Key, level: Float32[Array, "2"], params: Any) -> MountainCarState:
        """Return the state at time 0 with the position and velocity of the level."""
        return MountainCarState(time=jnp.int32(0), position=level[0], velocity=level[1])

    def observe(self, state: MountainCarState, params: Any = None) -> Float32[Array, "2"]:
        """Return the car's position and velocity."""
        return jnp.stack([state.position, state.velocity])

    def driven(
        self, state: MountainCarState, push: Float32[Array, ""], params: Any
    ) -> tuple[MountainCarState, Bool[Array, ""], Bool[Array, ""]]:
        """Drive the car for one step with the motor force `push`, -1 to 1.

        Return the new state and two flags: whether the car is at the flag after the step, and
        whether it was at the flag before. A car that was already at the flag does not move.
        """
        was = has_arrived(state, params)
        moved = rolled(state, push, params)
        after = jax.tree.map(lambda old, new: jnp.where(was, old, new), state, moved)
        return after, has_arrived(after, params), was

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether the step brought the car to the flag."""
        return step.terminated

    def text_inputs(self, state: MountainCarState, params: Any = None) -> tuple[Array, ...]:
        """Return the inputs of `texts`: the observation, and the position of the flag."""
        chosen: Any = self.default_params if params is None else params
        return self.observe(state), jnp.float32(chosen.goal)

    def texts(self, inputs: tuple[np.ndarray, ...], detail: str = "full") -> list[str]:
        """Describe each state: position and velocity of the car, and position of the flag."""
        return [_text(*car, goal=goal) for car, goal in pairs(*(part.tolist() for part in inputs))]

    def draw(
        self, background: Pixels, state: MountainCarState, tile_size: int, params: Any
    ) -> Pixels:
        """Draw the road, the flag and the car over the background."""
        return picture.car(background, state.position, jnp.float32(params.goal), tile_size)


def _text(position: float, velocity: float, goal: float) -> str:
    side = "left" if velocity < 0 else "right"
    return (
        f"The car is at {position:.3f} on a road from -1.2 to 0.6; the flag is at {goal:g}, the "
        f"bottom of the valley at -0.52.\nIt rolls to the {side} at {abs(velocity):.4f} per step."
    )


@register("Classic-MountainCar-v0", aliases=("MountainCar-v0",))
class MountainCar(Valley):
    """Reach the flag on the right hill with a motor too weak to climb it without a run-up.

    Actions: 0 push left, 1 coast, 2 push right.
    Reward: -1 per step, including the last.
    Episode ends: at position 0.5 or beyond; truncated after 200 steps.
    """

    reward_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @property
    def default_params(self) -> MountainCarParams:
        """Params with Gymnasium's physical constants."""
        return MountainCarParams(
            max_steps_in_episode=np.int32(200),
            force=np.float32(0.001),
            gravity=np.float32(0.0025),
            goal=np.float32(0.5),
            goal_speed=np.float32(0.0),
        )

    @property
    def action_space(self) -> Space:
        """Discrete actions: 0 pushes the car to the left, 1 coasts, 2 pushes to the right."""
        return Discrete(3)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Name of each action: the direction in which it pushes the car."""
        return ("left", "coast", "right")

    @property
    def controls(self) -> Controls:
        """Keyboard keys of the actions; the arrow keys push the car."""
        return Controls(keyed(("left", "left, a"), ("coast", "down, s"), ("right", "right, d")))

    def step_state(
        self, key: Key, state: MountainCarState, action: Array, params: Any
    ) -> Transition:
        """Return the transition of one step; a car already at the flag stays and gets reward 0."""
        after, arrived, was = self.driven(state, (action - 1).astype(jnp.float32), params)
        return Transition(after, jnp.where(was, 0.0, -1.0), arrived)

    def ending(self, level: Float32[Array, "2"]) -> Ending:
        """Return a level near the flag and two pushes that reach the flag, for `jaxenvs check`."""
        return Ending(jnp.array([0.44, 0.04], jnp.float32), (2, 2))


@register("Classic-MountainCarContinuous-v0", aliases=("MountainCarContinuous-v0",))
class MountainCarContinuous(Valley):
    """Reach the flag on the right hill with a weak motor and as little force as possible.

    Actions: float32 (1,): force from -1 to 1, positive to the right.
    Reward: -0.1 force^2 per step, plus 100 at the flag.
    Episode ends: at position 0.45 or beyond; truncated after 999 steps.
    """

    reward_range: ClassVar[tuple[float, float]] = (-float(FORCE_COST), float(PRIZE))

    @property
    def default_params(self) -> MountainCarParams:
        """Params with Gymnasium's physical constants."""
        return MountainCarParams(
            max_steps_in_episode=np.int32(999),
            force=np.float32(0.0015),
            gravity=np.float32(0.0025),
            goal=np.float32(0.45),
            goal_speed=np.float32(0.0),
        )

    @property
    def action_space(self) -> Space:
        """Box of the action: force as a fraction of the largest force, negative to the left."""
        return Box(-1.0, 1.0, (1,), np.float32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Name of the action's only component, which is the force of the motor."""
        return ("force",)

    @property
    def controls(self) -> Controls:
        """Keyboard keys; each key applies a fixed force."""
        rows = keyed(
            ("full left", "left, a"),
            ("half left", "q"),
            ("coast", "down, s"),
            ("half right", "e"),
            ("full right", "right, d"),
        )
        return Controls(rows, values=((-1.0,), (-0.5,), (0.0,), (0.5,), (1.0,)))

    def step_state(
        self, key: Key, state: MountainCarState, action: Float32[Array, "1"], params: Any
    ) -> Transition:
        """Return the transition of one step; a car already at the flag stays and gets reward 0."""
        after, arrived, was = self.driven(state, action[0], params)
        reward = jnp.where(arrived, PRIZE, 0.0) - FORCE_COST * action[0] * action[0]
        return Transition(after, jnp.where(was, 0.0, reward), arrived)

    def ending(self, level: Float32[Array, "2"]) -> Ending:
        """Return a level near the flag and two pushes that reach the flag, for `jaxenvs check`."""
        return Ending(jnp.array([0.39, 0.04], jnp.float32), (np.ones(1, np.float32),) * 2)


def has_arrived(state: MountainCarState, params: Any) -> Bool[Array, ""]:
    """Return whether the car is at or beyond the flag with at least `goal_speed`."""
    return (state.position >= params.goal) & (state.velocity >= params.goal_speed)


@jax.jit  # compiled, so that a step rounds in the same way outside of `jit` as inside
def rolled(state: MountainCarState, push: Float32[Array, ""], params: Any) -> MountainCarState:
    """Return the state after one step with the motor force `push`, -1 to 1.

    At the left end of the road, the car stops.
    """
    steepness = jnp.cos(np.float32(3) * state.position)
    velocity = state.velocity + (push * params.force - params.gravity * steepness)
    velocity = jnp.clip(velocity, -SPEED, SPEED)
    position = jnp.clip(state.position + velocity, LEFT, RIGHT)
    stopped = (position == LEFT) & (velocity < 0)
    return state.replace(position=position, velocity=jnp.where(stopped, 0.0, velocity))
