"""The base class of all wrappers, `Wrapper`.

`Wrapper` forwards every member of `Env`, and every other member of the wrapped environment. A
subclass therefore defines only the members that it changes.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, dataclass_transform

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from . import eager
from .controls import Controls
from .env import Env, Reset, Step
from .facts import Features
from .parts.part import members
from .random import Key
from .spaces import Space
from .vocabulary import Vocabulary

# Members of `Env` that `Wrapper` does not forward. `reset` and `sample_level` only call other
# members, and these are forwarded. `reset_state` and `step_state` are for authors of environments:
# a wrapper overrides `reset_to` and `step` instead. `given_params` is a dataclass field, in which a
# wrapper stores values of the params that it adds itself.
COMPOSED = {"reset", "sample_level", "reset_state", "step_state", "given_params"}


@dataclass_transform(frozen_default=True, kw_only_default=False)
class Wrapper(Env, kw_only=False):
    """An environment that forwards every member to the wrapped environment `env`.

    `env` and the fields of subclasses may be given by position. A subclass overrides:

    - `transform`, if its observation is computed from the observation of `env`;
    - `step` and `reset_to`, perhaps with `inner`, if it changes states;
    - `default_params` and `inner_params`, if it adds params;
    - `fully_observed`, if its observation leaves out something.

    `StatefulWrapper` is the base of wrappers with a state. `_forwarded` forwards all other members
    of `Env`. `__getattr__` forwards members that only some environments have, such as
    `mission_text`. When called on the wrapper, these members take the wrapper's states and params.
    """

    env: Env

    def __init_subclass__(cls, kw_only: bool | None = None, **kwargs: Any) -> None:
        """Make the subclass a frozen dataclass.

        With `kw_only`, its fields must be given by name. None means True if a required field
        follows an optional one, because Python then requires names, else False.
        """
        by_name = _needs_names(cls) if kw_only is None else kw_only
        super().__init_subclass__(kw_only=by_name, **kwargs)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        if not isinstance(self.env, Env):
            kind = type(self.env).__name__
            raise TypeError(f"{type(self).__name__}: env must come from jaxenvs.make, got {kind}")

    def __getattr__(self, name: str) -> Any:
        """Return a member that only the wrapped environment has, such as `mission_text`."""
        if name.startswith("_") or hasattr(type(self), name) or "env" not in vars(self):
            # Raises AttributeError, with Python's usual message.
            return object.__getattribute__(self, name)
        return _of_wrapper(self, getattr(self.env, name))

    @property
    def unwrapped(self) -> Env:
        """The environment without any wrapper."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    @property
    def default_params(self) -> Any:
        """Params of the wrapped environment."""
        return self.env.default_params

    @property
    def action_space(self) -> Space:
        """Action space of the wrapped environment."""
        return self.env.action_space

    @property
    def observation_space(self) -> Space:
        """Observation space of the wrapped environment."""
        return self.env.observation_space

    @property
    def controls(self) -> Controls:
        """Keys and mouse actions of the wrapped environment.

        A wrapper that changes the action space has `Env`'s default controls instead.
        """
        if type(self).action_space is not Wrapper.action_space:
            return super().controls
        controls = self.env.controls
        pointing = controls.pointing
        if pointing is None:
            return controls

        def action(state: Any, *pointed: Any) -> int | None:
            return pointing.action(self.inner(state), *pointed)

        return controls._replace(pointing=pointing._replace(action=action))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meanings of the entries of an observation, from the wrapped environment.

        Empty if the wrapper changes the observation.
        """
        return () if self._shows_another() else self.env.observation_layout

    @property
    def features(self) -> Features:
        """Network inputs of the wrapped environment: their space, and how to compute them.

        A wrapper that changes the observation has `Env`'s default instead, the observation itself.
        """
        return super().features if self._shows_another() else self.env.features

    @property
    def map_features(self) -> Features:
        """Inputs of the wrapped environment for networks with spatial layers.

        A wrapper that changes the observation has `Env`'s default instead, which is `features`.
        """
        return super().map_features if self._shows_another() else self.env.map_features

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Conversion of the wrapped environment's observations to categories; None if it has none.

        A wrapper that changes the observation has `Env`'s default instead, which converts maps of
        small integers.
        """
        return super().vocabulary if self._shows_another() else self.env.vocabulary

    @property
    def has_text_inputs(self) -> bool:
        """True if the wrapped environment has text inputs and no wrapper overrides `describe`.

        See `PlayerPart.has_text_inputs`.
        """
        return not self._describes() and self.env.has_text_inputs

    def describe(self, state: Any, params: Any = None, detail: str = "full") -> str:
        """Return a description of the wrapped environment's state in words."""
        if self.has_text_inputs:
            return super().describe(state, params, detail)
        more = {} if detail == "full" else {"detail": detail}
        return _of_wrapper(self, self.env.describe)(state, params, **more)

    def describe_changes(self, before: Any, state: Any, params: Any = None) -> str:
        """Return a description, in words, of the changes in the wrapped environment's state."""
        if self.has_text_inputs or self._describes():
            return super().describe_changes(before, state, params)
        return _of_wrapper(self, self.env.describe_changes)(before, state, params)

    def _describes(self) -> bool:
        """Return whether the wrapper's class overrides `describe`."""
        return type(self).describe is not Wrapper.describe

    def _shows_another(self) -> bool:
        """Return whether the wrapper overrides a member that determines observations."""
        names = ("observation_space", "transform", "observe")
        return any(getattr(type(self), name) is not getattr(Wrapper, name) for name in names)

    def inner(self, state: Any) -> Any:
        """Return the wrapped environment's part of the wrapper's state."""
        return state

    def inner_params(self, params: Any) -> Any:
        """Return the wrapped environment's part of the wrapper's params; None means the default."""
        return params

    def _keeps_state(self) -> bool:
        """Return whether the wrapper uses the wrapped environment's states without changes."""
        return type(self).inner is Wrapper.inner

    def check_values(self, params: Any, where: str) -> None:
        """Raise an error if params of the wrapper or the wrapped environment have bad values."""
        super().check_values(params, where)
        self.env.check_values(self.inner_params(params), where)

    def transform(self, obs: PyTree[Array]) -> PyTree[Array]:
        """Turn an observation of the wrapped environment into an observation of the wrapper."""
        return obs

    def trials(self, tasks: str, part: tuple[float, float] = (0.0, 1.0), **lengths: int) -> Any:
        """Apply this wrapper to `env.trials(...)`: trials of several episodes, for meta-learning.

        `LearnerPart.trials` explains the arguments.
        """
        return dataclasses.replace(self, env=self.env.trials(tasks, part, **lengths))

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, self.inner_params(params))
        return Reset(self.transform(obs), state)

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action; begin the next episode only if the wrapped environment does so."""
        stepped = self.env.step(key, state, action, self.inner_params(params))
        info = stepped.info
        if self.env.resets_itself:
            info = {**info, "final_obs": self.transform(info["final_obs"])}
        return stepped._replace(obs=self.transform(stepped.obs), info=info)

    def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any:
        """Return `begun` with the parts of the wrapped state in `ended` that outlive an episode.

        `ended` and `begun` are states of the wrapper. If the wrapper defines its own state class,
        the field `env` of that class must contain the wrapped environment's state.
        """
        states = self.inner(ended), self.inner(begun)
        inside = self.env.carry_over(*states, self.inner_params(params))
        return inside if self._keeps_state() else begun.replace(env=inside)

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the agent's observation of `state`."""
        return self.transform(self.env.observe(self.inner(state), self.inner_params(params)))

    def from_upstream(self, state: Any) -> Any:
        """Turn a state of the original environment into a state of the wrapper.

        The original environment is the one of another package, such as MiniGrid, whose rules `env`
        reproduces. Raises `NotImplementedError` if the wrapper adds something to the state, because
        the states of the original environment lack it.
        """
        inside = self.env.from_upstream(state)
        return inside if self._keeps_state() else super().from_upstream(state)

    def upstream_obs(self, shown: Any) -> PyTree[Any]:
        """Turn an observation of the original environment into an observation of the wrapper.

        The original environment is the one of another package, such as MiniGrid, whose rules `env`
        reproduces.
        """
        return self.transform(jax.tree.map(jnp.asarray, self.env.upstream_obs(shown)))


