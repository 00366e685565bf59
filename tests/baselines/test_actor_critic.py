"""Tests of the shared code of the off-policy actor-critic learners (SAC, TD3, TQC, CrossQ)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from defaults import with_full
from test_dqn import resumes_bit_identically
from tiny import Push

from jaxenvs import cli
from jaxenvs.baselines.core import minibatches, replay_buffer
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.off_policy import actor_critic, sac
from jaxenvs.baselines.off_policy.actor_critic_networks import critic_values
from jaxenvs.baselines.run import loop, options, train
from jaxenvs.baselines.storage import runs
from jaxenvs.core.env import Transition
from jaxenvs.core.spaces import Box, Dict

pytestmark = pytest.mark.full

ALL = ("sac", "td3", "tqc", "crossq")
# learners to test; CrossQ has every type of layer, so the other three have the marker `full`
ONE = [*with_full("sac", "td3", "tqc"), "crossq"]


class Drop(Push):
    """Environment `Push` that terminates if the sum of the action's components exceeds 3."""

    def step_state(self, key, state, action, params):
        """Terminate if the action's sum is above 3."""
        transition = super().step_state(key, state, action, params)
        return Transition(transition.state, transition.reward, action.sum() > 3)


class Unbounded(Push):
    """Environment `Push` with an action space in which one component is unbounded."""

    @property
    def action_space(self):
        """Return a space of two numbers, of which only one is bounded."""
        return Box(np.float32([-1, -np.inf]), np.float32([1, np.inf]), (2,), np.float32)


class Whole(Push):
    """Environment `Push` with integer actions, which the actor-critic learners refuse."""

    @property
    def action_space(self):
        """Return a space of two integers."""
        return Box(0, 3, (2,), np.int32)


class Square(Push):
    """Environment `Push` with 2 x 2 matrices as actions and a Dict observation."""

    @property
    def action_space(self):
        """Return a space of 2 x 2 matrices whose columns have different bounds."""
        low = np.float32([[-1, 0], [-1, 5]])
        return Box(low, low + 2, (2, 2), np.float32)

    @property
    def observation_space(self):
        """Return a Dict space of the time, a float, and two integer codes."""
        parts = {"time": Box(0.0, 9.0, (1,), np.float32), "code": Box(0, 5, (2,), np.uint8)}
        return Dict(parts)

    def observe(self, state, params=None):
        """Return the time as a float, and two codes that are always 0."""
        time = super().observe(state, params)
        return {"time": time, "code": jnp.zeros(2, jnp.uint8)}


def shapes_of(agent, seeds=1):
    """Return shapes and dtypes of a learner's training states (runners), without computing them."""
    keys = jax.random.split(jax.random.key(0), seeds)
    return jax.eval_shape(functools.partial(loop.start, agent), keys)


@pytest.mark.parametrize("algorithm", ONE)
def test_layer_norm_and_dropout_work_in_bfloat16(algorithm):
    """An update is traced under strict dtype promotion, and weights stay float32."""
    agent = tiny.learner(Push(), algorithm, bfloat16=True, layer_norm=True, dropout=0.1)
    before = shapes_of(agent)
    after, _ = jax.eval_shape(functools.partial(loop.run_chunk, agent), before)
    assert jax.tree.map(lambda leaf: leaf.dtype, after) == jax.tree.map(
        lambda leaf: leaf.dtype, before
    )
    floats = [x for x in jax.tree.leaves(after.critic) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {leaf.dtype for leaf in floats} == {jnp.dtype("float32")}


@pytest.mark.parametrize("algorithm", ONE)
def test_actions_may_be_matrices_and_observations_dicts(algorithm):
    agent = tiny.learner(Square(), algorithm)
    before = shapes_of(agent)
    after, _ = jax.eval_shape(functools.partial(loop.run_chunk, agent), before)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, before)
    assert after.replay_buffer.action.shape == (1, 4, 16, 2, 2)


def test_value_learners_work_in_bfloat16():
    for algorithm in ("dqn", "pqn-rnn"):
        agent = tiny.learner(tiny.Endless(), algorithm, bfloat16=True)
        jax.eval_shape(functools.partial(loop.run_chunk, agent), shapes_of(agent))


