"""Acrobot: two links with a motor between them (Sutton, 1996; Gymnasium 1.4 `Acrobot-v1`).

The equations follow Sutton and Barto's book. Deliberate differences from Gymnasium: the state is
float32, not float64; the physical constants are params; the state no longer changes after
termination. Acrobot is chaotic. Rounding the state to float32 therefore makes our episodes diverge
from Gymnasium's, where only the observation is rounded.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from ..core.controls import Controls, keyed
from ..core.env import Ending, Params, State, Step, Transition
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from ..core.texts import pairs
from . import picture
from .base import ClassicEnv, Number, uniform, wrapped
from .picture import Pixels, Place

SECONDS = np.float32(0.2)  # duration of a step in seconds
SPEEDS = np.array([4 * np.pi, 9 * np.pi], np.float32)  # speed limits of both links, rad/s
START = 0.1  # initial angles and speeds are uniform in [-START, START)
BAR = 1.0  # height of the bar above the upper joint, in link lengths

# Angles and angular velocities of both links, or the time derivatives of these four values.
Motion = Float32[Array, "4"]


@struct
class AcrobotParams(Params):
    """Physical constants of Acrobot, float32; both links have the same values."""

    gravity: Number  # gravitational acceleration, m/s2
    length: Number  # length of a link, m
    centre: Number  # distance from the upper end of a link to its centre of mass, m
    mass: Number  # mass of a link, kg
    inertia: Number  # moment of inertia of a link about its centre of mass, kg m2
    torque: Number  # torque of the motor, N m


@struct
class AcrobotState(State):
    """State of Acrobot: time step, angles and angular velocities of the two links."""

    upper: Float32[Array, ""]  # angle of the upper link, 0 if it hangs down, rad counter-clockwise
    # Angle of the lower link relative to the upper link, rad counter-clockwise.
    lower: Float32[Array, ""]
    upper_speed: Float32[Array, ""]  # angular velocity of the upper link, rad/s counter-clockwise
    # Angular velocity of the lower link relative to the upper link, rad/s counter-clockwise.
    lower_speed: Float32[Array, ""]


@register("Classic-Acrobot-v0", aliases=("Acrobot-v1",))
class Acrobot(ClassicEnv):
    """Swing the free end of two links above a bar by a motor in the joint between them.

    Actions: torque on the lower link, counter-clockwise: 0 for -1 N m, 1 for 0 N m, 2 for 1 N m.
    Observation: float32 (6,): cosine and sine of the upper link's angle from hanging, cosine and
        sine of the lower link's angle relative to the upper link (counter-clockwise), both
        angular velocities (rad/s).
    Reward: -1 per step, 0 for the step that swings above the bar.
    Episode ends: when the free end is more than a link's length above the upper joint; truncated
        after 500 steps.
    """

    place: ClassVar[Place] = picture.ROOM

    reward_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @property
    def default_params(self) -> AcrobotParams:
        """Params with Gymnasium's physical constants."""
        return AcrobotParams(
            max_steps_in_episode=np.int32(500),
            gravity=np.float32(9.8),
            length=np.float32(1.0),
            centre=np.float32(0.5),
            mass=np.float32(1.0),
            inertia=np.float32(1.0),
            torque=np.float32(1.0),
        )

    @property
    def action_space(self) -> Space:
        """Discrete actions, which set the motor's torque.

        Action 0 turns a hanging lower link to the left, action 2 turns it to the right, and action
        1 applies no torque.
        """
        return Discrete(3)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Name of each action: the direction in which it turns a hanging lower link."""
        return ("left", "rest", "right")

    @property
    def controls(self) -> Controls:
        """Keyboard keys of the actions; the arrow keys turn the lower link."""
        return Controls(keyed(("left", "left, a"), ("rest", "down, s"), ("right", "right, d")))

    @property
    def observation_space(self) -> Space:
        """Box of the observation: +-1 for cosines and sines, +-`SPEEDS` for angular velocities."""
        high = np.array([1.0, 1.0, 1.0, 1.0, *SPEEDS], np.float32)
        return Box(-high, high, (6,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the six entries of the observation, as pairs (index, meaning)."""
        return (
            ("`[0]`, `[1]`", "cosine and sine of the upper link's angle from hanging"),
            ("`[2]`, `[3]`", "cosine and sine of the lower link's angle from the upper one"),
            ("`[4]`", "angular velocity of the upper link, rad/s counter-clockwise"),
            ("`[5]`", "angular velocity of the lower link from the upper one, likewise"),
        )

    def draw_level(self, key: Key, params: Any) -> Motion:
        """Draw angles and angular velocities of the links uniformly from [-START, START)."""
        return uniform(key, START, START, START, START)

    def reset_state(self, key: Key, level: Motion, params: Any) -> AcrobotState:
        """Return the state at time 0 with the angles and angular velocities of the level."""
        return _state(jnp.int32(0), level)

    def step_state(self, key: Key, state: AcrobotState, action: Array, params: Any) -> Transition:
        """Return the transition of one step in which the motor applies the action's torque.

        A terminal state does not change.
        """
        over = is_above(state)
        moved = swung(state, (action - 1).astype(jnp.float32) * params.torque, params)
        after = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved)
        done = is_above(after)
        return Transition(after, jnp.where(done, 0.0, -1.0), done)

    def observe(self, state: AcrobotState, params: Any = None) -> Float32[Array, "6"]:
        """Return cosine and sine of both angles, then both angular velocities."""
        angles = jnp.stack([state.upper, state.lower])
        turned = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).ravel()
        return jnp.concatenate([turned, jnp.stack([state.upper_speed, state.lower_speed])])

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether the step swung the free end above the bar."""
        return step.terminated

    def ending(self, level: Motion) -> Ending:
        """Return a level in which action 2 ends the episode at once, for `jaxenvs check`.

        The action swings the free end above the bar.
        """
        return Ending(jnp.array([1.8, 0.0, 4.0, 0.0], jnp.float32), (2,))

    def text_inputs(self, state: AcrobotState, params: Any = None) -> tuple[Array, ...]:
        """Return the inputs of `texts`: both links' motion, and the height of the free end."""
        return _motion(state), height(state)

    def texts(self, inputs: tuple[np.ndarray, ...], detail: str = "full") -> list[str]:
        """Describe each state: the links' angles and velocities, and the height of the free end."""
        motion, heights = inputs
        degrees = np.degrees(motion.astype(float)).tolist()
        return [_text(*links, above=above) for links, above in pairs(degrees, heights.tolist())]

    def draw(self, background: Pixels, state: AcrobotState, tile_size: int, params: Any) -> Pixels:
        """Draw the bar and the two links over the background."""
        return picture.links(background, state.upper, state.lower, BAR, tile_size)


