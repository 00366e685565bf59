"""Tests of R2D2: sequences and stored recurrent states, burn-in, targets, priorities, runs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from test_dqn import TINY, resumes_bit_identically
from test_ppo_rnn import Cue
from test_priorities import flat
from tiny import Clock, Countdown
from tiny_masks import Gate

from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.networks import two_hot
from jaxenvs.baselines.off_policy import q_learning, r2d2
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.storage import runs

pytestmark = pytest.mark.full

learner = functools.partial(tiny.learner, algorithm="r2d2")
KEY = jax.random.key(4)
cut_out = jax.jit(r2d2.sequences_at, static_argnums=0)
unrolled = jax.jit(r2d2.unroll, static_argnums=0)


@pytest.fixture(scope="module")
def filled():
    """Return an untrained learner, and its runner (training state) for one seed.

    Enough steps were collected to overwrite the whole replay buffer, which is a ring buffer.
    """
    agent = learner(Countdown(), warm_up=10_000)
    act = jax.jit(lambda runner: q_learning.collect(agent, runner, r2d2.action_values)[0])
    runner = jax.tree.map(lambda leaf: leaf[0], loop.start(agent, KEY[None]))
    for _ in range(5):
        runner = act(runner)
    assert int(runner.replay_buffer.written.min()) > 2 * agent.settings.slots
    return agent, runner


def numbers(agent, runner) -> tuple[jax.Array, jax.Array]:
    """Return the environments and indices of all sequences that can be sampled."""
    known = flat(runner.priorities, agent.settings.slots // agent.settings.period)
    env, number = np.nonzero(known)
    return jnp.asarray(env, jnp.int32), jnp.asarray(number, jnp.int32)


def test_complete_sequences_can_be_sampled(filled):
    """A sequence can be sampled if and only if it is complete and not overwritten."""
    agent, runner = filled
    slots, period, length = agent.settings.slots, agent.settings.period, agent.settings.length
    env, number = map(np.asarray, numbers(agent, runner))
    for each, written in enumerate(np.asarray(runner.replay_buffer.written)):
        # `counts` are slot indices that do not wrap around the ring buffer. Unless the last step
        # was truncated, slot `written` already holds the next observation.
        counts = range(int(written) - slots + 1, int(written) - length + 2)
        expected = {count % slots // period for count in counts if count % period == 0}
        assert set(number[env == each]) == expected and len(expected) > 2


def test_a_stored_memory_equals_the_end_of_the_unrolled_previous_sequence(filled):
    agent, runner = filled
    settings, buffer = agent.settings, runner.replay_buffer
    env, number = numbers(agent, runner)
    sequences = cut_out(settings, buffer, runner.memories, env, number)
    done = sequences.terminated | ~sequences.is_step
    until = slice(settings.period)
    remember = jax.jit(jax.vmap(agent.network.remembered, in_axes=(None, 0, 0, 0)))
    last, *_ = remember(runner.weights, sequences.memory, sequences.obs[:, until], done[:, until])
    after = (number + 1) % (settings.slots // settings.period)
    stored = np.asarray(runner.memories)[env, after]
    np.testing.assert_allclose(last, stored, rtol=0, atol=1e-6)
    # Some sequences begin with an empty recurrent state, some begin in the slot after a truncated
    # step, and the others begin within an episode.
    begun = (np.asarray(sequences.memory) == 0).all(axis=1)
    assert 0 < begun.sum() < len(begun)
    successor = ~np.asarray(sequences.is_step)[:, 0]
    assert successor.any() and not begun[successor].any()
    assert not (
        np.asarray(remember(runner.weights, 0 * last, sequences.obs[:, until], done[:, until])[0])
        == last
    ).all()


def test_unrolled_values_equal_those_of_acting():
    """The values of `r2d2.unroll` must equal values computed step by step, as in acting."""
    agent = learner(Countdown(), warm_up=10_000, burn_in=1, rollout_steps=14)
    runner = jax.tree.map(lambda leaf: leaf[0], loop.start(agent, KEY[None]))
    runner = jax.jit(lambda runner: q_learning.collect(agent, runner, r2d2.action_values)[0])(
        runner
    )
    env, number = jnp.arange(4, dtype=jnp.int32), jnp.zeros(4, jnp.int32)
    sequences = cut_out(agent.settings, runner.replay_buffer, runner.memories, env, number)
    got = np.asarray(unrolled(agent, runner.weights, sequences))
    assert got.shape == (4, 6, 2)
    say = jax.jit(agent.network.values)
    for row in range(4):
        memory = agent.network.begin()
        for step in range(7):
            memory, values = say(runner.weights, memory, sequences.obs[row, step])
            if step >= 1:
                np.testing.assert_allclose(got[row, step - 1], values, rtol=0, atol=1e-6)
            if sequences.terminated[row, step] or not sequences.is_step[row, step]:
                memory = agent.network.begin()


def test_no_gradient_passes_through_the_burn_in():
    agent = learner(Cue())
    weights = jax.jit(agent.network.init)(KEY, jnp.ones(3))
    sequences = some_sequences(agent.settings, 6, masked=False)
    goes_on = jnp.zeros_like(sequences.terminated)
    obs = jax.random.normal(KEY, (*goes_on.shape, 3))
    sequences = sequences._replace(obs=obs, terminated=goes_on, is_step=~goes_on)

    def total(weights, obs, memory):
        given = sequences._replace(obs=obs, memory=memory)
        return jnp.square(r2d2.unroll(agent, weights, given)).sum()

    slopes = jax.jit(jax.grad(total, argnums=(0, 1, 2)))
    got, by_obs, by_memory = slopes(weights, obs, sequences.memory)
    assert not by_memory.any() and not by_obs[:, :2].any()
    assert (by_obs[:, 2:] != 0).any(axis=2).all()
    moved = sequences._replace(obs=obs.at[:, 0].add(1.0))
    changed = unrolled(agent, weights, moved) != unrolled(agent, weights, sequences)
    # The observations of the burn-in have an effect on later values.
    assert changed.any(axis=(1, 2)).all()

    # Burn-in steps must get no gradient. Compare with a sequence without burn-in that begins with
    # the recurrent state after the burn-in.
    remember = jax.jit(jax.vmap(agent.network.remembered, in_axes=(None, 0, 0, 0)))
    burnt, *_ = remember(weights, sequences.memory, obs[:, :2], goes_on[:, :2])

    def rest(weights):
        unroll = jax.vmap(agent.network.unroll, in_axes=(None, 0, 0, 0))
        return jnp.square(unroll(weights, burnt, obs[:, 2:], goes_on[:, 2:])[0]).sum()

    expected = jax.jit(jax.grad(rest))(weights)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5)
    jax.tree.map(close, got, expected)


def h(x):
    """Return h(x), the value rescaling function of Pohlen et al. (2018), equation 4.1."""
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + 1e-3 * x


def inverse(y):
    """Return the inverse of `h`, computed by the formula of the paper."""
    root = (np.sqrt(1 + 4e-3 * (np.abs(y) + 1 + 1e-3)) - 1) / 2e-3
    return np.sign(y) * (root**2 - 1)


def test_h_and_its_inverse_cancel_within_float32():
    x = np.concatenate([np.linspace(-2, 2, 401), np.geomspace(2, 1e5, 100)])
    np.testing.assert_allclose(inverse(h(x)), x, rtol=1e-9, atol=1e-9)
    squeezed = jax.jit(two_hot.squeezed)(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(squeezed, h(x), rtol=1e-6, atol=1e-6)
    stretched = jax.jit(two_hot.stretched)(squeezed)
    np.testing.assert_allclose(stretched, x, rtol=2e-6, atol=2e-6)


def some_sequences(settings, rows: int, masked: bool) -> r2d2.Sequences:
    """Return random sequences with terminations, truncations, and slots without a step."""
    draw, shape = np.random.default_rng(6), (rows, settings.length)
    kind = draw.choice(3, shape, p=[0.7, 0.15, 0.15])
    cut = kind == 2
    # The slot after a truncated step holds no step.
    is_step = np.pad(~cut[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    cut &= is_step
    is_step = np.pad(~cut[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    masks = np.array([[True, True], [True, False], [False, True]])[draw.integers(0, 3, shape)]
    made = r2d2.Sequences(
        memory=draw.normal(size=(rows, settings.memory)).astype(np.float32),
        obs=draw.normal(size=(*shape, 1)).astype(np.float32),
        mask=masks if masked else None,
        action=draw.integers(0, 2, shape).astype(np.int32),
        reward=draw.normal(size=shape).astype(np.float32),
        terminated=(kind == 1) & is_step,
        truncated=cut,
        is_step=is_step,
        weight=draw.uniform(size=rows).astype(np.float32),
    )
    return jax.tree.map(jnp.asarray, made)


def goals_of(settings, sequences, values, target_values) -> np.ndarray:
    """Return the TD targets of sequences, computed by plain loops."""
    b, scale, back = settings.burn_in, *((h, inverse) if settings.squeeze else 2 * [lambda x: x])
    goals = np.zeros((len(values), settings.sequence))
    for row in range(len(values)):
        for first in range(settings.sequence):
            total, factor, at = 0.0, 1.0, first
            while at < first + settings.n_step:
                total += factor * float(sequences.reward[row, b + at])
                factor *= settings.gamma
                at += 1
                if sequences.terminated[row, b + at - 1]:
                    factor = 0.0
                if sequences.terminated[row, b + at - 1] or sequences.truncated[row, b + at - 1]:
                    break
            chooser = np.array((values if settings.double else target_values)[row, at])
            if sequences.mask is not None:
                chooser = np.where(sequences.mask[row, b + at], chooser, -np.inf)
            last = back(target_values[row, at, chooser.argmax()])
            goals[row, first] = scale(total + factor * last)
    return goals


@pytest.mark.parametrize(
    ("masked", "double", "squeeze", "n_step"),
    [(True, True, True, 3), (False, False, True, 1), (True, False, False, 2)],
)
def test_targets_and_losses_equal_a_loop(masked, double, squeeze, n_step):
    agent = learner(
        Gate() if masked else Countdown(),
        double=double,
        squeeze=squeeze,
        n_step=n_step,
        gamma=0.9,
        largest_share=0.8,
    )
    settings, rows = agent.settings, 12
    sequences = some_sequences(settings, rows, masked)
    draw = np.random.default_rng(1)
    size = (2, rows, settings.sequence + n_step, 2)
    values, target_values = draw.normal(size=size).astype(np.float32)
    got = jax.jit(r2d2.td_target, static_argnums=0)(settings, sequences, values, target_values)
    expected = goals_of(settings, sequences, values, target_values.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)
    assert (np.asarray(sequences.is_step) == 0).sum() > 3 and sequences.terminated.sum() > 3

    if masked:
        # Skip the loss: the network for Gate has three outputs, but the sequences two actions.
        return
    weights = jax.jit(agent.network.init)(KEY, jnp.ones(1))
    loss, parts = jax.jit(r2d2.loss, static_argnums=0)(agent, weights, sequences, target_values)
    said = np.asarray(unrolled(agent, weights, sequences))
    goals = goals_of(settings, sequences, said, target_values.astype(np.float64))
    part = slice(settings.burn_in, settings.burn_in + settings.sequence)
    action, is_step = (np.asarray(x)[:, part] for x in (sequences.action, sequences.is_step))
    chosen = np.take_along_axis(said[:, : settings.sequence], action[..., None], axis=2)[..., 0]
    error = np.abs(goals - chosen)
    losses, ranks = [], []
    for row in range(rows):
        counted = error[row][is_step[row]]
        losses.append(float(sequences.weight[row]) * 0.5 * (counted**2).mean())
        ranks.append(0.8 * counted.max() + 0.2 * counted.mean())
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(parts["error"], ranks, rtol=1e-3)


def test_dueling_heads_and_values_on_the_original_scale():
    network = r2d2.Network.of(Countdown(), (8,), 0, memory=4, dueling=True, squeeze=True)
    weights = jax.jit(network.init)(KEY, jnp.ones(1))
    memory, values = jax.jit(network.values)(weights, network.begin(), jnp.ones(1))
    parts = jax.tree.map(np.asarray, weights["params"])
    advantages = memory @ parts["actions"]["kernel"] + parts["actions"]["bias"]
    value = memory @ parts["value"]["kernel"] + parts["value"]["bias"]
    np.testing.assert_allclose(values, value + advantages - advantages.mean(), rtol=1e-4)
    _, logits, best = jax.jit(network.think)(weights, network.begin(), jnp.ones(1), None)
    np.testing.assert_allclose(best, inverse(float(values.max())), rtol=1e-4)
    assert logits.argmax() == values.argmax()


def test_an_update_learns_and_updates_priorities():
    agent = learner(Clock(), priority=0.6, epsilon_power=7.0)
    runners = loop.start(agent, jax.random.split(KEY, 2))
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    first, metrics = jax.device_get(runners.weights), {}
    for _ in range(2):
        runners, metrics = loop.run_chunk(agent, runners)
    assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types
    assert (np.asarray(metrics["q_loss"]) > 0).all()
    for old, new in zip(*map(jax.tree.leaves, (first, runners.weights)), strict=True):
        assert np.isfinite(new).all() and (old != new).any()
    runner = jax.tree.map(lambda leaf: leaf[0], runners)
    known = flat(runner.priorities, 8)
    assert ((known != 0) & (known != 1)).any()
    for name in rollouts.DIVIDED:
        for leaf in jax.tree.leaves(getattr(runner, name, ())):
            # First axis: environments, over which the devices divide the array.
            assert leaf.shape[0] == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"capacity": 1000},
            "capacity=1000 leaves 8 slots for each of 64 environments; a sequence with burn_in=8 "
            "and n_step=5 needs 40: give capacity=2560 or more",
        ),
        ({"warm_up": 100}, "warm_up=100 ends before each of 64 .* give at least 1792"),
        ({"period": 17}, "period=17 leaves steps out between .* 16; give period=16 or less"),
        ({"period": 0}, "period=0 must be at least 1"),
        ({"sequence": 0}, "sequence=0 must be at least 1"),
        ({"burn_in": -1}, "burn_in=-1 must be at least 0"),
        ({"largest_share": 1.2}, "largest_share=1.2 must be at most 1"),
        ({"memory": 0}, "memory=0 must be at least 1"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        r2d2.Settings(**wrong).check()


def test_the_smallest_replay_buffer_always_has_a_sequence():
    """After the warm-up, every environment always has a complete sequence that can be sampled.

    The ring buffers have the smallest allowed capacity, and sequences have no burn-in.
    """
    small: dict[str, Any] = {"burn_in": 0, "period": 3, "warm_up": 20, "rollout_steps": 1}
    with pytest.raises(ValueError, match=r"leaves 6 slots .* needs 9: give capacity=36"):
        learner(Countdown(), capacity=35, **small)
    agent = learner(Countdown(), capacity=36, **small)
    runners, metrics = loop.start(agent, KEY[None]), {}
    for made in range(1, 24):
        runners, metrics = loop.run_chunk(agent, runners)
        known = flat(jax.tree.map(lambda leaf: leaf[0], runners.priorities), 3)
        assert made < 5 or (known > 0).any(axis=1).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((runners.weights, metrics)))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "remembers"), [("r2d2", True), ("dqn", False)])
def test_memory_solves_a_partially_observed_task(algorithm, remembers):
    """R2D2 must solve `Cue`, where the right answer is a cue shown only at the first step.

    DQN has no memory, so half of its answers are right. Both learners take equally many steps.
    """
    settings = {"num_envs": 16, "rollout_steps": 8, "total_steps": 20_480, "chunk": 20}
    settings |= {"capacity": 10_000, "warm_up": 1000, "gradient_steps": 8, "learning_rate": 3e-3}
    settings |= {"target_rate": 0.02, "n_step": 3, "gamma": 0.9, "hidden": (16,)}
    settings |= {"epsilon_end": 0.01, "epsilon_share": 0.5, "batch_size": 32}
    if remembers:
        settings |= {"memory": 16, "burn_in": 4, "sequence": 8, "period": 4}
    agent = tiny.learner(Cue(), algorithm, **settings)
    runners, metrics = loop.start(agent, jax.random.split(KEY, 2)), {}
    for _ in range(agent.settings.updates // agent.settings.chunk):
        runners, metrics = loop.run_chunk(agent, runners)
    sums = {
        name: np.asarray(metrics[name]).sum(axis=1)
        for name in ("episodes", "return_sum", "length_sum")
    }
    share = sums["return_sum"] / sums["episodes"]
    assert (share > 0.95).all() if remembers else (share < 0.65).all()


@pytest.mark.parametrize("more", ["", "--previous --epsilon-power 7 --no-squeeze --bfloat16"])
def test_a_resumed_run_is_bit_identical_and_its_policy_has_memory(tmp_path, more):
    flags = ["--algo", "r2d2", *TINY, "--memory", "4", "--burn-in", "2", "--sequence", "4"]
    whole = resumes_bit_identically(tmp_path, [*flags, "--period", "2", *more.split()])
    policy = runs.load_policy(whole, seed=1)
    obs = jax.jit(policy.env.reset)(KEY).obs
    memory, logits, value = jax.jit(policy.think)(policy.begin(), obs)
    assert memory.shape == (4,) and logits.shape == (7,) and value.shape == ()
    assert value != jax.jit(policy.think)(memory, obs)[2]
    assert export.main([str(whole)]) == 0
    assert (whole / "export" / "policy.jax").is_file()
