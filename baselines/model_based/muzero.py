"""MuZero (Schrittwieser et al., 2020): planning in a model that is learned beside the policy.

Run it with `jaxenvs train ID --algo muzero`. A network turns what is observed into a latent state,
and predicts from that and an action the next one and the reward;
Gumbel MuZero (Danihelka et al., 2022) searches through mctx among these alone. The environment is
never asked in a plan, so that plans use only what the agent sees. Illegal actions are known at the
root of a search and nowhere else.

Steps are kept in a replay buffer with the policy that their search found. Windows of them, drawn
evenly or by the error of their first value, teach the network `unroll_steps` imagined steps;
imagined latent states should agree with those of the true observations (`consistency`; Ye et al.,
2021), or those of a board say what its cells show (`reconstruction`; Anand et al., 2022). For the
share `value_consistency` their values are learned from what the network says of these now (value
equivalence; Grimm et al., 2020) instead of from what came of them, which says little of an action
where chance decides much. Afterstates still learn from the latter. What follows the rewards of a
window is worth what a slow copy of the weights, looking one imagined step ahead, can make of it
now: values of the time of acting would be those of worse policies. For a share of the windows,
searches with the slow copy find policies anew. What windows teach is in muzero_loss.py.

With `codes` it is Stochastic MuZero (Antonoglou et al., 2022), for worlds in which chance decides
much: the model has afterstates, which chance turns into states by one of `codes` codes, and the
search weighs these by their learned probabilities (PUCT at decisions, as in the paper). What
happened between two observations is coded by an encoder, learned through the straight-through
gradient of its most likely code. It reads the afterstate and the latent state that followed,
instead of observations, and is asked to use all codes evenly.
Deliberate differences beside these: values to learn are those of one imagined step at most, not of
a search; layers and latent states are normalised (muzero_network.py); environments fill the replay
buffer side by side; an episode cut by the time limit is bootstrapped with its true successor; what
follows the end of a task is worth 0 and has no policy.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree, Shaped, UInt32

from jaxenvs.core.masking import Mask, legal
from jaxenvs.core.random import shuffled

from ..core import priorities, replay_buffer, replay_checks, rollouts
from ..core.bounds import Count, Rate, Share
from ..core.learner import Learner
from ..core.replay_buffer import ReplayBuffer
from ..core.rollouts import Rollout
from ..core.settings import Exploring
from ..networks import q_network, two_hot
from ..networks.encoders import is_board
from ..off_policy import dqn
from ..off_policy.dqn import Learned
from .muzero_loss import Window, following, loss, parts_of, targets
from .muzero_network import BoardNetwork, MuZeroNetwork
from .muzero_search import planned

FIRMNESS = 50.0  # by which mctx multiplies `value_scale` before the first visit of a search
SMALL = 1e-6  # least span of values that are stretched to 0 to 1


@dataclasses.dataclass(frozen=True)
class Settings(Exploring):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 200_000  # environment steps of each seed, rounded up to whole updates
    num_envs: int = 32  # environments that step together
    rollout_steps: int = 16  # steps of each environment between updates
    max_grad_norm: float = 5.0  # global norm of the gradient, at most
    capacity: int = 100_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 2_000  # steps of all environments before the first gradient step
    gradient_steps: Count = 16  # of an update
    batch_size: Count = 128  # windows that a gradient step learns from, on all devices
    unroll_steps: Count = 5  # imagined steps of a window
    n_step: Count = 5  # steps whose rewards are added before the value of what follows
    simulations: Count = 16  # of the search for each action
    considered: Count = 16  # actions that the search tries at its root, at most
    value_scale: float = 0.1  # how firmly the policy follows the values that the search found
    rescale: bool = True  # whether the values of a node are scaled to 0 to 1 before
    latent: Count = 64  # numbers of a latent state
    atoms: Count = 100  # of rewards and values on either side of 0, see two_hot.py
    spacing: float = 0.2  # of the atoms: well below what the smallest reward is, squeezed
    value_weight: float = 0.25  # weight of the value loss
    lookahead: bool = True  # whether values to learn are those of a policy that looks a step ahead
    epsilon_start: float = 0.0  # share of random actions at the beginning
    epsilon_end: float = 0.0  # and when it has fallen
    entropy: float = 0.0  # weight of the entropy bonus, over legal actions
    consistency: float = 1.0  # weight of the disagreement of imagined and true latent states
    reconstruction: float = 0.0  # weight of what imagined states of a board say its cells show
    value_consistency: Share = 0.0  # share of imagined states' values learned from the true ones'
    reanalysed: Share = 0.25  # share of windows whose policies are found anew
    target_rate: Rate = 1.0  # Polyak coefficient of the target network; 1 copies the weights
    target_every: Count = 100  # gradient steps between updates of the target network
    priority: Share = 0.0  # power of the value's error by which windows are drawn; 0: all evenly
    importance: Share = 0.4  # power of the importance weights at the start; it rises to 1
    codes: int = 0  # outcomes of chance that the model tells apart; 0: it knows no chance

    def check(self) -> None:
        super().check()
        if not self.spacing:
            raise ValueError("spacing=0 leaves one atom for all numbers; give more, such as 0.2")
        least = self.reach + 1 + (self.priority > 0.0)  # see `Replayed.least_slots`
        if self.slots < least:
            raise ValueError(
                f"capacity={self.capacity} leaves {self.slots} slots for each of {self.num_envs} "
                f"environments; a window needs {least}: give capacity={least * self.num_envs} or "
                "more"
            )
        if self.reconstruction and not self.lines:
            raise ValueError(
                f"reconstruction={self.reconstruction}: only the latent state of a square board "
                f"that is read with lines says what cells show; give reconstruction=0, or where "
                f"a board is observed lines=64"
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


DIVIDED = (*rollouts.DIVIDED, "replay_buffer", "found", "priorities")
support = two_hot.reach


def network(env: Any, **given: Any) -> MuZeroNetwork:
    """The network for an environment; that of a board, whose `lines` are read, knows its cells."""
    is_alone = given.get("lines") and is_board(env.features[0])
    return (BoardNetwork if is_alone else MuZeroNetwork).of(env, **given)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice, an empty replay buffer, worlds and the key for all that follows."""
    fields = rollouts.begin(learner, key)
    mask = rollouts.legal_now(learner, fields["world"].env)
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
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, ends = collect(learner, runner, key_act)
    runner = runner._replace(updates=runner.updates + 1)
    step = functools.partial(gradient_step, learner, runner)
    names = (*parts_of(learner.settings), "clipped_targets")
    runner, losses = dqn.learn_when_ready(learner, runner, key_learn, step, names=names)
    epsilon = learner.settings.epsilon(runner.updates - 1)
    return runner, {**rollouts.episode_sums(ends), **losses, "epsilon": epsilon}


