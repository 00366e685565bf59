"""Tests of recurrent PPO: recurrent state, resets, and equal outputs in acting and learning."""

import dataclasses
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full
from jaxtyping import Array, Int32
from tiny import Clock, Countdown, Endless, learner
from tiny import collected as collect

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core import minibatches, playing, rollouts
from jaxenvs.baselines.core.recurrence import reset_memory
from jaxenvs.baselines.evaluation import final
from jaxenvs.baselines.on_policy import ppo_rnn
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, options, train
from jaxenvs.baselines.storage import checkpoints, runs
from jaxenvs.core.env import Params, State, Transition
from jaxenvs.core.spaces import Box
from jaxenvs.core.wrappers import PreviousStep


@jaxenvs.struct
class CueState(State):
    """State with the cue of the episode, which is visible only at step 0."""

    cue: Int32[Array, ""]  # the cue, 0 or 1


class Cue(Endless):
    """Memory task: step 0 shows a cue; at step 5, the action equal to the cue has reward 1."""

    @property
    def default_params(self) -> Params:
        """Return params with a time limit that is never reached."""
        return Params(max_steps_in_episode=np.int32(50))

    @property
    def observation_space(self) -> Box:
        """Return a space of three flags: cue 0, cue 1, question."""
        return Box(0.0, 1.0, (3,), np.float32)

    def draw_level(self, key, params):
        """Draw a cue."""
        return jaxenvs.core.random.below(jaxenvs.core.random.words(key, 1)[0], 2)

    def reset_state(self, key, level, params):
        """Start with the cue of the level."""
        return CueState(time=jnp.int32(0), cue=level)

    def step_state(self, key, state, action, params):
        """Take the sixth action as the answer, and end the episode."""
        asked = state.time == 6
        return Transition(state, (asked & (action == state.cue)).astype(jnp.float32), asked)

    def observe(self, state, params=None):
        """Observe the cue at first, the question at last, and nothing in between."""
        first, asked = state.time == 0, state.time == 5
        seen = [first & (state.cue == 0), first & (state.cue == 1), asked]
        return jnp.stack(seen).astype(jnp.float32)


recurrent = functools.partial(learner, algorithm="ppo-rnn")


@pytest.fixture(scope="module", params=["ppo-rnn", *with_full("ppo-trxl")])
def collected(request):
    """Return a learner, its training states before and after a rollout, and the 7-step rollout.

    The rollout begins in the middle of episodes.
    """
    agent = learner(Countdown(), request.param, rollout_steps=7)
    keys = jax.random.split(jax.random.key(0), 3)
    before, _ = collect(agent, loop.start(agent, keys[:1]), keys[1:2])
    after, rollout = collect(agent, before, keys[2:])
    return agent, before, after, rollout


def kept(runner) -> np.ndarray:
    """Return, for each environment, the largest absolute value in its recurrent state."""
    leaves = [np.abs(np.asarray(leaf)) for leaf in jax.tree.leaves(runner.memory)]
    return np.max([leaf.reshape(*leaf.shape[:2], -1).max(axis=-1) for leaf in leaves], axis=0)


def test_learning_unrolls_what_acting_computed(collected):
    agent, before, _, rollout = collected
    assert (kept(before)[0] > 0).any() and np.asarray(rollout.terminated).any()
    weights, one = jax.tree.map(lambda leaf: leaf[0], (before.weights, rollout))
    one = one._replace(memory=before.memory)
    unroll = jax.jit(ppo_rnn.unroll, static_argnums=0)
    logits, value = unroll(agent, weights, minibatches.as_sequences(one))
    log_prob = agent.policy.log_prob(logits, one.action.T)
    np.testing.assert_allclose(log_prob, one.log_prob.T, rtol=0, atol=1e-6)
    np.testing.assert_allclose(value, one.value.T, rtol=0, atol=1e-6)


def test_a_new_episode_begins_with_an_empty_state(collected):
    _, _, after, rollout = collected
    done = np.asarray(rollout.terminated | rollout.truncated)[0, -1]
    assert done.any() and not done.all()
    np.testing.assert_array_equal(kept(after)[0] == 0, done)


