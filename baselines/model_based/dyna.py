"""Dyna for map observations: recurrent PPO in the environment and in a learned transformer model.

The policy, the rollouts and the policy's loss are the same as in recurrent PPO (ppo_rnn.py). A
replay buffer stores the environment steps, and a model (dyna_network.py) is trained on them to
predict the next observation, the reward, termination and the legal actions. After `warm_up` steps,
the policy is also trained on rollouts in the model (Dyna with warm-up; Dedieu et al., 2025). Run it
with `jaxenvs train Craft-Classic-Ids-v0 --algo dyna`.

Imagined rollouts (dyna_rollouts.py) begin at steps of the latest real rollout, with the recurrent
state that the policy had at that step. The model samples all map cells and item counts of the next
observation at once and independently. It never samples a value (category) that is far less likely
than the most likely value. An observation has many cells, and without this limit one of them would
often get an unlikely value. Imagined rewards are the predicted means, and illegal actions are
masked by the model's prediction. Imagined episodes are never truncated, because the model does not
know the time limit. If an episode has not terminated at the end of a rollout, its return is
bootstrapped. After an imagined termination, the next episode begins at the real step where the
terminated one began, but the recurrent states of policy and model are empty.

Deliberate differences from the paper:

- There is no tokenizer, because map cells and item counts are discrete values already.
- The token of a map cell also encodes the neighbouring cells.
- The model receives the values and rewards that occurred so far in the episode. With this
  history, it can learn that an episode gives some rewards only once.
- The reward is predicted from the sampled item counts of the next observation, too.
- Imagined rollouts have a separate length, do not begin at observations of earlier rollouts, and
  leave out unlikely values.

If forced steps are skipped (core/forced.py), an imagined step is forced if the model predicts a
single legal action. The model itself learns from all steps.
"""

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs import Env, Step
from jaxenvs.core.masking import Mask

from ..core import replay_buffer, replay_checks, rollouts
from ..core.bounds import Bounds, Count, NonNegative, NonNegativeInt, Share
from ..core.learner import Learner
from ..core.recurrence import reset_memory
from ..core.rollouts import Runner
from ..networks import two_hot
from ..networks.policies import Recurrent
from ..on_policy import ppo, ppo_rnn
from . import dyna_model
from .dyna_model import first_history, next_history, train_model, vocabulary_of
from .dyna_rollouts import Start, learn_from_imagination