def test_dropout_drops_a_share_of_each_layer_by_item_and_critic():
    """Dropout sets a hidden unit to 0 with probability 0.25, separately for each item and critic.

    With the weights of this test, a critic's output is one hidden unit plus the bias. A unit that
    is not dropped is divided by 0.75, which keeps the mean of its output.
    """
    agent = tiny.learner(Push(), "sac", dropout=0.25, hidden=(4,))
    shapes = shapes_of(agent).critic

    def ones(path, leaf):
        is_output = path[1].key == "Dense_1" and path[2].key == "kernel"
        value = np.eye(*leaf.shape[2:])[None] if is_output else np.ones(leaf.shape[1:])
        return jnp.full(leaf.shape[1:], value, leaf.dtype)

    critic = jax.tree_util.tree_map_with_path(ones, shapes)
    say = jax.jit(functools.partial(critic_values, agent))
    obs, action = np.ones((400, 1), np.float32), np.ones((400, 2), np.float32)
    kept = np.asarray(say(critic, obs, action))
    assert np.unique(kept).size == 1 and kept[0, 0, 0] > 1
    said = np.asarray(say(critic, obs, action, key=jax.random.key(0)))[..., 0]
    bias = 1.0  # bias of the output layer
    is_dropped = np.isclose(said, bias)
    np.testing.assert_allclose(said[~is_dropped] - bias, (kept[0, 0, 0] - bias) / 0.75, rtol=1e-5)
    assert abs(is_dropped.mean() - 0.25) < 0.05
    assert (is_dropped[0] != is_dropped[1]).any()


@pytest.fixture(scope="module")
def fallen():
    """Train a SAC learner with two seeds, and return a tuple of its states and metrics.

    The tuple contains: the learner; the initial runners (training states); the first seed's runner
    after one chunk of updates; a batch from this runner's replay buffer; runners and metrics after
    two chunks. Some episodes terminate, others are truncated.
    """
    agent = tiny.learner(Drop(), "sac", dropout=0.1, actor_every=4, replays=4, warm_up=32)
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 2))
    first = jax.tree.map(jnp.copy, runners)
    runners, _ = loop.run_chunk(agent, runners)
    after, metrics = loop.run_chunk(agent, jax.tree.map(jnp.copy, runners))
    sample = functools.partial(replay_buffer.sample, size=64, n_step=1, gamma=agent.settings.gamma)
    one = jax.tree.map(lambda leaf: leaf[0], runners)
    batch = jax.jit(sample)(jax.random.key(3), one.replay_buffer)
    return agent, first, one, batch, after, metrics


@pytest.mark.full
def test_only_terminal_states_have_value_0(fallen):
    agent, _, runner, batch, *_ = fallen
    noise = jax.random.normal(jax.random.key(0), (64, agent.policy.numbers), jnp.float32)
    chance = actor_critic.Noise(noise, jax.random.key(0))
    goal = jax.jit(functools.partial(sac.td_target, agent))(
        actor_critic.Learned.of(runner), batch, chance
    )
    steps = np.asarray(batch.weight) > 0
    ended = steps & (np.asarray(batch.action).sum(axis=1) > 3)
    cut = steps & ~ended & (np.asarray(batch.next_obs)[:, 0] == 5)
    assert ended.sum() > 5 and cut.sum() > 0
    np.testing.assert_array_equal(batch.discount[ended], 0)
    np.testing.assert_array_equal(np.asarray(goal)[ended], batch.reward[ended])
    np.testing.assert_allclose(batch.discount[steps & ~ended], agent.settings.gamma)
    assert not np.allclose(np.asarray(goal)[cut], batch.reward[cut])


