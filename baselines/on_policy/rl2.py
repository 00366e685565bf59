"""RL² (Duan et al., 2016; Wang et al., 2016): recurrent PPO that meta-learns to solve new tasks.

A trial is a number of steps or episodes under one task. The recurrent state is reset at the start
of a trial, but not at the start of an episode within the trial. Returns are computed over the whole
trial: an episode that ends within the trial does not end the return and needs no bootstrap value.
The network also sees the previous action and reward, so that it can infer the task and improve in
later episodes. Run it with `jaxenvs train XLand-R1-9x9-v0 --algo rl2`.

`Env.trials` returns an environment in which one episode is a whole trial, so the learner is
recurrent PPO (ppo_rnn.py) unchanged. Deliberate difference from common practice: environments start
at different times of their trials, so that no batch consists of first episodes only.

Two settings use the true task in training, but never in the evaluation; with both at 0, the learner
is plain RL². `task_loss` trains the recurrent state to predict the goal and the object that the
agent holds (Humplik et al., 2019, "Meta reinforcement learning as task inference").
`privileged_share` is the fraction of environments whose policy receives the true goal instead of
its prediction. In these environments, the policy soon learns to reach goals. All environments share
one set of weights, so the policy then reaches goals sooner in the other environments, too. The
fraction falls to 0 over the run, and metrics leave out the environments whose policy receives the
true goal.
"""

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env
from jaxenvs.core.masking import Mask, legal
from jaxenvs.core.wrappers import PreviousStep

from ..core import forced, minibatches, rollouts
from ..core.bounds import Bounds, Count, NonNegative, NonNegativeInt, Share
from ..core.episodes import Agents, EvaluatedPolicy
from ..core.learner import Learner
from ..core.policy import Policy
from ..core.policy_statement import in_brackets
from ..core.rollouts import Chosen, Rollout, Runner
from . import ppo, ppo_rnn
from .hidden_tasks import check_hidden
from .task_memory import GOAL_SIZE, Belief, TaskMemory

UNFIT = {  # values of `reset_source` that RL² does not support, with reasons for the error message
    "pool": "levels of a pool belong to one task, trials have many",
    "stock": "every step of a stock reads all params, and those of trials are all tasks",
}


