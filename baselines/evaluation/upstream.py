"""Evaluate a policy in the original package, such as MiniGrid, whose rules jaxenvs reimplements.

The package generates the levels and random outcomes. Its observations or states are converted to
observations of the jaxenvs environment, which the policy reads. If the package and jaxenvs have the
same rules, their returns differ only by chance.
"""

import contextlib
import functools
import importlib
import importlib.util
import io
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs.commands.fields import PARAM, SETUP
from jaxenvs.core import registry
from jaxenvs.core.env import Env
from jaxenvs.core.extras import require
from jaxenvs.core.masking import is_masked
from jaxenvs.core.param_values import settings
from jaxenvs.core.typed import pip
from jaxenvs.core.wrappers import PreviousStep, Wrapper

from ..core.planning import Search
from ..core.playing import Episodes
from ..core.policy import Policy

LARGEST_SEED = 2**31 - 1


class NotThereError(ValueError):
    """Raised if a package does not have the environment, or an input that the policy needs."""


def play(policy: Policy, package: str, key: Array, count: int, greedy: bool = False) -> Episodes:
    """Play `count` episodes of the policy's environment in a package, a key of `PACKAGES`.

    Raises `NotThereError` if the package lacks the environment with its settings, or an input that
    the policy needs, and `MissingExtraError` if the package is not installed.
    """
    check(policy.env, policy.env_id, package, policy.search)
    return PACKAGES[package](policy, registry.spec(policy.env_id).upstream, key, count, greedy)


def check(env: Env, id: str, package: str, search: Search | None = None) -> None:
    """Raise `NotThereError` if a policy of `env`, which has this id, cannot play in a package.

    `search` chooses the policy's actions, None: its network does. This does not need the package.
    """
    spec = registry.spec(id)
    if isinstance(env, PreviousStep):
        raise NotThereError(f"{package} does not show the previous step, which this policy reads")
    if isinstance(env, Wrapper):
        raise NotThereError(
            f"{package} does not have {type(env).__name__}, which this policy needs"
        )
    if env.package != package:
        home = f"it is in {env.package}" if env.package else "no package has it"
        raise NotThereError(f"{spec.id} is not in {package}: {home}")
    if vars(env).get("setup") == "eased":
        raise NotThereError(
            f"{package} has the original rules, not those of setup=eased; give {SETUP} original "
            f"or {SETUP} masked"
        )
    kept = [*(["obs"] if env.observations else []), *(["setup"] if env.setups else [])]
    usual = spec.make(**{name: vars(env)[name] for name in kept})
    same = settings(usual).items()
    params = {name: getattr(usual.default_params, name) for name in dict(env.given_params)}
    changed = [
        f"{name}={value}"
        for name, value in settings(env).items()
        if (name, value) not in same and (name not in params or value != params[name])
    ]
    if changed:
        pairs = " ".join(f"{name}={value}" for name, value in params.items())
        advice = f"; its params are {PARAM} {pairs}" if pairs else ""
        raise NotThereError(f"{package} has no {spec.upstream} with {', '.join(changed)}{advice}")
    if package != "craftax":
        _check_shown(env, spec.upstream, package, search)


def _check_shown(env: Env, upstream_id: str, package: str, search: Search | None) -> None:
    """Raise `NotThereError` if a policy reads masks or states, which a package does not show."""
    if is_masked(env):
        raise NotThereError(f"{package} does not tell which actions of {upstream_id} are legal")
    if search and search.needs_state:
        raise NotThereError(
            f"{package} does not show its state, and the policy's search steps the {search.model}: "
            f"give --simulations 0 to play without the search"
        )


def check_installed(package: str) -> None:
    """Raise an error that says what to install, if a key of `PACKAGES` is not installed.

    The error is `MissingExtraError` or, for craftax, `NotThereError`.
    """
    if package != "craftax":
        require([package], "gym" if package == "gymnasium" else package)
        return
    if importlib.util.find_spec("craftax") is None:
        raise NotThereError(
            f"this needs craftax, not installed here: run {pip()} install --no-deps craftax (its "
            "pygame would overwrite pygame-ce)"
        )
    require(["imageio"], "play")  # the only dependency of Craftax that the extra `train` lacks


def _first_memory(policy: Policy, count: int) -> PyTree[Array]:
    """Return a policy's initial recurrent state, repeated for `count` episodes."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), policy.begin())


def _begun(package: str, id: str, seeds: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Return a Gymnasium environment for each seed, and the first observation of each."""
    import gymnasium

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # Hide Gymnasium's warning that a newer version of the id exists.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            envs = [gymnasium.make(id, disable_env_checker=True) for _ in seeds]
            # BabyAI prints every level that it rejects, so stdout is redirected above.
            shown = [each.reset(seed=int(seed))[0] for each, seed in zip(envs, seeds, strict=True)]
        except (gymnasium.error.DependencyNotInstalled, FileNotFoundError) as error:
            # For example, MiniGrid's generator of WFC levels needs images that its wheel lacks, and
            # packages that may not be installed.
            raise NotThereError(f"{package} cannot make {id} here: {error}") from error
    return envs, shown


