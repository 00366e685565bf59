"""PPO (Schulman et al., 2017): world, agent and update in one compiled program, seeds by `vmap`.

Run it with `jaxenvs train ID`. The choices of Huang et al. (2022) for vectorised environments are
kept: orthogonal weights, Adam's epsilon 1e-5, gradients clipped by global norm, a learning rate
that falls to zero, advantages normalised per minibatch.
Deliberate differences: an episode cut by the time limit is bootstrapped with the value of its true
successor, the value loss is clipped only if `value_clip` is given, and observations are stored as
the environment gives them. Where rewards are rare, `advantage_floor` keeps normalisation from
turning the errors of the value into a gradient as large as that of a success: without it, rollouts
without reward undo exploration.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Step, VectorEnv
from jaxenvs.core.masking import Mask, legal, legal_actions
from jaxenvs.core.random import shuffled

from . import evaluate, options
from .devices import ALONE, Devices
from .loop import SEEDS, apply_gradient, command
from .networks import ActorCritic
from .rnd import RND
from .runs import Config, Run


@dataclasses.dataclass(frozen=True)
class Common:
    """Settings shared by all learners that act in vectorised environments."""

    total_steps: int = 1_000_000  # environment steps of each seed, rounded up to whole updates
    num_envs: int = 64  # environments that step together
    rollout_steps: int = 128  # steps of each environment between updates
    learning_rate: float = 1e-3  # at the start
    anneal: bool = True  # whether the learning rate falls linearly to zero
    gamma: float = 0.99  # discount of a step
    max_grad_norm: float = 0.5  # global norm of the gradient, at most
    hidden: tuple[int, ...] = (128, 128)  # widths of the network's layers
    embed: int = 8  # features per cell of a map; 0: its one-hots as they are
    reset_source: str | None = None  # fresh, exact or pool; None: what the environment names
    chunk: int = 1  # updates in one call of the compiled program: Ctrl-C waits for its end

    counts: ClassVar[tuple[str, ...]] = ("total_steps", "num_envs", "rollout_steps", "chunk")

    def check(self) -> None:
        """Raise `ValueError` for settings that cannot work; the message says how to fix them."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
                raise ValueError(f"{field.name}={value} must not be negative")
        for name in self.counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout."""
        return self.num_envs * self.rollout_steps

    @property
    def updates(self) -> int:
        """Updates of the whole run: whole chunks, so that the total is reached."""
        return -(-self.total_steps // (self.steps_per_update * self.chunk)) * self.chunk


@dataclasses.dataclass(frozen=True)
class Learning(Common):
    """Settings shared by all learners from rollouts."""

    epochs: int = 4  # passes over a rollout
    minibatches: int = 8  # gradient steps in a pass
    gae_lambda: float = 0.95  # how far advantages look ahead: 0 one step, 1 the whole episode

    counts: ClassVar[tuple[str, ...]] = (*Common.counts, "epochs", "minibatches")

    def check(self) -> None:
        super().check()
        items = self.items(self.num_envs)
        if items % self.minibatches:
            raise ValueError(
                f"a rollout of {self.num_envs} x {self.rollout_steps} steps does not split into "
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
class Settings(Learning):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    value_weight: float = 0.5  # weight of the value loss
    clip: float = 0.2  # largest useful change of an action's probability, as a ratio
    entropy: float = 0.01  # weight of the entropy bonus
    advantage_floor: float = 1e-8  # least standard deviation that advantages are divided by
    bonus: float = 0.0  # weight of the reward for what is new (rnd.py); 0: without it
    value_clip: float = 0.0  # largest useful change of a value in an update; 0: unlimited


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit.

    Fields that a learner does not use are ().
    """

    weights: PyTree[Array]
    target: PyTree[Array] = ()  # their slow copy
    optimiser: PyTree[Array] = ()  # Adam's moments and counts
    updates: PyTree[Array] = ()  # int32 (*seeds), made so far
    replay_buffer: PyTree[Array] = ()  # of DQN
    world: PyTree[Array] = ()  # VectorState
    obs: PyTree[Array] = ()  # what the next actions are chosen from
    key: PyTree[Array] = ()  # uint32 (*seeds, words), data of the PRNG key
    returns: PyTree[Array] = ()  # float32 (*seeds, envs), rewards so far of the episodes under way
    lengths: PyTree[Array] = ()  # int32 (*seeds, envs), their steps so far
    memory: PyTree[Array] = ()  # what a recurrent network remembers from before obs
    bonus: PyTree[Array] = ()  # what an exploration bonus has learned
    bonus_returns: PyTree[Array] = ()  # discounted sums of each environment's bonuses so far


