"""Tests of DQN: replay buffer, TD targets, target network, resuming a run."""

import functools
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from test_pqn import Lever
from tiny import Clock, Endless

import jaxenvs
from jaxenvs import Step
from jaxenvs.baselines.core import minibatches, replay_buffer, replay_checks, rollouts
from jaxenvs.baselines.core.devices import Devices
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.core.metrics import KNOWN
from jaxenvs.baselines.off_policy import dqn, q_learning
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs

TINY = ["--num-envs", "4", "--rollout-steps", "8", "--hidden", "8", "--embed", "2", "--seeds", "2"]
TINY += ["--eval-episodes", "4", "--checkpoint-every", "2", "--capacity", "64", "--warm-up", "64"]
TINY += ["--gradient-steps", "2", "--batch-size", "8"]
ENVS, SLOTS, N_STEP, GAMMA = 3, 9, 3, 0.9


learner = functools.partial(tiny.learner, algorithm="dqn")
values_of, worth, loss = (
    jax.jit(function, static_argnums=0) for function in (rollouts.predict, dqn.td_target, dqn.loss)
)


@functools.partial(jax.jit, static_argnums=0)
def gradient_step(agent, memory, learned, key):
    """Take one gradient step of DQN in the same way as a training update."""
    objective = q_learning.Objective(dqn.td_target, dqn.loss)
    draws, learned = q_learning.draw(agent, memory, key), q_learning.Learned(*learned, ())
    return q_learning.gradient_step(agent, objective, memory, jnp.float32(1.0), learned, draws)


def runners_of(agent: Learner, seeds: int = 1):
    """Return the initial runners (training states) of `seeds` seeds, stacked along a first axis."""
    return loop.start(agent, jax.random.split(jax.random.key(0), seeds))


@pytest.fixture(scope="module")
def plain():
    """Return a learner, its runner after one update, and the metrics of the update."""
    agent = learner(Endless())
    before = runners_of(agent)
    types = [leaf.aval for leaf in jax.tree.leaves(before)]
    runners, metrics = loop.run_chunk(agent, before)
    assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types
    return agent, jax.tree.map(lambda leaf: leaf[0], runners), metrics


class Stream:
    """Reference for the replay buffer: random episodes, stored as plain lists of steps.

    Every observation is a different number.
    """

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        # For each environment, the list of its steps: (obs, action, reward, terminated, truncated,
        # next observation before a reset).
        self.steps = [[] for _ in range(ENVS)]
        self.count = 0
        self.obs = [self.new() for _ in range(ENVS)]

    def new(self) -> int:
        """Return a new number as an observation."""
        self.count += 1
        return self.count

    def step(self):
        """Return the arguments of `replay_buffer.add` for one step of every environment."""
        before, rows = np.array(self.obs), []
        for env in range(ENVS):
            kind = self.draw.choice(
                4, p=[0.6, 0.15, 0.2, 0.05]
            )  # episode end: none, terminated, truncated, or both
            ended, cut = kind in (1, 3), kind in (2, 3)
            row = (self.obs[env], self.draw.integers(9), self.draw.normal(), ended, cut, self.new())
            self.steps[env].append(row)
            self.obs[env] = self.new() if ended or cut else row[-1]
            rows.append(row)
        _, action, reward, ended, cut, successor = (jnp.array(x) for x in zip(*rows, strict=True))
        final = {"seen": successor.astype(jnp.int16)}
        step = Step(None, None, reward.astype(jnp.float32), ended, cut, {"final_obs": final})
        return {"seen": jnp.array(before, jnp.int16)}, None, action.astype(jnp.int32), step

    def expected(self, env: int, first: int) -> tuple[float, float, int]:
        """Return reward, discount and last observation of the n-step window at step `first`."""
        total, factor = 0.0, 1.0
        for _, _, reward, ended, cut, successor in self.steps[env][first : first + N_STEP]:
            total, factor = total + factor * reward, factor * GAMMA
            if ended:
                return total, 0.0, successor
            if cut:
                break
        return total, factor, successor


