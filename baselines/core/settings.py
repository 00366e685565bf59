"""Settings that learners share; each learner's file adds its own."""

import dataclasses
from typing import Any, ClassVar, Literal, get_args, get_origin

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from .bounds import USUAL, Count, Rate, Share, Unlimited, bounds
from .schedules import Scheduled

LARGEST = 2**31 - 1  # int32, in which updates, gradient steps and slots are counted
Optimiser = Literal["adam", "adamw", "radam", "muon"]
Activation = Literal["tanh", "relu", "gelu", "silu"]


class Checked(Scheduled):
    """What the settings of every learner, dataclasses, can do."""

    total_steps: Count
    chunk: Count
    gradient_steps: Any  # int, of an update
    steps_per_update: Any  # int, of each seed
    swept: ClassVar[tuple[str, ...]] = ()  # that --sweep takes: they may be arrays of the program
    unit: ClassVar[str] = "steps"  # of `total_steps`

    def check(self) -> None:
        """Raise `ValueError` for settings that cannot work; the message says how to fix them."""
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
        """Raise `ValueError` for a run with more gradient steps, or slots, than int32 counts."""
        # A cut episode takes two slots of a replay buffer.
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
        """Updates of the whole run: whole chunks, so that the total is reached."""
        return -(-self.total_steps // (self.steps_per_update * self.chunk)) * self.chunk

    def updates_until(self, steps: int) -> int:
        """Return the first update after which this many steps have been made.

        Compare it with updates made: steps made are a product that int32 may not hold.
        """
        return min(-(-steps // self.steps_per_update), LARGEST)

    @property
    def cold_updates(self) -> int:
        """Updates without a gradient step, in the warm-up of learners that have one."""
        return max(min(self.updates_until(getattr(self, "warm_up", 0)) - 1, self.updates), 0)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Whole updates by the count of an optimiser that takes one of `every` gradient steps."""
        return self.cold_updates + gradient_steps * every // self.gradient_steps


@dataclasses.dataclass(frozen=True)
class Common(Checked):
    """Settings shared by all learners that act in vectorised environments."""

    total_steps: Count = 1_000_000  # environment steps of each seed, rounded up to whole updates
    num_envs: Count = 64  # environments that step together
    rollout_steps: Count = 128  # steps of each environment between updates
    learning_rate: float = 1e-3  # at the start
    anneal: bool = True  # whether the learning rate falls linearly to zero
    gamma: Share = 0.99  # discount of a step
    max_grad_norm: Unlimited = 0.5  # global norm of the gradient, at most
    optimiser: Optimiser = "adam"  # applied to the clipped gradient
    weight_decay: float = 0.0  # of the kernels of layers, by adamw and muon
    hidden: tuple[int, ...] = (128, 128)  # widths of the network's layers
    embed: int = 8  # features per cell of a map; 0: its one-hots as they are
    conv: tuple[int, ...] = ()  # of maps and pictures: side and features of each convolution
    lines: int = 0  # features of each row and column of a square board, by the same weights; 0: no
    bfloat16: bool = False  # whether the network's activations are bfloat16, for accelerators
    unroll: Count = 1  # steps of a rollout in one trip of its loop, for accelerators
    reset_source: str | None = None  # fresh, exact, auto, pool or stock; None: as make_vec
    chunk: Count = 1  # updates in one call of the compiled program: Ctrl-C waits for two calls

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
        """Raise `ValueError` if this many environments do not give whole minibatches."""

    def check_widths(self, name: str) -> None:
        """Raise `ValueError` for layers without features, which XLA divides by."""
        widths = getattr(self, name)
        if min(widths, default=1) < 1:
            raise ValueError(
                f"{name}={widths} are widths of layers: give at least 1 for each, such as 64 64"
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout."""
        return self.num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Learning(Common):
    """Settings shared by all learners from rollouts."""

    epochs: Count = 4  # passes over a rollout
    minibatches: Count = 8  # gradient steps in a pass
    gae_lambda: Share = 0.95  # how far advantages look ahead: 0 one step, 1 the whole episode

    def check_share(self, num_envs: int, what: str) -> None:
        items = self.items(num_envs)
        if items % self.minibatches:
            raise ValueError(
                f"{what} of {num_envs} x {self.rollout_steps} steps does not split into "
                f"minibatches={self.minibatches}; choose a divisor of {items}"
            )

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of an update."""
        return self.epochs * self.minibatches

    def items(self, num_envs: int) -> int:
        """Number of items that minibatches are drawn from: here single steps."""
        return num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Scaled(Learning):
    """How rewards and observations are scaled; see moments.py."""

    normalize_obs: bool = False  # whether float observations are normalised by running moments
    reward_scaling: bool = False  # whether rewards are divided by the std of discounted returns

    swept = ("learning_rate", "gamma", "gae_lambda", "max_grad_norm", "weight_decay")


@dataclasses.dataclass(frozen=True)
class Remembering:
    """Settings shared by learners whose networks remember."""

    previous: bool = False  # whether the network also sees the previous action and its reward

    def items(self, num_envs: int) -> int:
        """Number of items that minibatches are drawn from: sequences of an environment."""
        return num_envs


@dataclasses.dataclass(frozen=True)
class Exploring(Common):
    """How a learner explores: `epsilon` is the share of random actions."""

    epsilon_start: float = 1.0  # at the beginning
    epsilon_end: float = 0.05  # when it has fallen
    epsilon_share: float = 0.5  # share of the run's updates over which it falls, linearly

    def check(self) -> None:
        super().check()
        if not self.epsilon_end <= self.epsilon_start <= 1.0:
            raise ValueError(
                f"epsilon_start={self.epsilon_start} and epsilon_end={self.epsilon_end} are shares "
                f"of random actions: give 1 >= start >= end >= 0"
            )
        if not 0.0 < self.epsilon_share <= 1.0:
            raise ValueError(
                f"epsilon_share={self.epsilon_share} is the share of the run over which epsilon "
                f"falls: give more than 0, at most 1"
            )

    def epsilon(self, update: Int32[Array, ""]) -> Float32[Array, ""]:
        """Probability of a random action after this many updates."""
        fallen = jnp.minimum(self.progress(update) / self.epsilon_share, 1.0)
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * fallen


@dataclasses.dataclass(frozen=True)
class Replayed(Exploring):
    """Settings shared by learners of action values from a replay buffer."""

    rollout_steps: Count = 16  # steps of each environment between updates
    learning_rate: float = 3e-4  # at the start
    max_grad_norm: Unlimited = 10.0  # global norm of the gradient, at most
    capacity: int = 200_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 10_000  # steps of all environments before the first gradient step
    gradient_steps: Count = 32  # of an update
    batch_size: Count = 128  # steps that a gradient step learns from, on all devices
    n_step: Count = 3  # steps whose rewards are added before the value of what follows
    double: bool = True  # whether the weights choose the action that their slow copy values
    dueling: bool = True  # whether the network says a value and advantages
    target_rate: Rate = 0.01  # Polyak coefficient of the target network; 1 copies the weights
    target_every: Count = 1  # gradient steps between updates of the target network
    epsilon_share: float = 0.3  # share of the run's updates over which epsilon falls, linearly
    epsilon_power: float = 0.0  # the last environment has epsilon to the power of this plus 1 (7)
    priority: Share = 0.0  # power of the error by which steps are sampled; 0: all evenly
    importance: Share = 0.4  # power of the importance weights at the start; it rises to 1

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
        """Slots of the replay buffer for each environment."""
        return self.capacity // self.num_envs

    @property
    def window(self) -> str:
        """What is sampled, in words."""
        return f"n_step={self.n_step}"

    @property
    def reach(self) -> int:
        """Steps from the first slot of a window to its last one."""
        return self.n_step

    @property
    def spacing(self) -> int:
        """Slots between the beginnings of windows."""
        return 1

    @property
    def least_slots(self) -> int:
        """Slots in which a window that can be sampled always fits.

        With priorities one more: of two slots next to each other only one can be no step.
        """
        return self.reach + self.spacing + (self.priority > 0.0)