@pytest.mark.full
def test_the_actor_can_be_updated_less_often(fallen):
    """With `actor_every=4`, every fourth gradient step of the critics also updates the actor.

    Metrics of the actor are means over only the gradient steps that update it.
    """
    *_, after, metrics = fallen
    counts = {
        name: {int(x[0]) for x in jax.tree.leaves(state) if x.dtype == jnp.int32}
        for name, state in after.optimiser.items()
    }
    (critics,) = counts["critic"]
    assert critics >= 32 and counts["weights"] == counts["temperature"] == {critics // 4}
    # If gradient steps without an actor update counted as 0, the mean would be a quarter as large.
    assert (np.abs(metrics["entropy"]) > 0.3).all()


def test_losses_average_the_gradient_steps_that_computed_them():
    """Compare averaged losses with means computed by hand, for four iterations.

    An iteration is one step of every environment, then gradient steps. Only the last two iterations
    take gradient steps. In the last one, half of the gradient steps update the actor.
    """
    losses = {"critic_loss": [0.0, 0.0, 2.0, 4.0], "actor_loss": [0.0, 0.0, 0.0, 3.0]}
    losses |= {actor_critic.LEARNED: [0.0, 0.0, 1.0, 1.0], actor_critic.TURNS: [0.0, 0.0, 0.0, 0.5]}
    runner = actor_critic.Runner(*[()] * len(actor_critic.Runner._fields))
    losses = {name: jnp.float32(values) for name, values in losses.items()}
    found = {k: float(v) for k, v in actor_critic.mean_losses(runner, losses).items()}
    assert (found["critic_loss"], found["actor_loss"]) == (3.0, 6.0)
    nothing = actor_critic.mean_losses(runner, {k: 0 * v for k, v in losses.items()})
    assert np.isnan(nothing["critic_loss"]) and nothing["critic_loss_known"] == 0


def test_learning_continues_beyond_2_31_steps(fallen):
    """Learning goes on after 2**33 environment steps, a number that int32 cannot hold."""
    agent, _, _, _, after, _ = fallen
    assert agent.settings.steps_per_update == 32
    late = jnp.full_like(after.updates, 2**33 // 32)
    before = jax.tree.map(jnp.copy, after)
    runners, metrics = loop.run_chunk(agent, before._replace(updates=late))
    for old, new in zip(*map(jax.tree.leaves, (after.critic, runners.critic)), strict=True):
        assert (np.asarray(old) != np.asarray(new)).any()
    assert (np.asarray(metrics["critic_loss"]) > 0).all()
    counts = [x for x in jax.tree.leaves(runners.optimiser["critic"]) if x.dtype == jnp.int32]
    counted = [x for x in jax.tree.leaves(after.optimiser["critic"]) if x.dtype == jnp.int32]
    np.testing.assert_array_equal(counts[0] - counted[0], agent.settings.gradient_steps)


@pytest.mark.full
def test_seeds_are_independent(fallen):
    """Train two seeds together; the second one gets the same weights as if trained alone."""
    agent, _, _, _, after, _ = fallen
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 2)[1:])
    for _ in range(2):
        runners, _ = loop.run_chunk(agent, runners)
    for alone, both in zip(
        *map(jax.tree.leaves, (actor_critic.Learned.of(runners), actor_critic.Learned.of(after))),
        strict=True,
    ):
        np.testing.assert_allclose(alone[0], both[1], rtol=1e-3, atol=1e-4)
    first, second = (jax.tree.leaves(after.weights)[0][i] for i in range(2))
    assert not np.array_equal(first, second)


def test_learning_rates_fall_by_updates_also_for_a_delayed_actor():
    settings = sac.Settings(total_steps=1000, rollout_steps=10, replays=2, actor_every=4)
    settings = dataclasses.replace(settings, anneal=True, learning_rate=1.0, warm_up=1)
    of_critic = minibatches.learning_rate(settings)
    of_actor = minibatches.learning_rate(settings, settings.actor_every)
    for update in (0, 40, 99):
        steps = np.int32(update * settings.gradient_steps)
        np.testing.assert_allclose(of_critic(steps), 1.0 - update / 100, atol=1e-6)
        np.testing.assert_allclose(of_actor(steps // 4), of_critic(steps), atol=1e-6)


def test_muon_orthogonalises_each_critic_separately():
    """Muon treats each critic's matrix separately, although the critics' weights are stacked.

    Adam updates the biases.
    """
    agent = tiny.learner(Push(), "sac", optimiser="muon", max_grad_norm=1e9)
    rng = np.random.default_rng(0)
    shapes = {"kernel": (5, 3), "bias": (3,)}
    stacked = {name: np.float32(rng.normal(size=(2, *shape))) for name, shape in shapes.items()}

    def moved(chain, tree):
        return jax.jit(lambda t: minibatches.apply_gradient(chain, t, chain.init(t), t)[0])(tree)

    both = moved(actor_critic.optimiser(agent, "critic"), stacked)
    for i in range(2):
        one = {name: leaf[i] for name, leaf in stacked.items()}
        alone = moved(minibatches.optimiser(agent.settings), one)
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-7), both, alone
        )


