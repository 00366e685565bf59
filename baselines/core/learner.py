"""Interface of a learner: its network, its entry in the registry, and its static inputs.

`Learner` bundles an environment, a network, settings and devices, which all functions of a learner
take. `over_seeds` trains several seeds in one program.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree
from typing_extensions import TypeVar

from jaxenvs import Env
from jaxenvs.core import distributions
from jaxenvs.core.distributions import Distribution
from jaxenvs.core.masking import Mask
from jaxenvs.core.spaces import Discrete, Space
from jaxenvs.core.vector import VectorEnv

from .devices import ALONE, Devices
from .metrics import OF_KIND, SUCCESS, SUM

S = TypeVar("S")  # class of a learner's settings, a dataclass
SEEDS = "seeds"  # name of the `vmap` axis over seeds
PACKAGE = "jaxenvs.baselines"


@runtime_checkable
class Reader(Protocol):
    """Function that converts an observation to the network's input."""

    def __call__(self, obs: Any, /) -> Any: ...


@runtime_checkable
class Network(Protocol):
    """Interface of a policy network. Its methods take one observation; `jax.vmap` them for a batch.

    `memory` is the recurrent state, () for a feed-forward network.
    """

    @property
    def observation_space(self) -> Space:
        """Space of the network's input, which `read` computes from an observation."""
        ...

    @property
    def read(self) -> Reader:
        """Function that converts an observation to the network's input."""
        ...

    def init(self, key: Array, obs: PyTree[Array], /) -> PyTree[Array]:
        """Return initial weights, a dict whose entry "params" contains the trainable weights."""
        ...

    def apply(self, weights: PyTree[Array], /, *inputs: Any, **more: Any) -> Any:
        """Return the outputs for an observation, such as an actor-critic's logits and value."""
        ...

    def begin(self) -> PyTree[Array]:
        """Return the recurrent state before the first observation of an episode."""
        ...

    def think(
        self, weights: PyTree[Array], memory: PyTree[Array], obs: PyTree[Array], mask: Mask
    ) -> tuple[PyTree[Array], Array, Array]:
        """Return the next recurrent state, the logits (illegal actions masked) and the value."""
        ...

    def unroll(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: PyTree[Array],
    ) -> Any:
        """Return the outputs for successive observations (steps, ...) of one environment.

        The recurrent state begins as `memory` and is reset after each step where `done` (steps,) is
        True.
        """
        ...


# Type variable for the class of a learner's network. It is covariant: a function that takes a
# `Learner[S, Network]` also accepts a learner with a more specific network. At run time the default
# is Any, because learners that solve puzzles have a network without a policy.
if TYPE_CHECKING:
    N = TypeVar("N", default=Network, covariant=True)
else:
    N = TypeVar("N", default=Any, covariant=True)


class Algorithm(NamedTuple):
    """Entry of a learner in `registry.ALGORITHMS`.

    The learner's module defines the following names; its functions train a single seed:

    - `Settings`, a dataclass with `check`;
    - `init(learner, key)`, which returns a runner;
    - `update(learner, runner)`, which returns the next runner and metrics: the sums `episodes`,
      `return_sum` and `length_sum`, and means;
    - `network(env, **settings)` if it learns a policy.

    The module may also define the following names, which replace a default:

    - `Runner`, the training state between updates, a NamedTuple of arrays with a field `weights`,
      and `DIVIDED`, the names of its fields whose first axis is this device's environments
      (default: those in rollouts.py);
    - `build(algorithm, env, settings, devices)`, which returns the `Learner` (default:
      `registry.build`);
    - `training_env(env, settings)`, the environment that the learner trains in (default: `env`);
    - `check(learner, seeds, episodes)`, which raises `ValueError` if the learner cannot train this
      many seeds on a device or play this many episodes in the final evaluation;
    - `evaluate(learner, weights, agents, episodes)`, which returns the content of eval.json, and
      `as_text(result)`, which returns it as text (default: core/episodes.py);
    - `next_command(settings)`, the title and the text of a command to suggest after training, with
      placeholders `{env}` and `{run}`;
    - `finished(record)`, whether training of all seeds has ended, given the last log record;
    - `shown(settings, record)`, the text that the progress line shows instead of the return;
    - `params(learner)`, environment params (or data, such as demonstrations) to pass to the
      compiled program as arguments: `init` then takes them as third argument, and runners have a
      field `params`;
    - `wrapped(env, settings)`, the environment in which the trained policy acts;
    - `decide`, which chooses the actions by tree search, see `planning.Search.plan`.
    """

    name: str  # value of --algo
    title: str
    module: str
    # settings on which the shape of the network's weights depends; (): the learner has no policy
    shape: tuple[str, ...] = ("hidden", "embed")
    command: str = ""  # module whose function `command` trains the learner; "": run/loop.py
    outside: bool = False  # whether the learner accepts Gymnasium environments
    actions: tuple[type[Space], ...] = (Discrete,)  # supported classes of action spaces
    # Function that returns whether an environment meets the learner's requirements besides
    # `actions`. If the user's learner cannot train in an environment, the error message suggests
    # those learners for which this function returns True.
    fits: Callable[[Any], bool] = lambda env: True
    # whether the learner can count a decision and the forced steps after it as one (core/forced.py)
    skips_forced: bool = False
    # model in which the learner's tree search plans: `planning.TRUE` or `LEARNED`; "": no search
    searches: str = ""

    def load(self) -> Any:
        """Import and return the learner's module."""
        return importlib.import_module(self.module, PACKAGE)

    def wrapped(self, env: Env, settings: Mapping[str, Any]) -> Env:
        """Return `env` with the wrappers that the learner's trained policy acts in."""
        module = self.load()
        return module.wrapped(env, settings) if hasattr(module, "wrapped") else env


