"""Training loop of DQN and its variants: Q-learning from a replay buffer.

In an update, every environment makes `rollout_steps` epsilon-greedy steps, which are stored in the
replay buffer. Then the learner takes `gradient_steps` gradient steps. DQN, C51, QR-DQN and IQN
differ only in network, TD target and loss. R2D2 and MuZero use parts of the loop.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs.core.facts import identity
from jaxenvs.core.masking import is_masked

from ..core import forced, minibatches, priorities, replay_buffer, rollouts
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.minibatches import Loss
from ..core.replay_buffer import ReplayBuffer
from ..core.rollouts import Rollout, Runner
from ..networks import policies, q_network
from ..networks.q_network import QLearner

LOSSES = ("q_loss", "q")  # names of the metrics that a loss function returns
# Fraction of the run after which no layer is initialised again, so that all layers are well trained
# at the end.
LAST_RESET = 0.7


class Learned(NamedTuple):
    """The fields of a runner that gradient steps change, and sums of priorities per block."""

    weights: PyTree[Array]
    target: PyTree[Array]  # weights of the target network
    optimiser: PyTree[Array]
    priorities: PyTree[Array]
    # Sum of the priorities in each block of replay-buffer slots, for prioritised replay
    # (core/priorities.py); () if replay is uniform.
    sums: PyTree[Array] = ()


class Draws(NamedTuple):
    """Random numbers and PRNG keys of one gradient step."""

    key: Array  # random key for prioritised sampling
    key_target: Array  # random key for the TD target
    key_loss: Array  # random key for the loss
    # uniformly sampled environments and slots, int32 (batch,) each; () if replay is prioritised
    slots: Any


class Objective(NamedTuple):
    """TD target and loss of a learner: the functions in which DQN and its variants differ."""

    # Function that computes the TD targets of a batch. Its arguments are learner, weights, weights
    # of the target network, batch and random key.
    td_target: Callable[..., Any]
    # Function that returns the loss of a batch, and metrics that include the TD errors as `error`.
    # Its arguments are learner, weights, batch, TD targets and random key.
    loss: Callable[..., Loss]
    names: tuple[str, ...] = LOSSES  # names of the metrics of `loss`, without `error`


def init(learner: Learner[Any], key: Array) -> Runner:
    """Return the initial training state.

    If `reset_every` is set, the state also stores the initial weights, for resets.
    """
    runner = begin(learner, key)
    kept = jax.tree.map(jnp.copy, runner.weights) if learner.settings.reset_every else ()
    return runner._replace(first=kept)


def begin(learner: Learner[Any], key: Array, joins: bool = True) -> Runner:
    """Return the initial training state, with an empty replay buffer.

    The target network has the same weights as the online network. If forced steps are skipped and
    `joins` is True, a slot of the replay buffer holds a decision and the forced steps after it.
    """
    fields, settings = rollouts.begin(learner, key), learner.settings
    mask = rollouts.legal_now(learner, fields["world"].env)
    joins &= forced.are_skipped(learner.env.env, settings)
    buffer = replay_buffer.empty(fields["obs"], mask, settings.slots, skip_forced=joins)
    return Runner(
        **fields,
        target=jax.tree.map(jnp.copy, fields["weights"]),
        updates=jnp.int32(0),
        replay_buffer=buffer,
        priorities=priorities.empty(*buffer.is_step.shape) if settings.priority else (),
    )


def update(
    objective: Objective, learner: QLearner, runner: Runner
) -> tuple[Runner, dict[str, Array]]:
    """Act, store the steps, learn from the replay buffer; return the new state and metrics."""
    runner, key, metrics = collect(learner, runner)
    step = functools.partial(gradient_step, learner, objective, runner.replay_buffer)
    draw_step = functools.partial(draw, learner, runner.replay_buffer)
    runner, losses = learn_when_ready(learner, runner, key, step, draw_step, objective.names)
    runner = reset(learner, runner, jax.lax.pmax(runner.updates, SEEDS))
    return runner, {**metrics, **losses}


def action_values(learner: QLearner, runner: Any, key: Array) -> tuple[Any, Array]:
    """Return the unchanged runner, and Q(s, a) of all actions for the runner's observations."""
    answer = q_network.apply_batch(learner, runner.weights, runner.obs, key)
    return runner, learner.network.mean(answer)


