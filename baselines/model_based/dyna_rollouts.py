"""Imagined rollouts of Dyna: the policy acts in a learned model of the environment.

Each imagined episode begins at a random step of the latest real rollout.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs import Step
from jaxenvs.core.masking import Mask, is_masked

from ..core import forced, rollouts
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.recurrence import reset_memory
from ..core.rollouts import Rollout, Runner
from ..networks import two_hot
from ..on_policy import ppo, ppo_rnn
from .dyna_model import few_at_once, model_of, next_history, vocabulary_of
from .dyna_network import NEVER, History


class Start(NamedTuple):
    """Steps of a real rollout at which imagined episodes can begin; arrays are (*batch, ...)."""

    obs: PyTree[Array]
    memory: PyTree[Array]  # recurrent state of the policy before it reads `obs`
    history: History


class Imagined(NamedTuple):
    """State of all imagined episodes, which takes the place of the environments' state.

    Imagined rollouts store it in the runner's field `world`.
    """

    memory: PyTree[Array]  # recurrent state of the model: its key-value cache
    # Step of the real rollout at which each imagined episode began: the observation, the policy's
    # recurrent state before it reads this observation, and the summary of the real episode so far.
    start: Start


def learn_from_imagination(
    learner: Learner[Any], runner: Runner, starts: Start, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Train the policy on `imagined_rollouts` rollouts in the model; return the runner and metrics.

    During the run's first `warm_up` steps, imagined rollouts are skipped, and their metrics are
    unknown.
    """
    settings = learner.settings
    zeros = {"imagined_reward": jnp.float32(0.0), "imagined_kl": jnp.float32(0.0)}
    if not settings.imagined_rollouts:
        return runner, means(zeros, 0)

    def one(learned: tuple[PyTree, ...], key: Array) -> tuple[tuple[PyTree, ...], dict[str, Array]]:
        weights, optimiser = learned
        now = runner._replace(weights=weights, optimiser=optimiser)
        key_imagine, key_learn = jax.random.split(key)
        now, memory, rollout = imagine(learner, now, starts, key_imagine)
        now, losses = ppo_rnn.learn(learner, now, memory, rollout, key_learn)
        metrics = {"imagined_reward": rollout.reward.mean(), "imagined_kl": losses["kl"]}
        return (now.weights, now.optimiser), metrics

    def several(learned: tuple[PyTree, ...]) -> tuple[tuple[PyTree, ...], dict[str, Array]]:
        keys = jax.random.split(key, settings.imagined_rollouts)
        learned, metrics = jax.lax.scan(one, learned, keys)
        return learned, jax.tree.map(jnp.mean, metrics)

    # During the warm-up, `cond` skips imagined rollouts. Its condition must be shared by all seeds:
    # under `vmap`, a `cond` with a condition per seed computes both branches. All seeds have made
    # the same number of updates, and `pmax` returns this number without an axis of seeds.
    updates = jax.lax.pmax(runner.model.updates, SEEDS)
    learned = (runner.weights, runner.optimiser)
    is_warm = updates >= settings.updates_until(settings.warm_up)
    learned, metrics = jax.lax.cond(is_warm, several, lambda same: (same, zeros), learned)
    weights, optimiser = learned
    return runner._replace(weights=weights, optimiser=optimiser), means(metrics, is_warm)


def imagine(
    learner: Learner[Any], runner: Runner, starts: Start, key: Array
) -> tuple[Runner, PyTree[Array], Rollout]:
    """Collect an imagined rollout in the model.

    Returns the arguments of `ppo_rnn.learn`: the runner after the rollout, the policy's recurrent
    state before the first step, and the rollout.
    """
    key_begin, key_act = jax.random.split(key)
    runner = begin(learner, runner, starts, key_begin)
    keys = jax.random.split(key_act, learner.settings.imagined_steps)
    act = functools.partial(imagined_step, learner)
    end, rollout = jax.lax.scan(act, runner, keys, unroll=learner.settings.unroll)
    return end, runner.memory, rollouts.with_weights(learner, rollout, allowed(learner, end))


