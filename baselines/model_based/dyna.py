"""Dyna for map worlds: recurrent PPO in the world, and in a transformer that learns the world.

Run it with `jaxenvs train Craft-Classic-Ids-v0 --algo dyna`. It is recurrent PPO (ppo_rnn.py) with
the same policy, rollouts and loss. A replay buffer keeps its steps, and windows of them teach a
model (dyna_network.py) what is seen next, the reward, the end of the task and the legal actions.
After `warm_up` steps the policy also learns from rollouts imagined in the model alone (Dyna with
warm-up; Dedieu et al., 2025): they begin at steps of the latest true rollout, with what the policy
remembered there.

An imagined rollout draws all categories of the next observation at once, each by itself, but none
that is far less likely than the likeliest: of many rare errors one would soon happen somewhere. Its
rewards are the means of what the model expects; actions are masked by what the model says of the
observation. The time limit is unknown to it: imagined episodes end where the task does, or their
values are bootstrapped. After an imagined end, the next episode begins at the same step; then the
policy remembers nothing.
Deliberate differences to the paper: no tokenizer, as observations are categories already; cells are
seen with their neighbours; the model is told what the episode has shown and brought so far, as
otherwise it promises a reward again that is given only once; a reward depends on the numbers that
were drawn of the next observation; imagined rollouts have a length of their own, do not begin at
older observations, and draw nothing that is far less likely than something else.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env, Step
from jaxenvs.core.masking import Mask, has_illegal
from jaxenvs.core.platforms import by_platform
from jaxenvs.core.vocabulary import Vocabulary

from ..core import minibatches, replay_buffer, replay_checks, rollouts
from ..core.bounds import Count
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.minibatches import Loss
from ..core.recurrence import reset_memory
from ..core.rollouts import Rollout, Runner
from ..networks import two_hot
from ..networks.policies import Recurrent
from ..on_policy import ppo, ppo_rnn
from .dyna_network import NEVER, Foretold, History, WorldTransformer, log_likelihood

T = TypeVar("T")
AT_ONCE = 4  # windows, or steps of imagination, that a CPU takes together, at most
OF_NEXT = ("token_loss", "accuracy")  # errors of what is seen next, not of the step itself


@dataclasses.dataclass(frozen=True)
class Settings(ppo_rnn.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    capacity: int = 100_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 20_000  # steps of all environments before the first imagined rollout
    context: Count = 4  # steps that each layer of the model looks at; windows are as long
    width: Count = 64  # features of a token in the model
    num_heads: Count = 4  # of the model's attention, among which the width is divided
    depth: Count = 2  # layers of the model
    atoms: Count = 80  # of rewards on either side of 0, see two_hot.py
    spacing: float = 0.05  # of the atoms: about the smallest reward, squeezed; Craft's is 0.05
    model_rate: float = 1e-3  # learning rate of the model
    model_decay: float = 1e-4  # weight decay of the model's kernels
    model_steps: Count = 40  # gradient steps of the model in an update
    model_batch: Count = 32  # windows that each of them learns from, on all devices
    imagined_rollouts: int = 8  # in an update, each learned from like a real one; 0: none
    imagined_envs: Count = 48  # episodes imagined side by side, on all devices
    imagined_steps: Count = 16  # steps of each of them
    least_chance: float = 0.05  # of a category to be imagined, over that of the likeliest; 0: any

    def check(self) -> None:
        super().check()
        self._check_windows()
        if self.width % (4 * self.num_heads):
            raise ValueError(
                f"width={self.width} must be a multiple of 4 and divide evenly among "
                f"num_heads={self.num_heads}; give a multiple of {4 * self.num_heads}"
            )
        if not 0.0 <= self.least_chance <= 1.0:
            raise ValueError(
                f"least_chance={self.least_chance} must be from 0 (any category is imagined) to 1 "
                f"(only the likeliest)"
            )
        if not self.spacing:
            raise ValueError("spacing=0 leaves one atom for all rewards; give more, such as 0.05")
        fixed = {"bonus": 0.0, "reward_scaling": False, "previous": False}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)}: the model of dyna learns the environment's own "
                    f"rewards and observations; omit it, or give --algo ppo-rnn"
                )

    def _check_windows(self) -> None:
        """Raise `ValueError` unless the replay buffer holds windows after the first update."""
        if self.rollout_steps < self.context:
            raise ValueError(
                f"rollout_steps={self.rollout_steps} must be at least context={self.context}; "
                f"give rollout_steps={self.context} or more"
            )
        if self.slots <= self.context:
            raise ValueError(
                f"capacity={self.capacity} leaves {self.slots} slots for each of {self.num_envs} "
                f"environments; a window needs {self.context + 1}: give capacity="
                f"{(self.context + 1) * self.num_envs} or more"
            )

    def check_share(self, num_envs: int, what: str) -> None:
        super().check_share(num_envs, what)
        share = self.imagined_envs * num_envs // self.num_envs
        if share % self.minibatches:
            raise ValueError(
                f"imagined_envs={self.imagined_envs} does not split into minibatches="
                f"{self.minibatches} on each device; give a multiple"
            )

    @property
    def slots(self) -> int:
        """Slots of the replay buffer for each environment."""
        return self.capacity // self.num_envs

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of the policy in an update after the warm-up."""
        return self.epochs * self.minibatches * (1 + self.imagined_rollouts)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Whole updates that the policy's optimiser has seen, by its count."""
        cold = self.cold_updates  # without imagination
        of_cold = self.epochs * self.minibatches
        later = cold + (gradient_steps - cold * of_cold) // self.gradient_steps
        return jnp.where(gradient_steps < cold * of_cold, gradient_steps // of_cold, later)


class Model(NamedTuple):
    """The learned world; the same on all devices."""

    weights: PyTree[Array]
    optimiser: PyTree[Array]
    updates: Int32[Array, "*seeds"]  # of the run, made so far


class Window(NamedTuple):
    """Successive slots of the replay buffer; of the last one only the observation is known."""

    obs: PyTree[Array]  # (*batch, steps + 1, ...)
    history: History  # (*batch, steps + 1, ...)
    mask: Mask  # (*batch, steps, actions)
    action: Int32[Array, "*batch steps"]
    reward: Float32[Array, "*batch steps"]
    terminated: Bool[Array, "*batch steps"]
    is_step: Bool[Array, "*batch steps"]

    @property
    def over(self) -> Bool[Array, "*batch steps"]:
        """Whether the next slot is another episode's: after the end of a task, or a successor."""
        return self.terminated | ~self.is_step


class Start(NamedTuple):
    """Steps of a true rollout (*batch, ...), at which imagined ones begin."""

    obs: PyTree[Array]
    memory: PyTree[Array]  # of the policy, from before obs
    history: History


class Imagined(NamedTuple):
    """What an imagined world is in, by episode."""

    memory: PyTree[Array]  # of the model
    start: Start  # where the episode began


DIVIDED = (*rollouts.DIVIDED, "replay_buffer", "history")
support = two_hot.reach


def network(env: Env, **given: Any) -> Recurrent:
    """The policy's network; raises `ValueError` for observations that no model here foretells."""
    vocabulary_of(env)
    return ppo_rnn.network(env, **given)


def vocabulary_of(env: Env) -> Vocabulary:
    """The categories of what is observed."""
    found = env.vocabulary
    if found is None:
        raise ValueError(
            f"{env.name} observes {env.observation_space}; dyna foretells maps of categories, such "
            f"as those of Craft-Classic-Ids-v0 or the Grid- worlds without a mission: choose "
            f"another observation with --set obs=, or another --algo"
        )
    return found


def model_of(learner: Learner[Settings]) -> WorldTransformer:
    """The model of the environment."""
    settings, env = learner.settings, learner.env.env
    return WorldTransformer(
        vocabulary_of(env),
        env.action_space.n,
        *(settings.context, settings.width, settings.num_heads, settings.depth, settings.atoms),
        jnp.bfloat16 if settings.bfloat16 else jnp.float32,
        parent=None,
    )


def model_optimiser(settings: Settings) -> optax.GradientTransformation:
    """Of the model."""
    adam = minibatches.adamw(settings.model_rate, settings.model_decay)
    return optax.chain(optax.clip_by_global_norm(1.0), adam)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: what recurrent PPO begins with, a model and an empty replay buffer."""
    key_rest, key_model = jax.random.split(key)
    fields, model = rollouts.begin(learner, key_rest), model_of(learner)
    first = jax.tree.map(lambda leaf: leaf[:1], fields["obs"])
    seen = jax.vmap(vocabulary_of(learner.env.env).read)(first)
    history = begun_at(learner, fields["obs"])
    before = jax.tree.map(lambda leaf: leaf[:1], history)
    nothing = (jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.bool_))
    weights = model.init(key_model, *seen, before, *nothing)
    optimiser = model_optimiser(learner.settings).init(weights)
    mask = rollouts.legal_now(learner, fields["world"].env)
    return Runner(
        **fields,
        model=Model(weights, optimiser, jnp.int32(0)),
        replay_buffer=replay_buffer.empty((fields["obs"], history), mask, learner.settings.slots),
        history=history,
    )


def begun_at(learner: Learner[Settings], obs: PyTree[Array]) -> History:
    """Histories of episodes that begin at these observations."""
    env = learner.env.env
    return jax.vmap(functools.partial(History.begin, vocabulary_of(env), env.action_space.n))(obs)


def later(
    learner: Learner[Settings], history: History, action: Array, reward: Array, obs: PyTree[Array]
) -> History:
    """Histories after one more step of every episode, which led to these observations."""
    vocabulary = vocabulary_of(learner.env.env)
    return jax.vmap(lambda past, *step: past.later(vocabulary, *step))(history, action, reward, obs)


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, learn from that, teach the model, and learn from what it imagines; also metrics."""
    memory = runner.memory
    runner, key_act, key = rollouts.next_update(learner, runner)
    key_learn, key_model, key_imagine = jax.random.split(key, 3)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose, remember)
    starts = Start(rollout.obs, *rollout.memory)
    runner, losses = ppo_rnn.learn(learner, runner, memory, rollout, key_learn)
    runner, of_model = teach(learner, runner, key_model)
    runner, imagined = imagine_when_warm(learner, runner, starts, key_imagine)
    return rollouts.finish_update(learner, runner, rollout, {**losses, **of_model, **imagined})