def collect(
    learner: Learner[Any, policies.Network],
    runner: Any,
    action_values: Callable[..., tuple[Any, Array]] = action_values,
) -> tuple[Any, Array, dict[str, Array]]:
    """Make `rollout_steps` steps in every environment and store them in the replay buffer.

    Return the runner, a random key for learning, and metrics. `action_values(learner, runner, key)`
    returns a runner and Q(s, a) of all actions. If the network is recurrent, the returned runner
    has the next recurrent states.
    """
    settings, skips = learner.settings, forced.are_skipped(learner.env.env, learner.settings)
    epsilon = epsilons(learner, runner.updates)
    before = replay_buffer.newest(runner.replay_buffer)
    runner, key, key_learn = rollouts.next_update(learner, runner)

    def draw(key: Array) -> tuple[Array, Array, q_network.ExplorationDraws]:
        key_action, key_step = jax.random.split(key)
        sizes = (learner.env.num_envs, learner.network.num_actions)
        explore = q_network.exploration_draws(
            key_action, *sizes, epsilon, not is_masked(learner.env.env)
        )
        return jax.random.fold_in(key, 0), key_step, explore

    def act(
        runner: Any, draws: tuple[Array, Array, q_network.ExplorationDraws]
    ) -> tuple[Any, tuple[Rollout, PyTree[Array]]]:
        key_value, key_step, explore = draws
        mask = rollouts.legal_now(learner, runner.world.env)
        runner, values = action_values(learner, runner, key_value)
        action = q_network.epsilon_greedy(explore, values, mask)
        step, successor = rollouts.advance(learner, runner, key_step, action)
        measured = rollouts.measure_ends(learner, runner, step, successor)
        buffer = replay_buffer.add(runner.replay_buffer, runner.obs, mask, action, step)
        after, ends = rollouts.after_step(learner, runner._replace(replay_buffer=buffer), step)
        kept = Rollout(**ends, forced=forced.is_forced(mask) if skips else ())
        return after, (kept, measured)

    # All random numbers are drawn before the scan. On a CPU, XLA compiles each draw inside the scan
    # to a loop, which takes longer than the forward pass of a small network.
    draws = jax.vmap(draw)(jax.random.split(key, settings.rollout_steps))
    runner, (ends, measured) = jax.lax.scan(act, runner, draws, unroll=settings.unroll)
    runner = rollouts.with_measures(runner, measured)
    if runner.priorities:
        given = runner.priorities, runner.replay_buffer, before
        ranks = priorities.add_complete(*given, settings.reach, settings.spacing)
        runner = runner._replace(priorities=ranks)
    runner = runner._replace(updates=runner.updates + 1)
    return runner, key_learn, {**rollouts.metrics(ends), "epsilon": epsilon.mean()}


def epsilons(
    learner: Learner[Any], updates: Int32[Array, ""]
) -> Float32[Array, ""] | Float32[Array, " envs"]:
    """Return epsilon, the probability of a random action.

    Epsilon is a scalar if `epsilon_power` is 0; otherwise, it is an array with one entry for each
    environment on this device.
    """
    settings, envs = learner.settings, learner.env.num_envs
    epsilon = settings.epsilon(updates)
    if not settings.epsilon_power:
        return epsilon
    row = learner.devices.index * envs + jnp.arange(envs, dtype=jnp.int32)
    place = row.astype(jnp.float32) / max(settings.num_envs - 1, 1)
    return q_network.epsilon_ladder(epsilon, settings.epsilon_power, place)