def _gymnasium(policy: Policy, id: str, key: Array, count: int, greedy: bool) -> Episodes:
    """Play one episode in each of `count` Gymnasium environments, which Python steps in turn."""
    env = policy.env
    check_installed(env.package)
    importlib.import_module(env.package)  # importing the package registers its ids
    chosen = jax.jit(jax.vmap(functools.partial(policy.decide, greedy=greedy), (0, 0, 0, None)))
    seeds = np.asarray(jax.random.randint(key, (count,), 0, LARGEST_SEED))
    envs, shown = _begun(env.package, id, seeds)
    memory, playing = _first_memory(policy, count), np.ones(count, bool)
    returns, lengths = np.zeros(count, np.float32), np.zeros(count, np.int32)
    terminated = np.zeros(count, bool)
    for step in range(env.default_params.max_steps_in_episode):
        obs = jax.tree.map(lambda *leaves: np.stack(leaves), *map(env.upstream_obs, shown))
        keys = jax.random.split(jax.random.fold_in(key, step), count)
        memory, actions = chosen(keys, memory, obs, None)
        actions = np.asarray(actions)
        for i in np.flatnonzero(playing):
            action = actions[i] if actions.ndim > 1 else int(actions[i])
            shown[i], reward, terminated[i], truncated, _ = envs[i].step(action)
            returns[i] += np.float32(reward)
            lengths[i] += 1
            playing[i] = not (terminated[i] or truncated)
        if not playing.any():
            break
    for each in envs:
        each.close()
    return Episodes(*map(jnp.asarray, (returns, lengths, terminated)))


def _craftax(policy: Policy, id: str, key: Array, count: int, greedy: bool) -> Episodes:
    """Play one episode in each of `count` Craftax environments, in one compiled program."""
    check_installed("craftax")
    from craftax.craftax_env import make_craftax_env_from_name

    kind = "-Classic" if "Classic" in id else ""
    upstream: Any = make_craftax_env_from_name(f"Craftax{kind}-Symbolic-v1", auto_reset=False)
    params = upstream.default_params

    def one(key: Array, memory: PyTree[Array], state: Any) -> tuple[Any, ...]:
        key_act, key_step = jax.random.split(key)
        ours = policy.env.from_upstream(state)
        mask = policy.env.action_mask(ours) if is_masked(policy.env) else None
        memory, action = policy.decide(
            key_act, memory, policy.env.observe(ours), mask, ours, greedy=greedy
        )
        with jax.numpy_dtype_promotion("standard"):  # Craftax mixes dtypes
            key_words = jax.random.key_data(key_step)
            _, state, reward, done, _ = upstream.step_env(key_words, state, action, params)
        return memory, _strong(state), reward, done

    def step(carry: Any) -> Any:
        key, memory, state, playing, episodes = carry
        key, key_step = jax.random.split(key)
        keys = jax.random.split(key_step, count)
        memory, state, reward, done = jax.vmap(one)(keys, memory, state)
        episodes = Episodes(
            returns=episodes.returns + jnp.where(playing, reward, 0.0),
            lengths=episodes.lengths + playing.astype(jnp.int32),
            terminated=episodes.terminated | (playing & done),
        )
        return key, memory, state, playing & ~done, episodes

    @jax.jit
    def run(key: Array) -> Episodes:
        key, key_begin = jax.random.split(key)
        words = jax.vmap(jax.random.key_data)(jax.random.split(key_begin, count))
        with jax.numpy_dtype_promotion("standard"):
            state = jax.vmap(lambda word: _strong(upstream.reset_env(word, params)[1]))(words)
        nothing = jnp.zeros(count)
        none = Episodes(nothing, nothing.astype(jnp.int32), nothing.astype(jnp.bool_))
        carry = (key, _first_memory(policy, count), state, jnp.ones(count, jnp.bool_), none)
        return jax.lax.while_loop(lambda carry: carry[3].any(), step, carry)[-1]

    return jax.tree.map(np.asarray, jax.device_get(run(key)))


def _strong(state: Any) -> Any:
    """Cast Craftax's state to int32 and float32 without weak types, except for bool and uint32.

    `while_loop` carries the state, so its dtypes must be the same after every step.
    """

    def cast(leaf: Any) -> Array:
        array = jnp.asarray(leaf)
        # Flags (bool) and PRNG keys (uint32) keep their dtype.
        if array.dtype in (jnp.bool_, jnp.uint32):
            return array
        real = jnp.issubdtype(array.dtype, jnp.floating)
        return jax.lax.convert_element_type(array, jnp.float32 if real else jnp.int32)

    return jax.tree.map(cast, state)


PACKAGES = {"minigrid": _gymnasium, "gymnasium": _gymnasium, "craftax": _craftax}