def collect(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Rollout]:
    """Act for `rollout_steps` steps in every environment, and remember them."""

    def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
        key_plan, key_random, key_step = jax.random.split(key, 3)
        mask = rollouts.legal_now(learner, runner.world.env)
        plan = planned(learner, runner.weights, key_plan, runner.obs, mask)
        chosen = jax.nn.one_hot(plan.action, plan.policy.shape[1], dtype=jnp.float32)
        action = q_network.explore(key_random, chosen, epsilon, mask)
        step = learner.env.step(key_step, runner.world, action)
        buffer = runner.replay_buffer
        every = jnp.arange(len(action), dtype=jnp.int32)
        where = every, buffer.written % learner.settings.slots
        runner = runner._replace(
            found=runner.found.at[where].set(plan.policy),
            replay_buffer=replay_buffer.add(buffer, runner.obs, mask, action, step),
        )
        after, ends = rollouts.after_step(learner, runner, step)
        return after, Rollout(**ends)

    settings = learner.settings
    before, epsilon = runner.replay_buffer.written, settings.epsilon(runner.updates)
    runner, ends = jax.lax.scan(act, runner, jax.random.split(key, settings.rollout_steps))
    if settings.priority:
        given = runner.priorities, runner.replay_buffer, before
        runner = runner._replace(priorities=priorities.add_complete(*given, settings.reach))
    return runner, ends