def learn_when_ready(
    learner: Learner[Any],
    runner: Any,
    key: Array,
    gradient_step: Callable[[Array, Learned, Any], tuple[Learned, dict[str, Array]]],
    draw: Callable[[Array], Any] = identity,
    names: tuple[str, ...] = LOSSES,
) -> tuple[Any, dict[str, Array]]:
    """Take `gradient_steps` gradient steps, or none while the replay buffer warms up.

    `gradient_step(beta, learned, draws)` gets the exponent beta of the importance weights, the
    runner's `Learned` fields and the result of `draw(key)`, which by default is the key. `names`
    are the names of the metrics that `gradient_step` returns.
    """
    settings = learner.settings
    # `updates` is equal for all seeds. `pmax` over seeds turns it into a scalar under `vmap`, so
    # that `cond` runs only one branch. With a condition per seed, `vmap` would compute both.
    updates = jax.lax.pmax(runner.updates, SEEDS)
    beta = settings.importance + (1.0 - settings.importance) * settings.progress(updates)
    learned = Learned(runner.weights, runner.target, runner.optimiser, runner.priorities)
    zeros = dict.fromkeys(names, jnp.float32(0.0))

    def steps(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        if learned.priorities:
            learned = learned._replace(sums=priorities.sums(learned.priorities))
        keys = jax.random.split(key, settings.gradient_steps)
        draws = jax.vmap(draw)(keys)  # random draws inside the scan would be slow on a CPU
        learned, losses = jax.lax.scan(functools.partial(gradient_step, beta), learned, draws)
        return learned._replace(sums=()), jax.tree.map(jnp.mean, losses)

    ready = updates >= settings.updates_until(settings.warm_up)
    learned, losses = jax.lax.cond(ready, steps, lambda same: (same, zeros), learned)
    learned = {name: part for name, part in learned._asdict().items() if name != "sums"}
    return runner._replace(**learned), means(losses, ready)


def draw(learner: Learner[Any], buffer: ReplayBuffer, key: Array) -> Draws:
    """Draw the random keys of a gradient step and, if replay is uniform, its batch of slots."""
    settings, slots = learner.settings, ()
    if not settings.priority:
        size = settings.batch_size // learner.devices.count
        slots = replay_buffer.sample_slots(key, buffer, size, settings.n_step)
    key_target, key_loss = (jax.random.fold_in(key, i) for i in (1, 2))
    return Draws(key, key_target, key_loss, slots)


def gradient_step(
    learner: Learner[Any],
    objective: Objective,
    buffer: ReplayBuffer,
    beta: Float32[Array, ""],
    learned: Learned,
    draws: Draws,
) -> tuple[Learned, dict[str, Array]]:
    """Sample a batch, compute its TD targets and take a gradient step on the loss."""
    settings, devices = learner.settings, learner.devices
    window = (settings.n_step, settings.gamma)
    drawn = None
    if settings.priority:
        known = (learned.priorities, learned.sums)
        drawn = priorities.sample(draws.key, *known, settings.batch_size, beta, devices)
        batch = replay_buffer.window(buffer, drawn.env, drawn.slot, *window)
        weight = drawn.weight
        if forced.are_skipped(learner.env.env, settings):
            # Before the first complete window, the drawn slots are arbitrary and weights are NaN.
            weight = jnp.where(batch.weight > 0.0, weight, 0.0)
        batch = devices.distribute(batch._replace(weight=weight), drawn.device)
    else:
        env, slot = draws.slots
        batch = replay_buffer.window(buffer, env, slot, *window)
    target = objective.td_target(learner, learned.weights, learned.target, batch, draws.key_target)
    return descend(learner, objective.loss, learned, drawn, batch, target, draws.key_loss)


def descend(
    learner: Learner[Any],
    loss: Callable[..., Loss],
    learned: Learned,
    drawn: priorities.SampledSlots | None,
    *given: Any,
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step, move the target network, and update priorities.

    `loss(learner, weights, *given)` returns the loss and metrics; the metric `error` is the TD
    error of each item. `drawn` are the batch's slots, whose priorities are updated; None: replay is
    uniform, without priorities.
    """
    settings, weights = learner.settings, learned.weights
    gradient, losses = minibatches.gradients(learner, loss, weights, *given)
    error = losses.pop("error")
    optimiser = minibatches.optimiser(settings)
    weights, state = minibatches.apply_gradient(optimiser, gradient, learned.optimiser, weights)
    moves = minibatches.step_count(state) % settings.target_every == 0
    rate = jnp.where(moves, settings.target_rate, 0.0)
    target = polyak(learned.target, weights, rate)
    learned = learned._replace(weights=weights, target=target, optimiser=state)
    if drawn is not None:
        known = (learned.priorities, learned.sums)
        error = learner.devices.all_gather(error)
        ranks, sums = priorities.update(*known, drawn, error, settings.priority)
        learned = learned._replace(priorities=ranks, sums=sums)
    return learned, losses


def polyak(target: PyTree[Array], weights: PyTree[Array], rate: Any) -> PyTree[Array]:
    """Move the target network towards the weights: Polyak averaging with tau = `rate`."""
    return jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, target, weights)


def reset(learner: QLearner, runner: Runner, updates: Int32[Array, ""]) -> Runner:
    """Every `reset_every` gradient steps, set the last layers back to their initial weights.

    The other layers move towards their initial weights (shrink and perturb): their weights become
    `reset_keep` * weights + (1 - `reset_keep`) * initial weights. The optimiser restarts, but not
    the learning-rate schedule. `updates` is the number of updates made so far; there are no resets
    after the fraction `LAST_RESET` of the run.
    """
    settings = learner.settings
    if not settings.reset_every:
        return runner
    made = jax.lax.pmax(minibatches.step_count(runner.optimiser), SEEDS)
    before = jnp.maximum(made - settings.gradient_steps, 0)
    due = made // settings.reset_every > before // settings.reset_every
    due &= updates < int(settings.update_at(LAST_RESET))

    def shrink(path: Any, new: Array, old: Array) -> Array:
        kept = settings.reset_keep if path[1].key in learner.network.body else 0.0
        return kept * new + (1.0 - kept) * old

    def reset_all(now: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        mixed = (jax.tree_util.tree_map_with_path(shrink, tree, runner.first) for tree in now[:2])
        initial = minibatches.optimiser(settings).init(minibatches.split_weights(now[0])[0])
        return *mixed, minibatches.restarted(now[2], initial)

    now = (runner.weights, runner.target, runner.optimiser)
    weights, target, optimiser = jax.lax.cond(due, reset_all, lambda same: same, now)
    return runner._replace(weights=weights, target=target, optimiser=optimiser)