@dataclasses.dataclass(frozen=True)
class Learner(Generic[S, N]):
    """Static inputs of a learner: environment, network, settings and devices.

    Hashable, so `jit` can close over it. `Learner[Settings, QNetwork]` is the type of a learner
    whose functions need a `QNetwork`.
    """

    algorithm: Algorithm
    env: Any  # VectorEnv of this device's environments; for learners of puzzles, the puzzle
    network: N  # policy network; learners of puzzles have other networks
    settings: S
    devices: Devices = ALONE

    @property
    def policy(self) -> Distribution:
        """Action distribution that the network's outputs parametrise."""
        env = self.env.env if isinstance(self.env, VectorEnv) else self.env
        return distributions.of(env.action_space)

    @property
    def params(self) -> Any:
        """Environment params, or data such as demonstrations, to pass to the compiled program.

        If they are None, the environment's default params are constants of the program instead.
        """
        module = self.algorithm.load()
        return module.params(self) if hasattr(module, "params") else None

    def init(self, key: Array, params: PyTree[Array] = None) -> Any:
        """Return the training state before the first update."""
        given = () if params is None else (params,)
        return self.algorithm.load().init(self, key, *given)

    def update(self, runner: Any, params: PyTree[Array] = None) -> tuple[Any, dict[str, Array]]:
        """Return the training state after the next update, and the metrics of that update."""
        update, learner = self.algorithm.load().update, self._swept(runner)
        if params is not None:
            runner = runner._replace(params=params)
        after, metrics = update(learner, runner)
        if params is not None:
            after = after._replace(params=None)
        measured = getattr(after, "measured", ())
        if isinstance(measured, tuple):
            return after, metrics
        if after.restarts:
            # The log divides sums by the number of episodes, which leaves out episodes from saved
            # states. The measures are means over all episodes.
            counted = jnp.asarray(metrics["episodes"], jnp.float32)
            measured = measured * (counted / jnp.maximum(measured[-1], 1.0))
        return after._replace(measured=()), {**metrics, **self.measured_sums(measured)}

    def measured_sums(self, measured: PyTree[Array]) -> dict[str, Array]:
        """Return the metrics of a rollout's `Runner.measured`, which are sums over episodes."""
        if isinstance(measured, tuple):
            return {}
        env = self.env.env
        names = [f"{name}{SUM}" for name in env.measures]
        names += [f"{SUCCESS}{kind}{SUM}" for kind in env.level_kinds]
        names += [f"{OF_KIND}{kind}" for kind in env.level_kinds]
        return dict(zip(names, measured[:-1], strict=True))

    def _swept(self, runner: Any) -> "Learner[S, N]":
        """Return the learner with this agent's values of the settings that `--sweep` varies.

        The values are in the runner's field `swept`. In the compiled program they are traced
        arrays, so one program trains with all values.
        """
        settings: Any = self.settings
        if swept := getattr(runner, "swept", ()):
            return dataclasses.replace(self, settings=dataclasses.replace(settings, **swept))
        return self


def over_seeds(step: Callable[..., Any]) -> Callable[..., Any]:
    """Map `step(runner, *rest)` over seeds, the first axis of `runner`; all seeds share `rest`.

    A single seed runs without a seed axis, which is faster for two reasons. On CPUs, even an axis
    of size 1 makes a matrix product two to three times slower (layers of width 64, batches of 64 or
    256). And under `vmap`, each iteration of the `while` loops that generate levels also has to
    select between old and new states of all environments. With or without the axis, `step` can
    reduce over the axis name `SEEDS`.
    """

    def stepped(runners: Any, *rest: Any) -> Any:
        if len(jax.tree.leaves(runners)[0]) > 1:
            axes = (0, *[None] * len(rest))
            return jax.vmap(step, in_axes=axes, axis_name=SEEDS)(runners, *rest)
        runner = jax.tree.map(lambda leaf: leaf[0], runners)
        alone = jax.vmap(step, in_axes=None, out_axes=None, axis_size=1, axis_name=SEEDS)
        return jax.tree.map(lambda leaf: leaf[None], alone(runner, *rest))

    return stepped
