"""Training of Dyna's model on windows of the replay buffer.

The model (dyna_network.py) learns to predict the next observation, the reward, termination and the
legal actions.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env
from jaxenvs.core.masking import Mask
from jaxenvs.core.platforms import by_platform
from jaxenvs.core.vocabulary import Vocabulary

from ..core import minibatches, replay_buffer
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.rollouts import Runner
from ..networks import two_hot
from .dyna_network import History, Prediction, WorldTransformer, log_likelihood

T = TypeVar("T")
# Largest number of batch items that the model processes together on a CPU. Items are windows in
# training and parallel episodes in imagined rollouts.
AT_ONCE = 4
# Losses and metrics that compare predictions with the true next observation. They are not computed
# for terminal steps, because the replay buffer does not store the next observation of a terminal
# step.
OF_NEXT = ("token_loss", "accuracy")


class Model(NamedTuple):
    """Weights and optimiser state of Dyna's model, replicated on all devices."""

    weights: PyTree[Array]
    optimiser: PyTree[Array]
    updates: Int32[Array, "*seeds"]  # number of updates that the run has made


class Window(NamedTuple):
    """Successive slots of the replay buffer, on which the model is trained.

    `obs` and `history` include the observation after the last step, so they have steps + 1 entries.
    All other fields have one entry per step.
    """

    obs: PyTree[Array]  # observations, (*batch, steps + 1, ...)
    # summary of the episode up to each observation (dyna_network.py), (*batch, steps + 1, ...)
    history: History
    mask: Mask  # legal actions, (*batch, steps, actions)
    action: Int32[Array, "*batch steps"]
    reward: Float32[Array, "*batch steps"]
    terminated: Bool[Array, "*batch steps"]
    # whether the slot holds a step; False: it holds only the final observation of a truncated
    # episode, at which no action was taken
    is_step: Bool[Array, "*batch steps"]

    @property
    def over(self) -> Bool[Array, "*batch steps"]:
        """Return a mask of the slots in which an episode ends.

        An episode ends in the slot of its terminal step or, after a truncation, in the slot of its
        final observation.
        """
        return self.terminated | ~self.is_step


def vocabulary_of(env: Env) -> Vocabulary:
    """Return the environment's `Vocabulary`, which describes observations as categorical values.

    The vocabulary has the number of possible values of a map cell and of each number outside the
    map, such as an item count. It converts observations to arrays of these values and back. Raises
    `ValueError` if the observations are not maps of integers with few possible values.
    """
    found = env.vocabulary
    if found is None:
        raise ValueError(
            f"{env.name} observes {env.observation_space}; dyna predicts maps of categories, such "
            f"as those of Craft-Classic-Ids-v0 or the Grid- levels without a mission: choose "
            f"another observation with --set obs=, or another --algo"
        )
    return found


def model_of(learner: Learner[Any]) -> WorldTransformer:
    """Return the Flax module of the model for the learner's environment, without weights."""
    settings, env = learner.settings, learner.env.env
    return WorldTransformer(
        vocabulary_of(env),
        env.action_space.n,
        *(settings.context, settings.width, settings.num_heads, settings.depth, settings.atoms),
        jnp.bfloat16 if settings.bfloat16 else jnp.float32,
        parent=None,
    )


def model_optimiser(settings: Any) -> optax.GradientTransformation:
    """Return the optimiser of the model: AdamW with gradients clipped to a global norm of 1."""
    adam = minibatches.adamw(settings.model_rate, settings.model_decay)
    return optax.chain(optax.clip_by_global_norm(1.0), adam)


def init(learner: Learner[Any], key: Array, obs: PyTree[Array]) -> Model:
    """Return an untrained model for the shapes of `obs`, the observations of all environments."""
    model = model_of(learner)
    first = jax.tree.map(lambda leaf: leaf[:1], obs)
    seen = jax.vmap(vocabulary_of(learner.env.env).read)(first)
    before = jax.tree.map(lambda leaf: leaf[:1], first_history(learner, obs))
    nothing = (jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.bool_))
    weights = model.init(key, *seen, before, *nothing)
    optimiser = model_optimiser(learner.settings).init(weights)
    return Model(weights, optimiser, jnp.int32(0))


def first_history(learner: Learner[Any], obs: PyTree[Array]) -> History:
    """Return the `History` (episode summary) of each environment after the first observations."""
    env = learner.env.env
    return jax.vmap(functools.partial(History.begin, vocabulary_of(env), env.action_space.n))(obs)


def next_history(
    learner: Learner[Any], history: History, action: Array, reward: Array, obs: PyTree[Array]
) -> History:
    """Return the `History` (episode summary) of each environment after a step that led to `obs`."""
    vocabulary = vocabulary_of(learner.env.env)
    return jax.vmap(lambda past, *step: past.later(vocabulary, *step))(history, action, reward, obs)