@pytest.mark.parametrize("algorithm", ALL)
def test_spaces_that_no_policy_has_are_refused(algorithm):
    with pytest.raises(ValueError, match=r"Unbounded\(\): policies do not support .* finite"):
        tiny.learner(Unbounded(), algorithm)
    with pytest.raises(ValueError, match=r"Whole\(\): policies do not support .* Box of floats"):
        tiny.learner(Whole(), algorithm)
    with pytest.raises(
        ValueError, match=rf"Discrete\(2\); {algorithm} needs a Box one: give --algo"
    ):
        tiny.learner(tiny.Clock(), algorithm)


@pytest.mark.parametrize(
    ("algorithm", "flags", "words"),
    [
        *((name, "--learning-rate nan", "learning_rate=nan must be at least 0") for name in ALL),
        *((name, "--learning-rate inf", "learning_rate=inf must be finite") for name in ALL),
        ("sac", "--gamma nan", "gamma=nan must be at least 0"),
        ("sac", "--target-rate nan", "target_rate=nan must be"),
        ("sac", "--temperature nan", "temperature=nan must be"),
        ("sac", "--negentropy nan", "negentropy=nan"),
        ("tqc", "--negentropy=-0.7", "the entropy of a policy is at most 0.693 nats"),
        ("crossq", "--momentum nan", "momentum=nan must be at least 0"),
        ("crossq", "--target-rate 0.01", "target_rate=0.01 must be at least 1; crossq has no"),
        ("td3", "--noise nan", "noise=nan must be at least 0"),
        ("td3", "--dropout 1", "dropout=1.0 must be below 1; 1 drops everything"),
        ("sac", "--critic-hidden -3", "critic_hidden=(-3,) must each be at least 1; widths"),
        ("sac", "--actor-every 0", "actor_every=0 must be at least 1"),
        ("sac", "--capacity 4000000000000 --num-envs 1", "capacity=4000000000000 takes"),
    ],
)
def test_settings_that_cannot_work_say_why(tmp_path, capsys, algorithm, flags, words):
    out = ["--out", str(tmp_path / "run")]
    argv = ["Classic-Pendulum-v0", "--algo", algorithm, *flags.split(), *out]
    assert train.main(argv) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_keeps_its_replay_ratio(tmp_path):
    """A run of SAC cannot be resumed with another value of `replays`, gradient steps per env step.

    The check depends on the learner: a Ray learner may change `replays`, its number of replay
    processes.
    """
    settings = {name: vars(sac.Settings())[name] for name in ("num_envs", "replays")}
    config = runs.Config("Classic-Pendulum-v0", {}, 0, 1, settings, "sac")
    runs.Run.create(tmp_path / "run", config)
    asked = ["--resume", str(tmp_path / "run"), "--replays", "3"]
    with pytest.raises(runs.RunError, match="with --replays 1 and cannot continue with 3"):
        options.parse(asked, "sac")


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALL)
def test_a_resumed_run_is_bit_identical_and_all_commands_take_it(tmp_path, capsys, algorithm):
    """Compare a resumed run with an uninterrupted run; then export, evaluate and watch it.

    The run trains two seeds with two values of gamma. Its checkpoints contain a replay buffer.
    """
    flags = ["--algo", algorithm, "--num-envs", "4", "--rollout-steps", "8", "--capacity", "64"]
    flags += ["--warm-up", "32", "--batch-size", "16", "--hidden", "8", "--chunk", "1"]
    flags += ["--critic-hidden", "8", "--eval-episodes", "4", "--checkpoint-every", "2"]
    flags += ["--sweep", "gamma=0.9,0.99", "--seeds", "2", "--no-anneal"]
    whole = resumes_bit_identically(tmp_path, flags, "Classic-Pendulum-v0", "critic_loss")
    policy = runs.load_policy(whole, seed=1)
    obs = jax.jit(policy.env.reset)(jax.random.key(0)).obs
    outputs, value = jax.jit(policy.apply)(obs)
    assert outputs.shape == (2,) and np.isnan(value)
    assert export.main([str(whole)]) == 0
    assert (whole / "export" / "policy.jax").is_file()
    assert cli.main(["eval", str(whole), "--episodes", "4"]) == 0
    gif = tmp_path / "film.gif"
    assert cli.main(["watch", str(whole), "--gif", str(gif), "--frames", "5"]) == 0
    assert gif.is_file() and "nan" not in capsys.readouterr().out
