"""Settings shared by learners; each learner's module adds further ones."""

import dataclasses
from typing import Any, ClassVar, Literal, get_args, get_origin

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from .bounds import USUAL, Count, Rate, Share, Swept, Unlimited, bounds
from .schedules import Scheduled

LARGEST = 2**31 - 1  # largest int32; updates, gradient steps and slots are counted in int32
Optimiser = Literal["adam", "adamw", "radam", "muon"]
Activation = Literal["tanh", "relu", "gelu", "silu"]


class Checked(Scheduled):
    """Base class of every learner's settings dataclass: checks the values, counts updates."""

    total_steps: Count
    chunk: Count
    gradient_steps: Any  # int, gradient steps per update
    steps_per_update: Any  # int, steps that each seed makes per update
    swept: ClassVar[tuple[str, ...]] = ()  # fields that --sweep accepts, see `bounds.Swept`
    unit: ClassVar[str] = "steps"  # name of what `total_steps` counts

    def check(self) -> None:
        """Raise `ValueError` for invalid settings, with a message that gives the fix."""
        declared = bounds(type(self))
        for field in dataclasses.fields(self):
            name, value, allowed = field.name, getattr(self, field.name), get_args(field.type)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                declared.get(name, USUAL).check(name, value)
            if get_origin(field.type) is Literal and value not in allowed:
                raise ValueError(f"{name}={value}: choose one of {', '.join(allowed)}")
        self.check_plans()
        self.check_counters()

    def check_counters(self) -> None:
        """Raise `ValueError` if a run has more gradient steps or slots than int32 can count."""
        # Two slots per step at most: the last step of a truncated episode takes two.
        slots = 2 * self.updates * getattr(self, "rollout_steps", 0) * hasattr(self, "capacity")
        for count, what, fix in (
            (
                self.updates * getattr(self, "gradient_steps", 0),
                "gradient steps",
                "gradient steps in an update",
            ),
            (slots, "slots of a replay buffer", "steps of each environment, by more num_envs"),
        ):
            if count > LARGEST:
                raise ValueError(
                    f"total_steps={self.total_steps} would take {count:,} {what}, more than the "
                    f"{LARGEST:,} that are counted; give fewer total_steps, or fewer {fix}"
                )

    @property
    def updates(self) -> int:
        """Number of updates of the whole run, rounded up to whole chunks."""
        return -(-self.total_steps // (self.steps_per_update * self.chunk)) * self.chunk

    def updates_until(self, steps: int) -> int:
        """Return the number of updates that make at least this many steps.

        Compare updates rather than steps: the number of steps may overflow int32.
        """
        return min(-(-steps // self.steps_per_update), LARGEST)

    @property
    def cold_updates(self) -> int:
        """Number of updates without gradient steps, during the warm-up; 0 if there is none."""
        return max(min(self.updates_until(getattr(self, "warm_up", 0)) - 1, self.updates), 0)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Return the number of updates made when an optimiser has taken `gradient_steps` steps.

        The optimiser steps once in `every` gradient steps of the learner.
        """
        return self.cold_updates + gradient_steps * every // self.gradient_steps


@dataclasses.dataclass(frozen=True)
class Common(Checked):
    """Settings shared by all learners that act in vectorised environments."""

    total_steps: Count = 1_000_000  # environment steps of each seed, rounded up to whole chunks
    num_envs: Count = 64  # environments that step together
    rollout_steps: Count = 128  # steps of each environment between updates
    learning_rate: Swept[float] = 1e-3  # initial learning rate
    anneal: bool = True  # whether the learning rate falls linearly to zero
    gamma: Swept[Share] = 0.99  # discount factor
    max_grad_norm: Swept[Unlimited] = 0.5  # gradients are clipped to this global norm
    optimiser: Optimiser = "adam"  # optimiser that receives the clipped gradient
    weight_decay: Swept[float] = 0.0  # weight decay of layer kernels; needs adamw or muon
    hidden: tuple[int, ...] = (128, 128)  # widths of the network's layers
    embed: int = 8  # features per cell of a map; 0: one-hot vectors
    # kernel size (= stride) and features of each convolution over maps and pictures, such as 7 32
    conv: tuple[int, ...] = ()
    lines: int = 0  # features per row and column of a square board, with shared weights; 0: off
    bfloat16: bool = False  # whether the network's activations are bfloat16, for accelerators
    unroll: Count = 1  # environment steps in one iteration of the rollout's loop, for accelerators
    # source of levels at resets: fresh, exact, auto, pool or stock; None: make_vec's default
    reset_source: str | None = None
    chunk: Count = 1  # updates per call of the compiled program; Ctrl-C takes effect within two

    def check(self) -> None:
        super().check()
        self.check_widths("hidden")
        self.check_share(self.num_envs, "a rollout")
        if len(self.conv) % 2 or min(self.conv, default=1) < 1:
            raise ValueError(
                f"conv={self.conv} must be pairs of at least 1: side and features of each layer, "
                f"such as 7 32"
            )
        if self.weight_decay and self.optimiser not in ("adamw", "muon"):
            raise ValueError(
                f"weight_decay={self.weight_decay}: optimiser={self.optimiser} has none; give "
                f"optimiser=adamw or muon"
            )

    def check_share(self, num_envs: int, what: str) -> None:
        """Raise `ValueError` if this many environments do not divide into minibatches."""

    def check_widths(self, name: str) -> None:
        """Raise `ValueError` for layers of width 0, for which XLA would divide by zero."""
        widths = getattr(self, name)
        if min(widths, default=1) < 1:
            raise ValueError(
                f"{name}={widths} are widths of layers: give at least 1 for each, such as 64 64"
            )

    @property
    def steps_per_update(self) -> int:
        """Number of environment steps of one rollout, over all environments."""
        return self.num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Learning(Common):
    """Settings shared by the learners that train on rollouts."""

    epochs: Count = 4  # passes over a rollout
    minibatches: Count = 8  # gradient steps per pass
    gae_lambda: Swept[Share] = 0.95  # lambda of GAE and lambda-returns: 0 one-step, 1 Monte Carlo

    def check_share(self, num_envs: int, what: str) -> None:
        items = self.items(num_envs)
        if items % self.minibatches:
            raise ValueError(
                f"{what} of {num_envs} x {self.rollout_steps} steps does not split into "
                f"minibatches={self.minibatches}; choose a divisor of {items}"
            )

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps per update."""
        return self.epochs * self.minibatches

    def items(self, num_envs: int) -> int:
        """Return the number of items to shuffle into minibatches: single steps by default."""
        return num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Scaling(Learning):
    """Scaling of rewards and observations by running statistics."""

    normalize_obs: bool = False  # whether running mean and std normalise float observations
    reward_scaling: bool = False  # whether rewards are divided by the std of discounted returns

    swept = ("learning_rate", "gamma", "gae_lambda", "max_grad_norm", "weight_decay")


@dataclasses.dataclass(frozen=True)
class Memory:
    """Settings shared by the learners with recurrent networks."""

    previous: bool = False  # whether the network also reads the previous action and reward

    def items(self, num_envs: int) -> int:
        """Return the number of items to shuffle into minibatches: one sequence per environment."""
        return num_envs


@dataclasses.dataclass(frozen=True)
class Exploration(Common):
    """Epsilon-greedy exploration with a linear schedule."""

    epsilon_start: Swept[float] = 1.0  # initial probability of a random action
    epsilon_end: Swept[float] = 0.05  # final probability of a random action
    epsilon_share: Swept[float] = 0.5  # fraction of the run's updates over which epsilon falls

    def check(self) -> None:
        super().check()
        if not self.epsilon_end <= self.epsilon_start <= 1.0:
            raise ValueError(
                f"epsilon_start={self.epsilon_start} and epsilon_end={self.epsilon_end} are "
                f"probabilities of random actions: give 1 >= start >= end >= 0"
            )
        if not 0.0 < self.epsilon_share <= 1.0:
            raise ValueError(
                f"epsilon_share={self.epsilon_share} is the share of the run over which epsilon "
                f"falls: give more than 0, at most 1"
            )

    def epsilon(self, update: Int32[Array, ""]) -> Float32[Array, ""]:
        """Return the probability of a random action after this many updates."""
        fallen = jnp.minimum(self.progress(update) / self.epsilon_share, 1.0)
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * fallen


@dataclasses.dataclass(frozen=True)
class Replay(Exploration):
    """Settings shared by learners that sample windows of steps from a replay buffer."""

    capacity: int = 200_000  # steps in the replay buffer, of all environments together
    warm_up: int = 10_000  # steps of all environments before the first gradient step
    gradient_steps: Count = 32  # gradient steps per update
    batch_size: Count = 128  # transitions or sequences per gradient step, on all devices together
    n_step: Count = 3  # rewards in a TD target before it bootstraps
    target_rate: Rate = 0.01  # Polyak coefficient of the target network; 1 copies the weights
    target_every: Count = 1  # gradient steps between updates of the target network
    priority: Share = 0.0  # exponent of prioritised replay; 0: uniform sampling
    importance: Share = 0.4  # initial exponent of the importance weights; it rises to 1

    def check(self) -> None:
        super().check()
        if self.slots < self.least_slots:
            raise ValueError(
                f"capacity={self.capacity} leaves {self.slots} slots for each of {self.num_envs} "
                f"environments; {self.window} needs {self.least_slots}: give capacity="
                f"{self.least_slots * self.num_envs} or more, or fewer num_envs"
            )
        if self.warm_up < self.reach * self.num_envs:
            raise ValueError(
                f"warm_up={self.warm_up} ends before each of {self.num_envs} environments has made "
                f"the {self.reach} steps of {self.window}; give at least "
                f"{self.reach * self.num_envs}"
            )

    @property
    def slots(self) -> int:
        """Number of slots of the replay buffer per environment."""
        return self.capacity // self.num_envs

    @property
    def window(self) -> str:
        """Setting that determines the length of a window, as text for error messages."""
        return f"n_step={self.n_step}"

    @property
    def reach(self) -> int:
        """Distance in slots from a window's first slot to its last."""
        return self.n_step

    @property
    def least_slots(self) -> int:
        """Smallest number of slots that always contain a window that can be sampled.

        Prioritised replay needs one more, because one of two adjacent slots may hold no step.
        """
        return self.reach + 1 + (self.priority > 0.0)


@dataclasses.dataclass(frozen=True)
class QLearning(Replay):
    """Settings shared by the DQN family."""

    rollout_steps: Count = 16  # steps of each environment between updates
    learning_rate: float = 3e-4  # initial learning rate
    max_grad_norm: Unlimited = 10.0  # gradients are clipped to this global norm
    double: bool = True  # whether to use double Q-learning
    dueling: bool = True  # whether the network has dueling heads (value and advantages)
    epsilon_share: float = 0.3  # fraction of the run's updates over which epsilon falls
    # the environments' epsilons fall from epsilon to epsilon ** (1 + epsilon_power); Ape-X uses 7
    epsilon_power: float = 0.0

    @property
    def spacing(self) -> int:
        """Distance in slots between the starts of successive windows."""
        return 1