def test_recurrent_states_of_any_shape_are_reset():
    memory = {"a": jnp.ones((3, 2)), "b": jnp.arange(3, dtype=jnp.int32)}
    first = {"a": jnp.zeros(2), "b": jnp.int32(7)}
    after = jax.jit(reset_memory)(memory, first, jnp.array([True, False, True]))
    np.testing.assert_array_equal(after["a"], [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(after["b"], [7, 1, 7])
    alone = jax.jit(reset_memory)({"a": jnp.ones(2), "b": jnp.int32(1)}, first, jnp.bool_(True))
    np.testing.assert_array_equal(alone["a"], [0, 0])
    assert alone["b"] == 7


def test_an_end_resets_the_recurrent_state(collected):
    agent, before, _, _ = collected
    weights = jax.tree.map(lambda leaf: leaf[0], before.weights)
    unroll = jax.jit(agent.network.unroll)
    obs = jax.random.normal(jax.random.key(1), (6, 1))
    other, memory = obs.at[1].add(1.0), agent.network.begin()

    def differs(done: list[int]) -> list:
        ends = jnp.zeros(6, jnp.bool_).at[jnp.array(done, jnp.int32)].set(True)
        a, b = unroll(weights, memory, obs, ends), unroll(weights, memory, other, ends)
        return (np.abs(np.asarray(a[0] - b[0])) > 1e-9).any(axis=-1).tolist()

    assert differs([]) == [False, True, True, True, True, True]
    assert differs([3]) == [False, True, True, True, False, False]
    assert differs([1]) == [False, True, False, False, False, False]
    # The initial recurrent state must change values only until the first episode end.
    ends = jnp.zeros(6, jnp.bool_).at[2].set(True)
    one = jax.tree.map(lambda leaf: leaf[0], before.memory)
    full = int(kept(before)[0].argmax())  # index of an environment that is within an episode
    one = jax.tree.map(lambda leaf: leaf[full], one)
    moved = unroll(weights, one, obs, ends)[1] != unroll(weights, memory, obs, ends)[1]
    assert moved.tolist() == [True, True, True, False, False, False]


def test_minibatches_are_whole_environments(collected):
    agent, before, _, rollout = collected
    seen = []

    def recorded(learner, weights, rollout, lengths_and_memory):
        jax.debug.callback(lambda *x: seen.append(x), *lengths_and_memory)
        return jnp.float32(0), {}

    settings = dataclasses.replace(agent.settings, epochs=3, minibatches=4)
    names = 100 * jnp.arange(8, dtype=jnp.int32) + jnp.arange(7, dtype=jnp.int32)[:, None]
    runner, one = jax.tree.map(lambda leaf: leaf[0], (before, rollout))
    memory = jnp.zeros((1, 8, 8)).at[0, :, 0].set(jnp.arange(8.0))

    @jax.jit
    def learn(runner):
        batch = minibatches.as_sequences((one, (names, memory)))
        orders = minibatches.shuffled_items(settings, batch, jax.random.key(0))
        return minibatches.descend(agent, recorded, runner, batch, orders)

    jax.block_until_ready(learn(runner))
    jax.effects_barrier()
    assert len(seen) == 12
    rows = [np.asarray(lengths) for lengths, _ in seen]
    whole = np.asarray(names).T
    for lengths, memory in seen:
        environment = np.asarray(lengths)[:, 0] // 100
        # Each item of the minibatch has all steps of one environment, in order.
        np.testing.assert_array_equal(lengths, whole[environment])
        # The recurrent state of each item belongs to the same environment as its steps.
        np.testing.assert_array_equal(np.asarray(memory)[:, 0, 0], environment)
    for epoch in range(3):
        drawn = np.concatenate(rows[4 * epoch : 4 * epoch + 4])[:, 0] // 100
        assert sorted(drawn) == list(range(8))
    assert len({rows[4 * epoch][0, 0] for epoch in range(3)}) > 1 or (rows[0] != rows[4]).any()


def test_the_policy_of_many_environments_runs_in_parts(monkeypatch):
    """Parts of 5 give the same rollout of 14 environments as all at once, to rounding."""
    agent = learner(Clock(), "ppo-rnn", num_envs=14, rollout_steps=12, memory=8)
    keys = jax.random.split(jax.random.key(0), 1)
    runners = loop.start(agent, keys)

    def loops():
        program = jax.make_jaxpr(collect, static_argnums=0)(agent, runners, keys)
        return str(program).count("scan[")

    whole, before = collect(agent, runners, keys), loops()
    monkeypatch.setattr(rollouts, "MOST_AT_ONCE", 5)
    jax.clear_caches()
    assert loops() > before
    parts = collect(agent, runners, keys)
    jax.clear_caches()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, parts)


@pytest.mark.parametrize("algorithm", ["ppo-rnn", pytest.param("ppo-trxl", marks=pytest.mark.full)])
def test_a_truncated_episode_is_bootstrapped_with_its_recurrent_state(algorithm):
    agent = learner(Clock(), algorithm, num_envs=4, rollout_steps=12, memory=8)
    keys = jax.random.split(jax.random.key(0), 1)
    runners = loop.start(agent, keys)
    rollout = collect(agent, runners, keys)[1]
    cut = np.zeros((12, 4), bool)
    cut[[4, 9]] = True
    np.testing.assert_array_equal(rollout.truncated[0], cut)
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    clock, none = jnp.arange(6.0)[:, None], jnp.zeros(6, jnp.bool_)
    values = agent.network.unroll(weights, agent.network.begin(), clock, none)[1]
    np.testing.assert_allclose(
        rollout.truncation_value[0], np.where(cut, values[5], 0.0), atol=1e-6
    )
    alone = jax.jit(agent.network.think)(weights, agent.network.begin(), clock[5], None)[2]
    assert abs(float(values[5] - alone)) > 1e-3  # a value without the recurrent state would differ


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "remembers"),
    [("ppo-rnn", True), ("ppo-trxl", True), ("pqn-rnn", True), ("ppo", False), ("pqn", False)],
)
def test_memory_solves_a_partially_observed_task(algorithm, remembers):
    """Only learners with a memory solve `Cue`; without one, half of the answers are right.

    All learners take the same number of steps.
    """
    settings = {"num_envs": 32, "rollout_steps": 48, "minibatches": 4, "learning_rate": 1e-2}
    settings |= {"hidden": (16,), "total_steps": 46_080, "gamma": 0.9, "chunk": 30}
    settings |= {"memory": 16} if remembers else {}
    if algorithm.startswith("pqn"):
        settings |= {"epsilon_end": 0.01, "epsilon_share": 0.3}
    if algorithm == "ppo-trxl":
        settings |= {"learning_rate": 3e-3, "width": 16}
    agent = learner(Cue(), algorithm, **settings)
    metrics = loop.run_chunk(agent, loop.start(agent, jax.random.split(KEY, 2)))[1]
    last = jax.tree.map(lambda leaf: leaf[:, -3:].sum(axis=1), metrics)
    share = np.asarray(last["return_sum"]) / np.asarray(last["episodes"])
    assert (share > 0.95).all() if remembers else (share < 0.65).all()