@dataclasses.dataclass(frozen=True)
class Settings(ppo_rnn.Settings):
    """Hyperparameters of RL².

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    memory: int = 256  # size of the GRU's state
    task_set: str = ""  # name of the set of tasks, such as trivial-21k
    # fraction of the tasks that is kept for the evaluation
    held_out: Annotated[float, Bounds(most=1.0, open=True, below=True)] = 0.1
    # steps after which a trial ends; 0: only trial_episodes ends trials
    trial_steps: NonNegativeInt = 1024
    trial_episodes: NonNegativeInt = 0  # largest number of episodes of a trial; 0: unlimited
    embed: Count = 8  # embedding size of each cell of a map
    previous: bool = True  # always True: the network reads the previous action and reward
    test_episodes: Count = 10  # episodes per task in the evaluation
    task_loss: NonNegative = 0.0  # weight of the loss that trains predictions of the task; 0: off
    # initial fraction of environments whose policy receives the true goal
    privileged_share: Share = 0.0

    no_restarts = "a trial's later episodes need its earlier ones"

    def check(self) -> None:
        super().check()
        if not self.trial_steps and not self.trial_episodes:
            raise ValueError(
                "trial_steps=0 and trial_episodes=0: a trial would never end; give one of them"
            )
        if not self.hidden:
            raise ValueError("hidden=() must have at least one layer, such as 64")
        fixed = {"previous": True, "neighbours": 0, "network": "", "separate": False, "cell": "gru"}
        if self.recompute:
            raise ValueError("recompute=True: rl2 has a different loss; omit it")
        for name, value in {**fixed, "normalize_obs": False}.items():
            if getattr(self, name) != value:
                given = f"{name}={getattr(self, name)}"
                raise ValueError(f"{given}: rl2 has a fixed network; omit it")
        if self.reset_source in UNFIT:
            raise ValueError(
                f"reset_source={self.reset_source}: {UNFIT[self.reset_source]}; give exact, fresh "
                f"or auto"
            )


RL2Learner = Learner[Settings, TaskMemory]


def network(env: Env, cell: ppo_rnn.Cell = "gru", layers: int = 1, **given: Any) -> TaskMemory:
    """Return the network; `Settings.check` refuses other recurrent layers than its GRU."""
    return TaskMemory.of(env, **given)


def training_env(env: Env, settings: Settings) -> Env:
    """Return the environment in which RL² trains: trials of the training tasks.

    The observations of this environment include the previous action and reward.
    """
    check_tasks(env, settings)
    return PreviousStep(env=learned(env, settings))


def check_tasks(env: Env, settings: Settings) -> None:
    """Raise `ValueError` if RL² cannot train in `env`.

    `env` must have a set of tasks named `settings.task_set`, and its observations must not show the
    task, because RL² has to infer it.
    """
    name, known = settings.task_set, ", ".join(env.task_sets)
    if not known:
        raise ValueError(f"{env.name} has no sets of tasks; rl2 needs some, such as those of XLand")
    check_hidden(env)
    if name not in env.task_sets:
        raise ValueError(f"--task-set {name or '(none)'}: choose one of {known}")


def check(learner: RL2Learner, seeds: int, episodes: int) -> None:
    """Raise `ValueError` if RL² cannot train or be evaluated with these settings.

    The evaluation needs `episodes` held-out tasks. Settings that use predictions of the task need a
    network that makes predictions.
    """
    settings, trials = learner.settings, learner.env.env.env
    held_out = tested(trials.env, settings).num_tasks
    if held_out < episodes:
        raise ValueError(
            f"--eval-episodes {episodes}: each is a trial under a held-out task, and "
            f"{settings.task_set} has {held_out:,}; give at most that, or more --held-out"
        )
    if informed(learner) and not learner.network.counts:
        raise ValueError(
            "--task-loss and --privileged-share need an observation with a map of few kinds of "
            "cells, such as --set obs=heading; give 0 for both, or another observation"
        )


def params(learner: RL2Learner) -> Any:
    """Return environment params with the training tasks, to pass to the compiled program."""
    return learner.env.default_params


def learned(env: Env, settings: Settings) -> Any:
    """Return the training environment: an episode is a trial under one of the training tasks."""
    lengths = {"steps": settings.trial_steps, "episodes": settings.trial_episodes}
    return env.trials(settings.task_set, (0.0, 1.0 - settings.held_out), **lengths)


def tested(env: Env, settings: Settings) -> Any:
    """Return the evaluation environment: an episode is a trial under a held-out task."""
    part = (1.0 - settings.held_out, 1.0)
    return env.trials(settings.task_set, part, episodes=settings.test_episodes)


def wrapped(env: Env, settings: Mapping[str, Any]) -> Env:
    """Return the environment in which a trained policy acts: trials under held-out tasks.

    Raises `ValueError` if the observation shows the task, as in some runs of older versions.
    """
    check_hidden(env)
    return PreviousStep(env=tested(env, Settings(**settings)))


def init(learner: RL2Learner, key: Array, params: PyTree[Array]) -> Runner:
    """Return the initial training state; environments are at random times within their trials."""
    runner = Runner(**rollouts.begin(learner, key, params))
    trials, world = learner.env.env.env, runner.world
    key_late = learner.devices.local_key(jax.random.fold_in(key, LATE))
    shares = jax.random.uniform(key_late, (learner.env.num_envs,), jnp.float32)
    late = jax.vmap(trials.late)(world.env.env, shares)
    return runner._replace(world=world.replace(env=world.env.replace(env=late)))


UNIT = "`episodes` counts trials under held-out tasks; mean_return is of an episode in a trial"
# Constant folded into a run's random key. The resulting key draws, for each environment, the time
# at which it starts within its first trial.
LATE = 0x1A7E


def update(learner: RL2Learner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; return the new training state and metrics."""
    return ppo_rnn.update(learner, runner, choose, loss, uninformed)


def informed(learner: RL2Learner) -> bool:
    """Return whether `task_loss` or `privileged_share` uses the true task in training."""
    return bool(learner.settings.task_loss or learner.settings.privileged_share)


def choose(learner: RL2Learner, runner: Runner, key: Array, mask: Mask) -> Chosen:
    """Sample actions from the policy, and record the true tasks for the loss.

    The policy receives the true goal in the first environments of the batch. The fraction of these
    environments starts at `privileged_share` and falls to 0 over the run.
    """
    hidden = given = jnp.zeros((learner.env.num_envs, GOAL_SIZE), jnp.int32)
    if informed(learner):
        hidden = jax.vmap(functools.partial(task, learner), (0, None))(
            runner.world.env, runner.params
        )
        settings = learner.settings
        done = settings.progress(settings.updates_of(minibatches.step_count(runner.optimiser)))
        share = settings.privileged_share * (1.0 - done)
        num_envs = learner.env.num_envs
        is_given = jnp.arange(num_envs, dtype=jnp.float32) < share * num_envs
        given = jnp.where(is_given[:, None], hidden[:, :GOAL_SIZE], 0)
    runner = runner._replace(memory=learner.network.with_goal(runner.memory, given))
    memory, action, fields = ppo.choose(learner, runner, key, mask)
    return memory, action, {**fields, "task": (hidden, given)}


