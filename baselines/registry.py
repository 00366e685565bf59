"""Table of learners (`ALGORITHMS`), and functions that build a learner from its row of the table.

To add a learner, write a module, a row of the table and a documentation page. The command line,
shell completion, `load_policy` and evaluation/record.py read the table.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxenvs import Env, levels, make_vec
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import is_masked
from jaxenvs.core.spaces import Box, Discrete, MultiDiscrete
from jaxenvs.levels.files import name_of

from . import GYM
from .core import forced, restarts
from .core.devices import ALONE, Devices
from .core.learner import Algorithm, Learner, Network
from .core.moments import Normalised, has_floats
from .core.planning import LEARNED, TRUE, Search, search_of
from .core.puzzles import has_goal, has_unit_cost
from .core.value_scales import Rescaled
from .networks.policies import Separate, check_outputs, load_network

# settings of the network that some learners, and some older runs, do not have
OPTIONAL = (
    "bfloat16",
    "activation",
    "conv",
    "lines",
    "layer_norm",
    "neighbours",
    "noisy",
    "codes",
    "cell",
    "layers",
)
OF_VALUES = ("hidden", "embed", "dueling")  # settings of the network of DQN and its variants
OF_ATOMS = (*OF_VALUES, "atoms", "v_min", "v_max")
OF_LATENT = ("hidden", "embed", "latent", "atoms", "spacing")
USUAL = "ppo"
WITH_RAY = "ppo-ray"  # name of the learner that --ray selects

ANY = (Discrete, MultiDiscrete, Box)
RECURRENT = ("hidden", "embed", "memory")


def build(name: str, env: Env, settings: Any, devices: Devices = ALONE) -> Learner[Any]:
    """Return the learner called `name`, for the environment `env`.

    The learner steps `num_envs` copies of `env` in parallel; offline learners step none. `env` must
    be the result of `training_env`. Raises `ValueError` for invalid settings.
    """
    row = ALGORITHMS[name]
    settings.check()
    check_forced(row, env, settings)
    module = row.load()
    if hasattr(module, "build"):
        return module.build(row, env, settings, devices)
    if getattr(settings, "bonus", 0.0) and settings.novelty == "e3b":
        _check_discrete(env)
    # a learner without `num_envs` does not step environments while it trains
    if not hasattr(settings, "num_envs"):
        return Learner(row, make_vec(env, 1), network(row, env, vars(settings)), settings, devices)
    venv = devices.batch(env, settings.num_envs, settings.reset_source)
    settings.check_share(venv.num_envs, "a device's share of a rollout")
    learner = Learner(row, venv, network(row, env, vars(settings)), settings, devices)
    restarts.check(learner)
    return learner


def training_env(name: str, env: Env, settings: Any) -> Env:
    """Return the environment in which a learner trains: `env`, wrapped as the learner needs."""
    row = ALGORITHMS[name]
    module = row.load()
    if hasattr(module, "training_env"):
        return module.training_env(env, settings)
    return row.wrapped(env, vars(settings))


def network(row: Algorithm, env: Any, settings: Mapping[str, Any]) -> Network:
    """Return the policy network for a jaxenvs environment or, with Ray, a Gymnasium environment.

    Raises `KeyError` if `settings` lacks a setting of the network (a name in `row.shape`).
    """
    check_actions(row, env)
    given = {name: settings[name] for name in row.shape}
    given |= {name: settings[name] for name in OPTIONAL if name in settings}
    if own := settings.get("network"):
        kind = load_network(own)
        known = {field.name for field in dataclasses.fields(kind)}
        network = kind.of(env, **{name: given[name] for name in given if name in known})
        check_outputs(network, env, own, recurrent="memory" in row.shape)
    else:
        network = row.load().network(env, **given)
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


def check_actions(row: Algorithm, env: Any) -> None:
    """Raise `ValueError` if the learner does not support the environment's action space."""
    space = env.action_space
    if type(space) in row.actions:
        return
    able = able_learners(env)
    fix = f"give --algo {join_names(able)}" if able else "no learner here does"
    wanted = " or ".join(kind.__name__ for kind in row.actions)
    name = name_of(env) if isinstance(env, Env) else env.name
    raise ValueError(f"{name} has the action space {space}; {row.name} needs a {wanted} one: {fix}")


def search(
    row: Algorithm,
    env: Env,
    network: Any,
    settings: Mapping[str, Any],
    simulations: int | None = None,
) -> Search | None:
    """Return the search that chooses a trained policy's actions; None if the learner has none.

    `simulations` is the number of simulations per action; None: as in training, 0: no search.
    Settings that an older run lacks have their default values.
    """
    if not row.searches and not simulations:
        return None
    kind = row.load().Settings
    known = {field.name for field in dataclasses.fields(kind)} & settings.keys()
    made = kind(**{name: settings[name] for name in known})
    return search_of(Learner(row, make_vec(env, 1), network, made), simulations)


def able_learners(env: Any) -> list[str]:
    """Return the names of the learners that can train in an environment."""
    in_gym = str(env.name).startswith(GYM)
    return [
        row.name
        for row in ALGORITHMS.values()
        if type(env.action_space) in row.actions and (row.outside if in_gym else row.fits(env))
    ]


