"""Dyna for map observations: recurrent PPO in the environment and in a learned transformer model.

Policy, rollouts and loss are those of recurrent PPO (ppo_rnn.py). A replay buffer stores the steps,
and a model (dyna_network.py) learns from them to predict the next observation, the reward,
termination and the legal actions. After `warm_up` steps, the policy also learns from rollouts in
the model (Dyna with warm-up; Dedieu et al., 2025). Run it with
`jaxenvs train Craft-Classic-Ids-v0 --algo dyna`.

Imagined rollouts (dyna_rollouts.py) begin at steps of the latest real rollout, with the policy's
recurrent state there. All parts of the next observation are sampled at once and independently.
Categories far less likely than the most likely one are never sampled: with so many parts, a rare
error would soon occur somewhere. Rewards are the predicted means, and illegal actions are masked by
the model's prediction. The model does not know the time limit: imagined episodes terminate or are
bootstrapped. After an imagined termination, the next episode begins at the same real step, with an
empty recurrent state.

Deliberate differences from the paper: no tokenizer, as observations are categories already; tokens
of cells include their neighbours; the model receives the categories and rewards seen so far in the
episode, as otherwise it would predict one-time rewards again; a reward depends on the sampled
numbers (such as item counts) of the next observation; imagined rollouts have a separate length, do
not begin at older observations, and leave out unlikely categories.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs import Env, Step
from jaxenvs.core.masking import Mask

from ..core import replay_buffer, replay_checks, rollouts
from ..core.bounds import Count
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
    """Hyperparameters: presets.py adapts the defaults per environment; flags override both."""

    capacity: int = 100_000  # steps that the replay buffer holds, all environments together
    warm_up: int = 20_000  # steps of all environments before the first imagined rollout
    context: Count = 4  # steps that a model layer attends to; also length of training windows
    width: Count = 64  # number of features of a token in the model
    num_heads: Count = 4  # number of attention heads, among which the width is divided
    depth: Count = 2  # number of layers of the model
    atoms: Count = 80  # number of reward atoms on either side of 0, see two_hot.py
    spacing: float = 0.05  # distance between reward atoms; about h(smallest reward), 0.05 for Craft
    model_rate: float = 1e-3  # learning rate of the model
    model_decay: float = 1e-4  # weight decay of the model's kernels
    model_steps: Count = 40  # gradient steps of the model per update
    model_batch: Count = 32  # windows per gradient step of the model, on all devices together
    imagined_rollouts: int = 8  # imagined rollouts per update, each used like a real one; 0: none
    imagined_envs: Count = 48  # parallel episodes of an imagined rollout, on all devices together
    imagined_steps: Count = 16  # steps of each episode of an imagined rollout
    # Lowest probability, as a fraction of the highest, at which a category is sampled; 0: any.
    least_chance: float = 0.05

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
        """Number of slots of the replay buffer per environment."""
        return self.capacity // self.num_envs

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps of the policy in an update after the warm-up."""
        return self.epochs * self.minibatches * (1 + self.imagined_rollouts)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Return the number of updates after `gradient_steps` steps of the policy's optimiser."""
        cold = self.cold_updates  # updates without imagined rollouts
        of_cold = self.epochs * self.minibatches
        later = cold + (gradient_steps - cold * of_cold) // self.gradient_steps
        return jnp.where(gradient_steps < cold * of_cold, gradient_steps // of_cold, later)


support = two_hot.reach


def network(env: Env, **given: Any) -> Recurrent:
    """Return the policy's network; `ValueError` for observations that the model cannot predict."""
    vocabulary_of(env)
    return ppo_rnn.network(env, **given)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start with the fields of recurrent PPO, an untrained model and an empty replay buffer."""
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
    """Learn from a real rollout, train the model, and learn from imagined rollouts."""
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
    """Act as PPO does; also record the recurrent state and history that imagined rollouts need."""
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
    """Store a step of every environment; `successor` holds the next states before any reset."""
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
    """Return new settings of the atoms, so that their range contains the observed rewards.

    `paid` holds the observed rewards.
    """
    return two_hot.wider(settings, max(map(abs, paid.reward)), paid.least)


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the devices cannot share a batch, or cannot hold the replay buffer."""
    for name in ("model_batch", "imagined_envs"):
        replay_checks.check_divides(learner, name)
    replay_checks.check_memory(learner, seeds)