def train_model(
    learner: Learner[Any], runner: Runner, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Train the model for `model_steps` gradient steps; also return the means of its losses."""
    settings, chain = learner.settings, model_optimiser(learner.settings)

    def gradient_step(carry: Any, key: Array) -> tuple[Any, dict[str, Array]]:
        weights, state = carry
        size = settings.model_batch // learner.devices.count
        window = sample_windows(key, runner.replay_buffer, size, settings.context)
        gradient, losses = minibatches.gradients(learner, loss, weights, window)
        return minibatches.apply_gradient(chain, gradient, state, weights), losses

    model = runner.model
    keys = jax.random.split(key, settings.model_steps)
    (weights, state), losses = jax.lax.scan(gradient_step, (model.weights, model.optimiser), keys)
    model = Model(weights, state, model.updates + 1)
    return runner._replace(model=model), jax.tree.map(jnp.mean, losses)


def sample_windows(key: Array, buffer: replay_buffer.ReplayBuffer, size: int, steps: int) -> Window:
    """Sample a batch of `size` windows uniformly from the replay buffer.

    A window is the content of `steps` + 1 successive slots of one environment: `steps` steps, and
    the observation after the last of them.
    """
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


def loss(learner: Learner[Any], weights: PyTree[Array], window: Window) -> Loss:
    """Return the total loss of the model, and each loss and metric by name.

    The total is the sum of all losses. A loss or metric is the mean over the steps of all windows.
    The slot with the final observation of a truncated episode contains no step and is left out. The
    losses and metrics in `OF_NEXT` also leave out terminal steps, because the next observation of a
    terminal step is not in the replay buffer.
    """
    of_window = functools.partial(window_losses, learner, weights)
    is_next = window.is_step & ~window.terminated
    parts = {
        name: masked_mean(is_next if name in OF_NEXT else window.is_step, error)
        for name, error in few_at_once(of_window, window).items()
    }
    total = jnp.stack([value for name, value in parts.items() if name.endswith("loss")]).sum()
    return total, parts


def window_losses(
    learner: Learner[Any], weights: PyTree[Array], window: Window
) -> dict[str, Float32[Array, " steps"]]:
    """Return the losses and metrics of each step of one window (sequence of steps), by name."""
    vocabulary, model = vocabulary_of(learner.env.env), model_of(learner)
    cells, rest = jax.vmap(vocabulary.read)(window.obs)
    history = jax.tree.map(lambda leaf: leaf[:-1], window.history)
    output: Any = model.apply(weights, cells[:-1], rest[:-1], history, window.action, window.over)
    predicted, allowed = output
    predict_reward: Any = functools.partial(model.apply, weights, method="reward")
    reward = predict_reward(predicted.token, rest[:-1], history, rest[1:], window.terminated)
    after = cells[1:].reshape(len(rest) - 1, -1, cells.shape[-1])
    found = step_losses(predicted, reward, after, rest[1:], window, learner.settings.spacing)
    if window.mask is not None:
        legal = window.mask.astype(jnp.float32)
        found["mask_loss"] = optax.sigmoid_binary_cross_entropy(allowed, legal).sum(axis=-1)
    return found


def step_losses(
    predicted: Prediction,
    reward: Float32[Array, "steps atoms"],
    cells: Int32[Array, "steps cells channels"],
    rest: Int32[Array, "steps numbers"],
    window: Window,
    spacing: float,
) -> dict[str, Float32[Array, " steps"]]:
    """Return losses and metrics of each step of a single window (sequence of steps), by name.

    The losses are cross-entropies of the next observation, the reward and termination. One metric
    is the fraction of the observation's categories that are predicted correctly. Another is whether
    the reward lies beyond the outermost atoms. `cells` and `rest` are the true next observations.
    """
    chex.assert_equal_shape(
        [window.reward, window.terminated, window.is_step, predicted.end],
        custom_message="reward, terminated, is_step and end are [steps]",
    )
    likelihood = log_likelihood(predicted.cells, cells).sum(axis=-1)
    likelihood += log_likelihood(predicted.rest, rest)
    correct = jnp.concatenate(
        [
            (guess.argmax(axis=-1) == truth).reshape(len(truth), -1)
            for guess, truth in ((predicted.cells, cells), (predicted.rest, rest))
        ],
        axis=-1,
    )
    ends = window.terminated.astype(jnp.float32)
    beyond = two_hot.clipped(window.reward, reward.shape[-1] // 2, spacing)
    return {
        "token_loss": -likelihood / (cells.shape[1] + 1),
        "reward_loss": two_hot.cross_entropy(reward, window.reward, spacing),
        "end_loss": optax.sigmoid_binary_cross_entropy(predicted.end, ends),
        "accuracy": correct.astype(jnp.float32).mean(axis=-1),
        "clipped_targets": beyond.astype(jnp.float32),
    }


def few_at_once(function: Callable[..., T], *rows: PyTree[Array]) -> T:
    """Apply `function` to each item of a batch, with the same result and gradient as `vmap`.

    On accelerators, this is `vmap`. On a CPU, at most `AT_ONCE` items are computed at a time,
    because the attention scores of more items do not fit into the CPU's cache. The backward pass on
    a CPU recomputes the scores (`jax.checkpoint`), so that they are not stored.
    """

    def in_turn(*rows: PyTree[Array]) -> T:
        count = len(jax.tree.leaves(rows)[0])
        size = max(n for n in range(1, AT_ONCE + 1) if count % n == 0)
        some: Any = jax.checkpoint(jax.vmap(function))
        parts = jax.tree.map(lambda leaf: leaf.reshape(count // size, size, *leaf.shape[1:]), rows)
        found = jax.lax.map(lambda part: some(*part), parts)
        return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), found)

    return by_platform(*rows, cpu=in_turn, default=jax.vmap(function))


def masked_mean(
    chosen: Bool[Array, "batch steps"], values: Float32[Array, "batch steps"]
) -> Float32[Array, ""]:
    """Return the mean of the values where `chosen` is True; 0 if it is False everywhere."""
    return jnp.where(chosen, values, 0.0).sum() / jnp.maximum(chosen.sum(), 1).astype(jnp.float32)
