"""Small Gymnasium environments, which this module registers: `gym:tiny_gym:Signal-v0` ..."""

import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Signal(gymnasium.Env):
    """Environment with reward 1 if the action is 1 plus the signal (0 or 1) in the observation.

    An episode has `length` steps. With `cut` it is truncated instead of terminated, and its final
    observation is all 9.
    """

    def __init__(self, length: int = 8, cut: bool = False, pause: float = 0.0) -> None:
        self.observation_space = spaces.Box(0.0, 9.0, (2,), np.float64)
        self.action_space = spaces.Discrete(2, start=1)
        self._length, self._cut, self._pause = length, cut, pause

    def reset(self, *, seed=None, options=None):
        """Begin an episode with a new signal."""
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action):
        """Reward the action if it is 1 plus the signal, and show the next signal."""
        assert action in (1, 2)  # the actions are 1 and 2: the space starts at 1
        time.sleep(self._pause)
        reward = float(self._signal == action - 1)
        self._time += 1
        ends = self._time >= self._length
        obs = self._look()
        if ends and self._cut:
            obs = np.full(2, 9.0)
        return obs, reward, ends and not self._cut, ends and self._cut, {}

    def _look(self) -> np.ndarray:
        self._signal = int(self.np_random.integers(2))
        return np.eye(2)[self._signal]


class Parts(Signal):
    """Environment `Signal` with a Dict observation of five spaces, all with integer values."""

    def __init__(self, **fields) -> None:
        super().__init__(**fields)
        self.observation_space = spaces.Dict(
            {
                "discrete": spaces.Discrete(2, start=5),
                "picture": spaces.Box(0, 255, (2, 2, 3), np.uint8),
                "long": spaces.Box(-3, 3, (1,), np.int64),
                "switches": spaces.MultiBinary(3),
                "several": spaces.MultiDiscrete([2, 3]),
            }
        )

    def _look(self) -> dict:
        """Return an observation whose entries have their lowest values, except for the signal."""
        obs = {
            name: np.zeros(space.shape, space.dtype)
            for name, space in self.observation_space.items()
        }
        self._signal = int(self.np_random.integers(2))
        return obs | {"discrete": np.int64(5 + self._signal), "long": np.array([-3])}


class Steered(Signal):
    """Environment `Signal` with a continuous action, of which only the sign counts."""

    def __init__(self, **fields) -> None:
        super().__init__(**fields)
        self.action_space = spaces.Box(-0.1, 0.1, (1,), np.float64)

    def step(self, action):
        """Step `Signal` with action 1 if the action is not positive, else with action 2."""
        assert self.action_space.contains(action)
        return super().step(1 + int(action[0] > 0))


class Chosen(Signal):
    """Environment `Signal` with a MultiDiscrete action; only its first component counts."""

    def __init__(self, **fields) -> None:
        super().__init__(**fields)
        self.action_space = spaces.MultiDiscrete([2, 3], start=[1, 5])

    def step(self, action):
        """Step `Signal` with the first component of the action."""
        assert self.action_space.contains(action)
        return super().step(int(action[0]))


class Bits(Signal):
    """Environment `Signal` with an action space that learners do not support."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiBinary(2)


class Spoken(Signal):
    """Environment `Signal` with a text observation."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(8)


class Failing(Signal):
    """Environment `Signal` that raises in its third step."""

    def step(self, action):
        """Raise `ZeroDivisionError` in the third step."""
        return super().step(action) if self._time < 2 else 1 / 0


class Fussy(Signal):
    """Environment `Signal` in which only the right action is legal; the info has the mask."""

    def reset(self, *, seed=None, options=None):
        """Return the result of `Signal` with the action mask in the info."""
        obs, _ = super().reset(seed=seed)
        return obs, {"action_mask": self._allowed()}

    def step(self, action):
        """Return the result of `Signal` with the action mask in the info."""
        assert self._allowed()[action - 1]
        *seen, _ = super().step(action)
        return *seen, {"action_mask": self._allowed()}

    def _allowed(self) -> np.ndarray:
        return (np.arange(2) == self._signal).astype(np.int8)


class Moody(Fussy):
    """Environment `Fussy` whose info has the mask after a reset, but not after a step."""

    def step(self, action):
        """Make a step, without a mask in the info."""
        *seen, _ = super().step(action)
        return *seen, {}


class Sleepy(gymnasium.Env):
    """Environment whose player sleeps for three steps after the last of three actions.

    Observations are the time and whether the player is asleep, which allows only the last action.
    The reward is the action, and an episode has ten steps.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Begin an episode, awake."""
        super().reset(seed=seed)
        self._time = self._left = 0
        return self._seen()

    def step(self, action):
        """Make a step; the last action begins a sleep."""
        assert not self._left or action == 2
        self._time += 1
        self._left = self._left - 1 if self._left else 3 * (action == 2)
        obs, info = self._seen()
        return obs, float(action), self._time == 10, False, info

    def _seen(self) -> tuple[np.ndarray, dict]:
        asleep = self._left > 0
        obs = np.array([self._time, asleep], np.float32)
        return obs, {"action_mask": np.array([not asleep, not asleep, True], np.int8)}


for kind in (Signal, Parts, Steered, Chosen, Bits, Spoken, Failing, Fussy, Moody, Sleepy):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind, disable_env_checker=True)
