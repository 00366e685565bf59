"""Losses of MuZero on windows of steps: value, reward, policy, and agreement of latent states.

The consistency loss compares predicted latent states with encodings of the true observations. The
encodings are standardised over the batch; otherwise, equal encodings of all observations would
minimise the loss. The reconstruction loss trains predicted latent states to predict a board's
cells. In the code, a "moment" is an unroll step of a window; moment 0 is the window's first
observation.
"""

import functools
import itertools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core import returns
from ..core.minibatches import Loss
from ..networks import two_hot
from .muzero_network import MuZeroLearner

HALF = 0.5  # factor that scales the gradient through the dynamics function's latent input
# Added to variances before the square root, and to frequencies of chance codes before the
# logarithm: at 0, neither function has a finite gradient.
TINY = 1e-6
LOSSES = ("policy_loss", "value_loss", "reward_loss", "entropy")
CHANCE_LOSSES = ("after_loss", "chance_loss", "code_loss")


class Window(NamedTuple):
    """Batch of windows, each with the contents of successive slots of the replay buffer.

    A "moment" is one of the first `unroll_steps` + 1 slots of a window: moment 0 is the slot from
    which the model is unrolled, and moment k belongs to unroll step k. The last `n_step` slots are
    used only for TD targets.
    """

    obs: PyTree[Array]  # observations, (batch, unroll_steps + 1, ...)
    mask: Mask  # legal actions, (batch, unroll_steps + 1, actions)
    action: Int32[Array, "batch slots"]
    reward: Float32[Array, "batch slots"]
    terminated: Bool[Array, "batch slots"]
    truncated: Bool[Array, "batch slots"]
    # action probabilities that a search found at each of the first `unroll_steps` + 1 observations
    policy: Float32[Array, "batch moments actions"]
    # whether the window's first slot holds a step; False: it holds only the final observation of a
    # truncated episode, or the window is not complete
    is_step: Bool[Array, " batch"]
    weight: Float32[Array, " batch"]  # importance weight in prioritised replay
    # observations in the later slots of the window, from which TD targets may bootstrap, (batch,
    # n_step, ...)
    ahead: PyTree[Array]
    mask_ahead: Mask  # legal actions at the observations `ahead`, (batch, n_step, actions)


class Targets(NamedTuple):
    """Targets at each unroll step ("moment") of each window; `reward[:, 0]` is unused and 0."""

    value: Float32[Array, "batch moments"]
    # target of the dynamics function: the reward of the step that leads to this unroll step
    reward: Float32[Array, "batch moments"]
    policy: Float32[Array, "batch moments actions"]
    # whether the targets `value` and `reward` are known; False after a truncation
    is_known: Bool[Array, "batch moments"]
    # whether the episode continues at this unroll step; only then is there a policy target
    is_open: Bool[Array, "batch moments"]


def bootstrap_slots(window: Window, n_step: int) -> Int32[Array, "batch moments"]:
    """Return, for each unroll step, the slot of the observation that its TD target bootstraps from.

    This slot is `n_step` slots after the unroll step. If the episode ends earlier, it is the slot
    after the last step of the episode. Slots are counted from the beginning of the window.
    """

    def slot(moment: int) -> Int32[Array, " batch"]:
        ahead = slice(moment, moment + n_step)
        ends = (window.terminated[:, ahead], window.truncated[:, ahead])
        _, _, length = returns.n_step(window.reward[:, ahead], *ends, 1.0)
        return moment + length

    return jnp.stack([slot(moment) for moment in range(window.policy.shape[1])], axis=1)


def targets(
    window: Window, values: Float32[Array, "batch moments"], n_step: int, gamma: float | Array
) -> Targets:
    """Return the n-step value targets, reward targets and policy targets of windows.

    `values` are the bootstrap values: for each unroll step, the value of the observation in the
    slot that `bootstrap_slots` returns. After a terminal step, value and reward targets are 0.
    After a truncated step, there are no targets, and `is_known` is False.
    """
    chex.assert_equal_shape(
        [window.reward, window.terminated, window.truncated],
        custom_message="reward, terminated and truncated are [batch, slots]",
    )
    chex.assert_shape(values, window.policy.shape[:2], custom_message="values are [batch, moments]")
    value, reward, known, opened = [], [], [], []
    is_open = window.is_step
    is_over = jnp.zeros_like(is_open)  # whether the episode has terminated
    for moment in range(window.policy.shape[1]):
        ahead = slice(moment, moment + n_step)
        ends = (window.terminated[:, ahead], window.truncated[:, ahead])
        total, discount, _ = returns.n_step(window.reward[:, ahead], *ends, gamma)
        value.append(jnp.where(is_open, total + discount * values[:, moment], 0.0))
        opened.append(is_open)
        known.append(is_open | is_over)
        # Append the reward of the step that begins at this unroll step. The list is shifted by one
        # below, because the model predicts this reward at the next unroll step.
        reward.append(jnp.where(is_open, window.reward[:, moment], 0.0))
        is_over = is_over | (is_open & window.terminated[:, moment])
        is_open = is_open & ~window.terminated[:, moment] & ~window.truncated[:, moment]
    zero = jnp.zeros_like(reward[0])
    return Targets(
        value=jnp.stack(value, axis=1),
        reward=jnp.stack([zero, *reward[:-1]], axis=1),
        policy=window.policy,
        is_known=jnp.stack(known, axis=1),
        is_open=jnp.stack(opened, axis=1),
    )


