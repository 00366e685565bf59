"""Contestants of a benchmark: the environments that it measures and compares.

A `Contestant` is a batch of environments in JAX; a `Game` is an environment, or a batch, that is
stepped from Python. This module builds this library's batches; `peers/` builds batches of other
packages.
"""

import contextlib
import dataclasses
import io
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

import jaxenvs
from jaxenvs.core.extras import version
from jaxenvs.core.spaces import Box, Discrete, Space
from jaxenvs.core.vector import RESET_SOURCES, VectorEnv

STEP_SCOPE = "environment_step"  # JAX name scope that marks the environment's part of a rollout
PEERS = ("minigrid", "navix", "xminigrid", "envpool", "craftax", "crafter", "jumanji", "pgx")
# Packages (JAX's CUDA plugins) that contain the compiler for GPUs.
CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
NO_RESET = "none"  # option in place of a reset source: finished episodes are never reset
DEFAULT = "default"  # option in place of a reset source: `make_vec` chooses the reset source
SOURCES = (DEFAULT, *RESET_SOURCES, NO_RESET)
GRIDS = ("Grid", "BabyAI")  # families whose environments are grids


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A batch of environments, as pure functions, to measure with random actions."""

    name: str
    env_id: str  # id in this library of the level that all compared contestants play
    num_envs: int
    actions: int | Space  # number of discrete actions, or the action space
    reset: Callable[[Array], PyTree[Array]]
    step: Callable[
        [Array, PyTree[Array], Shaped[Array, "num_envs ..."]],
        tuple[PyTree[Array], PyTree[Array], Float[Array, " num_envs"], Bool[Array, " num_envs"]],
    ]  # function (key, state, action) -> (state, obs, reward, done)
    obs: str  # name of the observation; empty if the environment has only one observation
    # Reset source of this library's batches, or `own` for the auto-reset of another package.
    reset_source: str = "own"
    refresh: Callable[[Array, PyTree[Array]], PyTree[Array]] = lambda key, state: state

    def draw(self, key: Array) -> Shaped[Array, "num_envs ..."]:
        """Draw a uniform random action for each environment."""
        if isinstance(self.actions, int):
            return jax.random.randint(key, (self.num_envs,), 0, self.actions)
        return jax.vmap(self.actions.sample)(jax.random.split(key, self.num_envs))

    def rollout(self, length: int) -> Callable[[Array, PyTree[Array]], tuple[PyTree, tuple]]:
        """Return a function of `length` random steps: (key, state) -> (state, (obs, reward)).

        The function refreshes the level pool, if there is one, and then scans over the steps. It
        returns the observations and rewards of all steps, as a learner's rollout does.
        """

        def body(state: PyTree[Array], key: Array) -> tuple[PyTree[Array], tuple]:
            key_action, key_step = jax.random.split(key)
            action = self.draw(key_action)
            with jax.named_scope(STEP_SCOPE):
                state, obs, reward, _ = self.step(key_step, state, action)
            return state, (obs, reward)

        def run(key: Array, state: PyTree[Array]) -> tuple[PyTree[Array], tuple]:
            key_refresh, key_steps = jax.random.split(key)
            state = self.refresh(key_refresh, state)
            return jax.lax.scan(body, state, jax.random.split(key_steps, length), unroll=1)

        return run


class Game(NamedTuple):
    """One environment or a batch, with auto-reset, that is stepped from Python."""

    name: str
    obs: str  # name of the observation
    num_envs: int
    actions: int | Box  # number of discrete actions, or the action space
    # Function that steps the game, called with one action or an array of `num_envs` actions.
    step: Callable[[Any], Any]
    # Minimum number of steps in a timed run: enough for a typical number of resets.
    turn: int


def silence() -> contextlib.AbstractContextManager:
    """Return a context that discards standard output: BabyAI prints each level that it rejects."""
    return contextlib.redirect_stdout(io.StringIO())


def foreign(
    name: str, env_id: str, num_envs: int, actions: int | Space, reset: Callable, step: Callable
) -> Contestant:
    """Return another package's batch as a contestant.

    `reset` and `step` are always traced with JAX's standard dtype promotion, because the package
    may not support the strict promotion that the caller has set.
    """
    reset, step = (jax.numpy_dtype_promotion("standard")(function) for function in (reset, step))
    return Contestant(name, env_id, num_envs, actions, reset, step, peer_obs(env_id))


def one_of(levels: Iterable[str], package: str, level: str, env_id: str) -> str:
    """Return the name `level` if it is one of the package's `levels`; else raise `LookupError`."""
    if level not in levels:
        raise LookupError(f"{package} has no level like {env_id}")
    return level