def _text(upper: float, lower: float, upper_speed: float, lower_speed: float, above: float) -> str:
    return (
        f"The upper link is {_turn(upper)} of hanging and turns {_turn(upper_speed)}/s.\n"
        f"The lower link is {_turn(lower)} of the upper one and turns {_turn(lower_speed)}/s.\n"
        f"The free end is {above:.2f} link lengths above the upper joint; above {BAR:g} the "
        "episode ends."
    )


def _turn(degrees: float) -> str:
    side = "clockwise" if degrees < 0 else "counter-clockwise"
    return f"{abs(degrees):.1f} degrees {side}"


def _state(time: Int32[Array, ""], motion: Motion) -> AcrobotState:
    upper, lower, upper_speed, lower_speed = (motion[i] for i in range(4))
    return AcrobotState(
        time=time, upper=upper, lower=lower, upper_speed=upper_speed, lower_speed=lower_speed
    )


def _motion(state: AcrobotState) -> Motion:
    return jnp.stack([state.upper, state.lower, state.upper_speed, state.lower_speed])


def height(state: AcrobotState) -> Float32[Array, ""]:
    """Return the height of the free end above the upper joint, in link lengths."""
    return -jnp.cos(state.upper) - jnp.cos(state.lower + state.upper)


def is_above(state: AcrobotState) -> Bool[Array, ""]:
    """Return whether the free end is higher than the bar."""
    return height(state) > BAR


@jax.jit  # compiled, so that a step rounds in the same way outside of `jit` as inside
def swung(state: AcrobotState, torque: Float32[Array, ""], params: Any) -> AcrobotState:
    """Return the state after one step, in which the motor applies `torque` (N m).

    The equations of motion are integrated by the 4th-order Runge-Kutta method.
    """
    now, half = _motion(state), SECONDS / np.float32(2)
    first = change(now, torque, params)
    second = change(now + half * first, torque, params)
    third = change(now + half * second, torque, params)
    fourth = change(now + SECONDS * third, torque, params)
    inner = np.float32(2) * (second + third)
    after = now + SECONDS / np.float32(6) * (first + inner + fourth)
    speeds = jnp.clip(after[2:], -SPEEDS, SPEEDS)
    return _state(state.time, jnp.concatenate([jax.vmap(wrapped)(after[:2]), speeds]))


def change(motion: Motion, torque: Float32[Array, ""], params: Any) -> Motion:
    """Return the time derivatives of `motion` by the equations of Sutton and Barto's book."""
    upper, lower, upper_speed, lower_speed = (motion[i] for i in range(4))
    mass, length, centre = params.mass, params.length, params.centre
    arm = mass * length * centre
    alone = mass * centre * centre + params.inertia
    bend = jnp.cos(lower)
    both = alone + alone + mass * length * length + np.float32(2) * arm * bend
    shared = alone + arm * bend
    # Torque with which gravity pulls the lower link down. The book writes cos(angle - pi / 2),
    # which equals sin(angle).
    lower_pull = mass * centre * params.gravity * jnp.sin(upper + lower)
    upper_pull = mass * (centre + length) * params.gravity * jnp.sin(upper) + lower_pull
    whirl = arm * jnp.sin(lower)
    upper_pull -= whirl * lower_speed * (lower_speed + np.float32(2) * upper_speed)
    push = torque + shared / both * upper_pull - whirl * upper_speed * upper_speed - lower_pull
    lower_change = push / (alone - shared * shared / both)
    upper_change = -(shared * lower_change + upper_pull) / both
    return jnp.stack([upper_speed, lower_speed, upper_change, lower_change])