class Moment(NamedTuple):
    """Observations, actions and targets of a batch of windows at a single unroll step."""

    obs: PyTree[Array]
    mask: Mask
    action: Int32[Array, " batch"]
    goals: Targets  # targets at this unroll step only


def loss_names(settings: Any) -> tuple[str, ...]:
    """Return the names of the losses that these settings use; the metrics have these names."""
    consistency = ("consistency_loss",) if settings.consistency else ()
    reconstruction = ("observation_loss",) if settings.reconstruction else ()
    chance = CHANCE_LOSSES if settings.codes else ()
    return (*LOSSES, *consistency, *reconstruction, *chance)


def loss(learner: MuZeroLearner, weights: PyTree[Array], window: Window, goals: Targets) -> Loss:
    """Return MuZero's total loss on a batch of windows, and each loss and metric by name.

    The metric `error` is the absolute error of the predicted value at the first observation of each
    window. It sets the window's priority in prioritised replay.
    """
    settings, last = learner.settings, learner.settings.unroll_steps
    whole = Moment(window.obs, window.mask, window.action, goals)
    moments = [jax.tree.map(lambda leaf, at=at: leaf[:, at], whole) for at in range(last + 1)]
    latent = learner.network.of_batch(weights, "represent", moments[0].obs)
    errors, error = prediction_losses(learner, weights, latent, moments[0])
    count = jnp.maximum(moments[0].goals.is_open.sum(dtype=jnp.float32), 1.0)
    entropy = errors["entropy"].sum() / count
    sums: dict[str, Any] = dict.fromkeys(loss_names(settings), jnp.float32(0.0))
    sums |= {name: (window.weight * error).mean() for name, error in errors.items()}
    for before, now in itertools.pairwise(moments):
        latent = HALF * latent + (1.0 - HALF) * jax.lax.stop_gradient(latent)
        latent, truth, errors = transition_losses(learner, weights, latent, before, now)
        errors |= prediction_losses(learner, weights, latent, now, truth)[0]
        for name, part in errors.items():
            sums[name] += (window.weight * part).mean() / last
    total = sums["policy_loss"] - settings.entropy * sums["entropy"]
    total += settings.value_weight * (sums["value_loss"] + sums.get("after_loss", 0.0))
    total += sums["reward_loss"] + settings.consistency * sums.get("consistency_loss", 0.0)
    total += settings.reconstruction * sums.get("observation_loss", 0.0)
    total += sums.get("chance_loss", 0.0) + sums.get("code_loss", 0.0)
    return total, {
        **sums,
        "entropy": entropy,
        "clipped_targets": clipped_share(learner, goals),
        "error": error,
    }


def clipped_share(learner: MuZeroLearner, goals: Targets) -> Float32[Array, ""]:
    """Return the fraction of unroll steps whose value or reward target lies beyond the atoms.

    Unroll steps after a truncation have no known targets and do not count.
    """
    atoms = learner.settings.atoms, learner.settings.spacing
    is_beyond = two_hot.clipped(goals.value, *atoms) | two_hot.clipped(goals.reward, *atoms)
    known = goals.is_known.astype(jnp.float32)
    return (known * is_beyond.astype(jnp.float32)).sum() / jnp.maximum(known.sum(), 1.0)


def prediction_losses(
    learner: MuZeroLearner,
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    now: Moment,
    truth: Float32[Array, "batch latent"] | None = None,
) -> tuple[dict[str, Float32[Array, " batch"]], Float32[Array, " batch"]]:
    """Return the policy loss, value loss and policy entropy of each latent state, by name.

    Also return the absolute errors of the predicted values. `truth` are latent states encoded from
    the true observations. Until the episode ends, the values predicted for `truth` are a second
    value target, whose weight is `value_consistency`.
    """
    goals, network = now.goals, learner.network
    logits, value = network.of_batch(weights, "predict", latent)
    is_open, is_known = (x.astype(jnp.float32) for x in (goals.is_open, goals.is_known))
    log_probs = jax.nn.log_softmax(legal(logits, now.mask))
    errors = {
        "policy_loss": -is_open * (goals.policy * jax.nn.log_softmax(logits)).sum(axis=-1),
        "entropy": -is_open * (jnp.exp(log_probs) * log_probs).sum(axis=-1),
        "value_loss": is_known * network.cross_entropy(value, goals.value),
    }
    if truth is not None and learner.settings.value_consistency:
        share = learner.settings.value_consistency * is_open
        _, true_value = network.of_batch(weights, "predict", truth)
        goal = jax.lax.stop_gradient(jax.nn.softmax(true_value))
        apart = -(goal * jax.nn.log_softmax(value)).sum(axis=-1)
        errors["value_loss"] = (1.0 - share) * errors["value_loss"] + share * apart
    return errors, jnp.abs(network.number(value) - goals.value)


