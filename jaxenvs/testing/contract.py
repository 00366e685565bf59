"""`check_env` tests whether an environment keeps the contract that `Env` documents.

Environment authors call `check_env`. The tests of jaxenvs run each of `CHECKS` on every id. A check
is a function of a `Subject`, an environment with compiled functions. If the environment breaks a
rule, the check raises `AssertionError` with a message.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..core.eager import op_by_op
from ..core.env import Env, Reset
from ..core.facts import Fact
from ..core.registry import check_complete, make
from ..core.spaces import Discrete
from ..core.vector import make_vec
from ..core.wrapper import Wrapper
from .fuzzing import fuzz, limited
from .subject import STEPS, Subject, assert_same, at, plan, stack, types_of

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8, `enable_x64` was in `jax.experimental`
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

BATCH = 4  # number of environments in a batch
RESETS = 16  # number of resets whose observations and states `check_sight` compares


class ContractError(AssertionError):
    """Raised if an environment breaks the contract; the message has a line per failed check."""


def check_env(env: Env | str, *, steps: int = 20_000, seed: int = 0) -> list[str]:
    """Run all checks on an environment (or on the environment of an id) and fuzz it.

    `steps` is the number of steps of random play (see `fuzzing`); `seed` determines the levels and
    actions of these steps. Returns the names of the checks, all of which passed. Raises
    `ContractError` with a line for each failed check, and `registry.IncompleteError` if the class
    lacks required methods. Compiling an environment with 100 actions takes about ten seconds.
    """
    if isinstance(env, str):
        env = make(env)
    elif not isinstance(env, Env):
        kind = type(env).__name__
        raise TypeError(f"check_env: needs an id or an environment, got {kind} {env!r}")
    check_complete(type(env), "check_env")
    subject, broken = Subject.of(env), []
    trials = {**CHECKS, "hostile_steps": lambda subject: check_fuzzed(subject, steps, seed)}
    for name, check in trials.items():
        try:
            check(subject)
        except Exception as error:
            broken.append(f"{name}: {type(error).__name__}: {error}")
    if broken:
        raise ContractError("\n".join([f"{env.name} breaks its contract:", *broken]))
    return list(trials)


def check_fuzzed(subject: Subject, steps: int, seed: int) -> None:
    """Check that random play, which includes illegal and invalid actions, breaks no rule."""
    found = fuzz(subject.env, steps=steps, seed=seed)
    broken = {rule: count for rule, count in found.broken.items() if count}
    assert not broken, f"in {found.steps:,} steps of seed {seed}, steps that break a rule: {broken}"


def check_value(subject: Subject) -> None:
    """Check that the environment is frozen, and that it and its params are hashed by value."""
    env = subject.env
    copy = dataclasses.replace(env)  # type: ignore[type-var]  # every subclass is a dataclass
    assert env == copy and hash(env) == hash(copy), "equal fields must make equal environments"
    try:
        setattr(env, "anything", None)  # noqa: B010 - type checkers reject a plain assignment
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise AssertionError("an environment is frozen: it must not take new attributes")
    params, again = env.default_params, env.default_params
    assert hasattr(params, "max_steps_in_episode"), "params need max_steps_in_episode"
    # As static arguments of `jit`, params must be compared and hashed by value.
    try:
        alike = (params == again) is True and hash(params) == hash(again)
    except Exception:  # params that contain arrays may return anything from `==`, or raise
        alike = False
    assert alike, "params must compare and hash by value: make their class with jaxenvs.struct"


def check_types(subject: Subject) -> None:
    """Check that a step returns the same tree structure, shapes and dtypes as a reset.

    Whether a leaf is weakly typed must not change either, because JAX would compile again.
    """
    env = subject.env
    key, action = jax.random.key(0), env.action_space.sample(jax.random.key(1))
    obs, state = jax.eval_shape(env.reset, key)
    step = jax.eval_shape(env.step, key, state, action)
    again = jax.eval_shape(env.step, key, step.state, action)
    for name, trees in (("state", (state, step.state, again.state)), ("obs", (obs, step.obs))):
        for later in trees[1:]:
            assert types_of(trees[0]) == types_of(later), (
                f"{name}: a step changes {trees[0]} to {later}"
            )
    _check_leaves(step, "step")
    flags = {"reward": np.float32, "terminated": np.bool_, "truncated": np.bool_}
    for name, dtype in flags.items():
        leaf = getattr(step, name)
        assert (leaf.shape, leaf.dtype) == ((), dtype), f"{name} is {leaf.dtype}{leaf.shape}"
    assert step.info["invalid_action"].dtype == np.bool_


def check_x64(subject: Subject) -> None:
    """Check that no array has 64 bits when 64-bit types are enabled.

    An array that is made without an explicit dtype would have 64 bits.
    """
    env = subject.env
    with enable_x64(True):
        key, action = jax.random.key(0), env.action_space.sample(jax.random.key(1))
        first = jax.eval_shape(env.reset, key)
        _check_leaves(first, "reset")
        _check_leaves(jax.eval_shape(env.step, key, first.state, action), "step")


def _check_leaves(tree: PyTree, name: str) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        where = f"{name}{jax.tree_util.keystr(path)}"
        assert not leaf.weak_type, f"{where} is weakly typed: give it a dtype"
        wide = leaf.dtype in (np.float64, np.int64, np.uint64)
        assert not wide, f"{where} is {leaf.dtype}: give it a dtype of 32 bits"


def check_no_key(subject: Subject) -> None:
    """Check that the state holds no PRNG key, from which a planner could predict random outcomes.

    The state's 32-bit integers are compared with the data of these keys: the keys given to a reset
    and a step, the two keys split from the reset key, and keys that one `split` or `fold_in`
    derives from these. Keys that are modified or derived further are not found.
    """
    env, params = subject.env, subject.env.default_params
    leaves = jax.tree.leaves(env.state_shape)
    keys = [x for x in leaves if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    assert not keys, f"the state holds keys: {keys}"
    # A key counts as found if the state contains both of its words. The words are large random
    # integers, so a state contains both by chance only with negligible probability.
    key_reset, key_step = jax.random.split(jax.random.key(0))
    given = jnp.stack([key_reset, *jax.random.split(key_reset), key_step])
    split = jax.vmap(lambda key: jax.random.split(key, 8))(given)
    folded = jax.vmap(lambda key: jax.vmap(lambda n: jax.random.fold_in(key, n))(jnp.arange(8)))
    family = jnp.concatenate([given, split.ravel(), folded(given).ravel()])
    words = np.asarray(jax.random.key_data(family))
    first = subject.reset(key_reset, params).state
    action = env.action_space.sample(jax.random.key(1))
    for state in (first, subject.step(key_step, first, action, params).state):
        integers = [np.asarray(x).ravel() for x in jax.tree.leaves(state)]
        integers = [x.view(np.uint32) for x in integers if x.dtype in (np.uint32, np.int32)]
        held = np.isin(words, np.concatenate(integers or [words[0, :0]])).all(axis=1)
        assert not held.any(), "the state holds the words of a key, which predict random outcomes"


def check_spaces(subject: Subject) -> None:
    """Check that observations and rewards lie in their spaces.

    Actions sampled from the action space must not be reported as invalid.
    """
    env, (first, steps) = subject.env, subject.episode
    space = env.observation_space
    assert space.contains(first.obs), f"the first observation is not in {space}"
    inside = np.asarray(jax.jit(jax.vmap(space.contains))(steps.obs))
    assert inside.all(), f"the observation of step {inside.argmin()} is not in {space}"
    drawn = jax.jit(space.sample)(jax.random.key(0))
    drawn, shown = (jax.tree.map(np.zeros_like, tree) for tree in (drawn, first.obs))
    assert_same(drawn, shown, "an observation and a sample of its space")
    assert not steps.info["invalid_action"].any(), "sampled actions are reported as invalid"
    low, high = env.reward_range
    rewards = np.asarray(steps.reward)
    inside = np.isfinite(rewards) & (rewards >= low) & (rewards <= high)
    assert inside.all(), f"rewards {rewards[~inside]} are not in {low} .. {high}"


def check_transforms(subject: Subject) -> None:
    """Check that three ways to run a sequence of steps give the same results.

    The three ways are a scan over the steps, single jitted steps, and a batch under `vmap`.
    """
    params = subject.env.default_params
    key, keys, actions = plan(subject.env)
    first, scanned = jax.device_get(subject.episode)
    again = subject.rollout(key, keys, actions, params)
    assert_same(again, (first, scanned), "two rollouts from the same key", one_program=True)
    assert_same(subject.reset(key, params), first, "reset alone and in a rollout")
    state = first.state
    for i in range(4):
        step = subject.step(keys[i], state, at(actions, i), params)
        assert_same(step, at(scanned, i), f"step {i} alone and in a scan")
        state = step.state
    # Make a batch of successive states of one episode, in reverse order, and step it. Each
    # environment must give the same result as in the episode. If environments of a batch influenced
    # each other, the results would differ.
    rows = range(BATCH - 1, -1, -1)
    before = stack([at(scanned.state, i) for i in rows])
    following = [stack([at(tree, i + 1) for i in rows]) for tree in (keys, actions)]
    batch = subject.batch_step(following[0], before, following[1], stack([params] * BATCH))
    for row, i in enumerate(rows):
        assert_same(at(batch, row), at(scanned, i + 1), f"step {i + 1} in a batch and in a scan")


def check_eager(subject: Subject) -> None:
    """Check that reset and step give the same results when JAX runs one operation at a time.

    Only loops are still compiled: `jax.disable_jit` would run them in Python, which takes minutes.
    """
    env, params = subject.env, subject.env.default_params
    key, keys, actions = plan(env)
    first = subject.reset(key, params)
    with op_by_op():
        reset = env.reset(key)
        step = env.step(keys[0], first.state, at(actions, 0))
    assert_same(reset, first, "reset, eager and jitted")
    assert_same(step, subject.step(keys[0], first.state, at(actions, 0), params), "step, eager")


def check_level(subject: Subject) -> None:
    """Check that `reset` gives the same result as `sample_level` followed by `reset_to`."""
    env = subject.env
    key_level, key_state = jax.random.split(jax.random.key(3))
    level = jax.jit(env.sample_level)(key_level)
    composed = jax.jit(env.reset_to)(key_state, level)
    whole = subject.reset(jax.random.key(3), env.default_params)
    assert_same(composed, whole, "reset_to(sample_level) and reset")


def check_one_compilation(subject: Subject) -> None:
    """Check that later calls of `reset` and `step` reuse the program of the first call."""
    params = subject.env.default_params
    key, keys, actions = plan(subject.env)
    state = subject.reset(key, params).state
    state = subject.step(keys[0], state, at(actions, 0), params).state
    functions: Any = (subject.reset, subject.step)
    counts = [function._cache_size() for function in functions]
    for i in range(1, 4):
        state = subject.step(keys[i], state, at(actions, i), params).state
        subject.reset(keys[i], params)
    assert [function._cache_size() for function in functions] == counts, "it compiles again"


def check_time_limit(subject: Subject) -> None:
    """Check that an episode is truncated at its time limit, unless the same step terminates it.

    Each environment of the batch has its own limit, 1 to `BATCH` steps.
    """
    env = subject.env
    given = jnp.arange(1, BATCH + 1, dtype=jnp.int32)
    params = limited(stack([env.default_params] * BATCH), given)
    keys = jax.random.split(jax.random.key(5), BATCH)
    state = stack(jax.device_get([subject.reset(key, env.default_params).state for key in keys]))
    limits = np.asarray(jax.vmap(env.time_limit)(state, params))
    assert (limits <= given).all(), "an episode's limit must not exceed the limit of the params"
    for time in range(1, BATCH + 1):
        actions = jax.vmap(env.action_space.sample)(keys)
        step = subject.batch_step(keys, state, actions, params)
        np.testing.assert_array_equal(step.state.time, jnp.full(BATCH, time), "the clock")
        truncated = (limits <= time) & ~np.asarray(step.terminated)
        np.testing.assert_array_equal(step.truncated, truncated, "truncated at the limit")
        np.testing.assert_array_equal(step.done, step.truncated | step.terminated, "done")
        np.testing.assert_array_equal(step.discount, 1 - np.float32(step.terminated), "discount")
        state = step.state


def check_ending(subject: Subject) -> None:
    """Check that the actions of `env.ending` terminate the episode exactly at the last action.

    `env.ending` gives a level and the actions that end its task. The actions are played twice: with
    the default time limit, and with the number of actions as the time limit. Both times, the last
    step must be terminated and not truncated. Does nothing if `env.ending` gives no actions.
    """
    env, params = subject.env, subject.env.default_params
    try:
        ending = env.ending(jax.jit(env.sample_level)(jax.random.key(0)))
    except NotImplementedError:  # raised for a puzzle without `goal` or `predecessors`
        ending = None
    if ending is None:
        return
    key, reset_to, last = jax.random.key(1), jax.jit(env.reset_to), len(ending.actions)
    for limit in (params.max_steps_in_episode, last):
        limits = limited(params, np.int32(limit))
        state, truncated = reset_to(key, ending.level, limits).state, False
        for number, action in enumerate(ending.actions, start=1):
            action = jnp.asarray(action, env.action_space.dtype)
            step = subject.step(key, state, action, limits)
            said = f"{'not ' * (number < last)}terminated after action {number} of {last}"
            assert step.terminated == (number == last), f"by its ending it must be {said}"
            state, truncated = step.state, step.truncated
        assert not truncated, "truncated at the limit, although the task ended there"


def check_rows(subject: Subject) -> None:
    """Check that an environment behaves the same in a batch of 2 and in a batch of 3.

    The first two environments of both batches are compared, over several episodes.
    """
    small, large = (_play_batch(subject.env, rows) for rows in (2, 3))
    assert_same(small, jax.tree.map(lambda leaf: leaf[:, :2], large), "batches of 2 and of 3")


def _play_batch(env: Env, rows: int) -> PyTree:
    """Play five steps in a batch with a time limit of two steps; return the results.

    With this limit, every environment restarts at least twice.
    """
    venv = make_vec(env, rows)
    params = limited(venv.default_params, np.int32(2))
    actions = jax.vmap(env.action_space.sample)(jax.random.split(jax.random.key(7), rows))

    @jax.jit
    def play(key: Array) -> PyTree:
        def one(state: Any, key: Array) -> tuple[Any, PyTree]:
            step = venv.step(key, state, actions, params)
            return step.state, (step.obs, step.reward, step.terminated, step.truncated)

        state = venv.reset(key, params).state
        return jax.lax.scan(one, state, jax.random.split(key, 5))[1]

    return play(jax.random.key(8))


def check_sight(subject: Subject) -> None:
    """Check the claim of `fully_observed`: equal observations mean equal states, except for `time`.

    Does nothing if `fully_observed` is false.
    """
    env, params = subject.env, subject.env.default_params
    if not env.fully_observed:
        return
    keys = jax.random.split(jax.random.key(9), RESETS)
    first = [subject.reset(key, params) for key in keys]
    later = jax.device_get(subject.episode[1])
    moments = [*first, *(Reset(at(later.obs, i), at(later.state, i)) for i in range(STEPS))]
    known: dict[bytes, dict[str, Array]] = {}
    for obs, state in jax.device_get(moments):
        look = b"".join(leaf.tobytes() for leaf in jax.tree.leaves(obs))
        parts = _without_clock(env, state)
        for name, leaf in known.setdefault(look, parts).items():
            assert np.array_equal(leaf, parts[name]), (
                f"two states with equal observations differ in {name}: observe it, or set "
                "fully_observed = False in the class"
            )


def _without_clock(env: Env, state: Any) -> dict[str, Any]:
    """Return the leaves of a state by name, without `time` and without the states of wrappers."""
    while isinstance(env, Wrapper):
        env, state = env.env, env.inner(state)
    leaves = jax.tree_util.tree_leaves_with_path(state)
    named = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    return {name: leaf for name, leaf in named.items() if name != ".time"}


def check_masks(subject: Subject) -> None:
    """Check the shape and dtype of the action mask, and that some action is legal at the start."""
    env = subject.env
    if not isinstance(env.action_space, Discrete):
        return
    mask = jax.jit(env.action_mask)(subject.reset(jax.random.key(0), env.default_params).state)
    wanted = ((env.action_space.n,), np.bool_)
    assert (mask.shape, mask.dtype) == wanted, f"the mask is {mask.dtype}{mask.shape}"
    assert mask.any(), "no action is legal at the start"


def check_pictures(subject: Subject) -> None:
    """Check that `tiles` returns indices into `atlas`; skipped if there are no tiles."""
    env = subject.env
    state = subject.reset(jax.random.key(0), env.default_params).state
    try:
        tiles, atlas = np.asarray(jax.jit(env.tiles)(state)), env.atlas(8)
    except NotImplementedError:
        return
    assert atlas.shape[1:] == (8, 8, 3) and atlas.dtype == np.uint8, f"atlas is {atlas.shape}"
    assert tiles.ndim == 2 and (tiles >= 0).all() and (tiles < len(atlas)).all(), "tiles"


def check_words(subject: Subject) -> None:
    """Check action names, controls, facts and descriptions.

    Every Discrete action needs an entry in `controls`. If actions are not Discrete, each entry of
    `controls` needs an element of the action space. `action_names` may be empty; otherwise it needs
    a name for each Discrete action, or for each component of an action.
    """
    env = subject.env
    state = subject.reset(jax.random.key(0), env.default_params).state
    keyed, names, values = env.controls.names, env.action_names, env.controls.values
    if isinstance(env.action_space, Discrete):
        assert len(set(keyed)) == env.action_space.n, f"controls name {len(keyed)}: {keyed[:8]}"
        assert len(names) in (0, len(keyed)), f"action_names are {len(names)} names"
    else:
        assert len(values) == len(set(keyed)), f"controls give {len(values)} values to {keyed[:8]}"
        for name, value in zip(keyed, values, strict=True):
            given = np.asarray(value, env.action_space.dtype)
            inside = env.action_space.contains(given)
            assert inside, f"controls: {name} is {value}, not in {env.action_space}"
        size = math.prod(env.action_space.shape)
        assert len(names) in (0, size), f"action_names are {len(names)} for {size} numbers"
    assert all(isinstance(fact, Fact) for fact in env.facts(state)), "facts are no Facts"
    words = env.describe(state)
    assert words and isinstance(words, str), f"describe returns {words!r}"
    assert words == env.describe(state), "describe returns another text the second time"


CHECKS: dict[str, Callable[[Subject], None]] = {
    function.__name__.removeprefix("check_"): function
    for function in (
        check_value,
        check_types,
        check_x64,
        check_no_key,
        check_spaces,
        check_transforms,
        check_eager,
        check_level,
        check_one_compilation,
        check_time_limit,
        check_ending,
        check_rows,
        check_sight,
        check_masks,
        check_pictures,
        check_words,
    )
}
