"""What windows of steps teach MuZero: values, rewards, policies, and latent states that agree.

With `consistency`, imagined latent states should agree with those of the true observations as these
stand out from the others of the batch: otherwise agreement would be best if all were the same. With
`reconstruction` they should say what the cells of a board show.
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
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..networks import two_hot

HALF = 0.5  # of the gradient that passes through an imagined step to the latent state before it
TINY = 1e-6  # added to variances and to shares
LOSSES = ("policy_loss", "value_loss", "reward_loss", "entropy")
OF_CHANCE = ("after_loss", "chance_loss", "code_loss")


class Window(NamedTuple):
    """Successive slots of the replay buffer: of the first `unroll_steps` + 1 all is known."""

    obs: PyTree[Array]  # (batch, unroll_steps + 1, ...)
    mask: Mask  # likewise
    action: Int32[Array, "batch slots"]
    reward: Float32[Array, "batch slots"]
    terminated: Bool[Array, "batch slots"]
    truncated: Bool[Array, "batch slots"]
    policy: Float32[Array, "batch moments actions"]  # that a search found
    is_step: Bool[Array, " batch"]  # whether the first slot holds a step
    weight: Float32[Array, " batch"]  # importance weight
    ahead: PyTree[Array]  # (batch, n_step, ...), what is seen after `obs`
    mask_ahead: Mask  # likewise


class Targets(NamedTuple):
    """What to learn of each moment of a window, and whether; the first reward is never learned."""

    value: Float32[Array, "batch moments"]
    reward: Float32[Array, "batch moments"]  # of the step before
    policy: Float32[Array, "batch moments actions"]
    is_known: Bool[Array, "batch moments"]  # not after a cut, of which nothing is known
    is_open: Bool[Array, "batch moments"]  # before any end: there is an observation, and a policy


def following(window: Window, n_step: int) -> Int32[Array, "batch moments"]:
    """The slots that come after the n-step rewards of moments: after an end there are fewer."""

    def slot(moment: int) -> Int32[Array, " batch"]:
        ahead = slice(moment, moment + n_step)
        ends = (window.terminated[:, ahead], window.truncated[:, ahead])
        _, _, length = returns.n_step(window.reward[:, ahead], *ends, 1.0)
        return moment + length

    return jnp.stack([slot(moment) for moment in range(window.policy.shape[1])], axis=1)


def targets(
    window: Window, values: Float32[Array, "batch moments"], n_step: int, gamma: float | Array
) -> Targets:
    """What the network should say of the moments of windows: n-step values, rewards, policies.

    `values` are those of the slots that are `following` each moment. After the end of a task
    nothing is earned any more. After a cut nothing is known.
    """
    chex.assert_equal_shape(
        [window.reward, window.terminated, window.truncated],
        custom_message="reward, terminated and truncated are [batch, slots]",
    )
    chex.assert_shape(values, window.policy.shape[:2], custom_message="values are [batch, moments]")
    value, reward, known, opened = [], [], [], []
    is_open = window.is_step
    is_over = jnp.zeros_like(is_open)  # after the end of the task
    for moment in range(window.policy.shape[1]):
        ahead = slice(moment, moment + n_step)
        ends = (window.terminated[:, ahead], window.truncated[:, ahead])
        total, discount, _ = returns.n_step(window.reward[:, ahead], *ends, gamma)
        value.append(jnp.where(is_open, total + discount * values[:, moment], 0.0))
        opened.append(is_open)
        known.append(is_open | is_over)
        reward.append(jnp.where(is_open, window.reward[:, moment], 0.0))  # of the step from here
        is_over = is_over | (is_open & window.terminated[:, moment])
        is_open = is_open & ~window.terminated[:, moment] & ~window.truncated[:, moment]
    nothing = jnp.zeros_like(reward[0])
    return Targets(
        value=jnp.stack(value, axis=1),
        reward=jnp.stack([nothing, *reward[:-1]], axis=1),
        policy=window.policy,
        is_known=jnp.stack(known, axis=1),
        is_open=jnp.stack(opened, axis=1),
    )


class Moment(NamedTuple):
    """What is seen at a moment of windows, and what to learn of it."""

    obs: PyTree[Array]
    mask: Mask
    action: Int32[Array, " batch"]
    goals: Targets  # of this moment alone


def parts_of(settings: Any) -> tuple[str, ...]:
    """Names of the parts of the loss."""
    consistency = ("consistency_loss",) if settings.consistency else ()
    surprise = ("observation_loss",) if settings.reconstruction else ()
    return (*LOSSES, *consistency, *surprise, *(OF_CHANCE if settings.codes else ()))


def loss(learner: Learner[Any], weights: PyTree[Array], window: Window, goals: Targets) -> Loss:
    """Errors of policies, values, rewards and latent states, over the moments of windows.

    Also return the error of the first value of each, by which windows are ranked.
    """
    settings, last = learner.settings, learner.settings.unroll_steps
    whole = Moment(window.obs, window.mask, window.action, goals)
    moments = [jax.tree.map(lambda leaf, at=at: leaf[:, at], whole) for at in range(last + 1)]
    latent = learner.network.of_batch(weights, "represent", moments[0].obs)
    errors, error = said(learner, weights, latent, moments[0])
    count = jnp.maximum(moments[0].goals.is_open.sum(dtype=jnp.float32), 1.0)
    entropy = errors["entropy"].sum() / count
    sums: dict[str, Any] = dict.fromkeys(parts_of(settings), jnp.float32(0.0))
    sums |= {name: (window.weight * error).mean() for name, error in errors.items()}
    for before, now in itertools.pairwise(moments):
        latent = HALF * latent + (1.0 - HALF) * jax.lax.stop_gradient(latent)
        latent, truth, errors = imagined(learner, weights, latent, before, now)
        errors |= said(learner, weights, latent, now, truth)[0]
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
        "clipped_targets": clipped(learner, goals),
        "error": error,
    }


def clipped(learner: Learner[Any], goals: Targets) -> Float32[Array, ""]:
    """Share of moments whose value or reward lies beyond the atoms."""
    atoms = learner.settings.atoms, learner.settings.spacing
    is_beyond = two_hot.clipped(goals.value, *atoms) | two_hot.clipped(goals.reward, *atoms)
    known = goals.is_known.astype(jnp.float32)
    return (known * is_beyond.astype(jnp.float32)).sum() / jnp.maximum(known.sum(), 1.0)


def said(
    learner: Learner[Any],
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    now: Moment,
    truth: Float32[Array, "batch latent"] | None = None,
) -> tuple[dict[str, Float32[Array, " batch"]], Float32[Array, " batch"]]:
    """Errors of the policies and values of latent states, and the policies' entropy.

    Also return how far the values are from those that the steps taught. `truth` holds the latent
    states of the true observations: where one is open, the share `value_consistency` of the value's
    error is how far it is from what the network says of `truth`, which learns nothing from that.
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
        _, seen = network.of_batch(weights, "predict", truth)
        goal = jax.lax.stop_gradient(jax.nn.softmax(seen))
        apart = -(goal * jax.nn.log_softmax(value)).sum(axis=-1)
        errors["value_loss"] = (1.0 - share) * errors["value_loss"] + share * apart
    return errors, jnp.abs(network.number(value) - goals.value)


