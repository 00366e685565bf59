"""Acrobot: two links, a motor between them (Sutton, 1996; Gymnasium 1.4 `Acrobot-v1`).

The equations are those of Sutton and Barto's book. Deliberate differences: everything is float32,
while Gymnasium steps a float64 state and rounds the observation, so that episodes, which are
chaotic, drift apart; the constants of the physics are params; and an acrobot that has swung up
stays as it is.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from ..core.controls import Controls, keyed
from ..core.env import Ending, Env, Params, State, Step, Transition
from ..core.pixels import compose
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from . import picture
from .physics import Number, uniform, wrapped

SECONDS = np.float32(0.2)  # of a step
SPEEDS = np.array(
    [4 * np.pi, 9 * np.pi], np.float32
)  # greatest of the upper and the lower link, rad/s
START = 0.1  # largest absolute value of each number at the start
BAR = 1.0  # height above the upper joint that the free end must exceed, in lengths of a link

Motion = Float32[Array, "4"]  # angles of both links and their speeds, or the changes of these


@struct
class AcrobotParams(Params):
    """Constants of the physics, float32; the links are alike."""

    gravity: Number  # m/s2
    length: Number  # of a link, m
    centre: Number  # from the upper end of a link to its centre of mass, m
    mass: Number  # of a link, kg
    inertia: Number  # of a link about its centre of mass, kg m2
    torque: Number  # of the motor, N m


@struct
class AcrobotState(State):
    """Clock and links."""

    upper: Float32[Array, ""]  # angle of the upper link from hanging, rad counter-clockwise
    lower: Float32[Array, ""]  # angle of the lower link from the upper one, likewise
    upper_speed: Float32[Array, ""]  # rad/s
    lower_speed: Float32[Array, ""]  # rad/s


@register("Classic-Acrobot-v0", aliases=("Acrobot-v1",))
class Acrobot(Env):
    """Swing the end of two links above a bar by turning the joint between them.

    Actions: 0 torque of -1 N m, 1 none, 2 torque of 1 N m, on the lower link and counter-clockwise.
    Observation: float32 (6,): cosine and sine of the upper link's angle from hanging, cosine and
        sine of the lower link's angle from the upper one (counter-clockwise), both angular
        velocities (rad/s).
    Reward: -1 for every step, 0 for the one that swings above the bar.
    Episode ends: when the free end is more than the length of a link above the upper joint;
        truncated after 500 steps.
    """

    package: ClassVar[str] = "gymnasium"
    reset_source: ClassVar[str] = "auto"  # a world is four numbers
    fully_observed: ClassVar[bool] = True
    reward_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @property
    def default_params(self) -> AcrobotParams:
        """Gymnasium's numbers."""
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
        """0 to the left, 1 nothing, 2 to the right."""
        return Discrete(3)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Where the motor turns a lower link that hangs."""
        return ("left", "rest", "right")

    @property
    def controls(self) -> Controls:
        """Arrows turn the lower link."""
        return Controls(keyed(("left", "left, a"), ("rest", "down, s"), ("right", "right, d")))

    @property
    def observation_space(self) -> Space:
        """Cosines, sines and the greatest speeds."""
        high = np.array([1.0, 1.0, 1.0, 1.0, *SPEEDS], np.float32)
        return Box(-high, high, (6,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """The six numbers."""
        return (
            ("`[0]`, `[1]`", "cosine and sine of the upper link's angle from hanging"),
            ("`[2]`, `[3]`", "cosine and sine of the lower link's angle from the upper one"),
            ("`[4]`", "angular velocity of the upper link, rad/s counter-clockwise"),
            ("`[5]`", "angular velocity of the lower link from the upper one, likewise"),
        )

    def draw_level(self, key: Key, params: Any) -> Motion:
        """Draw angles and speeds, uniform within `START` of zero."""
        return uniform(key, START, START, START, START)

    def reset_state(self, key: Key, level: Motion, params: Any) -> AcrobotState:
        """Begin with the level's four numbers."""
        return _state(jnp.int32(0), level)

    def step_state(self, key: Key, state: AcrobotState, action: Array, params: Any) -> Transition:
        """Turn the joint, unless the end is above the bar."""
        over = is_above(state)
        moved = swung(state, (action - 1).astype(jnp.float32) * params.torque, params)
        after = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved)
        done = is_above(after)
        return Transition(after, jnp.where(done, 0.0, -1.0), done)

    def observe(self, state: AcrobotState, params: Any = None) -> Float32[Array, "6"]:
        """Return cosines, sines and speeds."""
        angles = jnp.stack([state.upper, state.lower])
        turned = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).ravel()
        return jnp.concatenate([turned, jnp.stack([state.upper_speed, state.lower_speed])])

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Tell whether the end is above the bar."""
        return step.terminated

    def ending(self, level: Motion) -> Ending:
        """Swing on, over the bar."""
        return Ending(jnp.array([1.8, 0.0, 4.0, 0.0], jnp.float32), (2,))

    def describe(self, state: AcrobotState, params: Any = None) -> str:
        """Say where the links are and how they turn."""
        upper, lower, upper_speed, lower_speed = np.degrees(np.asarray(_motion(state), float))
        return "\n".join(
            [
                f"The upper link is {_turn(upper)} of hanging and turns {_turn(upper_speed)}/s.",
                f"The lower link is {_turn(lower)} of the upper one and turns "
                f"{_turn(lower_speed)}/s.",
                f"The free end is {float(height(state)):.2f} lengths of a link above the upper "
                f"joint; above {BAR:g} the episode ends.",
            ]
        )

    def tiles(self, state: AcrobotState) -> Int32[Array, "rows columns"]:
        """The background: sky everywhere."""
        return picture.ground(picture.ROOM)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites, uint8 (2, tile_size, tile_size, 3)."""
        return picture.sprites(tile_size)

    def picture(
        self, state: AcrobotState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the bar and the links."""
        place = compose(self.tiles(state), self.atlas(tile_size))
        return picture.links(place, state.upper, state.lower, BAR, tile_size)


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
    """How far the free end is above the upper joint, in lengths of a link."""
    return -jnp.cos(state.upper) - jnp.cos(state.lower + state.upper)


def is_above(state: AcrobotState) -> Bool[Array, ""]:
    """Tell whether the free end is above the bar."""
    return height(state) > BAR


@jax.jit  # even in eager steps, so that products and sums are always rounded alike
def swung(state: AcrobotState, torque: Float32[Array, ""], params: Any) -> AcrobotState:
    """The state after a step in which a torque (N m) acts on the joint: Runge-Kutta, 4th order."""
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
    """Speeds and accelerations, by the equations of Sutton and Barto's book."""
    upper, lower, upper_speed, lower_speed = (motion[i] for i in range(4))
    mass, length, centre = params.mass, params.length, params.centre
    arm = mass * length * centre
    alone = mass * centre * centre + params.inertia
    bend = jnp.cos(lower)
    both = alone + alone + mass * length * length + np.float32(2) * arm * bend
    shared = alone + arm * bend
    # The weight of a link pulls it towards hanging: cos(angle - 90 degrees) is the sine.
    lower_pull = mass * centre * params.gravity * jnp.sin(upper + lower)
    upper_pull = mass * (centre + length) * params.gravity * jnp.sin(upper) + lower_pull
    whirl = arm * jnp.sin(lower)
    upper_pull -= whirl * lower_speed * (lower_speed + np.float32(2) * upper_speed)
    push = torque + shared / both * upper_pull - whirl * upper_speed * upper_speed - lower_pull
    lower_change = push / (alone - shared * shared / both)
    upper_change = -(shared * lower_change + upper_pull) / both
    return jnp.stack([upper_speed, lower_speed, upper_change, lower_change])