def refuse_self_resetting(env: Env, where: str, advice: str) -> None:
    """Raise `ValueError` if `env` begins its next episode in `step`, as `AutoReset` does.

    `where` and `advice` are the beginning and the end of the message.
    """
    if env.resets_itself:
        raise ValueError(f"{where}: {env.name} begins its next episode by itself; {advice}")


def _needs_names(cls: type) -> bool:
    """Return whether a required field of a wrapper class comes after an optional one.

    Python forbids this order in a dataclass unless the fields are keyword-only.
    """
    bases = [base for base in reversed(cls.__mro__[1:]) if dataclasses.is_dataclass(base)]
    fields = [field for base in bases for field in dataclasses.fields(base) if not field.kw_only]
    own = [n for n, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)]
    names = dict.fromkeys([*(field.name for field in fields), *own])
    optional = [hasattr(cls, name) for name in names]
    return optional != sorted(optional)


def _of_wrapper(wrapper: Wrapper, member: Any) -> Any:
    """Return a member of the wrapped environment that takes the wrapper's states and params.

    A method with parameters such as `state`, `step` or `params` becomes a function. The function
    takes a state, step or params of the wrapper, converts each for the wrapped environment, and
    calls the method. Any other member is returned unchanged.
    """
    if not inspect.isroutine(member):
        return member
    to_inner: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("state", "before", "after"), wrapper.inner),
        "step": functools.partial(_inner_step, wrapper),
        "params": wrapper.inner_params,
    }
    signature = inspect.signature(member)
    if not to_inner.keys() & {*signature.parameters}:
        return member

    @functools.wraps(member)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        for name in to_inner.keys() & {*given.arguments}:
            given.arguments[name] = to_inner[name](given.arguments[name])
        return member(*given.args, **given.kwargs)

    return call


def _inner_step(wrapper: Wrapper, step: Any) -> Any:
    """Replace the state in a `Step` of the wrapper by the wrapped environment's state.

    An argument named `step` that is not a `Step` is returned unchanged.
    """
    return step._replace(state=wrapper.inner(step.state)) if isinstance(step, Step) else step


def _forwarded(name: str, default: Any) -> Any:
    """Return a property or method for `Wrapper` that forwards the member `name` to `env`.

    `default` is the member's default in `Env`.
    """

    def inside(wrapper: Wrapper) -> Any:
        return _of_wrapper(wrapper, getattr(wrapper.env, name))

    if not inspect.isroutine(default):
        return property(inside, doc=f"`{name}` of the environment inside.")

    @functools.wraps(default)
    def call(wrapper: Wrapper, *args: Any, **kwargs: Any) -> Any:
        return inside(wrapper)(*args, **kwargs)

    return eager.compiled(call) if hasattr(default, "compiled_for") else call


for _name, _default in members(Env):
    if _name not in vars(Wrapper) and _name not in COMPOSED:
        setattr(Wrapper, _name, _forwarded(_name, _default))