def imagined(
    learner: Learner[Any],
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    before: Moment,
    now: Moment,
) -> tuple[
    Float32[Array, "batch latent"],
    Float32[Array, "batch latent"],
    dict[str, Float32[Array, " batch"]],
]:
    """Latent states of a moment from those before, and those of its true observations.

    Also return errors of the former, of rewards and of chance.
    """
    of = functools.partial(learner.network.of_batch, weights)
    # The reward of a step that was cut is known, what follows it is not.
    known = before.goals.is_known.astype(jnp.float32)
    is_open, errors = now.goals.is_open, {}
    truth = of("represent", now.obs)
    if learner.settings.codes:
        after = of("act", latent, before.action)
        logits, value = of("expect", after)
        code, errors = chance(learner, of("coded", after, truth), logits, is_open)
        errors["after_loss"] = known * learner.network.cross_entropy(value, before.goals.value)
        latent, reward = of("happen", after, code)
    else:
        latent, reward = of("imagine", latent, before.action)
    errors["reward_loss"] = known * learner.network.cross_entropy(reward, now.goals.reward)
    seen = is_open.astype(jnp.float32)
    if learner.settings.consistency:
        goal = jax.lax.stop_gradient(of("projected", truth))
        apart = 1.0 - cosine(of("foreseen", latent), standardised(learner, goal, is_open))
        errors["consistency_loss"] = seen * apart
    if learner.settings.reconstruction:
        errors["observation_loss"] = seen * of("surprise", latent, now.obs)
    return latent, truth, errors


