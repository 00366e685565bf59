"""MuZero (Schrittwieser et al., 2020): planning in a model that is learned beside the policy.

Run it with `jaxenvs train ID --algo muzero`; it needs the extra `search`. A network turns what is
observed into a latent state, and predicts from that and an action the next one and the reward;
Gumbel MuZero (Danihelka et al., 2022) searches through mctx among these alone. The environment is
never asked in a plan, so that plans use only what the agent sees. Illegal actions are known at the
root of a search and nowhere else.

Steps are kept in a replay buffer with the policy that their search found. Windows of them, drawn
evenly or by the error of their first value, teach the network `unroll_steps` imagined steps;
imagined latent states should agree with those of the true observations (Ye et al., 2021). What
follows the rewards of a window has the value that a slow copy of the weights says now: values of
the time of acting would be those of worse policies. For a share of the windows, searches with the
slow copy find values and policies anew.

With `codes` it is Stochastic MuZero (Antonoglou et al., 2022), for worlds in which chance decides
much: the model has afterstates, which chance turns into states by one of `codes` codes, and the
search weighs these by their learned probabilities (PUCT at decisions, as in the paper). What
happened between two observations is coded by an encoder, learned through the straight-through
gradient of its most likely code. Deliberate difference: the encoder reads the observation before
as well.
Deliberate differences: layers and latent states are normalised (muzero_network.py); environments
fill the replay buffer side by side; an episode cut by the time limit is bootstrapped with its true
successor; what follows the end of a task is worth 0 and has no policy.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs.core.extras import require
from jaxenvs.core.masking import Mask, legal

from . import acting, evaluate, minibatches, priorities, replay_buffer, returns, two_hot
from .acting import Rollout
from .algorithms import SEEDS, Learner
from .dqn import fit
from .minibatches import Loss
from .muzero_network import MuZeroNetwork
from .replay_buffer import ReplayBuffer
from .run import options
from .run.checkpoints import RunError
from .runs import Config, Run
from .settings import Common

DIRICHLET = 0.25  # share of noise in the policy at the root of a search with chance
TINY = 1e-6  # added to variances
HALF = 0.5  # of the gradient that passes through an imagined step to the latent state before it


@dataclasses.dataclass(frozen=True)
class Settings(Common):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 200_000  # environment steps of each seed, rounded up to whole updates
    num_envs: int = 32  # environments that step together
    rollout_steps: int = 16  # steps of each environment between updates
    max_grad_norm: float = 5.0  # global norm of the gradient, at most
    capacity: int = 100_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 2_000  # steps of all environments before the first gradient step
    gradient_steps: int = 16  # of an update
    batch_size: int = 128  # windows that a gradient step learns from, on all devices
    unroll_steps: int = 5  # imagined steps of a window
    n_step: int = 5  # steps whose rewards are added before the value of what follows
    simulations: int = 16  # of the search for each action
    considered: int = 16  # actions that the search tries at its root, at most
    value_scale: float = 0.1  # how firmly the policy follows the values that the search found
    rescale: bool = True  # whether the values of a node are scaled to 0 to 1 before
    latent: int = 64  # numbers of a latent state
    atoms: int = 20  # highest atom of the distributions of rewards and values, see two_hot.py
    value_weight: float = 0.25  # weight of the value loss
    entropy: float = 0.0  # weight of the entropy bonus, over legal actions
    consistency: float = 1.0  # weight of the disagreement of imagined and true latent states
    reanalysed: float = 0.25  # share of windows whose policies and values are found anew
    target_every: int = 100  # gradient steps between the moves of the slow copy
    priority: float = 0.0  # power of the value's error by which windows are drawn; 0: all evenly
    importance: float = 0.4  # power of the importance weights at the start; it rises to 1
    codes: int = 0  # outcomes of chance that the model tells apart; 0: it knows no chance

    counts: ClassVar[tuple[str, ...]] = (
        *Common.counts,
        *("gradient_steps", "batch_size", "unroll_steps", "n_step", "simulations", "considered"),
        *("latent", "atoms", "target_every"),
    )
    shares: ClassVar[tuple[str, ...]] = (*Common.shares, "reanalysed", "priority", "importance")

    def check(self) -> None:
        super().check()
        least = self.reach + 1 + (self.priority > 0.0)  # see `Replayed.least_slots`
        if self.slots < least:
            raise ValueError(
                f"capacity={self.capacity} leaves {self.slots} slots for each of {self.num_envs} "
                f"environments; a window needs {least}: give capacity={least * self.num_envs} or "
                "more"
            )
        if self.warm_up < self.reach * self.num_envs:
            raise ValueError(
                f"warm_up={self.warm_up} ends before each of {self.num_envs} environments has made "
                f"the {self.reach} steps of a window; give at least {self.reach * self.num_envs}"
            )

    @property
    def slots(self) -> int:
        """Slots of the replay buffer for each environment."""
        return self.capacity // self.num_envs

    @property
    def reach(self) -> int:
        """Steps of a window, with those whose rewards the last value counts."""
        return self.unroll_steps + self.n_step


class Plan(NamedTuple):
    """What a search returns, by observation."""

    action: Int32[Array, " batch"]
    policy: Float32[Array, "batch actions"]  # probabilities to learn
    value: Float32[Array, " batch"]


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    target: PyTree[Array]  # their slow copy
    optimiser: PyTree[Array]  # Adam's moments and counts
    updates: Int32[Array, "*seeds"]  # made so far
    replay_buffer: ReplayBuffer
    found: Float32[Array, "*seeds envs slots actions"]  # policies, by the search of each slot
    world: PyTree[Array]  # VectorState
    obs: PyTree[Array]  # what the next actions are chosen from
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    returns: Float32[Array, "*seeds envs"]  # rewards so far of the episodes under way
    lengths: Int32[Array, "*seeds envs"]  # their steps so far
    memory: tuple[()]  # the network remembers nothing
    priorities: PyTree[Array] = ()  # of the replay buffer's slots; (): they are equal


class Learned(NamedTuple):
    """What gradient steps change."""

    weights: PyTree[Array]
    target: PyTree[Array]
    optimiser: PyTree[Array]
    priorities: PyTree[Array]
    sums: PyTree[Array] = ()  # of the priorities


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


class Targets(NamedTuple):
    """What to learn of each moment of a window, and whether; the first reward is never learned."""

    value: Float32[Array, "batch moments"]
    reward: Float32[Array, "batch moments"]  # of the step before
    policy: Float32[Array, "batch moments actions"]
    is_known: Bool[Array, "batch moments"]  # not after a cut, of which nothing is known
    is_open: Bool[Array, "batch moments"]  # before any end: there is an observation, and a policy


DIVIDED = (*acting.DIVIDED, "replay_buffer", "found", "priorities")
network = MuZeroNetwork.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice, an empty replay buffer, worlds and the key for all that follows."""
    fields = acting.begin(learner, key)
    mask = acting.legal_now(learner, fields["world"].env)
    slots = (learner.env.num_envs, learner.settings.slots)
    return Runner(
        **fields,
        target=jax.tree.map(jnp.copy, fields["weights"]),
        updates=jnp.int32(0),
        replay_buffer=replay_buffer.empty(fields["obs"], mask, learner.settings.slots),
        found=jnp.zeros((*slots, learner.network.num_actions), jnp.float32),
        priorities=priorities.empty(*slots) if learner.settings.priority else (),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    settings = learner.settings
    runner, key_act, key_learn = acting.next_update(learner, runner)
    before = runner.replay_buffer.written
    runner, ends = collect(learner, runner, key_act)
    if settings.priority:
        given = runner.priorities, runner.replay_buffer, before
        runner = runner._replace(priorities=priorities.refreshed(*given, settings.reach))
    runner = runner._replace(updates=runner.updates + 1)
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    steps = jax.lax.pmax(runner.updates, SEEDS) * settings.steps_per_update
    runner, losses = learn_when(learner, steps >= settings.warm_up, runner, key_learn)
    return runner, {**acting.episode_sums(ends), **losses}


def collect(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Rollout]:
    """Act for `rollout_steps` steps in every environment, and remember them."""

    def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
        key_plan, key_step = jax.random.split(key)
        mask = acting.legal_now(learner, runner.world.env)
        plan = planned(learner, runner.weights, key_plan, runner.obs, mask)
        step = learner.env.step(key_step, runner.world, plan.action)
        buffer = runner.replay_buffer
        where = (
            jnp.arange(len(plan.action), dtype=jnp.int32),
            buffer.written % learner.settings.slots,
        )
        runner = runner._replace(
            found=runner.found.at[where].set(plan.policy),
            replay_buffer=replay_buffer.add(buffer, runner.obs, mask, plan.action, step),
        )
        after, ends = acting.stepped(learner, runner, step)
        return after, Rollout(**ends)

    return jax.lax.scan(act, runner, jax.random.split(key, learner.settings.rollout_steps))


def planned(
    learner: Learner[Settings],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    gumbel_scale: float = 1.0,
) -> Plan:
    """Search from each observation, in the model alone; `gumbel_scale=0` draws nothing.

    `mask` are the legal actions there, as no others are known.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def predicted(latent: Array) -> dict[str, Any]:
        logits, value = network.of_batch(weights, "predict", latent)
        return {"prior_logits": logits, "value": two_hot.mean(value)}

    def imagined(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        latent, reward = network.of_batch(weights, "imagine", latent, action)
        discount = jnp.full(action.shape, settings.gamma, jnp.float32)
        known: dict[str, Any] = {"reward": two_hot.mean(reward), "discount": discount}
        return mctx.RecurrentFnOutput(**known, **predicted(latent)), latent

    latent = network.of_batch(weights, "represent", obs)
    known = {**predicted(latent), "embedding": latent}
    known["prior_logits"] = legal(known["prior_logits"], mask)
    if settings.codes:
        return planned_with_chance(learner, weights, key, known, predicted, mask, gumbel_scale)
    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
        found = mctx.gumbel_muzero_policy(
            params=weights,
            rng_key=key,
            root=mctx.RootFnOutput(**known),
            recurrent_fn=imagined,
            num_simulations=settings.simulations,
            invalid_actions=jax.tree.map(jnp.logical_not, mask),
            max_num_considered_actions=settings.considered,
            gumbel_scale=gumbel_scale,
            qtransform=functools.partial(
                mctx.qtransform_completed_by_mix_value,
                value_scale=settings.value_scale,
                rescale_values=settings.rescale,
            ),
        )
        root = found.search_tree.summary()
        # The mean over visits would be that of nearly all actions: the search tries each.
        worth = jnp.where(root.visit_counts > 0, root.qvalues, known["value"][:, None])
        value = (found.action_weights * worth).sum(axis=-1)
    action = jnp.asarray(found.action, jnp.int32)
    return Plan(action, jnp.asarray(found.action_weights), jnp.asarray(value))


def planned_with_chance(
    learner: Learner[Settings],
    weights: PyTree[Array],
    key: Array,
    known: dict[str, Any],
    predicted: Callable[[Array], dict[str, Any]],
    mask: Mask,
    noise: float,
) -> Plan:
    """Search with chance between actions, from what is `known` at the root.

    `predicted` are the policy and the value of latent states; `noise=0` draws nothing.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def decided(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        after = network.of_batch(weights, "act", latent, action)
        logits, value = network.of_batch(weights, "expect", after)
        expected: dict[str, Any] = {"chance_logits": logits}
        expected["afterstate_value"] = two_hot.mean(value)
        return mctx.DecisionRecurrentFnOutput(**expected), after

    def happened(weights: Any, key: Any, code: Any, after: Any) -> tuple[Any, Any]:
        code = jax.nn.one_hot(code, settings.codes)
        latent, reward = network.of_batch(weights, "happen", after, code)
        found = predicted(latent)
        found["action_logits"] = found.pop("prior_logits")
        found["reward"] = two_hot.mean(reward)
        found["discount"] = jnp.full_like(found["reward"], settings.gamma)
        return mctx.ChanceRecurrentFnOutput(**found), latent

    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
        found = mctx.stochastic_muzero_policy(
            params=weights,
            rng_key=key,
            root=mctx.RootFnOutput(**known),
            decision_recurrent_fn=decided,
            chance_recurrent_fn=happened,
            num_simulations=settings.simulations,
            invalid_actions=jax.tree.map(jnp.logical_not, mask),
            dirichlet_fraction=noise * DIRICHLET,
            temperature=noise,
        )
        value = found.search_tree.summary().value
    action = jnp.asarray(found.action, jnp.int32)
    return Plan(action, jnp.asarray(found.action_weights), jnp.asarray(value))


def learn_when(
    learner: Learner[Settings], ready: Bool[Array, ""], runner: Runner, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take `gradient_steps` gradient steps, or none before the replay buffer is `ready`."""
    settings = learner.settings
    share = jax.lax.pmax(runner.updates, SEEDS).astype(jnp.float32) / settings.updates
    beta = settings.importance + (1.0 - settings.importance) * share
    learned = Learned(runner.weights, runner.target, runner.optimiser, runner.priorities)
    nothing = dict.fromkeys(parts_of(settings), jnp.float32(0.0))

    def learn(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        if settings.priority:
            learned = learned._replace(sums=priorities.sums(learned.priorities))
        keys = jax.random.split(key, settings.gradient_steps)
        step = functools.partial(gradient_step, learner, runner, beta)
        learned, losses = jax.lax.scan(step, learned, keys)
        return learned._replace(sums=()), jax.tree.map(jnp.mean, losses)

    learned, losses = jax.lax.cond(ready, learn, lambda same: (same, nothing), learned)
    learned = {name: part for name, part in learned._asdict().items() if name != "sums"}
    return runner._replace(**learned), losses


def gradient_step(
    learner: Learner[Settings],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[Learned, dict[str, Array]]:
    """Learn from one batch of windows; now and then the slow copy becomes the weights.

    `beta` is the power of the importance weights of windows drawn by priority.
    """
    settings = learner.settings
    key_draw, key_plan = jax.random.split(key)
    drawn, window = windows(learner, runner, beta, learned, key_draw)
    window, value = judged(learner, learned.target, key_plan, window)
    goals = targets(window, value, settings.n_step, settings.gamma)
    gradient, losses = minibatches.gradients(learner, loss, learned.weights, window, goals)
    error = learner.devices.joined(losses.pop("error"))
    optimiser = minibatches.optimiser(settings)
    weights, state = minibatches.apply_gradient(
        optimiser, gradient, learned.optimiser, learned.weights
    )
    moves = minibatches.counted(state) % settings.target_every == 0
    target = jax.tree.map(lambda old, new: jnp.where(moves, new, old), learned.target, weights)
    learned = learned._replace(weights=weights, target=target, optimiser=state)
    if drawn is not None:
        known = learned.priorities, learned.sums
        ranks, sums = priorities.updated(*known, drawn, error, settings.priority)
        learned = learned._replace(priorities=ranks, sums=sums)
    return learned, losses


def windows(
    learner: Learner[Settings],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[priorities.Drawn | None, Window]:
    """Windows from the replay buffer, drawn evenly or by priority; also what was drawn by it."""
    settings, devices = learner.settings, learner.devices
    if not settings.priority:
        size = settings.batch_size // devices.count
        where = replay_buffer.drawn(key, runner.replay_buffer, size, settings.reach)
        return None, cut_out(settings, runner, *where)
    known = learned.priorities, learned.sums
    drawn = priorities.sample(key, *known, settings.batch_size, beta, devices)
    window = cut_out(settings, runner, drawn.env, drawn.slot)
    return drawn, devices.dealt(window._replace(weight=drawn.weight), drawn.device)


def cut_out(
    settings: Settings, runner: Runner, env: Int32[Array, " batch"], first: Int32[Array, " batch"]
) -> Window:
    """The windows that begin in these slots of environments."""
    buffer, moments = runner.replay_buffer, settings.unroll_steps + 1
    env, slot = env[:, None], first[:, None] + jnp.arange(settings.reach + 1, dtype=jnp.int32)
    slot %= buffer.action.shape[1]
    where, early, later = (env, slot), (env, slot[:, :moments]), (env, slot[:, moments:])
    return Window(
        obs=jax.tree.map(lambda leaf: leaf[early], buffer.obs),
        mask=jax.tree.map(lambda leaf: leaf[early], buffer.mask),
        action=buffer.action[where],
        reward=buffer.reward[where],
        terminated=buffer.terminated[where],
        truncated=buffer.truncated[where],
        policy=runner.found[early],
        is_step=buffer.is_step[where][:, 0],
        weight=jnp.ones(len(env), jnp.float32),
        ahead=jax.tree.map(lambda leaf: leaf[later], buffer.obs),
    )


def judged(
    learner: Learner[Settings], target: PyTree[Array], key: Array, window: Window
) -> tuple[Window, Float32[Array, "batch slots"]]:
    """Windows with values of all slots by the slow copy.

    The first windows, a share, have values and policies that searches with it find now.
    """
    size, moments = window.policy.shape[:2]
    count = round(learner.settings.reanalysed * size)

    def flat(leaf: Array) -> Array:
        return leaf.reshape(-1, *leaf.shape[2:])

    def values(obs: PyTree[Array]) -> Array:
        _, value = learner.network.of_batch(target, "__call__", jax.tree.map(flat, obs))
        return value.reshape(size, -1)

    value = jnp.concatenate([values(window.obs), values(window.ahead)], axis=1)
    if not count:
        return window, value
    seen = jax.tree.map(lambda leaf: flat(leaf[:count]), (window.obs, window.mask))
    plan = planned(learner, target, key, *seen)
    policy = window.policy.at[:count].set(plan.policy.reshape(count, moments, -1))
    value = value.at[:count, :moments].set(plan.value.reshape(count, moments))
    return window._replace(policy=policy), value


def targets(
    window: Window, values: Float32[Array, "batch slots"], n_step: int, gamma: float
) -> Targets:
    """What the network should say of the moments of windows: n-step values, rewards, policies.

    `values` are those of the slots. After the end of a task nothing is earned any more. After a
    cut nothing is known.
    """
    chex.assert_equal_shape(
        [window.reward, window.terminated, window.truncated, values],
        custom_message="reward, terminated, truncated and values are [batch, slots]",
    )
    value, reward, known, opened = [], [], [], []
    is_open = window.is_step
    is_over = jnp.zeros_like(is_open)  # after the end of the task
    for moment in range(window.policy.shape[1]):
        ahead = slice(moment, moment + n_step)
        ends = (window.terminated[:, ahead], window.truncated[:, ahead])
        total, discount, length = returns.n_step(window.reward[:, ahead], *ends, gamma)
        following = jnp.take_along_axis(values, moment + length[:, None], axis=1)[:, 0]
        value.append(jnp.where(is_open, total + discount * following, 0.0))
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


LOSSES = ("policy_loss", "value_loss", "reward_loss", "consistency_loss", "entropy")
OF_CHANCE = ("after_loss", "chance_loss", "code_loss")


def parts_of(settings: Settings) -> tuple[str, ...]:
    """Names of the parts of the loss."""
    return (*LOSSES, *OF_CHANCE) if settings.codes else LOSSES


def loss(
    learner: Learner[Settings], weights: PyTree[Array], window: Window, goals: Targets
) -> Loss:
    """Errors of policies, values, rewards and latent states, over the moments of windows.

    Also return the error of the first value of each, by which windows are ranked.
    """
    settings, network = learner.settings, learner.network
    sums: dict[str, Any] = dict.fromkeys(parts_of(settings), jnp.float32(0.0))
    latent = network.of_batch(weights, "represent", seen_at(window, 0)[0])
    first = said(learner, weights, latent, window, goals, 0)
    sums |= {name: (window.weight * error).mean() for name, error in first.items()}
    for moment in range(1, settings.unroll_steps + 1):
        latent = HALF * latent + (1.0 - HALF) * jax.lax.stop_gradient(latent)
        latent, errors = imagined(learner, weights, latent, window, goals, moment)
        errors |= said(learner, weights, latent, window, goals, moment)
        for name, error in errors.items():
            sums[name] += (window.weight * error).mean() / settings.unroll_steps
    total = sums["policy_loss"] - settings.entropy * sums["entropy"]
    total += settings.value_weight * (sums["value_loss"] + sums.get("after_loss", 0.0))
    total += sums["reward_loss"] + settings.consistency * sums["consistency_loss"]
    total += sums.get("chance_loss", 0.0) + sums.get("code_loss", 0.0)
    count = jnp.maximum(goals.is_open[:, 0].sum(dtype=jnp.float32), 1.0)
    sums["entropy"] = first["entropy"].sum() / count
    _, value = network.of_batch(weights, "__call__", seen_at(window, 0)[0])
    return total, {**sums, "error": jnp.abs(value - goals.value[:, 0])}


def seen_at(window: Window, moment: int) -> tuple[PyTree[Array], Mask]:
    """What was seen at a moment of windows, and what was legal."""
    return jax.tree.map(lambda leaf: leaf[:, moment], (window.obs, window.mask))


def said(
    learner: Learner[Settings],
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    window: Window,
    goals: Targets,
    moment: int,
) -> dict[str, Float32[Array, " batch"]]:
    """Errors of the policies and values of latent states, and the policies' entropy."""
    logits, value = learner.network.of_batch(weights, "predict", latent)
    is_open, is_known = (x[:, moment].astype(jnp.float32) for x in (goals.is_open, goals.is_known))
    log_probs = jax.nn.log_softmax(legal(logits, seen_at(window, moment)[1]))
    return {
        "policy_loss": -is_open * (goals.policy[:, moment] * jax.nn.log_softmax(logits)).sum(-1),
        "entropy": -is_open * (jnp.exp(log_probs) * log_probs).sum(-1),
        "value_loss": is_known * two_hot.cross_entropy(value, goals.value[:, moment]),
    }


def imagined(
    learner: Learner[Settings],
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    window: Window,
    goals: Targets,
    moment: int,
) -> tuple[Float32[Array, "batch latent"], dict[str, Float32[Array, " batch"]]]:
    """Latent states of a moment from those before; errors of these and of the rewards."""
    of = functools.partial(learner.network.of_batch, weights)
    latent, reward, errors = followed(learner, weights, latent, window, goals, moment)
    # The reward of a step that was cut is known, what follows it is not.
    before = goals.is_known[:, moment - 1].astype(jnp.float32)
    errors["reward_loss"] = before * two_hot.cross_entropy(reward, goals.reward[:, moment])
    is_open = goals.is_open[:, moment]
    goal = of("projected", of("represent", seen_at(window, moment)[0]))
    goal = standardised(learner, jax.lax.stop_gradient(goal), is_open)
    apart = 1.0 - cosine(of("foreseen", latent), goal)
    errors["consistency_loss"] = is_open.astype(jnp.float32) * apart
    return latent, errors


def followed(
    learner: Learner[Settings],
    weights: PyTree[Array],
    latent: Float32[Array, "batch latent"],
    window: Window,
    goals: Targets,
    moment: int,
) -> tuple[Array, Array, dict[str, Float32[Array, " batch"]]]:
    """Latent states of a moment from those before, their rewards, and the errors about chance."""
    of = functools.partial(learner.network.of_batch, weights)
    action = window.action[:, moment - 1]
    if not learner.settings.codes:
        return *of("imagine", latent, action), {}
    after = of("act", latent, action)
    logits, value = of("expect", after)
    seen = [seen_at(window, at)[0] for at in (moment - 1, moment)]
    code, errors = chance(of("coded", *seen), logits, goals.is_open[:, moment])
    known = goals.is_known[:, moment - 1].astype(jnp.float32)
    errors["after_loss"] = known * two_hot.cross_entropy(value, goals.value[:, moment - 1])
    return *of("happen", after, code), errors


def chance(
    probabilities: Float32[Array, "batch codes"],
    logits: Float32[Array, "batch codes"],
    is_seen: Bool[Array, " batch"],
) -> tuple[Float32[Array, "batch codes"], dict[str, Array]]:
    """One-hot codes of what happened, and each error of what was expected and of the encoder.

    The encoder's most likely code is the true one; its gradient is that of the probabilities. Where
    what came of an action is not seen, the code is the one that was expected most.
    """
    count = logits.shape[-1]
    code = jax.nn.one_hot(probabilities.argmax(axis=-1), count)
    expected = jax.nn.one_hot(logits.argmax(axis=-1), count)
    seen = is_seen.astype(jnp.float32)
    surprise = -(code * jax.nn.log_softmax(logits)).sum(axis=-1)
    apart = jnp.square(code - probabilities).sum(axis=-1)
    through = probabilities + jax.lax.stop_gradient(code - probabilities)
    errors = {"chance_loss": seen * surprise, "code_loss": seen * apart}
    return jnp.where(is_seen[:, None], through, expected), errors


def standardised(
    learner: Learner[Settings], x: Float32[Array, "batch latent"], rows: Bool[Array, " batch"]
) -> Float32[Array, "batch latent"]:
    """Vectors whose numbers have mean 0 and standard deviation 1 over the rows that count.

    Otherwise latent states would agree best if all of them were the same.
    """
    share, total = rows.astype(jnp.float32)[:, None], learner.devices.total
    count = jnp.maximum(total(share.sum()), 1.0)
    mean = total((share * x).sum(axis=0)) / count
    variance = total((share * jnp.square(x - mean)).sum(axis=0)) / count
    return (x - mean) * jax.lax.rsqrt(variance + TINY)


def cosine(
    a: Float32[Array, "batch latent"], b: Float32[Array, "batch latent"]
) -> Float32[Array, " batch"]:
    """Cosine of the angles between pairs of vectors."""
    lengths = jnp.sqrt(jnp.square(a).sum(axis=-1) * jnp.square(b).sum(axis=-1) + 1e-8)
    return (a * b).sum(axis=-1) / lengths


def report(run: Run, learner: Learner[Settings], weights: PyTree[Array], count: int) -> None:
    """Evaluate every seed over `count` episodes, with the search and without."""

    def search(weights: PyTree[Array], key: Array, obs: Any, state: Any) -> Array:
        mask = acting.legal_now(learner, state)
        return planned(learner, weights, key, obs, mask, gumbel_scale=0.0).action

    env = learner.env.env
    policy = evaluate.drawn(env, learner.network)
    alone = evaluate.play(env, policy, weights, run.config, count, learner.network.begin())
    result = evaluate.play(env, search, weights, run.config, count)
    run.write_json("eval.json", {**result, "without_search": alone})
    evaluate.tell(result)
    evaluate.tell(alone, "Without search: ")


def build(asked: options.Options[Settings], config: Config) -> Learner[Settings]:
    """Return the algorithm for what was asked; raises for what cannot work."""
    require(["mctx"], "search")
    learner, size = options.learner("muzero", asked, config), asked.settings.batch_size
    if size % learner.devices.count:
        count = learner.devices.count
        raise RunError(
            f"batch_size={size} does not divide evenly among {count} devices; give --batch-size "
            f"{-(-size // count) * count}"
        )
    fit(learner, asked.seeds)
    return learner
