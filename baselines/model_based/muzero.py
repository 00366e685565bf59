"""MuZero (Schrittwieser et al., 2020): planning in a learned model of latent states.

A network maps an observation to a latent state, predicts the next latent state and the reward of an
action, and predicts the policy and value of a latent state. Gumbel MuZero (Danihelka et al., 2022,
through mctx) searches in this model and never in the environment, so plans depend only on the
agent's observations. Illegal actions are masked only at the root of a search. Run it with
`jaxenvs train ID --algo muzero`.

The replay buffer stores each step together with the search policy. The network is trained
(muzero_loss.py) on windows of `unroll_steps` + 1 steps, which are sampled uniformly or, with
prioritised replay, by the value error at their first step. The settings select targets and
auxiliary losses:

- `lookahead`: TD targets bootstrap from the target network's value after a one-step lookahead in
  the model.
- `reanalysed`: for this fraction of the windows, new searches with the target network replace the
  stored search policies, which are the policy targets.
- `consistency`: predicted latent states should agree with encodings of the true observations (Ye et
  al., 2021).
- `reconstruction`: the latent states of a board should predict the board's cells (Anand et al.,
  2022).
- `value_consistency`: weight of a second value target for predicted latent states: the network's
  own value of the true observation (value equivalence; Grimm et al., 2020). The TD target, which is
  noisy in stochastic environments, has the remaining weight. Values of afterstates have no second
  target.

With `codes` above 0, this is Stochastic MuZero (Antonoglou et al., 2022). An action leads to an
afterstate, and one of `codes` chance outcomes leads from the afterstate to the next state. The
search weights outcomes by their predicted probabilities and uses PUCT at decision nodes, as in the
paper. In training, an encoder chooses the outcome of each observed step, with a straight-through
gradient.

Deliberate differences from the papers:

- Bootstrapped values come from a one-step lookahead, not from a search.
- Layers and latent states are normalised (muzero_network.py).
- Several environments fill the replay buffer.
- A truncated episode is bootstrapped from its final observation.
- After a terminal state, the value target is 0, and there is no policy target.
- The chance encoder reads the afterstate and the next latent state instead of observations, and a
  loss makes it use all codes equally often.

If forced steps are skipped (core/forced.py), a slot of the replay buffer holds a decision and the
forced steps after it. The model thus learns decisions, and predicts no forced state.
"""

import dataclasses
import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree, Shaped

from jaxenvs.core.masking import Mask, legal
from jaxenvs.core.random import shuffled

from ..core import forced, priorities, replay_buffer, replay_checks, rollouts
from ..core.bounds import Bounds, Count, NonNegative, NonNegativeInt, Rate, Share
from ..core.learner import Learner
from ..core.rollouts import Rollout, Runner
from ..core.settings import Replay, SkipForced
from ..networks import q_network, two_hot
from ..networks.encoders import is_board
from ..off_policy import q_learning
from ..off_policy.q_learning import Learned
from .muzero_loss import Window, bootstrap_slots, loss, loss_names, targets
from .muzero_network import BoardNetwork, MuZeroNetwork
from .muzero_search import plan