def chance(
    learner: Learner[Any],
    probabilities: Float32[Array, "batch codes"],
    logits: Float32[Array, "batch codes"],
    is_seen: Bool[Array, " batch"],
) -> tuple[Float32[Array, "batch codes"], dict[str, Array]]:
    """One-hot codes of what happened, and each error of what was expected and of the encoder.

    The encoder's most likely code is the true one; its gradient is that of the probabilities. Where
    what came of an action is not seen, the code is the one that was expected most. The encoder
    should be sure of each code, and use all of them: its error is the distance of the probabilities
    from the code, and how far the use of all codes in the batch is from even. The gradient of the
    latter is that of its share in each row.
    """
    count = logits.shape[-1]
    code = jax.nn.one_hot(probabilities.argmax(axis=-1), count, dtype=jnp.float32)
    expected = jax.nn.one_hot(logits.argmax(axis=-1), count, dtype=jnp.float32)
    seen = is_seen.astype(jnp.float32)
    surprise = -(code * jax.nn.log_softmax(logits)).sum(axis=-1)
    apart = jnp.square(code - probabilities).sum(axis=-1)
    used = jax.lax.stop_gradient(mean_of_rows(learner, probabilities, is_seen))
    uneven = (probabilities * jnp.log(count * used + TINY)).sum(axis=-1)
    through = probabilities + jax.lax.stop_gradient(code - probabilities)
    errors = {"chance_loss": seen * surprise, "code_loss": seen * (apart + uneven)}
    return jnp.where(is_seen[:, None], through, expected), errors


def standardised(
    learner: Learner[Any], x: Float32[Array, "batch latent"], rows: Bool[Array, " batch"]
) -> Float32[Array, "batch latent"]:
    """Vectors whose numbers have mean 0 and standard deviation 1 over the rows that count."""
    mean = mean_of_rows(learner, x, rows)
    variance = mean_of_rows(learner, jnp.square(x - mean), rows)
    return (x - mean) * jax.lax.rsqrt(variance + TINY)


def mean_of_rows(
    learner: Learner[Any], x: Float32[Array, "batch numbers"], rows: Bool[Array, " batch"]
) -> Float32[Array, " numbers"]:
    """The mean of the rows that count, of the batches of all devices."""
    share, total = rows.astype(jnp.float32)[:, None], learner.devices.total
    return total((share * x).sum(axis=0)) / jnp.maximum(total(share.sum()), 1.0)


def cosine(
    a: Float32[Array, "batch latent"], b: Float32[Array, "batch latent"]
) -> Float32[Array, " batch"]:
    """Cosine of the angles between pairs of vectors."""
    lengths = jnp.sqrt(jnp.square(a).sum(axis=-1) * jnp.square(b).sum(axis=-1) + 1e-8)
    return (a * b).sum(axis=-1) / lengths
