"""DQN (Mnih et al., 2015), double, dueling, with n-step returns and an on-device replay buffer.

Run it with `jaxenvs train ID --algo dqn`. It is the learner for few environment steps: each is
learned from many times. World, agent, `replay_buffer` and gradient steps are one compiled
program. Actions of the n-step successor are chosen by the weights and valued by their slow copy
(van Hasselt et al., 2016); heads as in Wang et al. (2016). As settings: prioritised replay
(priorities.py), noisy layers (q_network.py), the rewards and soft targets of Munchausen
(Vieillard et al., 2020), and resets of the last layers (Nikishin et al., 2022), with which the
others are drawn towards their first weights (D'Oro et al., 2023), for many gradient steps a step.

c51.py, qr_dqn.py, iqn.py and rainbow.py learn distributions of returns: they have a network,
`worth` and `loss` of their own, and use the other functions of this file.

Deliberate differences: environments fill the replay buffer side by side; an episode cut by the time
limit is bootstrapped with its true successor; layers are normalised by default; `n_step` > 1 is
not corrected for the actions that the policy would take now, and has Munchausen's reward for the
first of them alone; weights return to the run's own first ones, not to newly drawn ones. Where the
environment forbids actions, the best one is the best of the legal ones, in acting and in targets.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, PyTree, UInt32

from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, has_illegal, legal

from ..core import minibatches, priorities, replay_buffer, replay_checks, rollouts
from ..core.bounds import Share
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch, ReplayBuffer
from ..core.rollouts import Rollout
from ..core.settings import Replayed
from ..networks import q_network
from ..networks.q_network import QNetwork

LOWEST = -1.0  # of Munchausen's reward, before it is scaled
RESETS = 0.7  # share of the run after which there are no resets, so that it ends with what it knows


@dataclasses.dataclass(frozen=True)
class Settings(Replayed):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    layer_norm: bool = True  # whether the network's layers are normalised
    noisy: bool = False  # whether learned noise in the last layers explores; see epsilon_start
    munchausen: Share = 0.0  # weight of the log-probability as a reward (0.9); 0: plain targets
    temperature: float = 0.03  # of Munchausen's policy
    reset_every: int = 0  # gradient steps between resets of the last layers; 0: never
    reset_keep: Share = 0.5  # share of the other layers' weights that a reset keeps

    def check(self) -> None:
        super().check()
        if self.munchausen and not self.temperature:
            raise ValueError("temperature=0 leaves munchausen no policy; give such as 0.03")


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    target: PyTree[Array]  # their slow copy
    optimiser: PyTree[Array]  # Adam's moments and counts
    updates: Int32[Array, "*seeds"]  # made so far
    replay_buffer: ReplayBuffer
    world: PyTree[Array]  # VectorState
    obs: PyTree[Array]  # what the next actions are chosen from
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    returns: Float32[Array, "*seeds envs"]  # rewards so far of the episodes under way
    lengths: Int32[Array, "*seeds envs"]  # their steps so far
    memory: tuple[()]  # the network remembers nothing
    priorities: PyTree[Array] = ()  # of the replay buffer's slots; (): they are equal
    first: PyTree[Array] = ()  # the first weights, if resets return to them


class Learned(NamedTuple):
    """What gradient steps change."""

    weights: PyTree[Array]
    target: PyTree[Array]
    optimiser: PyTree[Array]
    priorities: PyTree[Array]
    sums: PyTree[Array] = ()  # of the priorities


class Draws(NamedTuple):
    """What a gradient step draws, of all its randomness."""

    key: Array  # of slots by their priorities
    key_worth: Array
    key_loss: Array
    slots: Any  # environments and slots, int32 (batch,), where all are equal


LOSSES = ("q_loss", "q")  # names of what `loss` returns to log
DIVIDED = (*rollouts.DIVIDED, "replay_buffer", "priorities")
check = replay_checks.check
network = QNetwork.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice, an empty replay buffer, worlds and the key for all that follows."""
    fields, settings = rollouts.begin(learner, key), learner.settings
    mask = rollouts.legal_now(learner, fields["world"].env)
    buffer = replay_buffer.empty(fields["obs"], mask, settings.slots)
    return Runner(
        **fields,
        target=jax.tree.map(jnp.copy, fields["weights"]),
        updates=jnp.int32(0),
        replay_buffer=buffer,
        priorities=priorities.empty(*buffer.is_step.shape) if settings.priority else (),
        first=jax.tree.map(jnp.copy, fields["weights"]) if settings.reset_every else (),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    runner, key, metrics = collect(learner, runner)
    runner, losses = learn(learner, runner, key, worth, loss)
    return runner, {**metrics, **losses}


def valued(learner: Learner[Any], runner: Any, key: Array) -> tuple[Any, Array]:
    """The runner as it is, and the values of all actions in what it observes."""
    answer = q_network.apply_batch(learner, runner.weights, runner.obs, key)
    return runner, learner.network.mean(answer)


def collect(
    learner: Learner[Any], runner: Any, valued: Callable[..., tuple[Any, Array]] = valued
) -> tuple[Any, Array, dict[str, Array]]:
    """Act for `rollout_steps` steps in every environment, and remember them.

    `valued(learner, runner, key)` also returns the runner, whose memory may have changed. Also
    return a key to learn with, and metrics.
    """
    settings = learner.settings
    epsilon, before = epsilons(learner, runner.updates), runner.replay_buffer.written
    runner, key, key_learn = rollouts.next_update(learner, runner)

    def draw(key: Array) -> tuple[Array, Array, q_network.ExplorationDraws]:
        key_action, key_step = jax.random.split(key)
        sizes = (learner.env.num_envs, learner.network.num_actions)
        dice = q_network.exploration_draws(
            key_action, *sizes, epsilon, not has_illegal(learner.env.env)
        )
        return jax.random.fold_in(key, 0), key_step, dice

    def act(
        runner: Any, now: tuple[Array, Array, q_network.ExplorationDraws]
    ) -> tuple[Any, Rollout]:
        key_value, key_step, dice = now
        mask = rollouts.legal_now(learner, runner.world.env)
        runner, values = valued(learner, runner, key_value)
        action = q_network.epsilon_greedy(dice, values, mask)
        step = learner.env.step(key_step, runner.world, action)
        buffer = replay_buffer.add(runner.replay_buffer, runner.obs, mask, action, step)
        after, ends = rollouts.after_step(learner, runner._replace(replay_buffer=buffer), step)
        return after, Rollout(**ends)

    # All at once: on a CPU each draw is a loop of its own, which takes longer than a small network.
    draws = jax.vmap(draw)(jax.random.split(key, settings.rollout_steps))
    runner, ends = jax.lax.scan(act, runner, draws, unroll=settings.unroll)
    if runner.priorities:
        given = runner.priorities, runner.replay_buffer, before
        ranks = priorities.add_complete(*given, settings.reach, settings.spacing)
        runner = runner._replace(priorities=ranks)
    runner = runner._replace(updates=runner.updates + 1)
    return runner, key_learn, {**rollouts.episode_sums(ends), "epsilon": epsilon.mean()}


def epsilons(
    learner: Learner[Any], updates: Int32[Array, ""]
) -> Float32[Array, ""] | Float32[Array, " envs"]:
    """Share of random actions: a number, or with `epsilon_power` one of each environment."""
    settings, envs = learner.settings, learner.env.num_envs
    epsilon = settings.epsilon(updates)
    if not settings.epsilon_power:
        return epsilon
    row = learner.devices.index * envs + jnp.arange(envs, dtype=jnp.int32)
    place = row.astype(jnp.float32) / max(settings.num_envs - 1, 1)
    return q_network.epsilon_ladder(epsilon, settings.epsilon_power, place)


def learn(
    learner: Learner[Any],
    runner: Runner,
    key: Array,
    worth: Callable[..., Any],
    loss: Callable[..., Loss],
    names: tuple[str, ...] = LOSSES,
) -> tuple[Runner, dict[str, Array]]:
    """Take `gradient_steps` gradient steps, if it is time, and reset what is due.

    `worth` and `loss` are as here; the losses have these `names`.
    """
    step = functools.partial(gradient_step, learner, worth, loss, runner.replay_buffer)
    draw = functools.partial(drawn, learner, runner.replay_buffer)
    runner, losses = learn_when_ready(learner, runner, key, step, draw, names)
    return reset(learner, runner, jax.lax.pmax(runner.updates, SEEDS)), losses


def learn_when_ready(
    learner: Learner[Any],
    runner: Any,
    key: Array,
    gradient_step: Callable[[Array, Learned, Any], tuple[Learned, dict[str, Array]]],
    draw: Callable[[Array], Any] = identity,
    names: tuple[str, ...] = LOSSES,
) -> tuple[Any, dict[str, Array]]:
    """Take `gradient_steps` gradient steps, or none before the replay buffer has warmed up.

    `gradient_step` is given the power of the importance weights, what is learned and what `draw`
    makes of a key; its losses have these `names`.
    """
    settings = learner.settings
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    updates = jax.lax.pmax(runner.updates, SEEDS)
    beta = settings.importance + (1.0 - settings.importance) * settings.progress(updates)
    learned = Learned(runner.weights, runner.target, runner.optimiser, runner.priorities)
    nothing = dict.fromkeys(names, jnp.float32(0.0))

    def steps(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        if learned.priorities:
            learned = learned._replace(sums=priorities.sums(learned.priorities))
        keys = jax.random.split(key, settings.gradient_steps)
        draws = jax.vmap(draw)(keys)  # all at once, see `collect`
        learned, losses = jax.lax.scan(functools.partial(gradient_step, beta), learned, draws)
        return learned._replace(sums=()), jax.tree.map(jnp.mean, losses)

    ready = updates >= settings.updates_until(settings.warm_up)
    learned, losses = jax.lax.cond(ready, steps, lambda same: (same, nothing), learned)
    learned = {name: part for name, part in learned._asdict().items() if name != "sums"}
    return runner._replace(**learned), means(losses, ready)


def drawn(learner: Learner[Any], buffer: ReplayBuffer, key: Array) -> Draws:
    """Keys of a gradient step, and slots where all are equal."""
    settings, slots = learner.settings, ()
    if not settings.priority:
        size = settings.batch_size // learner.devices.count
        slots = replay_buffer.sample_slots(key, buffer, size, settings.n_step)
    key_worth, key_loss = (jax.random.fold_in(key, i) for i in (1, 2))
    return Draws(key, key_worth, key_loss, slots)


def gradient_step(
    learner: Learner[Any],
    worth: Callable[..., Any],
    loss: Callable[..., Loss],
    buffer: ReplayBuffer,
    beta: Float32[Array, ""],
    learned: Learned,
    draws: Draws,
) -> tuple[Learned, dict[str, Array]]:
    """Learn from one batch, then let the slow copy follow."""
    settings, devices = learner.settings, learner.devices
    window = (settings.n_step, settings.gamma)
    drawn = None
    if settings.priority:
        known = (learned.priorities, learned.sums)
        drawn = priorities.sample(draws.key, *known, settings.batch_size, beta, devices)
        batch = replay_buffer.window(buffer, drawn.env, drawn.slot, *window)
        batch = devices.dealt(batch._replace(weight=drawn.weight), drawn.device)
    else:
        env, slot = draws.slots
        batch = replay_buffer.window(buffer, env, slot, *window)
    goals = worth(learner, learned.weights, learned.target, batch, draws.key_worth)
    return descended(learner, loss, learned, drawn, batch, goals, draws.key_loss)


def descended(
    learner: Learner[Any],
    loss: Callable[..., Loss],
    learned: Learned,
    drawn: priorities.SampledSlots | None,
    *given: Any,
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step, let the slow copy follow, and correct the priorities of `drawn`.

    `loss(learner, weights, *given)` also says the errors of a batch, those drawn if there are any.
    """
    settings, weights = learner.settings, learned.weights
    gradient, losses = minibatches.gradients(learner, loss, weights, *given)
    error = losses.pop("error")
    optimiser = minibatches.optimiser(settings)
    weights, state = minibatches.apply_gradient(optimiser, gradient, learned.optimiser, weights)
    moves = minibatches.step_count(state) % settings.target_every == 0
    rate = jnp.where(moves, settings.target_rate, 0.0)
    target = jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, learned.target, weights)
    learned = learned._replace(weights=weights, target=target, optimiser=state)
    if drawn is not None:
        known = (learned.priorities, learned.sums)
        error = learner.devices.joined(error)
        ranks, sums = priorities.update(*known, drawn, error, settings.priority)
        learned = learned._replace(priorities=ranks, sums=sums)
    return learned, losses


def reset(learner: Learner[Any], runner: Runner, updates: Int32[Array, ""]) -> Runner:
    """Return the last layers to their first weights every `reset_every` gradient steps.

    The other layers keep a share of what they learned, the optimiser its counts alone.
    """
    settings = learner.settings
    if not settings.reset_every:
        return runner
    made = jax.lax.pmax(minibatches.step_count(runner.optimiser), SEEDS)
    before = jnp.maximum(made - settings.gradient_steps, 0)
    due = made // settings.reset_every > before // settings.reset_every
    due &= updates < int(settings.update_at(RESETS))

    def back(path: Any, new: Array, old: Array) -> Array:
        kept = settings.reset_keep if path[1].key in learner.network.body else 0.0
        return kept * new + (1.0 - kept) * old

    def begin_anew(now: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        mixed = (jax.tree_util.tree_map_with_path(back, tree, runner.first) for tree in now[:2])
        return *mixed, jax.tree.map(forgotten, now[2])

    def forgotten(leaf: Array) -> Array:
        return jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    now = (runner.weights, runner.target, runner.optimiser)
    weights, target, optimiser = jax.lax.cond(due, begin_anew, lambda same: same, now)
    return runner._replace(weights=weights, target=target, optimiser=optimiser)


def worth(
    learner: Learner[Any],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
) -> Float32[Array, " batch"]:
    """What the sampled actions should have been worth."""
    value = following(learner, weights, target, batch, key)
    chex.assert_equal_shape(
        [batch.reward, batch.discount, value],
        custom_message="reward, discount and the successor's value, [batch]",
    )
    return rewarded(learner, target, batch, key) + batch.discount * value


def following(
    learner: Learner[Any],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None,
    *given: Array,
) -> Float32[Array, "batch ..."]:
    """What the slow copy says of the best action in the successors.

    With Munchausen, of its policy's actions on average, less their log-probability. `given` are
    further arguments of the network.
    """
    key_value, key_best = parted(key)
    answer = q_network.apply_batch(learner, target, batch.next_obs, key_value, *given)
    if learner.settings.munchausen:
        policy, log = soft(learner, target, batch.next_obs, batch.next_mask, key_best)
        like = (..., *[None] * (answer.ndim - 2))
        return ((answer - log[like]) * policy[like]).sum(axis=1)
    return q_network.of_actions(answer, best(learner, weights, target, batch, key_best))


def best(
    learner: Learner[Any],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None,
) -> Int32[Array, " batch"]:
    """The best legal actions in the successors."""
    chooser = weights if learner.settings.double else target
    values = learner.network.mean(q_network.apply_batch(learner, chooser, batch.next_obs, key))
    return legal(values, batch.next_mask).argmax(axis=-1).astype(jnp.int32)


def rewarded(
    learner: Learner[Any], target: PyTree[Array], batch: Batch, key: Array | None
) -> Float32[Array, " batch"]:
    """Rewards; with Munchausen, the log-probability of the action taken is part of them."""
    if not learner.settings.munchausen:
        return batch.reward
    _, log = soft(learner, target, batch.obs, batch.mask, parted(key)[0])
    more = jnp.clip(q_network.of_actions(log, batch.action), LOWEST, 0.0)
    return batch.reward + learner.settings.munchausen * more


def soft(
    learner: Learner[Any], target: PyTree[Array], obs: PyTree[Array], mask: Mask, key: Any
) -> tuple[Float32[Array, "batch actions"], Float32[Array, "batch actions"]]:
    """Probabilities of Munchausen's policy, and their logarithms times its temperature."""
    values = learner.network.mean(q_network.apply_batch(learner, target, obs, key))
    heat = learner.settings.temperature
    log = jax.nn.log_softmax(legal(values / heat, mask))
    return jnp.exp(log), heat * log


def parted(key: Array | None) -> tuple[Any, Any]:
    """Split a key in two; return None twice if it is None."""
    if key is None:
        return None, None
    first, second = jax.random.split(key)
    return first, second


def loss(
    learner: Learner, weights: PyTree, batch: Batch, worth: Array, key: Array | None = None
) -> Loss:
    """Huber loss of the values of the sampled actions; also return their errors."""
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    value = q_network.of_actions(answer, batch.action)
    chex.assert_equal_shape(
        [batch.weight, value, worth], custom_message="weight, value and worth, [batch]"
    )
    loss = (batch.weight * optax.losses.huber_loss(value, worth)).mean()
    return loss, {"q_loss": loss, "q": value.mean(), "error": worth - value}