KEY = jax.random.key(3)


def test_evaluation_carries_memory():
    """Evaluation passes a policy's recurrent state from step to step.

    A policy that stores the cue in its recurrent state is always right.
    """

    def act(key, obs, state, memory):
        memory = jnp.where(obs[:, :2].any(axis=1), obs[:, 1].astype(jnp.int32), memory)
        return memory, memory

    episodes = jax.jit(playing.first_episodes, static_argnums=(0, 1, 3))(
        Cue(), act, KEY, 64, jnp.int32(7)
    )
    np.testing.assert_array_equal(episodes.returns, 1.0)
    np.testing.assert_array_equal(episodes.lengths, 6)


TINY = ["Grid-Empty-Random-5x5-v0", "--num-envs", "8", "--rollout-steps", "16", "--hidden", "8"]
TINY += ["--embed", "2", "--memory", "8", "--eval-episodes", "16", "--checkpoint-every", "1"]
TINY += ["--minibatches", "2", "--epochs", "1", "--total-steps", "256"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        "ppo-rnn --bonus 0.1",
        "ppo-rnn --previous",
        "ppo-trxl --bonus 0.1 --previous --width 8 --num-heads 2",
        "pqn-rnn --previous",
    ],
)
def test_a_resumed_run_is_bit_identical_and_its_policy_has_memory(tmp_path, capsys, flags):
    out = tmp_path / "run"
    assert train.main(["--algo", *flags.split(), *TINY, "--out", str(out)]) == 0
    run = runs.Run.open(out)
    newest = checkpoints.saved(run.checkpoints)[-1]
    evaluated, state = (out / "eval.json").read_text(), checkpoints.contents(newest)
    shutil.rmtree(newest)
    assert train.main(["--resume", str(out), "--eval-episodes", "16"]) == 0
    jax.tree.map(np.testing.assert_array_equal, state, checkpoints.contents(newest))
    assert (out / "eval.json").read_text() == evaluated

    policy = runs.load_policy(out)
    obs = policy.env.reset(KEY).obs
    memory, logits, value = jax.jit(policy.think)(policy.begin(), obs)
    assert logits.shape == (7,) and value.shape == ()
    same = jax.tree.map(np.shape, policy.begin()) == jax.tree.map(np.shape, memory)
    assert same and any((leaf != 0).any() for leaf in jax.tree.leaves(memory))
    # Attention to a copy of the present observation changes nothing, so the next one differs.
    other = jax.tree.map(lambda leaf: leaf + (leaf == 0).astype(leaf.dtype), obs)
    values = [jax.jit(policy.think)(state, other)[2] for state in (policy.begin(), memory)]
    assert values[0] != values[1]
    np.testing.assert_allclose(jax.jit(policy.apply)(obs)[0], logits, rtol=1e-5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--memory", "0"], "memory=0 must be at least 1; without one use --algo ppo"),
        (["--minibatches", "16"], "does not split into minibatches=16; choose a divisor of 8"),
    ],
)
def test_settings_that_cannot_work_say_why(tmp_path, capsys, flags, words):
    argv = ["--algo", "ppo-rnn", *TINY, *flags, "--out", str(tmp_path / "run")]
    assert train.main(argv) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("neighbours", [0, 4])
