"""Pendulum: swing a rod up and keep it there by a torque (Gymnasium 1.4 `Pendulum-v1`).

Deliberate differences from Gymnasium: the state is float32, not float64; the state's angle is
wrapped to [-pi, pi]; the physical constants are params. Rounding the state to float32 makes our
episodes diverge from Gymnasium's, where only the observation is rounded.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from ..core.controls import Controls, keyed
from ..core.env import Ending, Params, State, Transition
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.struct import struct
from ..core.texts import pairs
from . import picture
from .base import ClassicEnv, Number, uniform, wrapped
from .picture import Pixels, Place

TORQUE = np.float32(2)  # highest torque of the motor, N m
SPEED = np.float32(8)  # highest angular velocity of the rod, rad/s
START = (np.pi, 1.0)  # largest initial angle (rad) and angular velocity (rad/s)
SPEED_COST, TORQUE_COST = np.float32(0.1), np.float32(0.001)
WORST = float(np.pi**2 + 0.1 * 8**2 + 0.001 * 2**2)  # highest cost of a step; the cost is -reward


@struct
class PendulumParams(Params):
    """Physical constants of Pendulum, float32."""

    gravity: Number  # gravitational acceleration, m/s2
    mass: Number  # mass of the rod, kg
    length: Number  # length of the rod, m
    seconds: Number  # duration of a step, s


@struct
class PendulumState(State):
    """State of Pendulum: time step, angle and angular velocity of the rod."""

    angle: Float32[Array, ""]  # angle of the rod, 0 if it is upright, rad counter-clockwise
    speed: Float32[Array, ""]  # angular velocity of the rod, rad/s counter-clockwise


@register("Classic-Pendulum-v0", aliases=("Pendulum-v1",))
class Pendulum(ClassicEnv):
    """Swing a rod up from any angle and keep it upright, with a torque too weak to lift it at once.

    Actions: float32 (1,): torque from -2 to 2 N m, positive counter-clockwise.
    Observation: float32 (3,): cosine and sine of the angle from upright (rad, counter-clockwise),
        angular velocity (rad/s).
    Reward: -(angle^2 + 0.1 speed^2 + 0.001 torque^2), with the angle and the angular velocity
        (speed) before the step.
    Episode ends: never terminates; truncated after 200 steps.
    """

    place: ClassVar[Place] = picture.STAND

    reward_range: ClassVar[tuple[float, float]] = (-WORST - 1e-5, 0.0)

    @property
    def default_params(self) -> PendulumParams:
        """Params with Gymnasium's physical constants."""
        return PendulumParams(
            max_steps_in_episode=np.int32(200),
            gravity=np.float32(10.0),
            mass=np.float32(1.0),
            length=np.float32(1.0),
            seconds=np.float32(0.05),
        )

    @property
    def action_space(self) -> Space:
        """Box of the action: the torque in N m, positive counter-clockwise."""
        return Box(-TORQUE, TORQUE, (1,), np.float32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Name of the action's only component, which is the torque of the motor."""
        return ("torque",)

    @property
    def controls(self) -> Controls:
        """Keyboard keys; each key applies a fixed torque."""
        rows = keyed(
            ("full counter-clockwise", "left, a"),
            ("half counter-clockwise", "q"),
            ("no torque", "down, s"),
            ("half clockwise", "e"),
            ("full clockwise", "right, d"),
        )
        return Controls(rows, values=((2.0,), (1.0,), (0.0,), (-1.0,), (-2.0,)))

    @property
    def observation_space(self) -> Space:
        """Box of the observation: cosine and sine within +-1, angular velocity within +-`SPEED`."""
        high = np.array([1.0, 1.0, SPEED], np.float32)
        return Box(-high, high, (3,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the three entries of the observation, as pairs (index, meaning)."""
        return (
            ("`[0]`", "cosine of the angle from upright"),
            ("`[1]`", "sine of the angle from upright, counter-clockwise"),
            ("`[2]`", "angular velocity, rad/s counter-clockwise"),
        )

    def draw_level(self, key: Key, params: Any) -> Float32[Array, "2"]:
        """Draw angle and angular velocity uniformly; `START` has the largest of each."""
        return uniform(key, *START)

    def reset_state(self, key: Key, level: Float32[Array, "2"], params: Any) -> PendulumState:
        """Return the state at time 0 with the angle and angular velocity of the level."""
        return PendulumState(time=jnp.int32(0), angle=level[0], speed=level[1])

    def step_state(
        self, key: Key, state: PendulumState, action: Float32[Array, "1"], params: Any
    ) -> Transition:
        """Return the transition of one step in which the motor applies the action's torque.

        The reward depends on the state before the step.
        """
        after = turned(state, action[0], params)
        cost = state.angle * state.angle + SPEED_COST * state.speed * state.speed
        cost = cost + TORQUE_COST * action[0] * action[0]
        return Transition(after, -cost, jnp.zeros((), jnp.bool_))

    def observe(self, state: PendulumState, params: Any = None) -> Float32[Array, "3"]:
        """Return cosine and sine of the rod's angle, and its angular velocity."""
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])

    def ending(self, level: Float32[Array, "2"]) -> Ending | None:
        """Return None, because no state of Pendulum is terminal."""
        return None

    def text_inputs(self, state: PendulumState, params: Any = None) -> tuple[Array, ...]:
        """Return the inputs of `texts`: the rod's angle and angular velocity."""
        return state.angle, state.speed

    def texts(self, inputs: tuple[np.ndarray, ...], detail: str = "full") -> list[str]:
        """Describe each state: the angle and the angular velocity of the rod."""
        return [_text(*rod) for rod in pairs(*(np.degrees(part).tolist() for part in inputs))]

    def draw(self, background: Pixels, state: PendulumState, tile_size: int, params: Any) -> Pixels:
        """Draw the rod over the background."""
        return picture.rod(background, state.angle, tile_size)


def _text(angle: float, speed: float) -> str:
    return (
        f"The rod is {abs(angle):.1f} degrees {_side(angle)} from upright.\n"
        f"It turns {_side(speed)} at {abs(speed):.1f} degrees/s."
    )


def _side(number: float) -> str:
    return "clockwise" if number < 0 else "counter-clockwise"


@jax.jit  # compiled, so that a step rounds in the same way outside of `jit` as inside
def turned(state: PendulumState, torque: Float32[Array, ""], params: Any) -> PendulumState:
    """Return the state after one step, in which the motor applies `torque` (N m).

    The equations are integrated by the semi-implicit Euler method: first the angular velocity, then
    the angle.
    """
    pull = np.float32(1.5) * params.gravity / params.length * jnp.sin(state.angle)
    push = np.float32(3.0) / (params.mass * params.length * params.length) * torque
    speed = jnp.clip(state.speed + (pull + push) * params.seconds, -SPEED, SPEED)
    angle = wrapped(state.angle + speed * params.seconds)
    return state.replace(angle=angle, speed=speed)
