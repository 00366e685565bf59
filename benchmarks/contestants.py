"""Who is measured: this library's batches and, in `peers.py`, others, behind two interfaces."""

import dataclasses
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree, Shaped

import jaxenvs
from jaxenvs.core.extras import version
from jaxenvs.core.spaces import Box, Discrete, Space
from jaxenvs.core.vector import RESET_SOURCES

STEP_SCOPE = "environment_step"  # marks the environment's part of a compiled rollout
PEERS = ("minigrid", "navix", "xminigrid", "envpool", "craftax", "crafter", "jumanji", "pgx")
CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")  # whose compiler made a GPU's program
NO_RESET = "none"  # in the place of a reset source: environments that ended go on as they are
DEFAULT = "default"  # likewise: that of `make_vec`
SOURCES = (DEFAULT, *RESET_SOURCES, NO_RESET)
GRIDS = ("Grid", "BabyAI")  # families


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A batch of environments with random actions in mind: pure functions of arrays."""

    name: str
    env_id: str  # the id here; the level is the same for every contestant
    num_envs: int
    actions: int | Space  # their number if they are numbered
    reset: Callable[[Array], PyTree[Array]]
    step: Callable[
        [Array, PyTree[Array], Shaped[Array, "num_envs ..."]],
        tuple[PyTree[Array], PyTree[Array], Float[Array, " num_envs"], Bool[Array, " num_envs"]],
    ]  # (key, state, action) -> state, obs, reward, done
    obs: str  # what it observes; empty where there is no choice
    reset_source: str = "own"  # where new levels come from
    refresh: Callable[[Array, PyTree[Array]], PyTree[Array]] = lambda key, state: state

    def draw(self, key: Array) -> Shaped[Array, "num_envs ..."]:
        """Random actions of all environments, even over what is allowed."""
        if isinstance(self.actions, int):
            return jax.random.randint(key, (self.num_envs,), 0, self.actions)
        return jax.vmap(self.actions.sample)(jax.random.split(key, self.num_envs))

    def rollout(self, length: int) -> Callable[[Array, PyTree[Array]], tuple[PyTree, tuple]]:
        """Return (key, state) -> state, (obs, reward): `length` steps of random actions.

        One step per trip, every observation and reward stored, as a learner's rollout does; a pool
        of levels is drawn anew before.
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
    """Environments that step in Python, together, and begin anew where they end."""

    name: str
    obs: str  # in words
    num_envs: int
    actions: int | Box  # their number if they are numbered
    step: Callable[[Any], Any]  # takes an action or, of several environments, an array of them
    turn: int  # steps that make a fair sample, resets included


def foreign(
    name: str, env_id: str, num_envs: int, actions: int | Space, reset: Callable, step: Callable
) -> Contestant:
    """Another package's batch, whose functions are not written for strict promotion of dtypes."""
    reset, step = (jax.numpy_dtype_promotion("standard")(function) for function in (reset, step))
    return Contestant(name, env_id, num_envs, actions, reset, step, peer_obs(env_id))


def one_of(levels: Iterable[str], package: str, level: str, env_id: str) -> str:
    """Return the level that is like an id; `LookupError` unless it is one of the package's."""
    if level not in levels:
        raise LookupError(f"{package} has no level like {env_id}")
    return level


def ours(env_id: str, num_envs: int, reset_source: str = DEFAULT, **fields: Any) -> Contestant:
    """This library's batch, with same-step auto-reset unless the source is `none`.

    The observation of a grid is the image unless `obs` names another, see `obs_field`.
    """
    fields = {**obs_field(env_id), **fields}
    how: dict[str, Any] = {} if reset_source == DEFAULT else {"reset_source": reset_source}
    if reset_source == NO_RESET:
        how = {"autoreset": "none"}
    venv = jaxenvs.make_vec(env_id, num_envs, **how, **fields)
    space = venv.env.action_space

    def step(key: Array, state: Any, action: Array) -> tuple:
        stepped = venv.step(key, state, action)
        return stepped.state, stepped.obs, stepped.reward, stepped.done

    return Contestant(
        name="jaxenvs",
        env_id=env_id,
        num_envs=num_envs,
        actions=space.n if isinstance(space, Discrete) else space,
        reset=lambda key: venv.reset(key).state,
        step=step,
        obs=getattr(venv.env, "obs", ""),
        reset_source=NO_RESET if reset_source == NO_RESET else venv.reset_source,
        refresh=venv.refresh,
    )


def obs_field(env_id: str, obs: str | None = None) -> dict[str, Any]:
    """The constructor field for an observation: by default the image of a grid, which the peers
    have too, and elsewhere what the id names."""
    if obs is None and "image" in jaxenvs.make(env_id).observations:
        obs = "image"
    return {} if obs is None else {"obs": obs}


def peer_obs(env_id: str) -> str:
    """The observation of the peers of an id, the nearest to ours."""
    family = jaxenvs.spec(env_id).family
    if family != "Craft":
        return "image" if family in GRIDS else "board"
    return "pixels" if "Pixels" in env_id else "symbolic"


def craftax_level(env_id: str) -> str:
    """What craftax calls a game; it has no observation of bytes, so `Ids` has the symbolic one."""
    name = jaxenvs.spec(env_id.replace("-Ids-", "-Symbolic-")).upstream
    if not name.startswith("Craftax-"):
        raise LookupError(f"craftax has no level like {env_id}")
    return name


def chosen(ids: list[str]) -> list[str]:
    """The ids that a command line means: `all`, `families` (one of each class), or those given."""
    named = {"all": jaxenvs.registry.list, "families": jaxenvs.registry.representatives}
    return named[ids[0]]() if len(ids) == 1 and ids[0] in named else ids


def versions(packages: Sequence[str] = PEERS) -> dict[str, str]:
    """Versions of everything that a figure depends on, these packages among it."""
    found = {"python": platform.python_version(), "jaxenvs": jaxenvs.__version__}
    for package in ("jax", "jaxlib", "numpy", *packages):
        found[package] = version(package) or "not installed"
    return found | {name: version(name) for name in CUDA_PLUGINS if version(name)}


def processor() -> str:
    """Name of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