def test_the_previous_step_is_observed_if_set(neighbours):
    """With `previous`, the previous action and reward are appended to the network's features."""
    settings = ppo_rnn.Settings(
        hidden=(8,), embed=2, memory=4, neighbours=neighbours, previous=True
    )
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    assert ppo_rnn.wrapped(env, {}) is env
    inputs = []
    for seen in (env, ppo_rnn.wrapped(env, vars(settings))):
        network = registry.network(ALGORITHMS["ppo-rnn"], seen, vars(settings))
        weights = jax.eval_shape(network.init, KEY, jax.eval_shape(env_obs(seen), KEY))
        inputs.append(weights["params"]["layers_0"]["kernel"].shape[0])
    # The additional inputs are a one-hot vector of 17 actions and "no action yet", and a reward.
    assert inputs[1] == inputs[0] + 1 + env.action_space.n + 1
    again = registry.network(
        ALGORITHMS["ppo-rnn"], ppo_rnn.wrapped(env, vars(settings)), vars(settings)
    )
    assert network == again and hash(network) == hash(again)


def env_obs(env):
    """Return a function from a key to the first observation of an environment."""
    return lambda key: env.reset(key).obs


@pytest.mark.parametrize("algorithm", ["ppo-rnn", "ppo-trxl", "pqn-rnn"])
def test_training_and_evaluation_show_the_previous_step(tmp_path, monkeypatch, algorithm):
    flags = [*TINY, "--previous", "--out", str(tmp_path / "run")]
    _, run, agent = options.prepare(flags, algorithm)
    played = []
    monkeypatch.setattr(
        evaluation.EvaluatedPolicy, "play", lambda self, *rest: played.append(self.env) or {}
    )
    monkeypatch.setattr(evaluation, "as_text", lambda result: "")
    final.report(run, agent, None, 4)
    assert isinstance(agent.env.env, PreviousStep) and played == [agent.env.env]