def test_windows_equal_those_of_a_plain_list():
    """Compare n-step windows of the ring buffer with windows computed from lists of steps.

    The windows are compared after every step, also when new steps overwrite old ones. Some steps
    terminate or truncate an episode, or do both; successive steps may end episodes.
    """
    stream = Stream(0)
    memory = replay_buffer.empty({"seen": jnp.zeros(ENVS, jnp.int16)}, None, SLOTS)
    add = jax.jit(replay_buffer.add)
    window = jax.jit(functools.partial(replay_buffer.window, n_step=N_STEP, gamma=GAMMA))
    compared = 0
    for made in range(1, 60):
        memory = add(memory, *stream.step())
        assert memory.obs["seen"].dtype == jnp.int16
        for env in range(ENVS if made >= N_STEP else 0):
            written = int(memory.written[env])
            oldest = max(0, written - (SLOTS - 1))
            # The shape of `first` never changes, so `window` is compiled only once.
            first = np.arange(oldest, oldest + SLOTS, dtype=np.int32)
            got = window(memory, jnp.full(SLOTS, env, jnp.int32), jnp.array(first))
            steps = {row[0]: i for i, row in enumerate(stream.steps[env])}
            for i in np.flatnonzero(first <= written - N_STEP):
                seen = int(got.obs["seen"][i])
                assert float(got.weight[i]) == (seen in steps)
                if seen in steps:
                    reward, discount, successor = stream.expected(env, steps[seen])
                    assert int(got.action[i]) == stream.steps[env][steps[seen]][1]
                    np.testing.assert_allclose(got.reward[i], reward, rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(got.discount[i], discount, rtol=1e-5)
                    if discount:
                        assert int(got.next_obs["seen"][i]) == successor
                    compared += 1
    assert compared > 500


def test_samples_are_uniform_over_complete_windows():
    stream = Stream(1)
    memory = replay_buffer.empty({"seen": jnp.zeros(ENVS, jnp.int16)}, None, SLOTS)
    add = jax.jit(replay_buffer.add)
    sample = jax.jit(lambda key, memory: replay_buffer.sample(key, memory, 6000, N_STEP, GAMMA))
    for made in range(1, 40):
        memory = add(memory, *stream.step())
        if made not in (N_STEP, 39):
            continue
        got = sample(jax.random.key(made), memory)
        seen, times = np.unique(got.obs["seen"], return_counts=True)
        written = np.asarray(memory.written)
        windows = written - N_STEP + 1 - np.maximum(0, written - (SLOTS - 1))
        assert len(seen) == windows.sum()
        if made == 39:
            np.testing.assert_array_equal(windows, SLOTS - N_STEP)
            np.testing.assert_allclose(times / 6000, 1 / windows.sum(), rtol=0.25)
        steps = {row[0] for rows in stream.steps for row in rows}
        np.testing.assert_array_equal(got.weight, np.isin(got.obs["seen"], list(steps)))
    # Slots that hold only the final observation of a truncated episode have weight 0.
    assert 0 < float(got.weight.mean()) < 1


def test_slots_equal_those_of_randint():
    """`sample_slots` draws the same slots as `randint`, also if the buffer has few steps."""
    memory = replay_buffer.empty({"seen": jnp.zeros(ENVS, jnp.int16)}, None, SLOTS)
    for written in ([0, 1, 5], [7, 8, 900]):
        memory = memory._replace(written=jnp.asarray(written, jnp.int32))
        draw = jax.jit(replay_buffer.sample_slots, static_argnums=(2, 3))
        env, slot = draw(jax.random.key(4), memory, 500, 1)
        oldest, newest = np.maximum(0, memory.written - (SLOTS - 1))[env], memory.written[env]
        _, key = jax.random.split(jax.random.key(4))
        wanted = jax.random.randint(key, (500,), oldest, newest, jnp.int32)
        np.testing.assert_array_equal(slot, wanted)


@pytest.mark.full
def test_an_update_stores_the_steps_of_the_environment():
    """Store seven steps of Clock, which observes the time and truncates an episode at time 5.

    Slots 0 to 4 hold the steps of the first episode, and slot 5 only its final observation. The
    next episode begins in slot 6.
    """
    agent = learner(Clock(), rollout_steps=7, n_step=2, gamma=0.5)
    runners, metrics = loop.run_chunk(agent, runners_of(agent))
    memory = jax.tree.map(lambda leaf: leaf[0], runners.replay_buffer)
    np.testing.assert_array_equal(
        memory.obs[:, :9, 0], np.tile([0, 1, 2, 3, 4, 5, 0, 1, 2], (4, 1))
    )
    np.testing.assert_array_equal(memory.written, 8)
    np.testing.assert_array_equal(memory.is_step[0, :8], np.arange(8) != 5)
    assert int(metrics["episodes"][0, 0]) == 4 and float(metrics["return_sum"][0, 0]) == 20
    first = jnp.array([3, 4, 6], jnp.int32)
    window = jax.jit(replay_buffer.window, static_argnums=(3, 4))
    batch = window(memory, jnp.zeros(3, jnp.int32), first, 2, 0.5)
    np.testing.assert_array_equal(batch.next_obs[:, 0], [5, 5, 2])
    np.testing.assert_allclose(batch.discount, [0.25, 0.5, 0.25])
    np.testing.assert_allclose(batch.reward, [1.5, 1.0, 1.5])


def some_batch(rows: int) -> replay_buffer.Batch:
    """Return a batch of random replay items."""
    draw, row = np.random.default_rng(5), np.arange(rows)
    batch = replay_buffer.Batch(
        obs=draw.normal(size=(rows, 1)).astype(np.float32),
        action=(row % 2).astype(np.int32),
        reward=np.linspace(-1.0, 1.0, rows, dtype=np.float32),
        discount=np.where(row % 3 == 0, 0.0, 0.7).astype(np.float32),
        next_obs=draw.normal(size=(rows, 1)).astype(np.float32),
        next_mask=None,
        mask=None,
        weight=np.where(row % 4 == 1, 0.0, 1.0).astype(np.float32),
    )
    return jax.tree.map(jnp.asarray, batch)


@pytest.mark.parametrize("double", [True, False])
def test_double_q_learning_chooses_online_and_evaluates_by_the_target_network(double):
    agent = learner(Endless(), double=double)
    weights, target = (
        jax.jit(agent.network.init)(jax.random.key(i), jnp.ones(1)) for i in range(2)
    )
    batch = some_batch(64)
    online, target_values = (
        np.asarray(values_of(agent, w, batch.next_obs)) for w in (weights, target)
    )
    action = (online if double else target_values).argmax(axis=1)
    assert 0 < (online.argmax(axis=1) != target_values.argmax(axis=1)).sum() < 64
    expected = batch.reward + batch.discount * target_values[np.arange(64), action]
    np.testing.assert_allclose(worth(agent, weights, target, batch), expected, rtol=1e-5)


def test_the_huber_loss_counts_taken_actions_of_real_steps():
    agent = learner(Endless())
    weights, batch = jax.jit(agent.network.init)(jax.random.key(0), jnp.ones(1)), some_batch(32)
    values = np.asarray(values_of(agent, weights, batch.obs))[np.arange(32), np.arange(32) % 2]
    error = np.linspace(-3, 3, 32)
    got, parts = loss(agent, weights, batch, jnp.asarray(values + error, jnp.float32))
    huber = np.where(abs(error) < 1, 0.5 * error**2, abs(error) - 0.5)
    np.testing.assert_allclose(got, (huber * batch.weight).mean(), rtol=1e-4)
    np.testing.assert_allclose(parts["q"], values.mean(), rtol=1e-4)


@pytest.mark.parametrize(("layer_norm", "length"), [(True, np.sqrt(2)), (False, 8.0)])
def test_a_layer_that_is_not_normalised_starts_at_the_scale_of_its_inputs(layer_norm, length):
    """Check that the norm of the first layer's kernel (1 input, 64 outputs) is `length`.

    With layer norm, the kernel is orthogonal with norm sqrt(2). Without it, the 64 weights have
    standard deviation 1, so the norm is about sqrt(64) = 8.
    """
    agent = learner(Endless(), layer_norm=layer_norm, hidden=(64, 64))
    weights = jax.jit(agent.network.init)(jax.random.key(0), jnp.ones(1))["params"]
    first, second = (np.asarray(weights[f"Dense_{i}"]["kernel"]) for i in range(2))
    assert np.linalg.norm(first) == pytest.approx(length, rel=0.2 * (not layer_norm) + 1e-5)
    # The second layer's kernel is orthogonal with and without layer norm.
    np.testing.assert_allclose(second @ second.T, 2.0 * np.eye(64), atol=1e-5)


@pytest.mark.full
def test_no_gradient_enters_the_targets(plain):
    """A gradient step gives the same weights as a step whose targets are constants."""
    agent, runner, _ = plain
    target = jax.jit(agent.network.init)(jax.random.key(9), jnp.ones(1))
    optimiser = minibatches.optimiser(agent.settings)
    start = (runner.weights, target, optimiser.init(runner.weights))
    key = jax.random.key(3)
    (weights, moved, *_), _ = gradient_step(agent, runner.replay_buffer, start, key)

    sample = jax.jit(replay_buffer.sample, static_argnums=(2, 3, 4))
    batch = sample(key, runner.replay_buffer, 16, agent.settings.n_step, agent.settings.gamma)
    held = worth(agent, runner.weights, target, batch)
    gradient = jax.jit(jax.grad(lambda w: dqn.loss(agent, w, batch, held)[0]))(runner.weights)
    with jax.numpy_dtype_promotion("standard"):
        change, _ = jax.jit(optimiser.update)(gradient, start[2], runner.weights)
    for a, b, c in zip(*map(jax.tree.leaves, (weights, runner.weights, change)), strict=True):
        np.testing.assert_allclose(a, b + c, rtol=1e-4, atol=1e-5)
    # The target network moves by the fraction `target_rate` towards the network.
    rate = agent.settings.target_rate
    for a, old, new in zip(*map(jax.tree.leaves, (moved, target, weights)), strict=True):
        np.testing.assert_allclose(a, (1 - rate) * old + rate * new, rtol=1e-4, atol=1e-6)


def test_the_target_network_can_be_copied_every_few_gradient_steps(plain):
    _, runner, _ = plain
    agent = learner(Endless(), target_rate=1.0, target_every=3)
    target = jax.jit(agent.network.init)(jax.random.key(9), jnp.ones(1))
    learned = (runner.weights, target, minibatches.optimiser(agent.settings).init(runner.weights))
    equal = []
    for i in range(4):
        before = learned
        after, _ = gradient_step(agent, runner.replay_buffer, learned, jax.random.key(i))
        learned = after[:3]
        for other in (before[1], learned[0]):
            leaves = zip(*map(jax.tree.leaves, (learned[1], other)), strict=True)
            equal.append(all((a == b).all() for a, b in leaves))
    assert equal == [True, False, True, False, False, True, True, False]


def test_nothing_is_learned_before_the_warm_up_ends():
    # The warm-up ends in the third update; an update has 32 steps.
    agent = learner(Endless(), warm_up=96)
    runners, losses = runners_of(agent), []
    first = jax.device_get(runners.weights)
    for made in range(1, 4):
        runners, metrics = loop.run_chunk(agent, runners)
        losses.append(np.asarray(metrics["q_loss"]).ravel())
        leaves = zip(*map(jax.tree.leaves, (first, runners.weights)), strict=True)
        assert all((a == b).all() for a, b in leaves) == (made < 3)
    assert np.isnan(losses[1]).all() and (losses[2] > 0).all()
    np.testing.assert_array_equal(runners.updates, 3)


def test_seeds_share_one_branch_for_the_warm_up():
    """An update of two seeds has one `cond` for the warm-up, because all seeds end it together.

    If each seed had its own condition, `vmap` would compute both branches.
    """
    agent = learner(Endless())
    update = jax.vmap(agent.update, axis_name=SEEDS)
    seen = []
    for seeds in (1, 2):
        runners = jax.eval_shape(functools.partial(runners_of, agent, seeds))
        seen.append(str(jax.make_jaxpr(update)(runners)).count("cond["))
    assert seen == [1, 1]


def test_an_update_returns_the_metrics_of_the_log(plain):
    agent, runner, metrics = plain
    assert agent.settings.steps_per_update == 32
    seen = {name.removesuffix(KNOWN) for name in metrics}
    assert {"q_loss", "q", "epsilon", "episodes", "return_sum", "length_sum", "oldest"} == seen
    for name in rollouts.DIVIDED:
        for leaf in jax.tree.leaves(getattr(runner, name, ())):
            # First axis: environments, over which the devices divide the array.
            assert leaf.shape[0] == 4


@pytest.mark.full
@pytest.mark.parametrize("power", [pytest.param(0.0, marks=pytest.mark.full), 2.0])
def test_epsilon_falls_from_environment_to_environment(power):
    """Check the epsilon of each environment, and the mean epsilon in the metrics."""
    agent = learner(Endless(), num_envs=4, epsilon_start=0.8, epsilon_end=0.8, epsilon_power=power)
    shares = np.asarray(jax.jit(q_learning.epsilons, static_argnums=0)(agent, jnp.int32(3)))
    expected = 0.8 ** (1.0 + power * np.arange(4) / 3)
    np.testing.assert_allclose(np.broadcast_to(shares, 4), expected, rtol=1e-5)
    assert shares.ndim == (power > 0)
    _, metrics = loop.run_chunk(agent, runners_of(agent))
    np.testing.assert_allclose(metrics["epsilon"], expected.mean(), rtol=1e-5)


@pytest.mark.full
def test_it_learns_the_better_lever_and_bootstraps_at_the_time_limit():
    """DQN learns to pull the lever that pays 1 per step, whose value at gamma 0.8 is 5.

    The value 1 / (1 - 0.8) = 5 needs bootstrapping at the time limit of five steps; without it, the
    value is at most 3.4.
    """
    agent = learner(
        Lever(),
        gamma=0.8,
        learning_rate=1e-2,
        total_steps=3200,
        capacity=2000,
        target_rate=0.05,
        batch_size=32,
        chunk=50,
    )
    runners = runners_of(agent)
    for _ in range(2):
        runners, _ = loop.run_chunk(agent, runners)
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    values = values_of(agent, weights, jnp.ones((1, 1)))[0]
    np.testing.assert_allclose(values, [0.0, 5.0], atol=0.6)


def resumes_bit_identically(tmp_path, flags, id="Grid-Empty-Random-5x5-v0", loss="q_loss"):
    """Check that a run resumed after two of four updates equals an uninterrupted run bit by bit."""
    flags = [id, *flags, "--total-steps", "128"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train.main([*flags, "--out", str(whole)]) == 0
    shutil.copytree(whole, parts)
    shutil.rmtree(parts / "checkpoints" / "00000004")
    assert train.main(["--resume", str(parts), "--eval-episodes", "4"]) == 0
    first, second = (runs.Run.open(path) for path in (whole, parts))
    assert len(first.records()) == 4
    for a, b in zip(first.records(), second.records(), strict=True):
        different = {name for name in a if a[name] != b[name]}
        assert different <= {"seconds", "steps_per_second"}
    assert first.records()[-1][loss][0] > 0
    assert (whole / "eval.json").read_text() == (parts / "eval.json").read_text()
    return whole


@pytest.mark.full
def test_a_resumed_run_is_bit_identical_and_has_a_policy(tmp_path):
    whole = resumes_bit_identically(tmp_path, ["--algo", "dqn", *TINY])
    policy = runs.load_policy(whole, seed=1)
    obs = jax.jit(policy.env.reset)(jax.random.key(0)).obs
    logits, value = jax.jit(policy.apply)(obs)
    assert logits.shape == (7,) and value.shape == ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"capacity": 200},
            "capacity=200 leaves 3 slots for each of 64 environments; n_step=3 needs 4: give "
            "capacity=256 or more, or fewer num_envs",
        ),
        ({"warm_up": 100}, "warm_up=100 ends before each of 64 .* give at least 192"),
        ({"target_rate": 0.0}, "target_rate=0.0 must be above 0 and at most 1"),
        ({"n_step": 0}, "n_step=0 must be at least 1"),
        ({"gradient_steps": 0}, "gradient_steps=0 must be at least 1"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        dqn.Settings(**wrong).check()


def test_a_replay_buffer_larger_than_memory_is_refused():
    agent = learner(Endless(), capacity=4 * 10**12)
    # A step takes 15 bytes: 4 each for observation, action and reward, and 1 for each of three
    # flags. The counter `written` takes 4 bytes for each of the four environments.
    need = f"{2 * (4 * 10**12 * 15 + 16):,}"
    with pytest.raises(ValueError, match=rf"takes {need} bytes of a device \(2 seeds\), cpu has"):
        replay_checks.check_memory(agent, 2)
    replay_checks.check_memory(learner(Endless()), 2)


def test_a_million_steps_of_craft_fit_in_400_mb(monkeypatch):
    """A step of Craft takes 177 bytes in the replay buffer.

    The observation takes 145 bytes, the mask 17, action, reward and priority 4 each, and three
    flags 1 each.
    """
    craft = jaxenvs.make("Craft-Classic-Ids-v0", setup="masked")
    agent = learner(craft, capacity=1_000_000, num_envs=64, warm_up=1000, priority=0.6)
    monkeypatch.setattr(replay_checks, "device_memory", lambda device: 1000)
    with pytest.raises(ValueError, match=r"capacity=1000000 takes ([\d,]+) bytes") as refused:
        replay_checks.check_memory(agent, 1)
    need = int(re.search(r"takes ([\d,]+) bytes", str(refused.value))[1].replace(",", ""))
    # Number of slots of each environment; 15,625 is a square, so priorities need no padding.
    slots = 1_000_000 // 64
    assert need == 64 * (slots * (145 + 17 + 3 * 4 + 3) + 4 + 4) < 400e6


def test_a_batch_that_does_not_divide_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(Devices, "chosen", lambda text: Devices(2))
    flags = ["Grid-Empty-Random-5x5-v0", "--algo", "dqn", *TINY, "--batch-size", "7"]
    assert train.main([*flags, "--devices", "2"]) == 2
    words = "batch_size=7 does not divide evenly among 2 devices; give --batch-size 8"
    assert words in capsys.readouterr().err
