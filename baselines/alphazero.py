"""Gumbel AlphaZero (Danihelka et al., 2022) through mctx, where the agent sees the whole state.

Run it with `jaxenvs train ID --algo alphazero`; it needs the extra `search`. It is PPO whose
actions come from a tree search in the true environment, and whose policy learns what the search
found instead of a gradient of rewards. The search steps with separate keys, so that no plan
foresees random outcomes, but from the true state: plans would use what the agent cannot see, so
partially observed environments need `--clairvoyant`.
Deliberate differences: no replay buffer (a few passes over each rollout, as in PPO); values begin
at 0 and by default are not rescaled in each node. Otherwise the errors of a value that has seen no
reward yet would make the policy confident, and it would stop exploring.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs import Env
from jaxenvs.adapters.mctx import mctx_recurrent_fn, mctx_root_fn
from jaxenvs.core.extras import require
from jaxenvs.core.masking import legal

from . import evaluate, options, ppo
from .lambda_returns import LambdaReturns
from .loop import command
from .networks import ActorCritic
from .ppo import Rollout, Runner
from .runs import Config, Run


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Learning):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 500_000  # environment steps of each seed, rounded up to whole updates
    rollout_steps: int = 32  # steps of each environment between updates
    value_weight: float = 1.0  # weight of the value loss
    simulations: int = 16  # of the search for each action
    considered: int = 16  # actions that the search tries at its root, at most
    value_scale: float = 0.1  # how firmly the policy follows the values that the search found
    rescale: bool = False  # whether the values of a node are scaled to 0 to 1 before
    clairvoyant: bool = False  # whether to plan with parts of the state that the agent cannot see

    counts: ClassVar[tuple[str, ...]] = (*ppo.Learning.counts, "simulations", "considered")


class Plan(NamedTuple):
    """What a search returns, by environment."""

    action: Int32[Array, " envs"]
    policy: Float32[Array, "envs actions"]  # probabilities to learn
    value: Float32[Array, " envs"]


@dataclasses.dataclass(frozen=True)
class AlphaZero(LambdaReturns):
    """The algorithm: pure functions of a `Runner`, for one seed."""

    settings: Settings  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Raise `ValueError` if plans would use hidden state, unless `clairvoyant` is set."""
        env = self.env.env
        if not (env.fully_observed or self.settings.clairvoyant):
            raise ValueError(_hides(env))

    def collect(self, runner: Runner, key: Array) -> tuple[Runner, Any]:
        """Act for `rollout_steps` steps; policies and values are those that the search found."""

        def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
            key_plan, key_step = jax.random.split(key)
            state = runner.world.env
            plan = self.plan(runner.weights, key_plan, runner.obs, state)
            step = self.env.step(key_step, runner.world, plan.action)
            record = Rollout(
                obs=runner.obs,
                action=(),
                log_prob=(),
                mask=self.mask(state),
                policy=plan.policy,
                value=plan.value,
                **self.outcome(runner, step),
            )
            return self.after(runner, step), record

        return jax.lax.scan(act, runner, jax.random.split(key, self.settings.rollout_steps))

    def plan(
        self,
        weights: PyTree[Array],
        key: Array,
        obs: PyTree[Array],
        state: PyTree[Array],
        gumbel_scale: float = 1.0,
    ) -> Plan:
        """Search from each environment's state; `gumbel_scale=0` draws nothing."""
        import mctx

        settings, env = self.settings, self.env.env
        root = mctx_root_fn(env, self.predict_nodes)(weights, obs, state)
        with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
            found = mctx.gumbel_muzero_policy(
                params=weights,
                rng_key=key,
                root=root,
                recurrent_fn=self.expand,  # type: ignore[arg-type]
                num_simulations=settings.simulations,
                invalid_actions=jax.tree.map(jnp.logical_not, self.mask(state)),
                max_num_considered_actions=settings.considered,
                gumbel_scale=gumbel_scale,
                qtransform=functools.partial(
                    mctx.qtransform_completed_by_mix_value,
                    value_scale=settings.value_scale,
                    rescale_values=settings.rescale,
                ),
            )
            value = found.search_tree.summary().value
        action = jnp.asarray(found.action, jnp.int32)
        return Plan(action, jnp.asarray(found.action_weights), jnp.asarray(value))

    @property
    def expand(self) -> Any:
        """The function that steps a batch of nodes, as mctx asks for."""
        return mctx_recurrent_fn(self.env.env, self.predict_nodes, discount=self.settings.gamma)

    def predict_nodes(
        self, weights: PyTree[Array], obs: PyTree[Array], state: Any
    ) -> tuple[Array, Array]:
        """Logits and values of a batch of nodes: the network looks at what is observed."""
        return self.predict(weights, obs)

    def loss(  # type: ignore[override]
        self, weights: PyTree[Array], rollout: Rollout, target: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Cross-entropy with the policy of the search, and value loss, of a minibatch."""
        logits, value = self.predict(weights, rollout.obs)
        chex.assert_equal_shape([logits, rollout.policy], custom_message="logits and the policy")
        chex.assert_equal_shape([value, target], custom_message="value and target, [batch]")
        log_probs = jax.nn.log_softmax(legal(logits, rollout.mask))
        policy_loss = -(rollout.policy * log_probs).sum(axis=-1).mean()
        value_loss = 0.5 * jnp.square(value - target).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=-1).mean()
        searched = -jax.scipy.special.xlogy(rollout.policy, rollout.policy).sum(axis=-1).mean()
        return policy_loss + self.settings.value_weight * value_loss, {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "search_entropy": searched,
        }


def report(run: Run, learner: AlphaZero, weights: PyTree[Array], count: int) -> None:
    """Evaluate every seed over `count` episodes, with the search and without."""

    def search(weights: PyTree[Array], key: Array, obs: Any, state: Any) -> Array:
        return learner.plan(weights, key, obs, state, gumbel_scale=0.0).action

    env = learner.env.env
    policy = evaluate.drawn(env, learner.network)
    alone = evaluate.play(env, policy, weights, run.config, count, learner.network.begin())
    result = evaluate.play(env, search, weights, run.config, count)
    run.write_json("eval.json", {**result, "without_search": alone})
    evaluate.tell(result, "" if env.fully_observed else "Planning with the hidden state: ")
    evaluate.tell(alone, "Without search: ")


def _hides(env: Env) -> str:
    """Say why an environment is refused, and what to do."""
    shown = env.full_observations
    fix = f"show it with --set obs={shown[0]}, " if shown else ""
    return (
        f"{env.name} hides part of its state from the agent (fully_observed is False), and "
        f"AlphaZero plans by stepping the true state: its plans would use what the agent cannot "
        f"know; {fix}train with --algo ppo or ppo-rnn, or give --clairvoyant to plan with the "
        f"hidden state anyway"
    )


def network(env: Env, settings: Settings) -> ActorCritic:
    """Return the initial network, whose values are all 0.

    Before the first reward random values are noise, and a search that follows it teaches the policy
    what it already prefers, until it no longer explores.
    """
    return ActorCritic.of(env, settings.hidden, settings.embed, value_gain=0.0)


def build(asked: options.Options[Settings], config: Config) -> AlphaZero:
    """Return the algorithm for what was asked; raises for what cannot work."""
    require(["mctx"], "search")
    venv, devices = options.environments(asked, config)
    return AlphaZero(venv, network(venv.env, asked.settings), asked.settings, devices)


ABOUT = "Train an agent with Gumbel AlphaZero."
prepare = functools.partial(options.prepare, "alphazero", Settings, ABOUT, build)
main = functools.partial(command, prepare, report)  # of a command line: the exit code