class Rollout(NamedTuple):
    """What happened, by step and environment."""

    obs: PyTree[Array]
    action: PyTree[Array]  # int32; () where a search says what to learn
    log_prob: PyTree[Array]  # of the action when it was chosen; () where no loss needs it
    value: Float32[Array, "*batch"]  # of obs
    reward: Float32[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    cut_value: Float32[Array, "*batch"]  # of the true successor where truncated, else 0
    returns: Float32[Array, "*batch"]  # of the episode so far, this step included
    lengths: Int32[Array, "*batch"]
    memory: PyTree[Array] = ()  # from before the first step, if the network is recurrent
    mask: Mask = None  # when the action was chosen
    weight: PyTree[Array] = ()  # of the advantages, if V-trace weighs them
    policy: PyTree[Array] = ()  # probabilities that a search found for the actions


@dataclasses.dataclass(frozen=True)
class PPO:
    """The algorithm: pure functions of a `Runner`, for one seed, on one of `devices`."""

    env: VectorEnv  # this device's environments
    network: ActorCritic
    settings: Settings
    devices: Devices = ALONE
    bonus: RND | None = None  # rewards what is new

    runner: ClassVar[type] = Runner
    divided: ClassVar[tuple[str, ...]] = (
        *("world", "obs", "returns", "lengths", "memory", "bonus_returns"),
    )

    def init(self, key: Array) -> Runner:
        """Start: weights, worlds and the key for all that follows."""
        key_weights, key_world, key_rest, key_bonus = jax.random.split(key, 4)
        obs, world = self.env.reset(self.devices.local_key(key_world))
        one = jax.tree.map(lambda leaf: leaf[0], obs)
        weights = self.network.init(key_weights, one)
        return Runner(
            weights=weights,
            optimiser=self.optimiser.init(weights),
            world=world,
            obs=obs,
            key=jax.random.key_data(key_rest),
            returns=jnp.zeros(self.env.num_envs, jnp.float32),
            lengths=jnp.zeros(self.env.num_envs, jnp.int32),
            bonus=self.bonus.init(key_bonus, one) if self.bonus else (),
            bonus_returns=jnp.zeros(self.env.num_envs, jnp.float32) if self.bonus else (),
        )

    def update(self, runner: Runner, _: None = None) -> tuple[Runner, dict[str, Array]]:
        """Collect a rollout and learn from it; also return the metrics of this update."""
        key_rest, *keys = jax.random.split(jax.random.wrap_key_data(runner.key), 4)
        key_rollout, key_learn, key_world = map(self.devices.local_key, keys)
        runner = runner._replace(
            key=jax.random.key_data(key_rest), world=self.env.refresh(key_world, runner.world)
        )
        runner, rollout = self.collect(runner, key_rollout)
        if self.bonus:
            runner, rollout = self.bonus.rewarded(runner, rollout, self.devices)
        runner, losses = self.learn(runner, rollout, key_learn)
        return runner, {**episode_sums(rollout), **losses}

    def think(
        self, weights: PyTree[Array], memory: PyTree[Array], obs: PyTree[Array], mask: Mask
    ) -> tuple[PyTree[Array], Array, Array]:
        """Memories after one more observation of each environment, logits and values."""
        return jax.vmap(self.network.think, in_axes=(None, 0, 0, 0))(weights, memory, obs, mask)

    def mask(self, state: Any) -> Mask:
        """Legal actions in a batch of states; None if the environment allows all in any state."""
        return jax.vmap(functools.partial(legal_actions, self.env.env))(state)

    def predict(self, weights: PyTree[Array], obs: PyTree[Array]) -> tuple[Array, Array]:
        """Logits of all actions and values of a batch, by a network that remembers nothing."""
        return jax.vmap(self.network.apply, in_axes=(None, 0))(weights, obs)  # type: ignore[return-value]

    def collect(self, runner: Runner, key: Array) -> tuple[Runner, Any]:
        """Act for `rollout_steps` steps in every environment."""

        def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
            key_action, key_step = jax.random.split(key)
            mask = self.mask(runner.world.env)
            memory, logits, value = self.think(runner.weights, runner.memory, runner.obs, mask)
            runner = runner._replace(memory=memory)
            action = jax.random.categorical(key_action, logits).astype(jnp.int32)
            step = self.env.step(key_step, runner.world, action)
            record = Rollout(
                obs=runner.obs,
                action=action,
                log_prob=log_probability(logits, action),
                value=value,
                mask=mask,
                **self.outcome(runner, step),
            )
            return self.after(runner, step), record

        return jax.lax.scan(act, runner, jax.random.split(key, self.settings.rollout_steps))

    def outcome(self, runner: Any, step: Step) -> dict[str, Array]:
        """The fields of a rollout that say what came of the actions."""
        return {
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "cut_value": self.cut_value(runner, step),
            "returns": runner.returns + step.reward,
            "lengths": runner.lengths + 1,
        }

    def after(self, runner: Any, step: Step) -> Any:
        """The runner when the environments have stepped."""
        return runner._replace(
            world=step.state,
            obs=step.obs,
            returns=jnp.where(step.done, 0.0, runner.returns + step.reward),
            lengths=jnp.where(step.done, 0, runner.lengths + 1),
        )

    def cut_value(self, runner: Runner, step: Step) -> Float32[Array, " envs"]:
        """Value of the true successor where the time limit cut an episode, 0 elsewhere.

        The maximum over the seeds keeps the condition one number, so that it stays a branch.
        """
        cut_anywhere = jax.lax.pmax(step.truncated.any().astype(jnp.int32), SEEDS) > 0

        def bootstrap(obs: PyTree[Array], mask: Mask) -> Array:
            return jnp.where(step.truncated, self.value(runner._replace(obs=obs), mask), 0.0)

        return jax.lax.cond(
            cut_anywhere,
            bootstrap,
            lambda *_: jnp.zeros(step.truncated.shape, jnp.float32),
            step.info["final_obs"],
            step.info.get("final_mask"),
        )

    def value(self, runner: Runner, mask: Mask) -> Float32[Array, " envs"]:
        """Values of what the runner observes, where these actions are legal."""
        return self.think(runner.weights, runner.memory, runner.obs, mask)[2]

    def learn(self, runner: Runner, rollout: Any, key: Array) -> tuple[Runner, dict[str, Array]]:
        """Take `epochs` x `minibatches` gradient steps on the rollout."""
        epochs, minibatches = self.settings.epochs, self.settings.minibatches
        batch = jax.tree.map(self.items, self.targets(runner, rollout))
        count = len(jax.tree.leaves(batch)[0])
        orders = jax.vmap(lambda key: shuffled(key, count))(jax.random.split(key, epochs)).reshape(
            epochs * minibatches, -1
        )

        def gradient_step(carry: Any, chosen: Any) -> tuple[Any, dict[str, Array]]:
            weights, optimiser = carry
            order, scale = chosen
            minibatch = jax.tree.map(lambda leaf: leaf[order], batch)
            gradient, losses = self.gradient(weights, minibatch, scale)
            return apply_gradient(self.optimiser, gradient, optimiser, weights), losses

        carry = (runner.weights, runner.optimiser)
        carry, losses = jax.lax.scan(gradient_step, carry, (orders, self.scales(batch, orders)))
        runner = runner._replace(weights=carry[0], optimiser=carry[1])
        return runner, jax.tree.map(jnp.mean, losses)

    def items(self, leaf: Array) -> Array:
        """Items that minibatches are drawn from: steps of all environments at all times."""
        return leaf.reshape(-1, *leaf.shape[2:])

    def scales(self, batch: Any, orders: Int32[Array, "minibatches items"]) -> tuple[Array, ...]:
        """Statistics over all devices that the loss of each minibatch needs."""
        mean, variance = self.devices.moments(batch[1][orders])
        return mean, jnp.maximum(jnp.sqrt(variance), self.settings.advantage_floor)

    def gradient(
        self, weights: PyTree[Array], minibatch: tuple[Any, ...], scale: tuple[Array, ...]
    ) -> tuple[PyTree[Array], dict[str, Array]]:
        """Gradient of the loss, averaged over the devices, and this device's losses."""
        gradient, losses = jax.grad(self.loss, has_aux=True)(weights, *minibatch, *scale)
        return self.devices.mean(gradient), losses

    def targets(self, runner: Runner, rollout: Any) -> tuple[Any, ...]:
        """What `loss` is given: the rollout, its advantages and what its values should have been.

        The weights and the observations of the runner are those of the rollout's end.
        """
        last_value = self.value(runner, None)  # that of a policy looks at no mask
        gamma, gae_lambda = self.settings.gamma, self.settings.gae_lambda
        advantage = advantages(rollout, last_value, gamma, gae_lambda)
        return rollout, advantage, advantage + rollout.value

    def unroll(self, weights: PyTree[Array], rollout: Rollout) -> tuple[Array, Array]:
        """Logits and values, by these weights, of what a minibatch of the rollout saw."""
        logits, value = self.predict(weights, rollout.obs)
        return legal(logits, rollout.mask), value

    def loss(
        self,
        weights: PyTree[Array],
        rollout: Rollout,
        advantage: Array,
        target: Array,
        mean: Array,
        spread: Array,
    ) -> tuple[Array, dict[str, Array]]:
        """Clipped policy loss, value loss and entropy bonus of a minibatch.

        `mean` (one number, or one for each item) and `spread` are those of the minibatch's
        advantages, on all devices.
        """
        logits, value = self.unroll(weights, rollout)
        log_prob = log_probability(logits, rollout.action)
        chex.assert_equal_shape(
            [log_prob, rollout.log_prob, value, rollout.value, advantage, target],
            custom_message="a number each for log_prob (new, old), value (new, old), advantage "
            "and target",
        )
        chex.assert_is_broadcastable(jnp.shape(mean), advantage.shape)
        log_ratio = log_prob - rollout.log_prob
        ratio = jnp.exp(log_ratio)
        near = jnp.clip(ratio, 1 - self.settings.clip, 1 + self.settings.clip)
        advantage = (advantage - mean) / spread
        policy_loss = -jnp.minimum(ratio * advantage, near * advantage).mean()
        value_loss = 0.5 * self.value_errors(value, rollout.value, target).mean()
        entropy = -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(axis=-1).mean()
        total = policy_loss + self.settings.value_weight * value_loss
        return total - self.settings.entropy * entropy, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": (ratio - 1 - log_ratio).mean(),  # Schulman's estimate, never negative
            "clipped": (near != ratio).astype(jnp.float32).mean(),
        }

    def value_errors(self, value: Array, before: Array, target: Array) -> Array:
        """Squared errors of the values; `before` are the values at the time of the rollout.

        With `value_clip`, a value that has moved that far towards its target has no gradient.
        """
        errors, limit = jnp.square(value - target), self.settings.value_clip
        if not limit:
            return errors
        near = before + jnp.clip(value - before, -limit, limit)
        return jnp.maximum(errors, jnp.square(near - target))

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam behind a clip of the global norm."""
        return optax.chain(
            optax.clip_by_global_norm(self.settings.max_grad_norm),
            optax.adam(self.learning_rate, eps=1e-5),
        )

    def learning_rate(self, gradient_steps: Any) -> Array:
        """The learning rate after so many gradient steps: it falls by updates."""
        settings = self.settings
        update = gradient_steps // settings.gradient_steps
        left = jnp.maximum(1.0 - update / settings.updates, 0.0)
        return settings.learning_rate * (left if settings.anneal else jnp.ones_like(left))


def log_probability(logits: Array, action: Array) -> Float32[Array, "*batch"]:
    """Logarithm of the probability of each action."""
    chex.assert_shape(
        action, logits.shape[:-1], custom_message="one action for each vector of logits"
    )
    log_probs = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def advantages(
    rollout: Any, last_value: Array, gamma: float, gae_lambda: float
) -> Float32[Array, "steps envs"]:
    """Generalised advantage estimates (Schulman et al., 2016).

    What follows a step is worth nothing where the task ended there, and the value of the true
    successor where the time limit cut the episode; the sum stops at both.
    """
    chex.assert_rank(rollout.value, 2, custom_message="value is [steps, envs]")
    chex.assert_shape(
        [rollout.reward, rollout.terminated, rollout.truncated, rollout.cut_value],
        rollout.value.shape,
        custom_message="reward, terminated, truncated and cut_value are [steps, envs] like value",
    )
    chex.assert_shape(last_value, rollout.value.shape[1:], custom_message="last_value is [envs]")
    following = jnp.concatenate([rollout.value[1:], last_value[None]])
    following = jnp.where(rollout.truncated, rollout.cut_value, following)
    following = jnp.where(rollout.terminated, 0.0, following)
    surprise = rollout.reward + gamma * following - rollout.value
    carried = jnp.where(rollout.terminated | rollout.truncated, 0.0, gamma * gae_lambda)

    def back(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = step[0] + step[1] * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(last_value), (surprise, carried), reverse=True)[1]


def episode_sums(rollout: Any) -> dict[str, Array]:
    """Sums over the episodes that ended in the rollout; divide by `episodes` for means."""
    chex.assert_equal_shape(
        [rollout.terminated, rollout.truncated, rollout.returns, rollout.lengths],
        custom_message="terminated, truncated, returns and lengths are [steps, envs]",
    )
    done = rollout.terminated | rollout.truncated
    return {
        "episodes": done.sum(),
        "return_sum": jnp.where(done, rollout.returns, 0.0).sum(),
        "length_sum": jnp.where(done, rollout.lengths, 0).sum(),
    }


def build(asked: options.Options[Settings], config: Config) -> PPO:
    """Return the algorithm for what was asked; raises for what cannot work."""
    settings = asked.settings
    venv, devices = options.environments(asked, config)
    network = ActorCritic.of(venv.env, settings.hidden, settings.embed)
    return PPO(venv, network, settings, devices, RND.asked(settings, network))


def report(run: Run, ppo: PPO, weights: PyTree[Array], count: int) -> None:
    """Evaluate every seed over `count` episodes."""
    evaluate.report(run, ppo.env.env, ppo.network, weights, count)
    print(f"Watch it: jaxenvs watch {run.path}")


prepare = functools.partial(options.prepare, "ppo", Settings, "Train an agent with PPO.", build)
main = functools.partial(command, prepare, report)  # of a command line: the exit code