def task(learner: RL2Learner, state: Any, params: Any) -> Int32[Array, " parts"]:
    """Return one environment's true task as class labels for the loss, see `TaskMemory.labels`."""
    trials = learner.env.env.env
    open_world = dataclasses.replace(trials.env, obs="dict")
    shown = open_world.observe(state.env.env, trials.params_of(state.env.task, params))
    return learner.network.labels(shown["goal"], shown["pocket"])


def loss(
    learner: RL2Learner, weights: PyTree[Array], rollout: Rollout, *rest: Array
) -> tuple[Array, dict[str, Array]]:
    """Return PPO's loss plus, with `task_loss`, the cross-entropy of predictions of the task."""
    beliefs = []

    def unroll(learner: RL2Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
        done: Any = rollout.terminated | rollout.truncated
        over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0, 0))
        given = rollout.task[1]
        logits, value, belief = over_batch(weights, rollout.memory[:, 0], rollout.obs, done, given)
        beliefs.append(belief)
        return legal(logits, rollout.mask), value

    total, parts = ppo.loss(learner, weights, rollout, *rest, unroll=unroll)
    if not learner.settings.task_loss:
        return total, parts
    found = task_loss(beliefs[0], rollout.task[0], getattr(rollout.forced, "policy", ()))
    return total + learner.settings.task_loss * found, {**parts, "task_loss": found}


def task_loss(
    belief: Belief,
    hidden: Int32[Array, "*batch parts"],
    weight: Float32[Array, "*batch"] | tuple[()] = (),
) -> Float32[Array, ""]:
    """Return the cross-entropy of predictions of the task with the true labels `hidden`.

    `TaskMemory.labels` describes the labels of a task. The cross-entropy is summed over these
    labels and averaged over the batch. `weight` has the weights of the steps; (): all are equal.
    """

    def entropy(logits: Array, label: Array) -> Array:
        is_label = label[..., None] == jnp.arange(logits.shape[-1], dtype=jnp.int32)
        each = -jnp.where(is_label, jax.nn.log_softmax(logits), 0.0).sum(axis=-1)
        return forced.weighted(each, weight).mean()

    cells = [entropy(belief.cells[..., i, :], hidden[..., i + 1]) for i in range(3)]
    return entropy(belief.kind, hidden[..., 0]) + sum(cells)


def uninformed(rollout: Rollout) -> Rollout:
    """Clear the end flags of trials in which the policy received the true goal.

    Metrics include only trials with an end flag, so they leave out trials with a true goal.
    """
    is_given = (rollout.task[1] > 0).any(axis=-1)
    return rollout._replace(
        terminated=rollout.terminated & ~is_given, truncated=rollout.truncated & ~is_given
    )


class Trial(NamedTuple):
    """Results of an evaluation that plays one trial under each of several tasks."""

    returns: Float32[Array, "*seeds tasks episodes"]
    solved: Bool[Array, "*seeds tasks episodes"]
    lengths: Int32[Array, "*seeds tasks"]  # number of steps of the trial