def begin(learner: Learner[Any], runner: Runner, starts: Start, key: Array) -> Runner:
    """Return a runner with imagined episodes that begin at random steps of the real rollout."""
    model = model_of(learner)
    count = learner.settings.imagined_envs // learner.devices.count
    steps = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), starts)
    rows = jax.random.randint(key, (count,), 0, len(jax.tree.leaves(steps)[0]), jnp.int32)
    start = jax.tree.map(lambda leaf: leaf[rows], steps)
    return runner._replace(
        world=Imagined(copies(model.begin(), count), start),
        obs=start.obs,
        memory=start.memory,
        history=start.history,
        returns=jnp.zeros(count, jnp.float32),
        lengths=jnp.zeros(count, jnp.int32),
    )


def copies(tree: PyTree[Array], count: int) -> PyTree[Array]:
    """Repeat the arrays of `tree` along a new first axis, for `count` environments."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), tree)


def imagined_step(learner: Learner[Any], runner: Runner, key: Array) -> tuple[Runner, Rollout]:
    """Make one step in every imagined episode; terminated episodes start again where they began."""
    key_action, key_step = jax.random.split(key)
    mask = allowed(learner, runner)
    memory, action, chosen = ppo.choose(learner, runner, key_action, mask)
    step = predicted_step(learner, runner, key_step, action)
    history = next_history(learner, runner.history, action, step.reward, step.obs)
    history = jax.vmap(reset_memory)(history, runner.world.start.history, step.done)
    runner = runner._replace(memory=memory, history=history)
    after, ends = rollouts.after_step(learner, runner, step)
    if forced.are_skipped(learner.env.env, learner.settings):
        ends["forced"] = forced.is_forced(mask)
    never_cut = jnp.zeros_like(step.reward)
    return after, Rollout(
        obs=runner.obs, reward=step.reward, truncation_value=never_cut, **chosen, **ends
    )


def allowed(learner: Learner[Any], runner: Runner) -> Mask:
    """Return the mask of actions predicted to be legal; None if the environment has no masks.

    An action counts as legal if its predicted logit is above 0. The action with the highest logit
    always counts as legal, so that every mask allows at least one action.
    """
    env = learner.env.env
    if not is_masked(env):
        return None
    predict = functools.partial(model_of(learner).apply, runner.model.weights, method="allowed")
    logits: Any = jax.vmap(predict)(*jax.vmap(vocabulary_of(env).read)(runner.obs))
    return (logits > 0) | (logits == logits.max(axis=-1, keepdims=True))


def predicted_step(learner: Learner[Any], runner: Runner, key: Array, action: Array) -> Step:
    """Sample the result of `action` in every imagined episode from the learned model.

    If the model samples a termination, the episode starts again at the step of the real rollout
    where it began. In the returned `Step`, `obs` is then the observation at that real step, and the
    model's recurrent state in `state` is empty.
    """
    vocabulary, model = vocabulary_of(learner.env.env), model_of(learner)
    key_cells, key_rest, key_end = jax.random.split(key, 3)
    predict: Any = functools.partial(model.apply, runner.model.weights, method="next")
    seen, start = jax.vmap(vocabulary.read)(runner.obs), runner.world.start
    memory, predicted = few_at_once(predict, runner.world.memory, *seen, runner.history, action)
    cells = sample_likely(learner.settings, key_cells, predicted.cells).reshape(seen[0].shape)
    rest = sample_likely(learner.settings, key_rest, predicted.rest)
    obs = jax.vmap(vocabulary.write)(cells, rest)
    terminated = jax.random.bernoulli(key_end, jax.nn.sigmoid(predicted.end))
    predict_reward: Any = functools.partial(model.apply, runner.model.weights, method="reward")
    reward = predict_reward(predicted.token, seen[1], runner.history, rest, terminated)
    return Step(
        obs=jax.vmap(reset_memory)(obs, start.obs, terminated),
        state=Imagined(reset_memory(memory, model.begin(), terminated), start),
        reward=two_hot.mean(reward, learner.settings.spacing),
        terminated=terminated,
        truncated=jnp.zeros_like(terminated),
        info={},
    )


def sample_likely(
    settings: Any, key: Array, logits: Float32[Array, "*batch categories"]
) -> Int32[Array, "*batch"]:
    """Sample a value (category) for each map cell, or for each number outside the map.

    The probabilities are softmax(logits). A value is never sampled if its probability is less than
    `least_chance` times the probability of the most likely value.
    """
    if settings.least_chance:
        least = logits.max(axis=-1, keepdims=True) + np.log(np.float32(settings.least_chance))
        logits = jnp.where(logits >= least, logits, NEVER)
    return jax.random.categorical(key, logits)