# mctx's `maxvisit_init` (c_visit in the paper). The search adds sigma(Q) to the policy logits, with
# sigma(Q) = (MAXVISIT_INIT + largest visit count of an action) * value_scale * Q.
MAXVISIT_INIT = 50.0
MIN_SPAN = 1e-6  # lower bound of the range of Q values, by which rescaling divides


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced, Replay):
    """Hyperparameters of MuZero.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    total_steps: int = 200_000  # environment steps of each seed; rounded up to chunks of updates
    num_envs: int = 32  # number of environments stepped in parallel
    rollout_steps: int = 16  # steps of each environment between updates
    max_grad_norm: float = 5.0  # gradients are clipped to this global norm
    capacity: int = 100_000  # steps that the replay buffer holds, all environments together
    warm_up: int = 2_000  # steps of all environments before the first gradient step
    gradient_steps: Count = 16  # gradient steps per update
    # number of windows (sequences of replayed steps) per gradient step, over all devices
    batch_size: Count = 128
    unroll_steps: Count = 5  # number K of steps for which the model is unrolled in training
    n_step: Count = 5  # number of rewards in a value target, before it bootstraps
    simulations: Count = 16  # simulations per search
    considered: Count = 16  # largest number of actions that a search considers at its root
    value_scale: NonNegative = 0.1  # scale of the values in the improved policy (mctx value_scale)
    rescale: bool = True  # whether the action values of a node are rescaled to the range 0 to 1
    latent: Count = 64  # size of a latent state
    atoms: Count = 100  # number of reward and value atoms on either side of 0, see two_hot.py
    # Distance between atoms, after the transform h of two_hot.py: choose well below
    # h(smallest reward).
    spacing: Annotated[float, Bounds(open=True, hint="try 0.2")] = 0.2
    value_weight: NonNegative = 0.25  # coefficient of the value loss
    lookahead: bool = True  # whether value targets use a one-step lookahead in the model
    epsilon_start: float = 0.0  # initial probability of a random action
    epsilon_end: float = 0.0  # final probability of a random action
    # coefficient of the policy's entropy bonus; only legal actions count
    entropy: NonNegative = 0.0
    consistency: NonNegative = 1.0  # coefficient of the consistency loss of latent states
    # coefficient of the reconstruction loss of a board's cells; 0: off
    reconstruction: NonNegative = 0.0
    # weight, in value targets, of the network's own value of the true observation; 0: off
    value_consistency: Share = 0.0
    # Fraction of each sampled batch whose policy targets are computed by a new search with the
    # target network. The other windows use the policies that were stored while acting.
    reanalysed: Share = 0.25
    target_rate: Rate = 1.0  # Polyak coefficient of the target network; 1 copies the weights
    target_every: Count = 100  # number of gradient steps between target network updates
    codes: NonNegativeInt = 0  # number of chance outcomes in the model; 0: a deterministic model

    def check(self) -> None:
        super().check()
        if self.reconstruction and not self.lines:
            raise ValueError(
                f"reconstruction={self.reconstruction}: only the latent state of a square board "
                f"that is read with lines has cells; give reconstruction=0, or where "
                f"a board is observed lines=64"
            )

    @property
    def window(self) -> str:
        """Text that names one sample of the replay buffer (successive steps) in error messages."""
        return "a window"

    @property
    def reach(self) -> int:
        """Number of replay-buffer slots that a sampled window needs after its first slot.

        The model is unrolled over `unroll_steps` slots. The TD target of the last unroll step needs
        the rewards of `n_step` slots.
        """
        return self.unroll_steps + self.n_step


support = two_hot.reach


def network(env: Any, **given: Any) -> MuZeroNetwork:
    """Return a `MuZeroNetwork`, or a `BoardNetwork` for square boards if `lines` is set."""
    is_alone = given.get("lines") and is_board(env.features[0])
    return (BoardNetwork if is_alone else MuZeroNetwork).of(env, **given)


def init(learner: Learner[Settings, MuZeroNetwork], key: Array) -> Runner:
    """Return Q-learning's initial training state, with an array `found` of search policies.

    `found`, float32 (environments, slots, actions), stores for each slot of the replay buffer the
    action probabilities that the search found at this step.
    """
    shape = (learner.env.num_envs, learner.settings.slots, learner.network.num_actions)
    return q_learning.begin(learner, key)._replace(found=jnp.zeros(shape, jnp.float32))


def update(
    learner: Learner[Settings, MuZeroNetwork], runner: Runner
) -> tuple[Runner, dict[str, Array]]:
    """Collect steps and learn from the replay buffer; return the new training state and metrics."""
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, ends = collect(learner, runner, key_act)
    runner = runner._replace(updates=runner.updates + 1)
    step = functools.partial(gradient_step, learner, runner)
    names = (*loss_names(learner.settings), "clipped_targets")
    runner, losses = q_learning.learn_when_ready(learner, runner, key_learn, step, names=names)
    epsilon = learner.settings.epsilon(runner.updates - 1)
    return runner, {**rollouts.metrics(ends), **losses, "epsilon": epsilon}


def collect(
    learner: Learner[Settings, MuZeroNetwork], runner: Runner, key: Array
) -> tuple[Runner, Rollout]:
    """Take `rollout_steps` steps in every environment.

    The steps are added to the replay buffer, and the policies of the searches to `runner.found`.
    The returned rollout contains only returns, lengths and ends of episodes, and which steps are
    forced if forced steps are skipped.
    """

    def act(runner: Runner, key: Array) -> tuple[Runner, tuple[Rollout, PyTree[Array]]]:
        key_plan, key_random, key_step = jax.random.split(key, 3)
        mask = rollouts.legal_now(learner, runner.world.env)
        found = plan(learner, runner.weights, key_plan, runner.obs, mask)
        chosen = jax.nn.one_hot(found.action, found.policy.shape[1], dtype=jnp.float32)
        action = q_network.explore(key_random, chosen, epsilon, mask)
        step, successor = rollouts.advance(learner, runner, key_step, action)
        measured = rollouts.measure_ends(learner, runner, step, successor)
        buffer = runner.replay_buffer
        every = jnp.arange(len(action), dtype=jnp.int32)
        slot = buffer.written % settings.slots
        if skips:  # the slot of a decision keeps its policy during the forced steps after it
            slot = jnp.where(buffer.pending, settings.slots, slot)
        runner = runner._replace(
            found=runner.found.at[every, slot].set(found.policy, mode="drop"),
            replay_buffer=replay_buffer.add(buffer, runner.obs, mask, action, step),
        )
        after, ends = rollouts.after_step(learner, runner, step)
        kept = Rollout(**ends, forced=forced.is_forced(mask) if skips else ())
        return after, (kept, measured)

    settings, skips = learner.settings, forced.are_skipped(learner.env.env, learner.settings)
    before = replay_buffer.newest(runner.replay_buffer)
    epsilon = settings.epsilon(runner.updates)
    keys = jax.random.split(key, settings.rollout_steps)
    runner, (ends, measured) = jax.lax.scan(act, runner, keys, unroll=settings.unroll)
    runner = rollouts.with_measures(runner, measured)
    if settings.priority:
        given = runner.priorities, runner.replay_buffer, before
        runner = runner._replace(priorities=priorities.add_complete(*given, settings.reach))
    return runner, ends


def gradient_step(
    learner: Learner[Settings, MuZeroNetwork],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[Learned, dict[str, Array]]:
    """Sample a batch of windows (sequences of steps), and take a gradient step on the batch.

    `beta` is the exponent of the importance weights of prioritised replay.
    """
    settings = learner.settings
    key_draw, key_plan = jax.random.split(key)
    drawn, window = sample_windows(learner, runner, beta, learned, key_draw)
    window = reanalyse(learner, learned.target, key_plan, window)
    values = bootstrap_values(learner, learned.target, window)
    goals = targets(window, values, settings.n_step, settings.gamma)
    return q_learning.descend(learner, loss, learned, drawn, window, goals)


def sample_windows(
    learner: Learner[Settings, MuZeroNetwork],
    runner: Runner,
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[priorities.SampledSlots | None, Window]:
    """Sample a batch of windows (sequences of successive steps) from the replay buffer.

    With prioritised replay, also return the first slot and the importance weight of each window;
    the caller updates the priorities of these slots. Without prioritised replay, return None
    instead.
    """
    settings, devices = learner.settings, learner.devices
    if not settings.priority:
        size = settings.batch_size // devices.count
        where = replay_buffer.sample_slots(key, runner.replay_buffer, size, settings.reach)
        return None, windows_at(settings, runner, *where)
    known = learned.priorities, learned.sums
    drawn = priorities.sample(key, *known, settings.batch_size, beta, devices)
    # `priorities.sample` returns the windows sorted by environment. Shuffle them: without the
    # shuffle, `reanalyse`, which takes the first windows of a batch, would always get windows of
    # the same few environments.
    order = shuffled(devices.first_key(jax.random.fold_in(key, 0)), settings.batch_size)
    drawn = jax.tree.map(lambda leaf: leaf[order], drawn)
    window = windows_at(settings, runner, drawn.env, drawn.slot)
    # Before the first complete window, the drawn slots are arbitrary and weights are NaN.
    weight = jnp.where(window.is_step, drawn.weight, 0.0)
    return drawn, devices.distribute(window._replace(weight=weight), drawn.device)


def windows_at(
    settings: Settings, runner: Runner, env: Int32[Array, " batch"], first: Int32[Array, " batch"]
) -> Window:
    """Read a batch of windows (sequences of successive slots) from the replay buffer.

    Window i begins in slot `first[i]` of environment `env[i]`.
    """
    buffer, moments = runner.replay_buffer, settings.unroll_steps + 1
    is_step = replay_buffer.holds_window(buffer, env, first, settings.reach)
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
        is_step=is_step,
        weight=jnp.ones(len(env), jnp.float32),
        ahead=jax.tree.map(lambda leaf: leaf[later], buffer.obs),
        mask_ahead=jax.tree.map(lambda leaf: leaf[later], buffer.mask),
    )


def reanalyse(
    learner: Learner[Settings, MuZeroNetwork], target: PyTree[Array], key: Array, window: Window
) -> Window:
    """Run new searches for the first windows of a batch, and replace their policy targets.

    The setting `reanalysed` is the fraction of windows with new policy targets. The searches use
    the target network, whose weights are `target`.
    """
    count = round(learner.settings.reanalysed * len(window.policy))
    if not count:
        return window
    shape = window.policy[:count].shape
    seen = jax.tree.map(lambda leaf: flatten(leaf[:count]), (window.obs, window.mask))
    policy = plan(learner, target, key, *seen).policy.reshape(shape)
    return window._replace(policy=window.policy.at[:count].set(policy))


def bootstrap_values(
    learner: Learner[Settings, MuZeroNetwork], target: PyTree[Array], window: Window
) -> Float32[Array, "batch moments"]:
    """Return the bootstrap value of the TD target at each unroll step of each window.

    The target network predicts this value for the observation that follows the last reward in the
    TD target.
    """
    settings, slots = learner.settings, bootstrap_slots(window, learner.settings.n_step)

    def at_slots(early: Array, later: Array) -> Array:
        every = jnp.concatenate([early, later], axis=1)
        return flatten(jax.vmap(lambda rows, index: rows[index])(every, slots))

    seen = (window.obs, window.mask), (window.ahead, window.mask_ahead)
    obs, mask = jax.tree.map(at_slots, *seen)
    if settings.lookahead:
        value = lookahead_value(learner, target, obs, mask)
    else:
        _, value = learner.network.of_batch(target, "__call__", obs)
    return value.reshape(slots.shape)


def lookahead_value(
    learner: Learner[Settings, MuZeroNetwork],
    weights: PyTree[Array],
    obs: PyTree[Array],
    mask: Mask,
) -> Float32[Array, " batch"]:
    """Return the state values of a batch of observations, after a one-step lookahead in the model.

    The lookahead predicts the Q value of each action. A state value is the mean of these Q values,
    weighted by Gumbel MuZero's improved policy softmax(logits + sigma(Q)). Here, sigma(Q) is
    `MAXVISIT_INIT` * `value_scale` * Q, as in a search before its first simulation. With the
    setting `rescale`, sigma first rescales the Q values to [0, 1].
    """
    network, settings = learner.network, learner.settings
    of = functools.partial(network.of_batch, weights)
    latent = of("represent", obs)
    logits, _ = of("predict", latent)

    def q_value(action: Int32[Array, ""]) -> Float32[Array, " batch"]:
        action = jnp.broadcast_to(action, len(latent))
        if settings.codes:
            _, value = of("predict_afterstate", of("afterstate", latent, action))
            return network.number(value)
        after, reward = of("transition", latent, action)
        _, value = of("predict", after)
        return network.number(reward) + settings.gamma * network.number(value)

    values = jax.vmap(q_value, out_axes=1)(jnp.arange(network.num_actions, dtype=jnp.int32))
    scaled, scale = values, MAXVISIT_INIT * settings.value_scale
    if settings.rescale:
        lowest = -legal(-values, mask).max(axis=-1, keepdims=True)
        span = legal(values, mask).max(axis=-1, keepdims=True) - lowest
        scaled = (values - lowest) / jnp.maximum(span, MIN_SPAN)
    policy = jax.nn.softmax(legal(logits + scale * scaled, mask))
    return (policy * values).sum(axis=-1)


def flatten(leaf: Shaped[Array, "batch moments ..."]) -> Shaped[Array, "rows ..."]:
    """Merge an array's first two axes, windows and unroll steps, into one batch axis."""
    return leaf.reshape(-1, *leaf.shape[2:])


