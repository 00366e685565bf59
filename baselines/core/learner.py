"""The interface of a learner: its row in the registry, and the static inputs of its functions."""

import copy
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import jax
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core import distributions
from jaxenvs.core.distributions import Distribution
from jaxenvs.core.spaces import Discrete, Space
from jaxenvs.core.vector import VectorEnv

from .devices import ALONE, Devices

S = TypeVar("S")  # a learner's settings, a dataclass
SEEDS = "seeds"  # name of the axis over which runs with different seeds are vmapped
PACKAGE = "jaxenvs.baselines"


class Algorithm(NamedTuple):
    """One learner: a row of `registry.ALGORITHMS`.

    Its module defines, as functions of a `Learner` and for one seed:

    - `Settings`, a dataclass with `check`;
    - `Runner`, a NamedTuple of arrays with `weights`, the training state between updates;
    - `DIVIDED`, the fields of `Runner` whose arrays have this device's environments as first axis;
    - `init(learner, key)`, which returns a runner;
    - `update(learner, runner)`, which returns the next runner and metrics: `episodes`, `return_sum`
      and `length_sum`, which are sums, and means;
    - `network(env, **settings)` if it learns a policy.

    It may define, where the default does not fit:

    - `build(env, settings, devices)`, which returns the `Learner` (default: `registry.build`);
    - `training_env(env, settings)`, the environment that it trains in (default: `env`);
    - `check(learner, seeds, episodes)`, which raises `ValueError` for a learner that cannot work
      with this many seeds on a device and episodes in the final evaluation;
    - `evaluate(learner, weights, agents, episodes)`, the content of eval.json, and
      `summary(result)`, its text (default: the episodes of the policy);
    - `next_command`, what to type after training, with `{env}` and `{run}` to fill in;
    - `shown(settings, record)`, the text of the progress line in place of the return;
    - `params(learner)`, environment params that the compiled program takes as arguments: `init`
      then has them as a third argument, and runners have a field `params`;
    - `wrapped(env, settings)`, the environment that the trained policy acts in;
    - `decide`, the actions of a learner that `searches`, see `planning.Search.plan`.
    """

    name: str  # value of --algo
    title: str
    module: str
    shape: tuple[str, ...] = ("hidden", "embed")  # settings of the policy's network; (): no policy
    command: str = ".run.loop"  # module whose `command` trains it
    outside: bool = False  # whether it takes environments of Gymnasium
    actions: tuple[type[Space], ...] = (Discrete,)  # action spaces that it learns in
    # What else it needs of an environment; errors suggest only learners that can learn in it.
    fits: Callable[[Any], bool] = lambda env: True
    searches: str = ""  # the model that the search of its policy steps; "": it has no search

    def load(self) -> Any:
        """Import the module."""
        return importlib.import_module(self.module, PACKAGE)

    def wrapped(self, env: Env, settings: Mapping[str, Any]) -> Env:
        """The environment that a policy of a run with these settings acts in."""
        module = self.load()
        return module.wrapped(env, settings) if hasattr(module, "wrapped") else env


@dataclasses.dataclass(frozen=True)
class Learner(Generic[S]):
    """An algorithm with all that its functions are given besides a runner: static, hashable."""

    algorithm: Algorithm
    env: Any  # VectorEnv, this device's environments; other learners document theirs
    network: Any  # flax.linen.Module
    settings: S
    devices: Devices = ALONE

    @property
    def policy(self) -> Distribution:
        """What the outputs of the policy's network mean."""
        world = self.env.env if isinstance(self.env, VectorEnv) else self.env
        return distributions.of(world.action_space)

    @property
    def params(self) -> Any:
        """Params of the environments; None for the defaults, which the program then contains."""
        module = self.algorithm.load()
        return module.params(self) if hasattr(module, "params") else None

    def init(self, key: Array, params: PyTree[Array] = None) -> Any:
        """A runner that has done nothing yet."""
        given = () if params is None else (params,)
        return self.algorithm.load().init(self, key, *given)

    def update(self, runner: Any, params: PyTree[Array] = None) -> tuple[Any, dict[str, Array]]:
        """The runner after one more update, and the metrics of that."""
        update, learner = self.algorithm.load().update, self._swept(runner)
        if params is None:
            return update(learner, runner)
        after, metrics = update(learner, runner._replace(params=params))
        return after._replace(params=None), metrics

    def _swept(self, runner: Any) -> "Learner":
        """The learner with the runner's swept settings."""
        swept = getattr(runner, "swept", ())
        return self.under(swept) if swept else self

    def under(self, swept: Mapping[str, Any]) -> "Learner":
        """The learner with other values of swept settings, which may be arrays of a trace."""
        settings = copy.copy(self.settings)
        for name, value in swept.items():
            object.__setattr__(settings, name, value)  # an array where the type says float
        return dataclasses.replace(self, settings=settings)


def over_seeds(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step(runner, *rest)` for runners with a first axis of seeds and the same `rest` for each.

    Several seeds go side by side. One seed goes as if it had no such axis. With an axis, even of
    one, CPUs take twice to three times as long for a matrix product (layers of 64 with 64 or 256
    rows). Each trip of a loop that makes levels would also select between the old and the new
    states of all environments. Either way `step` can reduce over the axis by its name, `SEEDS`.
    """

    def stepped(runners: Any, *rest: Any) -> Any:
        if len(jax.tree.leaves(runners)[0]) > 1:
            axes = (0, *[None] * len(rest))
            return jax.vmap(step, in_axes=axes, axis_name=SEEDS)(runners, *rest)
        runner = jax.tree.map(lambda leaf: leaf[0], runners)
        alone = jax.vmap(step, in_axes=None, out_axes=None, axis_size=1, axis_name=SEEDS)
        return jax.tree.map(lambda leaf: leaf[None], alone(runner, *rest))

    return stepped