def evaluate(
    learner: RL2Learner, weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Play a trial under each of `count` held-out tasks; return the content of eval.json."""
    trials = tested(agents.env, learner.settings)
    policy = EvaluatedPolicy.of(learner, agents)
    played = functools.partial(play, trials, learner.network, count, greedy=policy.greedy)
    over_agents = jax.jit(jax.vmap(played, (0, 0, None)))
    trial = over_agents(weights, agents.keys, trials.default_params)
    found = summary(jax.device_get(trial), agents.labels)
    return {"policy": policy.facts, "unit": UNIT, **found}


def play(
    trials: Any,
    network: Any,
    count: int,
    weights: PyTree[Array],
    key: Array,
    params: Any,
    greedy: bool = False,
) -> Trial:
    """Play one trial under each of the first `count` tasks in `params`; return the results."""
    env, rows = PreviousStep(env=trials), jnp.arange(count, dtype=jnp.int32)
    policy = Policy.of(env, network, weights)
    key_level, key_reset, key_play = jax.random.split(key, 3)
    levels = jax.vmap(trials.level_of, (0, 0, None))(split(key_level, count), rows, params)
    first = jax.vmap(env.reset_to, (0, 0, None))(split(key_reset, count), levels, params)
    nothing = Trial(
        returns=jnp.zeros((count, trials.episodes), jnp.float32),
        solved=jnp.zeros((count, trials.episodes), jnp.bool_),
        lengths=jnp.zeros(count, jnp.int32),
    )

    def turn(carry: Any) -> Any:
        key, obs, state, memory, playing, so_far = carry
        key, key_act, key_step = jax.random.split(key, 3)
        memory, logits, _ = jax.vmap(policy.think)(memory, obs, policy.masks(state))
        action = policy.choose(key_act, logits, greedy)
        over_rows = jax.vmap(env.step, (0, 0, 0, None))
        step = over_rows(split(key_step, count), state, action, params)
        info = step.info["trial"]
        at = (rows, info["episode"])
        so_far = Trial(
            returns=so_far.returns.at[at].add(jnp.where(playing, step.reward, 0.0)),
            solved=so_far.solved.at[at].max(playing & info["solved"]),
            lengths=so_far.lengths + playing.astype(jnp.int32),
        )
        return key, step.obs, step.state, memory, playing & ~step.done, so_far

    memory = network.begin()
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), memory)
    carry = (key_play, first.obs, first.state, memory, jnp.ones(count, jnp.bool_), nothing)
    return jax.lax.while_loop(lambda carry: carry[4].any(), turn, carry)[5]


def split(key: Array, count: int) -> Array:
    """Return `count` random keys; the first n keys are the same for every `count` of at least n.

    `jax.random.split` does not guarantee this.
    """
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(count, dtype=jnp.uint32))


def summary(trial: Any, labels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of eval.json for a `Trial` of NumPy arrays.

    The result contains statistics of all agents together and, under `per_seed`, statistics of each
    agent. `labels` are the seed and swept settings of each agent.
    """
    together = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), trial)
    return {
        "episodes": trial.returns.shape[1],  # number of trials per seed, see `UNIT`
        **_facts(together),
        "per_seed": [
            {**label, **_facts(jax.tree.map(operator.itemgetter(i), trial))}
            for i, label in enumerate(labels)
        ],
    }


def _facts(trial: Any) -> dict[str, Any]:
    """Return statistics of all episodes, of whole trials, and by the episode's index in its trial.

    `rise` is the return of a trial's last episode minus the return of its first episode, as mean
    and standard error over tasks.
    """

    def rounded(numbers: np.ndarray) -> Any:
        return np.round(numbers.astype(np.float64), 6).tolist()

    def over_tasks(returns: np.ndarray) -> dict[str, Any]:
        """Return mean, median and 20th percentile over tasks, the first axis of `returns`."""
        median, low = np.quantile(returns, [0.5, 0.2], axis=0)
        return {
            "mean": rounded(returns.mean(axis=0)),
            "median": rounded(median),
            "p20": rounded(low),
        }

    rise = trial.returns[:, -1] - trial.returns[:, 0]  # first and last episode have the same task
    return {
        "mean_return": rounded(trial.returns.mean()),
        "success_rate": rounded(trial.solved.mean()),
        "mean_length": rounded(trial.lengths.mean() / trial.returns.shape[1]),
        "terminated_rate": rounded(trial.solved.mean()),
        "trials": over_tasks(trial.returns.sum(axis=1)),
        "by_episode": {
            **over_tasks(trial.returns),
            "success_rate": rounded(trial.solved.mean(axis=0)),
        },
        "rise": {"mean": rounded(rise.mean()), "error": rounded(rise.std() / len(rise) ** 0.5)},
    }


def as_text(result: dict[str, Any]) -> str:
    """Format the result of `evaluate` as two lines: statistics of trials, and means by episode."""
    seeds, sums, means = result["per_seed"], result["trials"], result["by_episode"]["mean"]
    each = ", ".join(f"{seed['trials']['mean']:.3f}" for seed in seeds)
    head = (
        f"Evaluated under {result['episodes']:,} held-out tasks, {len(means)} episodes each: "
        f"sum of returns {sums['mean']:.3f}{f' ({each})' if seeds[1:] else ''}, "
        f"median {sums['median']:.3f}, 20th percentile {sums['p20']:.3f}{in_brackets(result)}"
    )
    by_episode, rise = " ".join(f"{mean:.3f}" for mean in means), result["rise"]
    tail = f"Mean return by episode: {by_episode}; rise {rise['mean']:.3f} ± {rise['error']:.3f}"
    return f"{head}\n{tail}"