def join_names(names: Sequence[str]) -> str:
    """Return names joined in the form `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def check_forced(row: Algorithm, env: Any, settings: Any) -> None:
    """Raise `ValueError` if forced steps are to be skipped, but the learner or `env` has none."""
    able = [each.name for each in ALGORITHMS.values() if each.skips_forced]
    fix = None if row.skips_forced else join_names(able)
    is_ours = isinstance(env, Env)
    name, masked = (name_of(env), is_masked(env)) if is_ours else (env.name, env.uses_mask)
    forced.check(env, settings, row.name, fix, name, masked)


def _check_discrete(env: Any) -> None:
    """Raise `ValueError` unless actions are Discrete, because E3B's inverse model predicts them."""
    if not isinstance(env.action_space, Discrete):
        raise ValueError(
            f"novelty=e3b needs discrete actions, and {env.name} has the action space "
            f"{env.action_space}; give novelty=rnd or noveld"
        )


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(USUAL, "PPO", ".on_policy.ppo", actions=ANY, skips_forced=True),
        Algorithm(
            "ppo-rnn",
            "recurrent PPO",
            ".on_policy.ppo_rnn",
            shape=RECURRENT,
            actions=ANY,
            skips_forced=True,
        ),
        Algorithm(
            "ppo-trxl",
            "PPO with a transformer",
            ".on_policy.ppo_trxl",
            shape=(*RECURRENT, "width", "num_heads", "depth"),
            skips_forced=True,
        ),
        Algorithm(
            "dyna",
            "Dyna",
            ".model_based.dyna",
            shape=RECURRENT,
            fits=lambda env: env.vocabulary is not None,
            skips_forced=True,
        ),
        Algorithm(
            "rl2",
            "RL²",
            ".on_policy.rl2",
            shape=RECURRENT,
            fits=lambda env: bool(env.task_sets),
            skips_forced=True,
        ),
        Algorithm(
            "plr",
            "prioritised level replay",
            ".on_policy.plr",
            shape=RECURRENT,
            actions=ANY,
            skips_forced=True,
        ),
        Algorithm(
            "sfl",
            "sampling for learnability",
            ".on_policy.sfl",
            shape=RECURRENT,
            actions=ANY,
            skips_forced=True,
        ),
        Algorithm("pqn", "PQN", ".on_policy.pqn", skips_forced=True),
        Algorithm(
            "pqn-rnn", "recurrent PQN", ".on_policy.pqn_rnn", shape=RECURRENT, skips_forced=True
        ),
        Algorithm("dqn", "DQN", ".off_policy.dqn", shape=OF_VALUES, skips_forced=True),
        Algorithm("c51", "C51", ".off_policy.c51", shape=OF_ATOMS, skips_forced=True),
        Algorithm(
            "qr-dqn",
            "QR-DQN",
            ".off_policy.qr_dqn",
            shape=(*OF_VALUES, "quantiles"),
            skips_forced=True,
        ),
        Algorithm(
            "iqn", "IQN", ".off_policy.iqn", shape=(*OF_VALUES, "cosines"), skips_forced=True
        ),
        Algorithm("rainbow", "Rainbow", ".off_policy.rainbow", shape=OF_ATOMS, skips_forced=True),
        Algorithm(
            "r2d2",
            "R2D2",
            ".off_policy.r2d2",
            shape=(*RECURRENT, "dueling", "squeeze"),
            skips_forced=True,
        ),
        Algorithm("sac", "SAC", ".off_policy.sac", actions=(Box,)),
        Algorithm("td3", "TD3", ".off_policy.td3", actions=(Box,)),
        Algorithm("tqc", "TQC", ".off_policy.tqc", actions=(Box,)),
        Algorithm("crossq", "CrossQ", ".off_policy.crossq", actions=(Box,)),
        Algorithm(
            "alphazero",
            "Gumbel AlphaZero",
            ".model_based.alphazero",
            fits=lambda env: env.fully_observed,
            skips_forced=True,
            searches=TRUE,
        ),
        Algorithm(
            "muzero",
            "MuZero",
            ".model_based.muzero",
            shape=OF_LATENT,
            skips_forced=True,
            searches=LEARNED,
        ),
        Algorithm("bc", "behaviour cloning", ".offline.bc", shape=RECURRENT),
        Algorithm("iql", "implicit Q-learning", ".offline.iql"),
        Algorithm(
            "dagger",
            "DAgger",
            ".offline.dagger",
            shape=RECURRENT,
            fits=levels.has_first_actions,
            skips_forced=True,
        ),
        Algorithm("davi", "DAVI", ".puzzles.davi", shape=(), fits=has_goal),
        Algorithm("last-move", "last move", ".puzzles.last_move", shape=(), fits=has_goal),
        Algorithm("world", "a learned world", ".puzzles.world", shape=(), fits=has_unit_cost),
        Algorithm(
            WITH_RAY,
            "PPO and Ray",
            ".ray.ppo",
            command=".ray.ppo",
            outside=True,
            actions=ANY,
            skips_forced=True,
        ),
        Algorithm(
            "apex",
            "Ape-X and Ray",
            ".ray.apex",
            shape=("hidden", "embed", "dueling"),
            command=".ray.apex",
            outside=True,
            skips_forced=True,
        ),
    )
}