def transition_losses(
    learner: MuZeroLearner,
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    before: Moment,
    now: Moment,
) -> tuple[
    Float32[Array, "batch latent"],
    Float32[Array, "batch latent"],
    dict[str, Float32[Array, " batch"]],
]:
    """Predict the latent states of the next unroll step with the dynamics function.

    Returns the predicted latent states, the latent states encoded from the true observations, and
    the losses of latent states, rewards and chance outcomes by name.
    """
    of = functools.partial(learner.network.of_batch, weights)
    # The reward of the step from `before` to `now` is known if the targets of `before` are known.
    # If this step was truncated, only the value after it is unknown.
    known = before.goals.is_known.astype(jnp.float32)
    is_open, errors = now.goals.is_open, {}
    truth = of("represent", now.obs)
    if learner.settings.codes:
        after = of("afterstate", latent, before.action)
        logits, value = of("predict_afterstate", after)
        code, errors = chance_codes(learner, of("encode_chance", after, truth), logits, is_open)
        errors["after_loss"] = known * learner.network.cross_entropy(value, before.goals.value)
        latent, reward = of("chance_transition", after, code)
    else:
        latent, reward = of("transition", latent, before.action)
    errors["reward_loss"] = known * learner.network.cross_entropy(reward, now.goals.reward)
    seen = is_open.astype(jnp.float32)
    if learner.settings.consistency:
        goal = jax.lax.stop_gradient(of("project", truth))
        similarity = cosine(of("predict_projection", latent), standardise(learner, goal, is_open))
        errors["consistency_loss"] = seen * (1.0 - similarity)
    if learner.settings.reconstruction:
        errors["observation_loss"] = seen * of("reconstruction_loss", latent, now.obs)
    return latent, truth, errors


def chance_codes(
    learner: MuZeroLearner,
    probabilities: Float32[Array, "batch codes"],
    logits: Float32[Array, "batch codes"],
    is_seen: Bool[Array, " batch"],
) -> tuple[Float32[Array, "batch codes"], dict[str, Array]]:
    """Return one-hot chance codes, the loss of their prediction, and the encoder's loss.

    The code is the most likely one in the encoder's `probabilities`, which receive the gradient of
    the code (straight-through). Where `is_seen` is False, there is no next observation, and the
    code is the most likely one in the predicted `logits`. The encoder's loss is the squared
    distance between `probabilities` and the code, plus a penalty for codes that are used more often
    than others. The penalty treats the mean use of each code in the batch as a constant.
    """
    count = logits.shape[-1]
    code = jax.nn.one_hot(probabilities.argmax(axis=-1), count, dtype=jnp.float32)
    expected = jax.nn.one_hot(logits.argmax(axis=-1), count, dtype=jnp.float32)
    seen = is_seen.astype(jnp.float32)
    chance_loss = -(code * jax.nn.log_softmax(logits)).sum(axis=-1)
    apart = jnp.square(code - probabilities).sum(axis=-1)
    used = jax.lax.stop_gradient(masked_mean(learner, probabilities, is_seen))
    uneven = (probabilities * jnp.log(count * used + TINY)).sum(axis=-1)
    through = probabilities + jax.lax.stop_gradient(code - probabilities)
    errors = {"chance_loss": seen * chance_loss, "code_loss": seen * (apart + uneven)}
    return jnp.where(is_seen[:, None], through, expected), errors


def standardise(
    learner: MuZeroLearner, x: Float32[Array, "batch latent"], rows: Bool[Array, " batch"]
) -> Float32[Array, "batch latent"]:
    """Scale each component to mean 0 and standard deviation 1 over the batch.

    The mean and standard deviation are computed from the items for which `rows` is True, on all
    devices.
    """
    mean = masked_mean(learner, x, rows)
    variance = masked_mean(learner, jnp.square(x - mean), rows)
    return (x - mean) * jax.lax.rsqrt(variance + TINY)


def masked_mean(
    learner: MuZeroLearner, x: Float32[Array, "batch numbers"], rows: Bool[Array, " batch"]
) -> Float32[Array, " numbers"]:
    """Return the mean of `x` over the items of the batch for which `rows` is True.

    The batch spans all devices; each device holds a part of it.
    """
    share, total = rows.astype(jnp.float32)[:, None], learner.devices.total
    return total((share * x).sum(axis=0)) / jnp.maximum(total(share.sum()), 1.0)


def cosine(
    a: Float32[Array, "batch latent"], b: Float32[Array, "batch latent"]
) -> Float32[Array, " batch"]:
    """Return the cosine similarity of the vectors a[i] and b[i] for each i."""
    lengths = jnp.sqrt(jnp.square(a).sum(axis=-1) * jnp.square(b).sum(axis=-1) + 1e-8)
    return (a * b).sum(axis=-1) / lengths
