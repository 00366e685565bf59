"""MountainCar: leave a valley by swinging (Moore, 1990; Gymnasium 1.4, both versions).

`Classic-MountainCar-v0` pushes to either side or not at all, `Classic-MountainCarContinuous-v0` by
any force and pays for it. Deliberate differences: everything is float32, while Gymnasium steps
MountainCar's state in float64; the constants of the physics are params; and a car that has reached
the flag stays there.
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
from .physics import Number, uniform

LEFT, RIGHT = np.float32(-1.2), np.float32(0.6)  # ends of the road
SPEED = np.float32(0.07)  # greatest, of a step
BOTTOM, START = np.float32(-0.5), 0.1  # where cars begin, and how far from there at most
FORCE_COST = np.float32(0.1)
PRIZE = np.float32(100)  # of MountainCarContinuous, at the flag


@struct
class MountainCarParams(Params):
    """Constants of the physics, float32."""

    force: Number  # of a full push: speed that a step adds
    gravity: Number  # speed that a step takes where the road is steepest
    goal: Number  # place of the flag
    goal_speed: Number  # least speed that reaches it


@struct
class MountainCarState(State):
    """Clock and car."""

    position: Float32[Array, ""]  # from -1.2 to 0.6; the bottom of the valley is near -0.52
    velocity: Float32[Array, ""]  # to the right, of a step


class Valley(Env):
    """A car on a road through a valley: what both versions share.

    Observation: float32 (2,): position (-1.2 to 0.6), velocity (-0.07 to 0.07, of a step).
    """

    package: ClassVar[str] = "gymnasium"
    reset_source: ClassVar[str] = "auto"  # a world is two numbers
    fully_observed: ClassVar[bool] = True

    @property
    def observation_space(self) -> Space:
        """Ends of the road, and the greatest speed."""
        low, high = (np.array(ends, np.float32) for ends in ((LEFT, -SPEED), (RIGHT, SPEED)))
        return Box(low, high, (2,), np.float32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """The two numbers."""
        return (
            ("`[0]`", "position, -1.2 to 0.6; the bottom of the valley is near -0.52"),
            ("`[1]`", "velocity to the right, of a step"),
        )

    def draw_level(self, key: Key, params: Any) -> Float32[Array, "2"]:
        """Draw position and velocity: near the bottom, at rest."""
        return jnp.stack([BOTTOM + uniform(key, START)[0], jnp.float32(0)])

    def reset_state(self, key: Key, level: Float32[Array, "2"], params: Any) -> MountainCarState:
        """Begin with the level's two numbers."""
        return MountainCarState(time=jnp.int32(0), position=level[0], velocity=level[1])

    def observe(self, state: MountainCarState, params: Any = None) -> Float32[Array, "2"]:
        """Return the state without its clock."""
        return jnp.stack([state.position, state.velocity])

    def driven(
        self, state: MountainCarState, push: Float32[Array, ""], params: Any
    ) -> tuple[MountainCarState, Bool[Array, ""], Bool[Array, ""]]:
        """The state after a push of -1 to 1, and whether the car is and was at the flag."""
        was = has_arrived(state, params)
        moved = rolled(state, push, params)
        after = jax.tree.map(lambda old, new: jnp.where(was, old, new), state, moved)
        return after, has_arrived(after, params), was

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Tell whether the car has reached the flag."""
        return step.terminated

    def describe(self, state: MountainCarState, params: Any = None) -> str:
        """Say where the car is and where it rolls."""
        position, velocity = np.asarray(self.observe(state), float).tolist()
        chosen: Any = params or self.default_params
        goal = float(chosen.goal)
        side = "left" if velocity < 0 else "right"
        return "\n".join(
            [
                f"The car is at {position:.3f} on a road from -1.2 to 0.6; the flag is at "
                f"{goal:g}, the bottom of the valley at -0.52.",
                f"It rolls to the {side} at {abs(velocity):.4f} a step.",
            ]
        )

    def tiles(self, state: MountainCarState) -> Int32[Array, "rows columns"]:
        """The background: sky everywhere."""
        return picture.ground(picture.HILLS)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites, uint8 (2, tile_size, tile_size, 3)."""
        return picture.sprites(tile_size)

    def picture(
        self, state: MountainCarState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw road, flag and car."""
        place = compose(self.tiles(state), self.atlas(tile_size))
        chosen: Any = params or self.default_params
        return picture.car(place, state.position, jnp.float32(chosen.goal), tile_size)


@register("Classic-MountainCar-v0", aliases=("MountainCar-v0",))
class MountainCar(Valley):
    """Reach the flag on the right hill with a motor too weak to climb it without a run-up.

    Actions: 0 push left, 1 coast, 2 push right.
    Reward: -1 for every step, including the last.
    Episode ends: at 0.5 or beyond; truncated after 200 steps.
    """

    reward_range: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @property
    def default_params(self) -> MountainCarParams:
        """Gymnasium's numbers."""
        return MountainCarParams(
            max_steps_in_episode=np.int32(200),
            force=np.float32(0.001),
            gravity=np.float32(0.0025),
            goal=np.float32(0.5),
            goal_speed=np.float32(0.0),
        )

    @property
    def action_space(self) -> Space:
        """0 left, 1 neither, 2 right."""
        return Discrete(3)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Where the car is pushed."""
        return ("left", "coast", "right")

    @property
    def controls(self) -> Controls:
        """Arrows push."""
        return Controls(keyed(("left", "left, a"), ("coast", "down, s"), ("right", "right, d")))

    def step_state(
        self, key: Key, state: MountainCarState, action: Array, params: Any
    ) -> Transition:
        """Push, unless the car is at the flag."""
        after, arrived, was = self.driven(state, (action - 1).astype(jnp.float32), params)
        return Transition(after, jnp.where(was, 0.0, -1.0), arrived)

    def ending(self, level: Float32[Array, "2"]) -> Ending:
        """Roll over the flag."""
        return Ending(jnp.array([0.44, 0.04], jnp.float32), (2, 2))


@register("Classic-MountainCarContinuous-v0", aliases=("MountainCarContinuous-v0",))
class MountainCarContinuous(Valley):
    """Reach the flag on the right hill with a weak motor and as little force as possible.

    Actions: float32 (1,): force from -1 to 1, positive to the right.
    Reward: -0.1 force^2, and 100 at the flag.
    Episode ends: at 0.45 or beyond; truncated after 999 steps.
    """

    reward_range: ClassVar[tuple[float, float]] = (-float(FORCE_COST), float(PRIZE))

    @property
    def default_params(self) -> MountainCarParams:
        """Gymnasium's numbers."""
        return MountainCarParams(
            max_steps_in_episode=np.int32(999),
            force=np.float32(0.0015),
            gravity=np.float32(0.0025),
            goal=np.float32(0.45),
            goal_speed=np.float32(0.0),
        )

    @property
    def action_space(self) -> Space:
        """A force, as a share of the greatest."""
        return Box(-1.0, 1.0, (1,), np.float32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The only number of an action."""
        return ("force",)

    @property
    def controls(self) -> Controls:
        """A key is a force."""
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
        """Push, unless the car is at the flag."""
        after, arrived, was = self.driven(state, action[0], params)
        reward = jnp.where(arrived, PRIZE, 0.0) - FORCE_COST * action[0] * action[0]
        return Transition(after, jnp.where(was, 0.0, reward), arrived)

    def ending(self, level: Float32[Array, "2"]) -> Ending:
        """Roll over the flag."""
        return Ending(jnp.array([0.39, 0.04], jnp.float32), (np.ones(1, np.float32),) * 2)


def has_arrived(state: MountainCarState, params: Any) -> Bool[Array, ""]:
    """Tell whether the car is at the flag, and fast enough."""
    return (state.position >= params.goal) & (state.velocity >= params.goal_speed)


@jax.jit  # even in eager steps, so that products and sums are always rounded alike
def rolled(state: MountainCarState, push: Float32[Array, ""], params: Any) -> MountainCarState:
    """The state after a step with a push of -1 to 1; the left end of the road stops a car."""
    steepness = jnp.cos(np.float32(3) * state.position)
    velocity = state.velocity + (push * params.force - params.gravity * steepness)
    velocity = jnp.clip(velocity, -SPEED, SPEED)
    position = jnp.clip(state.position + velocity, LEFT, RIGHT)
    stopped = (position == LEFT) & (velocity < 0)
    return state.replace(position=position, velocity=jnp.where(stopped, 0.0, velocity))
