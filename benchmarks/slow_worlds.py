"""Gymnasium environments with slow steps, which benefit from training with Ray actors.

    gym:jaxenvs.benchmarks.slow_worlds:SlowCartPole-v0   CartPole-v1 that sleeps 5 ms in every step
    gym:jaxenvs.benchmarks.slow_worlds:Crafter-v0        crafter 1.8.3 (must be installed)

Deliberate difference from crafter: the observation is the block types of the 9 x 7 view and the
inventory, not the picture (crafter still draws it, so steps stay as slow).
"""

import time
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

PAUSE = 0.005  # seconds that a step of SlowCartPole sleeps
VIEW = (9, 7)  # number of columns and rows of Crafter's local view
BLOCKS = 19  # number of kinds of cells in Crafter's semantic view; kind 0 is outside the map
ITEMS = 16


class SlowCartPole(gymnasium.Wrapper):
    """CartPole-v1 that sleeps `PAUSE` seconds in every step."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]  # class-wide

    def __init__(self, **_: Any) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sleep `PAUSE` seconds, then step CartPole and return the results."""
        time.sleep(PAUSE)
        return self.env.step(action)


class Crafter(gymnasium.Env):
    """crafter.Env (Hafner, 2021) with the interface of Gymnasium.

    Observation: `cells` (9, 7, 1) uint8, the kinds of the cells in the local view, and `items`
    (16,) uint8, the inventory. Reward: crafter's. Episode ends: terminated at death; truncated
    after 10,000 steps.
    """

    def __init__(self, **_: Any) -> None:
        """Define the spaces, and import crafter: this module can be imported without crafter."""
        import crafter  # type: ignore[import-not-found]

        self._make = crafter.Env
        self.action_space = spaces.Discrete(17)
        self.observation_space = spaces.Dict(
            {
                "cells": spaces.Box(0, BLOCKS - 1, (*VIEW, 1), np.uint8),
                "items": spaces.Box(0, 9, (ITEMS,), np.uint8),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start a new world and make one `noop` step: crafter's reset returns no block types."""
        super().reset(seed=seed)
        self._env = self._make(seed=int(self.np_random.integers(2**31)))
        self._env.reset()
        return self._look(self._env.step(0)[3]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step crafter and return the results: death terminates, the time limit truncates."""
        _, reward, done, info = self._env.step(int(action))
        dead = info["discount"] == 0
        return self._look(info), float(reward), bool(dead), bool(done and not dead), {}

    def _look(self, info: dict[str, Any]) -> dict[str, np.ndarray]:
        padded = np.pad(info["semantic"], [(n // 2, n // 2) for n in VIEW])
        column, row = info["player_pos"]
        cells = padded[column : column + VIEW[0], row : row + VIEW[1], None]
        items = np.fromiter(info["inventory"].values(), np.uint8, ITEMS)
        return {"cells": cells.astype(np.uint8), "items": np.minimum(items, 9)}


gymnasium.register("SlowCartPole-v0", entry_point=SlowCartPole, disable_env_checker=True)
gymnasium.register("Crafter-v0", entry_point=Crafter, disable_env_checker=True)
