"""Pendulum: swing a rod up and keep it there by a torque (Gymnasium 1.4 `Pendulum-v1`).

Deliberate differences: everything is float32, while Gymnasium steps a float64 state and rounds the
observation, so episodes drift apart; the angle of the state lies between -pi and pi; and the
constants of the physics are params.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ..core.controls import Controls, keyed
from ..core.env import Ending, Env, Params, State, Transition
from ..core.pixels import compose
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.struct import struct
from . import picture
from .physics import Number, uniform, wrapped

TORQUE = np.float32(2)  # greatest, N m
SPEED = np.float32(8)  # greatest, rad/s
START = (np.pi, 1.0)  # largest absolute angle (rad) and speed (rad/s) at the start
SPEED_COST, TORQUE_COST = np.float32(0.1), np.float32(0.001)
WORST = float(np.pi**2 + 0.1 * 8**2 + 0.001 * 2**2)  # cost of a step, at most


@struct
class PendulumParams(Params):
    """Constants of the physics, float32."""

    gravity: Number  # m/s2
    mass: Number  # kg
    length: Number  # m
    seconds: Number  # of a step


@struct
class PendulumState(State):
    """Clock and rod."""

    angle: Float32[Array, ""]  # from upright, rad counter-clockwise
    speed: Float32[Array, ""]  # rad/s


@register("Classic-Pendulum-v0", aliases=("Pendulum-v1",))
class Pendulum(Env):
    """Swing a rod up from any angle, and keep it upright, with a torque too weak to lift it.

    Actions: float32 (1,): torque from -2 to 2 N m, positive counter-clockwise.
    Observation: float32 (3,): cosine and sine of the angle from upright (rad, counter-clockwise),
        angular velocity (rad/s).
    Reward: -(angle^2 + 0.1 speed^2 + 0.001 torque^2) of the state before the step.
    Episode ends: never by itself; truncated after 200 steps.
    """

    package: ClassVar[str] = "gymnasium"
    reset_source: ClassVar[str] = "auto"  # a world is two numbers
    fully_observed: ClassVar[bool] = True
    reward_range: ClassVar[tuple[float, float]] = (-WORST - 1e-5, 0.0)

    @property
    def default_params(self) -> PendulumParams:
        """Gymnasium's numbers."""
        return PendulumParams(
            max_steps_in_episode=np.int32(200),
            gravity=np.float32(10.0),
            mass=np.float32(1.0),
            length=np.float32(1.0),
            seconds=np.float32(0.05),
        )

    @property
    def action_space(self) -> Space:
        """A torque, N m."""
        return Box(-TORQUE, TORQUE, (1,), np.float32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The only number of an action."""
        return ("torque",)

    @property
    def controls(self) -> Controls:
        """A key is a torque."""
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
        """Cosine, sine and the greatest speed."""
        high = np.array([1.0, 1.0, SPEED], np.float32)
        return Box(-high, high, (3,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """The three numbers."""
        return (
            ("`[0]`", "cosine of the angle from upright"),
            ("`[1]`", "sine of the angle from upright, counter-clockwise"),
            ("`[2]`", "angular velocity, rad/s counter-clockwise"),
        )

    def draw_level(self, key: Key, params: Any) -> Float32[Array, "2"]:
        """Draw angle and speed, uniform within `START` of zero."""
        return uniform(key, *START)

    def reset_state(self, key: Key, level: Float32[Array, "2"], params: Any) -> PendulumState:
        """Begin with the level's angle and speed."""
        return PendulumState(time=jnp.int32(0), angle=level[0], speed=level[1])

    def step_state(
        self, key: Key, state: PendulumState, action: Float32[Array, "1"], params: Any
    ) -> Transition:
        """Turn by the torque; the reward is for the state before the turn."""
        after = turned(state, action[0], params)
        cost = state.angle * state.angle + SPEED_COST * state.speed * state.speed
        cost = cost + TORQUE_COST * action[0] * action[0]
        return Transition(after, -cost, jnp.zeros((), jnp.bool_))

    def observe(self, state: PendulumState, params: Any = None) -> Float32[Array, "3"]:
        """Return where the end of the rod is, and how fast it turns."""
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])

    def ending(self, level: Float32[Array, "2"]) -> Ending | None:
        """None: the task has no end."""
        return None

    def describe(self, state: PendulumState, params: Any = None) -> str:
        """Say how the rod leans and turns."""
        angle, speed = (float(np.degrees(x)) for x in (state.angle, state.speed))
        return "\n".join(
            [
                f"The rod is {abs(angle):.1f} degrees {_side(angle)} from upright.",
                f"It turns {_side(speed)} at {abs(speed):.1f} degrees/s.",
            ]
        )

    def tiles(self, state: PendulumState) -> Int32[Array, "rows columns"]:
        """The background: sky everywhere."""
        return picture.ground(picture.STAND)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites, uint8 (2, tile_size, tile_size, 3)."""
        return picture.sprites(tile_size)

    def picture(
        self, state: PendulumState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the rod."""
        place = compose(self.tiles(state), self.atlas(tile_size))
        return picture.rod(place, state.angle, tile_size)


def _side(number: float) -> str:
    return "clockwise" if number < 0 else "counter-clockwise"


@jax.jit  # even in eager steps, so that products and sums are always rounded alike
def turned(state: PendulumState, torque: Float32[Array, ""], params: Any) -> PendulumState:
    """The state after a step in which a torque (N m) acts on the rod: the speed changes first."""
    pull = np.float32(1.5) * params.gravity / params.length * jnp.sin(state.angle)
    push = np.float32(3.0) / (params.mass * params.length * params.length) * torque
    speed = jnp.clip(state.speed + (pull + push) * params.seconds, -SPEED, SPEED)
    angle = wrapped(state.angle + speed * params.seconds)
    return state.replace(angle=angle, speed=speed)