def choose(learner: Learner[Settings], runner: Runner, key: Array, mask: Mask) -> rollouts.Chosen:
    """As PPO, with what imagined rollouts need to begin here."""
    memory, action, chosen = ppo.choose(learner, runner, key, mask)
    return memory, action, {**chosen, "memory": (runner.memory, runner.history)}


def remember(
    learner: Learner[Settings],
    runner: Runner,
    mask: Mask,
    action: Array,
    step: Step,
    successor: PyTree[Array],
) -> Runner:
    """Keep a step of every environment; `successor` are the states that it led to."""
    final_obs = rollouts.observe(learner, runner, successor)
    history = later(learner, runner.history, action, step.reward, final_obs)
    info = {
        "final_obs": (final_obs, history),
        "final_mask": rollouts.legal_now(learner, successor),
    }
    seen = (runner.obs, runner.history)
    kept = (runner.replay_buffer, seen, mask, action, step._replace(info=info))
    return runner._replace(
        replay_buffer=replay_buffer.add(*kept),
        history=jax.vmap(reset_memory)(history, begun_at(learner, step.obs), step.done),
    )


# The model.


def teach(
    learner: Learner[Settings], runner: Runner, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take `model_steps` gradient steps of the model; also return the mean losses."""
    settings, chain = learner.settings, model_optimiser(learner.settings)

    def gradient_step(carry: Any, key: Array) -> tuple[Any, dict[str, Array]]:
        weights, state = carry
        size = settings.model_batch // learner.devices.count
        window = drawn(key, runner.replay_buffer, size, settings.context)
        gradient, losses = minibatches.gradients(learner, loss, weights, window)
        return minibatches.apply_gradient(chain, gradient, state, weights), losses

    model = runner.model
    keys = jax.random.split(key, settings.model_steps)
    (weights, state), losses = jax.lax.scan(gradient_step, (model.weights, model.optimiser), keys)
    model = Model(weights, state, model.updates + 1)
    return runner._replace(model=model), jax.tree.map(jnp.mean, losses)


def drawn(key: Array, buffer: replay_buffer.ReplayBuffer, size: int, steps: int) -> Window:
    """Windows of the replay buffer, drawn evenly."""
    env, first = replay_buffer.sample_slots(key, buffer, size, steps)
    ahead = jnp.arange(steps + 1, dtype=jnp.int32)
    at = (env[:, None], (first[:, None] + ahead) % buffer.reward.shape[1])
    here = jax.tree.map(lambda part: part[:, :steps], at)
    obs, history = jax.tree.map(lambda leaf: leaf[at], buffer.obs)
    return Window(
        obs=obs,
        history=history,
        mask=jax.tree.map(lambda leaf: leaf[here], buffer.mask),
        action=buffer.action[here],
        reward=buffer.reward[here],
        terminated=buffer.terminated[here],
        is_step=buffer.is_step[here],
    )


def loss(learner: Learner[Settings], weights: PyTree[Array], window: Window) -> Loss:
    """Mean cross-entropies of what windows show: observations, rewards, ends and legal actions.

    After the end of a task, what the next slot shows did not come of this step. After a cut it did.
    What stands in a slot that holds no step means nothing.
    """
    of_window = functools.partial(foretelling, learner, weights)
    is_next = window.is_step & ~window.terminated
    parts = {
        name: mean_over(is_next if name in OF_NEXT else window.is_step, error)
        for name, error in few_at_once(of_window, window).items()
    }
    total = jnp.stack([value for name, value in parts.items() if name.endswith("loss")]).sum()
    return total, parts


def foretelling(
    learner: Learner[Settings], weights: PyTree[Array], window: Window
) -> dict[str, Float32[Array, " steps"]]:
    """Errors of what the model foretells of the steps of one window."""
    vocabulary, model = vocabulary_of(learner.env.env), model_of(learner)
    cells, rest = jax.vmap(vocabulary.read)(window.obs)
    history = jax.tree.map(lambda leaf: leaf[:-1], window.history)
    said: Any = model.apply(weights, cells[:-1], rest[:-1], history, window.action, window.over)
    foretold, allowed = said
    earn: Any = functools.partial(model.apply, weights, method="reward")
    reward = earn(foretold.token, rest[:-1], history, rest[1:], window.terminated)
    after = cells[1:].reshape(len(rest) - 1, -1, cells.shape[-1])
    found = errors(foretold, reward, after, rest[1:], window, learner.settings.spacing)
    if window.mask is not None:
        legal = window.mask.astype(jnp.float32)
        found["mask_loss"] = optax.sigmoid_binary_cross_entropy(allowed, legal).sum(axis=-1)
    return found


def errors(
    foretold: Foretold,
    reward: Float32[Array, "steps atoms"],
    cells: Int32[Array, "steps cells channels"],
    rest: Int32[Array, "steps numbers"],
    window: Window,
    spacing: float,
) -> dict[str, Float32[Array, " steps"]]:
    """Cross-entropies at the steps of one window, the share of numbers that were foretold, and
    whether the reward lies beyond the atoms.
    """
    chex.assert_equal_shape(
        [window.reward, window.terminated, window.is_step, foretold.end],
        custom_message="reward, terminated, is_step and end are [steps]",
    )
    likelihood = log_likelihood(foretold.cells, cells).sum(axis=-1)
    likelihood += log_likelihood(foretold.rest, rest)
    found = jnp.concatenate(
        [
            (guess.argmax(axis=-1) == truth).reshape(len(truth), -1)
            for guess, truth in ((foretold.cells, cells), (foretold.rest, rest))
        ],
        axis=-1,
    )
    ends = window.terminated.astype(jnp.float32)
    beyond = two_hot.clipped(window.reward, reward.shape[-1] // 2, spacing)
    return {
        "token_loss": -likelihood / (cells.shape[1] + 1),
        "reward_loss": two_hot.cross_entropy(reward, window.reward, spacing),
        "end_loss": optax.sigmoid_binary_cross_entropy(foretold.end, ends),
        "accuracy": found.astype(jnp.float32).mean(axis=-1),
        "clipped_targets": beyond.astype(jnp.float32),
    }


def few_at_once(function: Callable[..., T], *rows: PyTree[Array]) -> T:
    """What `function` makes of each of many rows, as `vmap` does, for gradients too.

    On a CPU it takes a few of them at a time, whose scores of attention fit into its cache, and
    computes them anew for the gradient.
    """

    def in_turn(*rows: PyTree[Array]) -> T:
        count = len(jax.tree.leaves(rows)[0])
        size = max(n for n in range(1, AT_ONCE + 1) if count % n == 0)
        some: Any = jax.checkpoint(jax.vmap(function))
        parts = jax.tree.map(lambda leaf: leaf.reshape(count // size, size, *leaf.shape[1:]), rows)
        found = jax.lax.map(lambda part: some(*part), parts)
        return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), found)

    return by_platform(*rows, cpu=in_turn, default=jax.vmap(function))


def mean_over(
    chosen: Bool[Array, "batch steps"], values: Float32[Array, "batch steps"]
) -> Float32[Array, ""]:
    """Mean of the chosen values; 0 where none is chosen."""
    return jnp.where(chosen, values, 0.0).sum() / jnp.maximum(chosen.sum(), 1).astype(jnp.float32)


# Imagination.


def imagine_when_warm(
    learner: Learner[Settings], runner: Runner, starts: Start, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Learn from `imagined_rollouts`, or from none before the warm-up is over."""
    settings = learner.settings
    nothing = {"imagined_reward": jnp.float32(0.0), "imagined_kl": jnp.float32(0.0)}
    if not settings.imagined_rollouts:
        return runner, means(nothing, 0)

    def one(learned: tuple[PyTree, ...], key: Array) -> tuple[tuple[PyTree, ...], dict[str, Array]]:
        weights, optimiser = learned
        now = runner._replace(weights=weights, optimiser=optimiser)
        key_imagine, key_learn = jax.random.split(key)
        now, memory, rollout = imagined(learner, now, starts, key_imagine)
        now, losses = ppo_rnn.learn(learner, now, memory, rollout, key_learn)
        told = {"imagined_reward": rollout.reward.mean(), "imagined_kl": losses["kl"]}
        return (now.weights, now.optimiser), told

    def several(learned: tuple[PyTree, ...]) -> tuple[tuple[PyTree, ...], dict[str, Array]]:
        keys = jax.random.split(key, settings.imagined_rollouts)
        learned, told = jax.lax.scan(one, learned, keys)
        return learned, jax.tree.map(jnp.mean, told)

    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    updates = jax.lax.pmax(runner.model.updates, SEEDS)
    learned = (runner.weights, runner.optimiser)
    is_warm = updates >= settings.updates_until(settings.warm_up)
    learned, told = jax.lax.cond(is_warm, several, lambda same: (same, nothing), learned)
    weights, optimiser = learned
    return runner._replace(weights=weights, optimiser=optimiser), means(told, is_warm)


def imagined(
    learner: Learner[Settings], runner: Runner, starts: Start, key: Array
) -> tuple[Runner, PyTree[Array], Rollout]:
    """A rollout in the model alone, as `ppo_rnn.learn` takes it.

    Returns the runner at its end, what the policy remembered before its first step, and itself.
    """
    key_begin, key_act = jax.random.split(key)
    runner = begun(learner, runner, starts, key_begin)
    keys = jax.random.split(key_act, learner.settings.imagined_steps)
    act = functools.partial(imagined_step, learner)
    end, rollout = jax.lax.scan(act, runner, keys)
    return end, runner.memory, rollout


def begun(learner: Learner[Settings], runner: Runner, starts: Start, key: Array) -> Runner:
    """A runner in imagined worlds that begin at some of the starts."""
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
    """A tree for each of several environments."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), tree)


def imagined_step(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Rollout]:
    """One imagined step in every episode; what has ended begins again."""
    key_action, key_step = jax.random.split(key)
    mask = allowed(learner, runner)
    memory, action, chosen = ppo.choose(learner, runner, key_action, mask)
    step = foretold_step(learner, runner, key_step, action)
    history = later(learner, runner.history, action, step.reward, step.obs)
    history = jax.vmap(reset_memory)(history, runner.world.start.history, step.done)
    runner = runner._replace(memory=memory, history=history)
    after, ends = rollouts.after_step(learner, runner, step)
    unknown = jnp.zeros_like(step.reward)
    return after, Rollout(
        obs=runner.obs, reward=step.reward, truncation_value=unknown, **chosen, **ends
    )


def allowed(learner: Learner[Settings], runner: Runner) -> Mask:
    """Legal actions as the model knows them; None if the environment allows all in any state."""
    env = learner.env.env
    if not has_illegal(env):
        return None
    tell = functools.partial(model_of(learner).apply, runner.model.weights, method="allowed")
    logits: Any = jax.vmap(tell)(*jax.vmap(vocabulary_of(env).read)(runner.obs))
    return (logits > 0) | (logits == logits.max(axis=-1, keepdims=True))


def foretold_step(learner: Learner[Settings], runner: Runner, key: Array, action: Array) -> Step:
    """Draw what the model foretells; an episode that ends shows where it began."""
    vocabulary, model = vocabulary_of(learner.env.env), model_of(learner)
    key_cells, key_rest, key_end = jax.random.split(key, 3)
    go_on: Any = functools.partial(model.apply, runner.model.weights, method="next")
    seen, start = jax.vmap(vocabulary.read)(runner.obs), runner.world.start
    memory, foretold = few_at_once(go_on, runner.world.memory, *seen, runner.history, action)
    cells = drawn_likely(learner.settings, key_cells, foretold.cells).reshape(seen[0].shape)
    rest = drawn_likely(learner.settings, key_rest, foretold.rest)
    obs = jax.vmap(vocabulary.write)(cells, rest)
    terminated = jax.random.bernoulli(key_end, jax.nn.sigmoid(foretold.end))
    earn: Any = functools.partial(model.apply, runner.model.weights, method="reward")
    reward = earn(foretold.token, seen[1], runner.history, rest, terminated)
    return Step(
        obs=jax.vmap(reset_memory)(obs, start.obs, terminated),
        state=Imagined(reset_memory(memory, model.begin(), terminated), start),
        reward=two_hot.mean(reward, learner.settings.spacing),
        terminated=terminated,
        truncated=jnp.zeros_like(terminated),
        info={},
    )


def drawn_likely(
    settings: Settings, key: Array, logits: Float32[Array, "*batch categories"]
) -> Int32[Array, "*batch"]:
    """Draw categories, none of which is less likely than `least_chance` of the likeliest one."""
    if settings.least_chance:
        least = logits.max(axis=-1, keepdims=True) + np.log(np.float32(settings.least_chance))
        logits = jnp.where(logits >= least, logits, NEVER)
    return jax.random.categorical(key, logits)


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Atoms that hold the rewards of a `supports.Paid`."""
    return two_hot.wider(settings, max(map(abs, paid.reward)), paid.least)


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the devices cannot share a batch, or cannot hold the replay buffer."""
    for name in ("model_batch", "imagined_envs"):
        replay_checks.check_divides(learner, name)
    replay_checks.check_memory(learner, seeds)