def decide(
    learner: Learner[Settings, MuZeroNetwork],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    state: Any,
    params: Any,
    greedy: bool,
) -> Int32[Array, " batch"]:
    """Return the trained policy's actions, which a search finds for each observation.

    With `greedy`, the search adds no noise. `state` and `params` are not used, because the search
    runs in the learned model.
    """
    noise = 0.0 if greedy else 1.0
    return plan(learner, weights, key, obs, mask, gumbel_scale=noise, dirichlet=0.0).action


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Return values of `atoms` and `spacing` with which the atoms cover rewards and returns.

    `paid.reward` and `paid.returns` are the ranges of rewards and returns that better policies may
    earn, estimated from the replay buffer. `paid.least` is the smallest absolute value of a nonzero
    reward.
    """
    ends = (*paid.reward, *paid.returns)
    return two_hot.wider(settings, max(map(abs, ends)), paid.least)


def check_board(learner: Learner[Settings, MuZeroNetwork]) -> None:
    """Raise `ValueError` if `reconstruction` is set and the observation is not a square board."""
    if learner.settings.reconstruction and not isinstance(learner.network, BoardNetwork):
        raise ValueError(
            f"reconstruction={learner.settings.reconstruction}: {learner.env.env.name} observes "
            f"{learner.network.observation_space}; only a square board of categories by itself "
            f"has a latent state of cells: give reconstruction=0"
        )


def check(learner: Learner[Settings, MuZeroNetwork], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the replay buffer does not fit into the device's memory.

    Also raise it if a batch does not divide evenly among the devices, or if `reconstruction` is set
    and the observation is not a square board.
    """
    replay_checks.check(learner, seeds, episodes)
    check_board(learner)
