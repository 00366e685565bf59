"""The table of learners: a new one is its file and its row here.

The command, `--completion`, the loader of policies and the recorder of results read this table.
"""

import copy
import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

import jax
from jaxtyping import Array, PyTree

from jaxenvs import Env, make_vec
from jaxenvs.core import distributions
from jaxenvs.core.distributions import Distribution
from jaxenvs.core.facts import identity
from jaxenvs.core.spaces import Box, Discrete, MultiDiscrete, Space
from jaxenvs.core.vector import VectorEnv
from jaxenvs.puzzles.puzzle import Puzzle

from . import GYM
from .devices import ALONE, Devices
from .moments import Normalised, has_floats
from .networks import Separate, check_answers, named
from .planning import LEARNED, TRUE, Search, search_of
from .value_scales import Rescaled

S = TypeVar("S")  # a learner's settings, a dataclass
SEEDS = "seeds"  # name of the axis over which runs with different seeds are vmapped
OPTIONAL = (
    "bfloat16",
    "activation",
    "conv",
    "lines",
    "layer_norm",
    "neighbours",
    "noisy",
    "codes",
)  # settings of networks that not every run has
OF_VALUES = ("hidden", "embed", "dueling")  # settings of networks of DQN and its relatives
OF_ATOMS = (*OF_VALUES, "atoms", "v_min", "v_max")
OF_LATENT = ("hidden", "embed", "latent", "atoms", "spacing")
USUAL = "ppo"
WITH_RAY = "ppo-ray"  # what --ray is short for

ANY = (Discrete, MultiDiscrete, Box)
RECURRENT = ("hidden", "embed", "memory")


class Algorithm(NamedTuple):
    """One learner. Its module has, as functions of a `Learner` and for one seed:

    `Settings`, a dataclass with `check`; `Runner`, a NamedTuple of arrays with `weights`, and
    `DIVIDED`, its fields whose arrays have this device's environments as their first axis;
    `init(learner, key)`, which returns a runner; `update(learner, runner)`, which returns the next
    one and metrics: `episodes`, `return_sum` and `length_sum`, which count, and means;
    `build(asked, config)`, which makes the `Learner` of a command line; `report(run, learner,
    weights, count)`, the final evaluation; and `network(env, **settings)` if it learns a policy.

    A module with `shown(settings, record)` gives the text that the progress line has in the place
    of the return.

    A learner whose environments need params has `params(learner)`, arrays that the compiled program
    takes as they are: its `init` has them as a third argument, and runners a field `params`. One
    whose policy acts in another environment than that of the id has `wrapped(env, settings)`. One
    that `searches` has `decide`, the actions of its trained policy, see `planning.Search.plan`.
    """

    name: str  # what --algo calls it
    title: str
    module: str
    shape: tuple[str, ...] = ("hidden", "embed")  # settings of the policy's network; (): no policy
    command: str = ".run.loop"  # module whose `command` trains it
    outside: bool = False  # whether it takes environments of Gymnasium
    actions: tuple[type[Space], ...] = (Discrete,)  # action spaces that it learns in
    # What else it needs of an environment; errors suggest only learners that can learn in it.
    fits: Callable[[Any], bool] = lambda env: True
    searches: str = ""  # what the search of its policy steps; "": it has no search

    def load(self) -> Any:
        """Import the module."""
        return importlib.import_module(self.module, __package__)

    def check_actions(self, env: Any) -> None:
        """Raise `ValueError` for an environment whose actions the learner cannot take."""
        space = env.action_space
        if type(space) in self.actions:
            return
        able = able_learners(env)
        cure = f"give --algo {joined(able)}" if able else "no learner here does"
        wanted = " or ".join(kind.__name__ for kind in self.actions)
        raise ValueError(
            f"{env.name} has the action space {space}; {self.name} needs a {wanted} one: {cure}"
        )

    def wrapped(self, env: Env, settings: Mapping[str, Any]) -> Env:
        """The environment that a policy of a run with these settings acts in."""
        module = self.load()
        return module.wrapped(env, settings) if hasattr(module, "wrapped") else env

    def network(self, env: Any, settings: Mapping[str, Any]) -> Any:
        """The network of the policy in an `Env`, or in a world of Gymnasium on Ray.

        `KeyError` for a setting that is missing.
        """
        self.check_actions(env)
        given = {name: settings[name] for name in self.shape}
        # Older runs and other learners do not have these.
        given |= {name: settings[name] for name in OPTIONAL if name in settings}
        if own := settings.get("network"):
            kind = named(own)
            known = {field.name for field in dataclasses.fields(kind)}
            network = kind.of(env, **{name: given[name] for name in given if name in known})
            check_answers(network, env, own, recurrent="memory" in self.shape)
        else:
            network = self.load().network(env, **given)
        read, space = network.read, network.observation_space
        if normalised := settings.get("normalize_obs"):
            if not has_floats(space):
                raise ValueError(
                    f"normalize_obs: the observation of {env.name} has no float numbers, and "
                    f"integers are not normalised; omit it"
                )
            network = network.clone(read=identity)
        if settings.get("separate"):
            network = Separate(network)
        network = Rescaled.of(network, settings)
        return Normalised(network, read) if normalised else network

    def search(
        self, env: Env, network: Any, settings: Mapping[str, Any], simulations: int | None = None
    ) -> Search | None:
        """The search of a trained policy, None if it has none; `simulations` as in `search_of`.

        Older runs lack some settings of the learner, which then have their defaults.
        """
        if not self.searches and not simulations:
            return None
        kind = self.load().Settings
        known = {field.name for field in dataclasses.fields(kind)} & settings.keys()
        made = kind(**{name: settings[name] for name in known})
        return search_of(Learner(self, make_vec(env, 1), network, made), simulations)