def batched(env_id: str, num_envs: int, reset_source: str, **fields: Any) -> VectorEnv:
    """Return a batch made by `make_vec`; `reset_source` may also be `DEFAULT` or `NO_RESET`."""
    if reset_source == NO_RESET:
        return jaxenvs.make_vec(env_id, num_envs, autoreset="none", **fields)
    source = None if reset_source == DEFAULT else reset_source
    return jaxenvs.make_vec(env_id, num_envs, reset_source=source, **fields)


def source_of(venv: VectorEnv) -> str:
    """Return the reset source of a batch, or `NO_RESET` if it has no auto-reset."""
    return NO_RESET if venv.autoreset == "none" else venv.reset_source


def ours(
    env_id: str, num_envs: int, reset_source: str = DEFAULT, params: Any = None, **fields: Any
) -> Contestant:
    """Return this library's batch, with same-step auto-reset unless the source is `NO_RESET`.

    `fields` are passed to `make_vec`. Grids use the image observation unless the field `obs`
    selects another.
    """
    venv = batched(env_id, num_envs, reset_source, **{**obs_field(env_id), **fields})
    space = venv.env.action_space

    def step(key: Array, state: Any, action: Array) -> tuple:
        stepped = venv.step(key, state, action, params)
        return stepped.state, stepped.obs, stepped.reward, stepped.done

    return Contestant(
        name="jaxenvs",
        env_id=env_id,
        num_envs=num_envs,
        actions=space.n if isinstance(space, Discrete) else space,
        reset=lambda key: venv.reset(key, params).state,
        step=step,
        obs=getattr(venv.env, "obs", ""),
        reset_source=source_of(venv),
        refresh=lambda key, state: venv.refresh(key, state, params),
    )


def obs_field(env_id: str, obs: str | None = None) -> dict[str, Any]:
    """Return the constructor argument `obs` as a dictionary, which is empty if none is needed.

    If `obs` is None, grids get the image observation, which other packages return too; all other
    environments get no argument.
    """
    if obs is None and "image" in jaxenvs.make(env_id).observations:
        obs = "image"
    return {} if obs is None else {"obs": obs}


def peer_obs(env_id: str) -> str:
    """Return the name of the observation that other packages return for the level of an id."""
    family = jaxenvs.spec(env_id).family
    if family != "Craft":
        return "image" if family in GRIDS else "board"
    return "pixels" if "Pixels" in env_id else "symbolic"


def craftax_level(env_id: str) -> str:
    """Return the name of the craftax environment with which an id is compared.

    craftax does not observe block ids. So ids that observe block ids, such as Craft-Ids-v0, are
    compared with craftax's symbolic observation.
    """
    name = jaxenvs.spec(env_id.replace("-Ids-", "-Symbolic-")).upstream
    if not name.startswith("Craftax-"):
        raise LookupError(f"craftax has no level like {env_id}")
    return name


def chosen(ids: list[str]) -> list[str]:
    """Return the environment ids that the words of a command line select.

    The words are ids, or the single word `all` or `families` (one id of each environment class).
    """
    named = {"all": jaxenvs.registry.list, "families": jaxenvs.registry.representatives}
    return named[ids[0]]() if len(ids) == 1 and ids[0] in named else ids


def versions(packages: Sequence[str] = PEERS) -> dict[str, str]:
    """Return the versions of Python, jaxenvs, jax, NumPy, `packages` and the CUDA plugins."""
    found = {"python": platform.python_version(), "jaxenvs": jaxenvs.__version__}
    for package in ("jax", "jaxlib", "numpy", *packages):
        found[package] = version(package) or "not installed"
    return found | {name: version(name) for name in CUDA_PLUGINS if version(name)}


def processor() -> str:
    """Return the name of the processor, or its architecture if the system gives no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
