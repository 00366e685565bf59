"""`PreviousStep`, a wrapper that adds the previous action and reward to observations."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree

from .. import checks
from ..env import Step
from ..facts import Features
from ..spaces import Box, Dict, Discrete, Space
from ..stateful import StatefulWrapper
from ..struct import Struct, struct


@struct
class Previous(Struct):
    """Action and reward of the previous step, stored in the wrapper's state."""

    action: Int32[Array, ""]  # the previous action plus 1; 0 before the first step
    reward: Float32[Array, ""]


class PreviousStep(StatefulWrapper):
    """Adds the previous action and reward to the observation, as meta-learning agents need them.

    The observation becomes a dict. `obs` is the observation of the wrapped environment. `action`,
    int32, is the previous action plus 1, or 0 at the start of an episode. `reward`, float32, is the
    previous reward, or 0 at the start.
    """

    def __post_init__(self) -> None:
        """Raise `ValueError` unless the action space is Discrete."""
        super().__post_init__()
        if not isinstance(self.action_space, Discrete):
            raise ValueError(f"PreviousStep: needs Discrete actions, got {self.action_space}")

    @property
    def observation_space(self) -> Dict:
        """Dict space of the wrapped environment's observation, the previous action and reward."""
        return Dict({"obs": self.env.observation_space, **self._before})

    @property
    def features(self) -> Features:
        """Network input: `features` of the wrapped environment, previous action and reward."""
        space, read = self.env.features
        return Features(Dict({"obs": space, **self._before}), _Beside(read))

    @property
    def map_features(self) -> Features:
        """Network input with a spatial part, and the previous action and reward.

        The wrapped environment's `map_features`, the action and the reward are in one flat dict.
        """
        space, read = self.env.map_features
        parts = dict(space.spaces) if isinstance(space, Dict) else {"obs": space}
        return Features(Dict({**parts, **self._before}), _Beside(read, flat=True))

    @property
    def _before(self) -> dict[str, Space]:
        inside: Any = self.action_space
        low, high = self.reward_range
        reward = Box(min(low, 0.0), max(high, 0.0), (), np.float32)
        return {"action": Discrete(inside.n + 1), "reward": reward}

    def begin(self, obs: PyTree[Array], ended: Previous | None) -> Previous:
        """Return the values for the first observation of an episode: action 0 (none), reward 0."""
        return Previous(action=jnp.int32(0), reward=jnp.float32(0))

    def after(self, memory: Previous, action: Any, step: Step) -> tuple[Previous, Step]:
        """Store the action that was taken and the reward of the step."""
        taken, _ = checks.action_in(self.action_space, action, "step")
        return Previous(action=taken + jnp.int32(1), reward=step.reward), step

    def shown(self, obs: PyTree[Array], memory: Previous) -> dict[str, PyTree[Array]]:
        """Return the dict of the observation, the previous action and the previous reward."""
        return {"obs": obs, "action": memory.action, "reward": memory.reward}


@dataclasses.dataclass(frozen=True)
class _Beside:
    """Function that computes network inputs from an observation of `PreviousStep`, a dict.

    It calls `read`, the function for the wrapped environment's network inputs, on the entry `obs`.
    The entries `action` and `reward` stay unchanged.
    """

    read: Callable[[Any], Any]
    # If True, and `read` returns a dict, its entries are joined with `action` and `reward` into one
    # flat dict. Otherwise the result of `read` becomes the entry `obs`.
    flat: bool = False

    def __call__(self, obs: dict[str, Any]) -> dict[str, Any]:
        inside = self.read(obs["obs"])
        parts = inside if self.flat and isinstance(inside, dict) else {"obs": inside}
        return {**parts, "action": obs["action"], "reward": obs["reward"]}