def able_learners(env: Any) -> list[str]:
    """Names of the learners that take an environment's actions and observations."""
    in_gym = str(env.name).startswith(GYM)
    return [
        row.name
        for row in ALGORITHMS.values()
        if type(env.action_space) in row.actions and (row.outside if in_gym else row.fits(env))
    ]


def joined(names: Sequence[str]) -> str:
    """`a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def has_goal(env: Any) -> TypeGuard[Puzzle]:
    """Whether an environment is a puzzle with a single goal."""
    return isinstance(env, Puzzle) and type(env).goal is not Puzzle.goal


def has_unit_cost(env: Any) -> bool:
    """Whether an environment is a puzzle whose actions all cost 1."""
    return isinstance(env, Puzzle) and env.unit_cost


@dataclasses.dataclass(frozen=True)
class Learner(Generic[S]):
    """An algorithm with all that its functions are given besides a runner: static, hashable."""

    algorithm: Algorithm
    env: Any  # VectorEnv, this device's environments; other learners document theirs
    network: Any  # flax.linen.Module
    settings: S
    devices: Devices = ALONE

    @classmethod
    def of(cls, algorithm: str, env: Env, settings: Any, devices: Devices = ALONE) -> "Learner":
        """Return the learner in `num_envs` environments; raises for what cannot work."""
        row = ALGORITHMS[algorithm]
        settings.check()
        if getattr(settings, "bonus", 0.0) and settings.novelty == "e3b":
            _check_numbered(env)
        venv = devices.batch(env, settings.num_envs, settings.reset_source)
        settings.check_share(venv.num_envs, "a device's share of a rollout")
        return cls(row, venv, row.network(env, vars(settings)), settings, devices)

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


def _check_numbered(env: Any) -> None:
    """Raise `ValueError` for actions that E3B cannot tell apart."""
    if not isinstance(env.action_space, Discrete):
        raise ValueError(
            f"novelty=e3b tells numbered actions apart, and {env.name} has the action space "
            f"{env.action_space}; give novelty=rnd or noveld"
        )


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(USUAL, "PPO", ".ppo", actions=ANY),
        Algorithm("ppo-rnn", "recurrent PPO", ".ppo_rnn", shape=RECURRENT, actions=ANY),
        Algorithm(
            "ppo-trxl",
            "PPO with a transformer",
            ".ppo_trxl",
            shape=(*RECURRENT, "width", "num_heads", "depth"),
        ),
        Algorithm(
            "dyna",
            "Dyna",
            ".dyna",
            shape=RECURRENT,
            fits=lambda env: env.vocabulary is not None,
        ),
        Algorithm("rl2", "RL²", ".rl2", shape=RECURRENT, fits=lambda env: bool(env.task_sets)),
        Algorithm("pqn", "PQN", ".pqn"),
        Algorithm("pqn-rnn", "recurrent PQN", ".pqn_rnn", shape=RECURRENT),
        Algorithm("dqn", "DQN", ".dqn", shape=OF_VALUES),
        Algorithm("c51", "C51", ".c51", shape=OF_ATOMS),
        Algorithm("qr-dqn", "QR-DQN", ".qr_dqn", shape=(*OF_VALUES, "quantiles")),
        Algorithm("iqn", "IQN", ".iqn", shape=(*OF_VALUES, "cosines")),
        Algorithm("rainbow", "Rainbow", ".rainbow", shape=OF_ATOMS),
        Algorithm("r2d2", "R2D2", ".r2d2", shape=(*RECURRENT, "dueling", "squeeze")),
        Algorithm("sac", "SAC", ".sac", actions=(Box,)),
        Algorithm("td3", "TD3", ".td3", actions=(Box,)),
        Algorithm("tqc", "TQC", ".tqc", actions=(Box,)),
        Algorithm("crossq", "CrossQ", ".crossq", actions=(Box,)),
        Algorithm(
            "alphazero",
            "Gumbel AlphaZero",
            ".alphazero",
            fits=lambda env: env.fully_observed,
            searches=TRUE,
        ),
        Algorithm("muzero", "MuZero", ".muzero", shape=OF_LATENT, searches=LEARNED),
        Algorithm("davi", "DAVI", ".davi", shape=(), fits=has_goal),
        Algorithm("world", "a learned world", ".world", shape=(), fits=has_unit_cost),
        Algorithm(
            WITH_RAY, "PPO and Ray", ".ray.ppo", command=".ray.ppo", outside=True, actions=ANY
        ),
        Algorithm(
            "apex",
            "Ape-X and Ray",
            ".ray.apex",
            shape=("hidden", "embed", "dueling"),
            command=".ray.apex",
            outside=True,
        ),
    )
}
