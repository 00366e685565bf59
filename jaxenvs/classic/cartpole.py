"""CartPole: a pole on a cart (Barto, Sutton and Anderson, 1983; Gymnasium 1.4 `CartPole-v1`).

Deliberate differences from Gymnasium: the state is float32, not float64; the physical constants are
params; the state no longer changes after termination. Rounding the state to float32 makes our long
episodes diverge from Gymnasium's, where only the observation is rounded.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32

from ..core.env import Ending, Params, State, Step, Transition
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from . import picture
from .base import ClassicEnv, Number, uniform
from .picture import Pixels, Place

# Limits of the cart's distance from the middle (m) and of the pole's angle from upright (rad). The
# episode ends when one limit is exceeded.
POSITION_LIMIT = np.float32(2.4)
ANGLE_LIMIT = np.float32(np.radians(12))
START = 0.05  # initial positions, angles and velocities are uniform in [-START, START)


@struct
class CartPoleParams(Params):
    """Physical constants of CartPole, float32."""

    gravity: Number  # gravitational acceleration, m/s2
    cart_mass: Number  # mass of the cart, kg
    pole_mass: Number  # mass of the pole, kg
    half_length: Number  # distance from the pole's axle to the pole's middle, m
    force: Number  # force with which an action pushes the cart, N
    seconds: Number  # duration of a step, s


@struct
class CartPoleState(State):
    """State of CartPole: time step, and the motion of cart and pole."""

    position: Float32[Array, ""]  # position of the cart, m to the right of the middle
    velocity: Float32[Array, ""]  # velocity of the cart, m/s to the right
    angle: Float32[Array, ""]  # angle of the pole from upright, rad clockwise
    spin: Float32[Array, ""]  # angular velocity of the pole, rad/s clockwise


@register("Classic-CartPole-v0", aliases=("CartPole-v1",))
class CartPole(ClassicEnv):
    """Push a cart to the left or the right so that the pole on it does not fall.

    Actions: 0 push left, 1 push right.
    Observation: float32 (4,): position of the cart (m), its velocity (m/s), angle of the pole from
        upright (rad, clockwise), its angular velocity (rad/s).
    Reward: 1 per step, including the last.
    Episode ends: when the pole is more than 12 degrees from upright or the cart more than 2.4 m
        from the middle; truncated after 500 steps.
    """

    place: ClassVar[Place] = picture.TRACK

    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    success_is: ClassVar[str] = "upright at the time limit"

    @property
    def default_params(self) -> CartPoleParams:
        """Params with Gymnasium's physical constants."""
        return CartPoleParams(
            max_steps_in_episode=np.int32(500),
            gravity=np.float32(9.8),
            cart_mass=np.float32(1.0),
            pole_mass=np.float32(0.1),
            half_length=np.float32(0.5),
            force=np.float32(10.0),
            seconds=np.float32(0.02),
        )

    @property
    def action_space(self) -> Space:
        """Discrete actions: 0 pushes the cart to the left, 1 to the right."""
        return Discrete(2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Name of each action: the direction in which it pushes the cart."""
        return ("left", "right")

    @property
    def observation_space(self) -> Space:
        """Box of the observation, as in Gymnasium.

        Position and angle are bounded by twice the limits at which episodes terminate; velocities
        are unbounded.
        """
        high = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], np.float32)
        return Box(-high, high, (4,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the four entries of the observation, as pairs (index, meaning)."""
        return (
            ("`[0]`", "position of the cart, m to the right of the middle"),
            ("`[1]`", "velocity of the cart, m/s"),
            ("`[2]`", "angle of the pole from upright, rad clockwise"),
            ("`[3]`", "angular velocity of the pole, rad/s"),
        )

    def draw_level(self, key: Key, params: Any) -> Float32[Array, "4"]:
        """Draw position, velocity, angle and angular velocity uniformly from [-START, START)."""
        return uniform(key, START, START, START, START)

    def reset_state(self, key: Key, level: Float32[Array, "4"], params: Any) -> CartPoleState:
        """Return the state at time 0 with the positions and velocities of the level."""
        position, velocity, angle, spin = (level[i] for i in range(4))
        return CartPoleState(
            time=jnp.int32(0), position=position, velocity=velocity, angle=angle, spin=spin
        )

    def step_state(self, key: Key, state: CartPoleState, action: Array, params: Any) -> Transition:
        """Return the transition of one step in which the action pushes the cart.

        A terminal state does not change.
        """
        push = jnp.where(action == 1, params.force, -params.force)
        moved = pushed(state, push, params)
        over = has_fallen(state)
        after = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved)
        return Transition(after, (~over).astype(jnp.float32), has_fallen(after))

    def observe(self, state: CartPoleState, params: Any = None) -> Float32[Array, "4"]:
        """Return the cart's position and velocity, then the pole's angle and angular velocity."""
        return jnp.stack([state.position, state.velocity, state.angle, state.spin])

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether the pole is still upright at the time limit."""
        return step.truncated

    def ending(self, level: Float32[Array, "4"]) -> Ending:
        """Return a level in which action 1 makes the pole fall at once, for `jaxenvs check`."""
        return Ending(jnp.array([0.0, 0.0, 0.2, 1.0], jnp.float32), (1,))

    def text_inputs(self, state: CartPoleState, params: Any = None) -> Float32[Array, "4"]:
        """Return the input of `texts`: the observation."""
        return self.observe(state)

    def texts(self, inputs: np.ndarray, detail: str = "full") -> list[str]:
        """Describe each state: positions and velocities of cart and pole, and their limits."""
        return [_text(*numbers) for numbers in inputs.tolist()]

    def draw(self, background: Pixels, state: CartPoleState, tile_size: int, params: Any) -> Pixels:
        """Draw the cart and its pole over the background."""
        return picture.cart_and_pole(background, state.position, state.angle, tile_size)


def _text(position: float, speed: float, angle: float, spin: float) -> str:
    angle, spin = math.degrees(angle), math.degrees(spin)
    return (
        f"The cart is {abs(position):.3f} m {_side(position)} of the middle and moves "
        f"{_side(speed)} at {abs(speed):.3f} m/s; the limit is {POSITION_LIMIT:g} m.\n"
        f"The pole leans {abs(angle):.2f} degrees to the {_side(angle)} and turns to the "
        f"{_side(spin)} at {abs(spin):.2f} degrees/s; the limit is 12 degrees."
    )


def _side(number: float) -> str:
    return "left" if number < 0 else "right"


@jax.jit  # compiled, so that a step rounds in the same way outside of `jit` as inside
def pushed(state: CartPoleState, push: Float32[Array, ""], params: Any) -> CartPoleState:
    """Return the state after one step under the force `push` (N, to the right).

    The equations of motion by Florian (2007) are integrated by the explicit Euler method: position
    and angle advance with the velocities before the step.
    """
    sine, cosine = jnp.sin(state.angle), jnp.cos(state.angle)
    mass = params.cart_mass + params.pole_mass
    moment = params.pole_mass * params.half_length
    forward = (push + moment * state.spin * state.spin * sine) / mass
    inertia = params.half_length * (np.float32(4 / 3) - params.pole_mass * cosine * cosine / mass)
    # Angular acceleration of the pole, rad/s2.
    turning = (params.gravity * sine - cosine * forward) / inertia
    acceleration = forward - moment * turning * cosine / mass  # acceleration of the cart, m/s2
    return state.replace(
        position=state.position + params.seconds * state.velocity,
        velocity=state.velocity + params.seconds * acceleration,
        angle=state.angle + params.seconds * state.spin,
        spin=state.spin + params.seconds * turning,
    )


def has_fallen(state: CartPoleState) -> Bool[Array, ""]:
    """Return whether the pole's angle or the cart's position is beyond its limit."""
    return (abs(state.position) > POSITION_LIMIT) | (abs(state.angle) > ANGLE_LIMIT)