def gradient_step(
    learner: Learner[Settings],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[Learned, dict[str, Array]]:
    """Learn from one batch of windows, then let the slow copy follow.

    `beta` is the power of the importance weights of windows drawn by priority.
    """
    settings = learner.settings
    key_draw, key_plan = jax.random.split(key)
    drawn, window = windows(learner, runner, beta, learned, key_draw)
    window = reanalysed(learner, learned.target, key_plan, window)
    values = values_now(learner, learned.target, window)
    goals = targets(window, values, settings.n_step, settings.gamma)
    return dqn.descended(learner, loss, learned, drawn, window, goals)


def windows(
    learner: Learner[Settings],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[priorities.SampledSlots | None, Window]:
    """Windows from the replay buffer, drawn evenly or by priority; also what was drawn by it."""
    settings, devices = learner.settings, learner.devices
    if not settings.priority:
        size = settings.batch_size // devices.count
        where = replay_buffer.sample_slots(key, runner.replay_buffer, size, settings.reach)
        return None, cut_out(settings, runner, *where)
    known = learned.priorities, learned.sums
    drawn = priorities.sample(key, *known, settings.batch_size, beta, devices)
    # Draws come in the order of environments, and `reanalysed` takes the first.
    order = shuffled(devices.first_key(jax.random.fold_in(key, 0)), settings.batch_size)
    drawn = jax.tree.map(lambda leaf: leaf[order], drawn)
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
        mask_ahead=jax.tree.map(lambda leaf: leaf[later], buffer.mask),
    )


def reanalysed(
    learner: Learner[Settings], target: PyTree[Array], key: Array, window: Window
) -> Window:
    """The windows, the first of them with policies that searches with the slow copy find now."""
    count = round(learner.settings.reanalysed * len(window.policy))
    if not count:
        return window
    shape = window.policy[:count].shape
    seen = jax.tree.map(lambda leaf: flat(leaf[:count]), (window.obs, window.mask))
    policy = planned(learner, target, key, *seen).policy.reshape(shape)
    return window._replace(policy=window.policy.at[:count].set(policy))


def values_now(
    learner: Learner[Settings], target: PyTree[Array], window: Window
) -> Float32[Array, "batch moments"]:
    """What the slow copy says of the slots that follow the rewards of each moment of windows."""
    settings, slots = learner.settings, following(window, learner.settings.n_step)

    def those(early: Array, later: Array) -> Array:
        every = jnp.concatenate([early, later], axis=1)
        return flat(jax.vmap(lambda rows, index: rows[index])(every, slots))

    seen = (window.obs, window.mask), (window.ahead, window.mask_ahead)
    obs, mask = jax.tree.map(those, *seen)
    if settings.lookahead:
        value = looked_ahead(learner, target, obs, mask)
    else:
        _, value = learner.network.of_batch(target, "__call__", obs)
    return value.reshape(slots.shape)


def looked_ahead(
    learner: Learner[Settings], weights: PyTree[Array], obs: PyTree[Array], mask: Mask
) -> Float32[Array, " batch"]:
    """What a policy that looks one imagined step ahead is worth.

    It follows the values of actions as firmly as a search without chance does.
    """
    network, settings = learner.network, learner.settings
    of = functools.partial(network.of_batch, weights)
    latent = of("represent", obs)
    logits, _ = of("predict", latent)

    def worth(action: Int32[Array, ""]) -> Float32[Array, " batch"]:
        action = jnp.broadcast_to(action, len(latent))
        if settings.codes:
            _, value = of("expect", of("act", latent, action))
            return network.number(value)
        after, reward = of("imagine", latent, action)
        _, value = of("predict", after)
        return network.number(reward) + settings.gamma * network.number(value)

    worths = jax.vmap(worth, out_axes=1)(jnp.arange(network.num_actions, dtype=jnp.int32))
    known, firmness = worths, FIRMNESS * settings.value_scale
    if settings.rescale:
        lowest = -legal(-worths, mask).max(axis=-1, keepdims=True)
        span = legal(worths, mask).max(axis=-1, keepdims=True) - lowest
        known = (worths - lowest) / jnp.maximum(span, SMALL)
    policy = jax.nn.softmax(legal(logits + firmness * known, mask))
    return (policy * worths).sum(axis=-1)


def flat(leaf: Shaped[Array, "batch moments ..."]) -> Shaped[Array, "rows ..."]:
    """The moments of all windows, one after another."""
    return leaf.reshape(-1, *leaf.shape[2:])


def decide(
    learner: Learner[Settings],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    state: Any,
    params: Any,
    greedy: bool,
) -> Int32[Array, " batch"]:
    """Actions of the trained policy; see `planning.Search.plan`. No state or params are read."""
    noise = 0.0 if greedy else 1.0
    return planned(learner, weights, key, obs, mask, gumbel_scale=noise, dirichlet=0.0).action


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Atoms that hold the rewards and returns of a `supports.Paid`."""
    ends = (*paid.reward, *paid.returns)
    return two_hot.wider(settings, max(map(abs, ends)), paid.least)


def check_board(learner: Learner[Settings]) -> None:
    """Raise unless what its latent states should say of cells can be said."""
    if learner.settings.reconstruction and not isinstance(learner.network, BoardNetwork):
        raise ValueError(
            f"reconstruction={learner.settings.reconstruction}: {learner.env.env.name} observes "
            f"{learner.network.observation_space}; only a square board of categories by itself "
            f"has a latent state of cells: give reconstruction=0"
        )


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` for what a replay buffer, or the reconstruction of a board, cannot do."""
    replay_checks.check(learner, seeds, episodes)
    check_board(learner)