@dataclasses.dataclass(frozen=True)
class Settings(ppo_rnn.Settings):
    """Hyperparameters of Dyna.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    # steps that the replay buffer holds, all environments together
    capacity: NonNegativeInt = 100_000
    warm_up: NonNegativeInt = 20_000  # steps of all environments before the first imagined rollout
    # Number of successive steps that each layer of the model attends to. The model is trained on
    # windows of this many steps from the replay buffer.
    context: Count = 4
    width: Count = 64  # number of features of each token in the model
    num_heads: Count = 4  # number of attention heads, among which the width is divided
    depth: Count = 2  # number of layers of the model
    atoms: Count = 80  # number of reward atoms on either side of 0, see two_hot.py
    # Distance between reward atoms, after the transform h of two_hot.py: choose about
    # h(smallest reward), which is 0.05 for Craft.
    spacing: Annotated[float, Bounds(open=True, hint="try 0.05")] = 0.05
    model_rate: NonNegative = 1e-3  # learning rate of the model
    model_decay: NonNegative = 1e-4  # weight decay of the model's kernels
    model_steps: Count = 40  # gradient steps of the model per update
    # number of windows (sequences of `context` steps from the replay buffer) in each gradient step
    # of the model, over all devices
    model_batch: Count = 32
    # number of imagined rollouts per update; PPO trains on each
    imagined_rollouts: NonNegativeInt = 8
    imagined_envs: Count = 48  # parallel episodes in an imagined rollout, over all devices
    imagined_steps: Count = 16  # steps of an imagined rollout in each of its parallel episodes
    # A category is sampled only if its probability is at least this fraction of the most likely
    # category's probability; 0: every category can be sampled.
    least_chance: Share = 0.05

    no_restarts = "the model's summary of an episode is not saved; give --algo ppo-rnn"

    def check(self) -> None:
        super().check()
        self._check_windows()
        if self.width % (4 * self.num_heads):
            raise ValueError(
                f"width={self.width} must be a multiple of 4 and divide evenly among "
                f"num_heads={self.num_heads}; give a multiple of {4 * self.num_heads}"
            )
        fixed = {"bonus": 0.0, "reward_scaling": False, "previous": False}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)}: the model of dyna learns the environment's own "
                    f"rewards and observations; omit it, or give --algo ppo-rnn"
                )

    def _check_windows(self) -> None:
        """Raise `ValueError` if a training window is longer than a rollout or the replay buffer.

        A window consists of `context` successive steps of one environment and the observation after
        them. Rollouts must have at least `context` steps, and the replay buffer more than `context`
        slots per environment.
        """
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
        """Number of slots of the replay buffer per environment."""
        return self.capacity // self.num_envs

    @property
    def gradient_steps(self) -> int:
        """Number of policy gradient steps in one update after the warm-up."""
        return self.epochs * self.minibatches * (1 + self.imagined_rollouts)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Return the number of updates in which the policy takes `gradient_steps` steps.

        `every` is ignored, because the policy's optimiser takes one step per gradient step.
        """
        cold = self.cold_updates  # number of updates of the warm-up, without imagined rollouts
        of_cold = self.epochs * self.minibatches
        later = cold + (gradient_steps - cold * of_cold) // self.gradient_steps
        return jnp.where(gradient_steps < cold * of_cold, gradient_steps // of_cold, later)


support = two_hot.reach


def network(env: Env, **given: Any) -> Recurrent:
    """Return the policy's network.

    Raises `ValueError` if the model cannot predict the environment's observations.
    """
    vocabulary_of(env)
    return ppo_rnn.network(env, **given)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Return recurrent PPO's initial runner with an untrained model and an empty replay buffer."""
    key_rest, key_model = jax.random.split(key)
    fields = rollouts.begin(learner, key_rest)
    history = first_history(learner, fields["obs"])
    mask = rollouts.legal_now(learner, fields["world"].env)
    return Runner(
        **fields,
        model=dyna_model.init(learner, key_model, fields["obs"]),
        replay_buffer=replay_buffer.empty((fields["obs"], history), mask, learner.settings.slots),
        history=history,
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Train the policy on a real rollout, then the model, then the policy on imagined rollouts."""
    memory = runner.memory
    runner, key_act, key = rollouts.next_update(learner, runner)
    key_learn, key_model, key_imagine = jax.random.split(key, 3)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose, store)
    starts = Start(rollout.obs, *rollout.memory)
    runner, losses = ppo_rnn.learn(learner, runner, memory, rollout, key_learn)
    runner, of_model = train_model(learner, runner, key_model)
    runner, imagined = learn_from_imagination(learner, runner, starts, key_imagine)
    return rollouts.finish_update(learner, runner, rollout, {**losses, **of_model, **imagined})


def choose(learner: Learner[Settings], runner: Runner, key: Array, mask: Mask) -> rollouts.Chosen:
    """Choose actions as PPO does, and store where imagined episodes can begin.

    The rollout's field `memory` stores, for each step, the policy's recurrent state and the summary
    of the episode (`History`) before the step.
    """
    memory, action, chosen = ppo.choose(learner, runner, key, mask)
    return memory, action, {**chosen, "memory": (runner.memory, runner.history)}


def store(
    learner: Learner[Settings],
    runner: Runner,
    mask: Mask,
    action: Array,
    step: Step,
    successor: PyTree[Array],
) -> Runner:
    """Store a step of every environment in the replay buffer, and update the episode histories.

    `successor` holds the states after the step, before finished episodes are reset.
    """
    final_obs = rollouts.observe(learner, runner, successor)
    history = next_history(learner, runner.history, action, step.reward, final_obs)
    info = {
        "final_obs": (final_obs, history),
        "final_mask": rollouts.legal_now(learner, successor),
    }
    seen = (runner.obs, runner.history)
    kept = (runner.replay_buffer, seen, mask, action, step._replace(info=info))
    return runner._replace(
        replay_buffer=replay_buffer.add(*kept),
        history=jax.vmap(reset_memory)(history, first_history(learner, step.obs), step.done),
    )


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Return values of `atoms` and `spacing` for which the two-hot atoms cover the rewards.

    `paid.reward` is the range of rewards expected for better policies, estimated from the replay
    buffer. `paid.least` is the smallest absolute value of a nonzero reward.
    """
    return two_hot.wider(settings, max(map(abs, paid.reward)), paid.least)


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` for invalid sizes.

    `model_batch` and `imagined_envs` must divide evenly among the devices, and the replay buffer
    must fit into memory.
    """
    for name in ("model_batch", "imagined_envs"):
        replay_checks.check_divides(learner, name)
    replay_checks.check_memory(learner, seeds)
