"""Interface of a learner: its entry in the registry, and the static inputs of its functions."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core import distributions
from jaxenvs.core.distributions import Distribution
from jaxenvs.core.masking import Mask
from jaxenvs.core.spaces import Discrete, Space
from jaxenvs.core.vector import VectorEnv

from .devices import ALONE, Devices

S = TypeVar("S")  # class of a learner's settings, a dataclass
SEEDS = "seeds"  # name of the `vmap` axis over seeds
PACKAGE = "jaxenvs.baselines"


@runtime_checkable
class Network(Protocol):
    """Network of a policy, for one observation; `jax.vmap` it for a batch.

    `memory` is the recurrent state, () for a feed-forward network. Networks of some learners have
    further methods, such as `values` of the recurrent Q-networks.
    """

    @property
    def observation_space(self) -> Space:
        """Space of the network's input, to which `read` converts an observation."""
        ...

    @property
    def read(self) -> Callable[[Any], Any]:
        """Function that converts an observation to the network's input."""
        ...

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Return initial weights, a dict with the trainable ones in "params"."""
        ...

    def apply(self, weights: PyTree[Array], *inputs: Any, **more: Any) -> Any:
        """Return the outputs for an observation; an actor-critic returns logits and value."""
        ...

    def begin(self) -> PyTree[Array]:
        """Return the recurrent state before the first observation of an episode."""
        ...

    def think(
        self, weights: PyTree[Array], memory: PyTree[Array], obs: PyTree[Array], mask: Mask
    ) -> tuple[PyTree[Array], Array, Array]:
        """Return the next recurrent state, logits of the legal actions, and the value."""
        ...

    def unroll(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: PyTree[Array],
        *given: PyTree[Array],
    ) -> Any:
        """Return the outputs for successive observations (steps, ...) of one environment.

        The recurrent state is reset after each step that is `done` (steps,). `given` are further
        inputs of some networks (steps, ...).
        """
        ...

    if TYPE_CHECKING:  # at run time the protocol would require `__getattr__` of every network

        def __getattr__(self, name: str) -> Any:
            """Return an attribute that only some networks have."""
            ...


class Algorithm(NamedTuple):
    """Entry of a learner in `registry.ALGORITHMS`.

    Its module defines the following; functions are for one seed:

    - `Settings`, a dataclass with `check`;
    - `init(learner, key)`, which returns a runner;
    - `update(learner, runner)`, which returns the next runner and metrics: the sums `episodes`,
      `return_sum` and `length_sum`, and means;
    - `network(env, **settings)` if it learns a policy.

    It may define, where the default does not fit:

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
    - `shown(settings, record)`, the text that the progress line shows instead of the return;
    - `params(learner)`, environment params that are arguments of the compiled program: `init`
      then takes them as third argument, and runners have a field `params`;
    - `wrapped(env, settings)`, the environment in which the trained policy acts;
    - `decide`, which chooses the actions if the learner `searches`; see `planning.Search.plan`.
    """

    name: str  # value of --algo
    title: str
    module: str
    shape: tuple[str, ...] = ("hidden", "embed")  # settings that its network needs; (): no policy
    command: str = ".run.loop"  # module whose function `command` trains the learner
    outside: bool = False  # whether it accepts Gymnasium environments
    actions: tuple[type[Space], ...] = (Discrete,)  # supported action spaces
    # Whether an environment meets further requirements; errors suggest only learners where it does.
    fits: Callable[[Any], bool] = lambda env: True
    searches: str = ""  # `planning.TRUE` or `LEARNED`: model that its search uses; "": no search

    def load(self) -> Any:
        """Import and return the learner's module."""
        return importlib.import_module(self.module, PACKAGE)

    def wrapped(self, env: Env, settings: Mapping[str, Any]) -> Env:
        """Return the environment in which a policy with these settings acts."""
        module = self.load()
        return module.wrapped(env, settings) if hasattr(module, "wrapped") else env


@dataclasses.dataclass(frozen=True)
class Learner(Generic[S]):
    """Static inputs of a learner: environment, network, settings and devices.

    Hashable, so `jit` can close over it.
    """

    algorithm: Algorithm
    env: Any  # VectorEnv of this device's environments; for learners of puzzles, the puzzle
    network: Network | Any  # policy network; learners of puzzles have other networks
    settings: S
    devices: Devices = ALONE

    @property
    def policy(self) -> Distribution:
        """Action distribution that the network's outputs parametrise."""
        env = self.env.env if isinstance(self.env, VectorEnv) else self.env
        return distributions.of(env.action_space)

    @property
    def params(self) -> Any:
        """Environment params as program inputs; None: the defaults, compiled in as constants."""
        module = self.algorithm.load()
        return module.params(self) if hasattr(module, "params") else None

    def init(self, key: Array, params: PyTree[Array] = None) -> Any:
        """Return the training state before the first update."""
        given = () if params is None else (params,)
        return self.algorithm.load().init(self, key, *given)

    def update(self, runner: Any, params: PyTree[Array] = None) -> tuple[Any, dict[str, Array]]:
        """Return the training state after one more update, and that update's metrics."""
        update, learner = self.algorithm.load().update, self._swept(runner)
        if params is None:
            return update(learner, runner)
        after, metrics = update(learner, runner._replace(params=params))
        return after._replace(params=None), metrics

    def _swept(self, runner: Any) -> "Learner":
        """Return the learner with the runner's swept settings in place of its static ones.

        They are traced arrays, so one compiled program trains all combinations.
        """
        settings: Any = self.settings
        if swept := getattr(runner, "swept", ()):
            return dataclasses.replace(self, settings=dataclasses.replace(settings, **swept))
        return self


def over_seeds(step: Callable[..., Any]) -> Callable[..., Any]:
    """Map `step(runner, *rest)` over the first axis of `runner`, seeds, which all share `rest`.

    A single seed runs without a mapped axis. An axis, even of size 1, makes a matrix product two to
    three times slower on CPUs (layers of width 64, batches of 64 or 256). It would also make each
    iteration of a loop that generates levels select between the old and the new states of all
    environments.
    With or without the axis, `step` can reduce over `SEEDS`.
    """

    def stepped(runners: Any, *rest: Any) -> Any:
        if len(jax.tree.leaves(runners)[0]) > 1:
            axes = (0, *[None] * len(rest))
            return jax.vmap(step, in_axes=axes, axis_name=SEEDS)(runners, *rest)
        runner = jax.tree.map(lambda leaf: leaf[0], runners)
        alone = jax.vmap(step, in_axes=None, out_axes=None, axis_size=1, axis_name=SEEDS)
        return jax.tree.map(lambda leaf: leaf[None], alone(runner, *rest))

    return stepped
