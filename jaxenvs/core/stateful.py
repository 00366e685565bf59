"""`StatefulWrapper`, the base class of wrappers that keep a state between steps.

The wrapper's state is called its memory. A `WrappedState` stores the memory next to the state of
the wrapped environment.
"""

import warnings
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from .carries import as_carry
from .env import Reset, Step
from .random import Key
from .struct import Struct, struct
from .wrapper import Wrapper

RENAMED = (
    "remembers_episodes is now persists_across_episodes; the old name goes with the next release"
)


@struct
class WrappedState(Struct):
    """State of a `StatefulWrapper`.

    `env` is the state of the wrapped environment, `memory` the state that the wrapper adds.
    """

    env: Any
    memory: Any

    @property
    def time(self) -> Int32[Array, "*batch"]:
        """Number of steps since reset, counted by the wrapped environment."""
        return self.env.time


class StatefulWrapper(Wrapper):
    """Base class of wrappers that keep a state between steps, called their memory.

    A subclass defines `begin`, which returns the memory after a reset, and `after`, which returns
    the memory after a step. If observations depend on the memory, the subclass also defines
    `shown`. If `begin` copies anything from `ended`, the memory of the previous episode, the
    subclass sets `persists_across_episodes`.
    """

    persists_across_episodes: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take the value of `remembers_episodes`, the old name, with a warning."""
        super().__init_subclass__(**kwargs)
        bases = (base for base in cls.__mro__ if base is not StatefulWrapper)
        given = [base for base in bases if "remembers_episodes" in vars(base)]
        if given and "persists_across_episodes" not in vars(cls):
            warnings.warn(RENAMED, DeprecationWarning, stacklevel=2)
            cls.persists_across_episodes = vars(given[0])["remembers_episodes"]

    @property
    def remembers_episodes(self) -> bool:
        """Old name of `persists_across_episodes`."""
        warnings.warn(RENAMED, DeprecationWarning, stacklevel=2)
        return self.persists_across_episodes

    def begin(self, obs: PyTree[Array], ended: Any | None) -> Any:
        """Return the memory at the start of an episode, as a pytree of arrays.

        `obs` is the first observation of the wrapped environment. `ended` is the memory at the end
        of the previous episode, or None in the first episode.
        """
        raise NotImplementedError

    def after(self, memory: Any, action: Any, step: Step) -> tuple[Any, Step]:
        """Return the memory after a step, and the step with a possibly changed reward and info.

        `memory` is the memory before the step; `step` is the result of the wrapped environment.
        """
        raise NotImplementedError

    def shown(self, obs: PyTree[Array], memory: Any) -> PyTree[Array]:
        """Turn an observation of the wrapped environment into an observation of the wrapper."""
        return obs

    def _shows_another(self) -> bool:
        """Return whether the wrapper overrides a member that determines observations."""
        names = ("observation_space", "observe", "shown")
        return any(
            getattr(type(self), name) is not getattr(StatefulWrapper, name) for name in names
        )

    @property
    def carries_over(self) -> bool:  # type: ignore[override]
        """True if a part of this wrapper's or the wrapped environment's state outlives episodes."""
        return self.persists_across_episodes or self.env.carries_over

    def inner(self, state: WrappedState) -> Any:
        """Return the wrapped environment's part of the wrapper's state."""
        return state.env

    def observe(self, state: WrappedState, params: Any = None) -> PyTree[Array]:
        """Return the agent's observation of `state`."""
        obs = self.env.observe(state.env, self.inner_params(params))
        return self.shown(obs, state.memory)

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, self.inner_params(params))
        memory = as_carry(key, self.begin(obs, None))
        return Reset(self.shown(obs, memory), WrappedState(env=state, memory=memory))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance the wrapped environment and update the memory.

        If the wrapped environment begins a new episode in this step, begin a new memory too.
        """
        check_wrapped(state, type(self).__name__)
        stepped = self.env.step(key, state.env, action, self.inner_params(params))
        if not self.env.resets_itself:
            memory, changed = self.after(state.memory, action, stepped)
            memory = as_carry(key, memory)  # it may contain an action, which can be a constant
            after = WrappedState(env=stepped.state, memory=memory)
            return changed._replace(obs=self.shown(stepped.obs, memory), state=after)
        last = stepped.info["final_obs"]
        memory, changed = self.after(state.memory, action, stepped._replace(obs=last))
        info = {**changed.info, "final_obs": self.shown(last, memory)}
        memory = as_carry(key, memory)
        begun = self.begin(stepped.obs, memory)
        memory = jax.tree.map(lambda new, old: jnp.where(stepped.done, new, old), begun, memory)
        after = WrappedState(env=stepped.state, memory=memory)
        return changed._replace(obs=self.shown(stepped.obs, memory), state=after, info=info)

    def carry_over(self, ended: WrappedState, begun: WrappedState, params: Any = None) -> Any:
        """Return `begun` with the parts of the state and memory in `ended` that outlive an episode.

        `ended` is the last state of the old episode, `begun` the first state of the new one.
        """
        inner = self.inner_params(params)
        state = self.env.carry_over(ended.env, begun.env, inner)
        memory = self.begin(self.env.observe(state, inner), ended.memory)
        return WrappedState(env=state, memory=memory)

    def upstream_obs(self, shown: Any) -> PyTree[Any]:
        """Raise `NotImplementedError`, because the wrapper's observations may depend on its memory.

        An observation of the original environment, such as one of MiniGrid, lacks this memory.
        """
        raise NotImplementedError(f"{self.name} takes no observations of another package")


def check_wrapped(state: Any, name: str) -> None:
    """Raise `TypeError` unless `state` is a `WrappedState`; `name` is the wrapper's class name."""
    if not isinstance(state, WrappedState):
        kind = type(state).__name__
        raise TypeError(f"step: {name} needs a state from its reset or step, got {kind}")
