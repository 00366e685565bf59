"""Base classes of the learners' settings; each learner's module subclasses one and adds fields."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from jaxenvs.core.checks import counted

from .bounds import (
    Bounds,
    Count,
    NonNegative,
    NonNegativeInt,
    Rate,
    Share,
    Swept,
    Unlimited,
    Widths,
    bounds,
    is_swept,
)
from .schedules import Scheduled

# Largest int32: a run counts its updates, gradient steps and replay-buffer slots in int32.
LARGEST = 2**31 - 1
Optimiser = Literal["adam", "adamw", "radam", "muon"]
Schedule = Literal["linear", "cosine"]
EPSILON_SHARE = "it is the share of the run over which epsilon falls"
Activation = Literal["tanh", "relu", "gelu", "silu"]


class Checked(Scheduled):
    """Base class of every learner's settings: checks values, computes the number of updates."""

    total_steps: Count
    chunk: Count
    gradient_steps: Any  # int, gradient steps per update
    steps_per_update: Any  # int, steps (counted in `unit`) that each seed makes per update
    can_sweep: ClassVar[bool] = False  # whether the learner trains with --sweep
    unit: ClassVar[str] = "steps"  # unit of `total_steps`, a plural noun for messages

    @classmethod
    def sweepable(cls) -> tuple[str, ...]:
        """Return the names of the fields that --sweep accepts: their type is `bounds.Swept`."""
        fields = dataclasses.fields(cls) if cls.can_sweep else ()
        return tuple(field.name for field in fields if is_swept(field.type))

    def check(self) -> None:
        """Raise `ValueError` if a setting is invalid; the message tells the user how to fix it."""
        declared = bounds(type(self))
        for field in dataclasses.fields(self):
            name, value, allowed = field.name, getattr(self, field.name), get_args(field.type)
            # A swept setting is an array, whose values are not checked here.
            if name in declared and isinstance(value, (int, float, tuple)):
                declared[name].check(name, value)
            if get_origin(field.type) is Literal and value not in allowed:
                raise ValueError(f"{name}={value}: choose one of {', '.join(allowed)}")
        self.check_plans()
        self.check_counters()

    def check_counters(self) -> None:
        """Raise `ValueError` if the run is too long for its int32 counters.

        One counter counts gradient steps, another the slots written to the replay buffer.
        """
        # A step fills one slot of the replay buffer, or two if it truncates its episode: the second
        # slot stores the episode's final observation.
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
        """Number of updates for `total_steps` steps, rounded up to a multiple of `chunk`."""
        return -(-self.total_steps // (self.steps_per_update * self.chunk)) * self.chunk

    def updates_until(self, steps: int) -> int:
        """Return the number of updates after which a run has made at least `steps` steps.

        Compiled code counts updates, because the number of steps could overflow int32.
        """
        return min(-(-steps // self.steps_per_update), LARGEST)

    @property
    def cold_updates(self) -> int:
        """Number of updates during the warm-up, which take no gradient steps; 0 without warm-up."""
        return max(min(self.updates_until(getattr(self, "warm_up", 0)) - 1, self.updates), 0)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Return the number of updates after which an optimiser has taken `gradient_steps` steps.

        `every` is the number of the learner's gradient steps per step of the optimiser. The result
        includes the updates of the warm-up, which take no gradient steps.
        """
        return self.cold_updates + gradient_steps * every // self.gradient_steps


@dataclasses.dataclass(frozen=True)
class Common(Checked):
    """Settings shared by all learners that act in vectorised environments."""

    # environment steps of each seed, over all environments; rounded up to a multiple of `chunk`
    # updates
    total_steps: Count = 1_000_000
    num_envs: Count = 64  # number of environments that step in parallel
    rollout_steps: Count = 128  # steps that each environment makes between two updates
    learning_rate: Swept[NonNegative] = 1e-3  # initial learning rate
    anneal: bool = True  # whether the learning rate falls to zero, as `schedule` says
    schedule: Schedule = "linear"  # shape of the falling learning rate: linear, or half a cosine
    gamma: Swept[Share] = 0.99  # discount factor
    max_grad_norm: Swept[Unlimited] = 0.5  # gradients are clipped to this global norm
    optimiser: Optimiser = "adam"  # optimiser to which the clipped gradients are passed
    # decay rate of the moving average of gradients: Adam's beta_1 and Muon's beta, such as 0.9;
    # None: 0.9, and 0.95 for Muon's matrices
    momentum: Annotated[float, Bounds(most=1.0, below=True)] | None = None
    # factor of the learning rate of vectors, such as biases; 1 unless the optimiser is muon
    vector_rate: NonNegative = 1.0
    weight_decay: Swept[NonNegative] = 0.0  # weight decay of layer kernels; needs adamw or muon
    hidden: Widths = (128, 128)  # widths of the network's hidden layers
    embed: NonNegativeInt = 8  # embedding size of each cell of a map; 0: cells are one-hot vectors
    # kernel size (= stride) and features of each convolution over maps and pictures, such as 7 32
    conv: tuple[int, ...] = ()
    # number of features of each row and column of a square board, from one shared layer; 0: off
    lines: NonNegativeInt = 0
    bfloat16: bool = False  # whether activations are bfloat16 (meant for accelerators)
    # environment steps in each iteration of the rollout's compiled loop; above 1 may be faster on
    # accelerators
    unroll: Count = 1
    # source of levels at resets, described in `make_vec`: fresh, exact, auto, pool or stock; None:
    # the default of `make_vec`
    reset_source: str | None = None
    # updates per call of the compiled program; after Ctrl-C a run ends within two calls
    chunk: Count = 1

    def check(self) -> None:
        super().check()
        if self.steps_per_update > LARGEST:
            raise ValueError(
                f"num_envs={self.num_envs} and rollout_steps={self.rollout_steps} make "
                f"{self.steps_per_update:,} steps per update, more than the {LARGEST:,} that are "
                f"numbered; give fewer"
            )
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
        if self.schedule != "linear" and not self.anneal:
            raise ValueError(
                f"schedule={self.schedule}: the learning rate does not fall; give anneal=True"
            )
        if self.vector_rate != 1.0 and self.optimiser != "muon":
            raise ValueError(
                f"vector_rate={self.vector_rate}: optimiser={self.optimiser} has one learning "
                f"rate; give optimiser=muon"
            )

    def check_share(self, num_envs: int, what: str) -> None:
        """Raise `ValueError` if steps of `num_envs` environments do not split into minibatches.

        `what` names these steps in the message, such as "a rollout". This base class never raises,
        because some learners do not split rollouts into minibatches.
        """

    @property
    def steps_per_update(self) -> int:
        """Number of environment steps of one rollout, over all environments."""
        return self.num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Learning(Common):
    """Settings shared by the learners that train on rollouts."""

    epochs: Count = 4  # number of passes over each rollout
    minibatches: Count = 8  # number of minibatches per pass, each for one gradient step
    # lambda of GAE and lambda-returns; 0: one-step TD targets, 1: Monte Carlo returns
    gae_lambda: Swept[Share] = 0.95

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
        """Return the number of items of a rollout that are shuffled into minibatches.

        An item is a single step here, and a sequence in learners with recurrent networks.
        """
        return num_envs * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class Scaling(Learning):
    """Settings for scaling rewards and observations by running statistics."""

    # whether float observations are normalised by their running mean and standard deviation
    normalize_obs: bool = False
    # whether rewards are divided by the running standard deviation of discounted returns
    reward_scaling: bool = False

    can_sweep = True


@dataclasses.dataclass(frozen=True)
class Restarting(Common):
    """Settings of restarts from saved states (restarts.py)."""

    # probability, such as 0.2, that an environment whose episode ended continues from a saved state
    # that the policy reached before; 0: every episode begins in a new level
    restart_share: Annotated[
        float, Bounds(most=1.0, below=True, hint="with 1, no episode would begin in a new level")
    ] = 0.0
    # number of saved states for each score, over all devices; a saved state needs the memory of
    # one environment's state
    restart_slots: Count = 64

    # reason why a learner cannot restart environments from saved states; "": it can
    no_restarts: ClassVar[str] = ""

    def check(self) -> None:
        super().check()
        if self.restart_share and self.no_restarts:
            raise ValueError(f"restart_share={self.restart_share}: {self.no_restarts}; omit it")


@dataclasses.dataclass(frozen=True)
class SkipForced(Common):
    """Setting of the learners that can skip forced steps, see forced.py."""

    # whether a decision and the forced steps after it (one legal action, such as sleep) count as
    # one step, without discount between them; None: as the environment's setup says
    skip_forced: bool | None = None

    @property
    def valued_step(self) -> int:
        """Step of a rollout at which forced states have a value loss."""
        return 0


@dataclasses.dataclass(frozen=True)
class Memory:
    """Settings shared by the learners with recurrent networks."""

    previous: bool = False  # whether the network also reads the previous action and reward

    def items(self, num_envs: int) -> int:
        """Return the number of items of a rollout that are shuffled into minibatches.

        An item is the whole sequence of one environment's steps, as the network is recurrent.
        """
        return num_envs


@dataclasses.dataclass(frozen=True)
class Exploration(Common):
    """Settings of epsilon-greedy exploration: epsilon falls linearly, and then stays constant."""

    epsilon_start: Swept[Share] = 1.0  # initial probability of a random action
    epsilon_end: Swept[Share] = 0.05  # final probability of a random action
    # fraction of the run's updates over which epsilon falls
    epsilon_share: Swept[Annotated[float, Bounds(most=1.0, open=True, hint=EPSILON_SHARE)]] = 0.5

    def check(self) -> None:
        super().check()
        if not self.epsilon_end <= self.epsilon_start:
            raise ValueError(
                f"epsilon_start={self.epsilon_start} and epsilon_end={self.epsilon_end} are "
                f"probabilities of random actions: give 1 >= start >= end >= 0"
            )

    def epsilon(self, update: Int32[Array, ""]) -> Float32[Array, ""]:
        """Return the probability of a random action after `update` updates of the run."""
        fallen = jnp.minimum(self.progress(update) / self.epsilon_share, 1.0)
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * fallen


@dataclasses.dataclass(frozen=True)
class Buffer(Common):
    """Settings of a replay buffer, from which windows (successive steps) are sampled."""

    # number of steps that the replay buffer stores, over all environments
    capacity: NonNegativeInt = 200_000
    warm_up: NonNegativeInt = 10_000  # steps, over all environments, before the first gradient step

    def check(self) -> None:
        super().check()
        if self.slots < self.least_slots:
            raise ValueError(
                f"capacity={self.capacity} leaves {counted(self.slots, 'slot')} for each of "
                f"{counted(self.num_envs, 'environment')}; {self.window} needs {self.least_slots}: "
                f"give capacity={self.least_slots * self.num_envs} or more, or fewer num_envs"
            )
        if self.warm_up < self.reach * self.num_envs:
            raise ValueError(
                f"warm_up={self.warm_up} ends before each of {self.num_envs} environments has made "
                f"the {counted(self.reach, 'step')} of {self.window}; give at least "
                f"{self.reach * self.num_envs}"
            )

    @property
    def slots(self) -> int:
        """Number of slots that the replay buffer has for each environment."""
        return self.capacity // self.num_envs

    @property
    def window(self) -> str:
        """Text that names a window (one sample of the replay buffer) in error messages."""
        return "a transition"

    @property
    def reach(self) -> int:
        """Distance in replay-buffer slots from a sampled window's first slot to its last slot."""
        return 1

    @property
    def least_slots(self) -> int:
        """Smallest number of slots per environment with which a window can always be sampled."""
        return self.reach + 1


@dataclasses.dataclass(frozen=True)
class Replay(Exploration, Buffer):
    """Settings shared by the epsilon-greedy learners with a replay buffer."""

    gradient_steps: Count = 32  # gradient steps per update
    batch_size: Count = 128  # transitions or sequences per gradient step, on all devices together
    n_step: Count = 3  # number of rewards that a TD target adds up before it bootstraps
    target_rate: Rate = 0.01  # Polyak coefficient of the target network; 1 copies the weights
    target_every: Count = 1  # gradient steps between updates of the target network
    priority: Share = 0.0  # exponent of prioritised replay; 0: uniform sampling
    importance: Share = 0.4  # initial exponent (beta) of the importance weights; it rises to 1

    @property
    def window(self) -> str:
        """Text that names a window (one sample of the replay buffer) in error messages.

        The text is the setting that determines the window's length, such as `n_step=3`.
        """
        return f"n_step={self.n_step}"

    @property
    def reach(self) -> int:
        """Distance in replay-buffer slots from a sampled window's first slot to its last slot."""
        return self.n_step

    @property
    def least_slots(self) -> int:
        """Smallest number of slots per environment with which a window can always be sampled.

        Prioritised replay needs one slot more: its windows must begin in a slot that holds a step,
        and one of two adjacent slots may hold no step.
        """
        return self.reach + 1 + (self.priority > 0.0)


@dataclasses.dataclass(frozen=True)
class QLearning(SkipForced, Replay):
    """Settings shared by DQN and its variants."""

    rollout_steps: Count = 16  # steps that each environment makes between two updates
    learning_rate: float = 3e-4  # initial learning rate
    max_grad_norm: Unlimited = 10.0  # gradients are clipped to this global norm
    double: bool = True  # whether to use double Q-learning
    dueling: bool = True  # whether the network has dueling heads (value and advantages)
    epsilon_share: float = 0.3  # fraction of the run's updates over which epsilon falls
    # exponent of Ape-X's ladder of epsilons (Ape-X uses 7): the epsilon of environments falls from
    # epsilon (first environment) to epsilon ** (1 + epsilon_power) (last); 0: all epsilons are
    # equal
    epsilon_power: NonNegative = 0.0

    @property
    def spacing(self) -> int:
        """Number of replay-buffer slots from one possible start of a sampled window to the next.

        With 1, a window can begin in any slot, and windows overlap.
        """
        return 1
