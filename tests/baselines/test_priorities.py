"""Tests of prioritised replay: priorities, sampling frequencies and importance weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from test_dqn import ENVS, N_STEP, SLOTS, TINY, Stream, resumes_bit_identically
from tiny import Clock, Countdown, learner

from jaxenvs.baselines.core import priorities, replay_buffer
from jaxenvs.baselines.core.devices import ALONE
from jaxenvs.baselines.core.priorities import Priorities, SampledSlots
from jaxenvs.baselines.off_policy import dqn
from jaxenvs.baselines.run import loop

pytestmark = pytest.mark.full

sample = jax.jit(priorities.sample, static_argnums=(3, 5))
updated = jax.jit(priorities.update, static_argnums=4)
sums = jax.jit(priorities.sums)


def flat(known: Priorities, slots: int = SLOTS) -> np.ndarray:
    """Return priorities by environment and slot; check that the padding has priority 0."""
    rows = np.asarray(known.value, np.float64).reshape(known.value.shape[0], -1)
    assert not rows[:, slots:].any()
    return rows[:, :slots]


def test_complete_windows_of_steps_alone_have_a_priority():
    """Only a slot whose step begins a complete n-step window has a priority above 0.

    A plain list of all steps tells which windows are complete. The ring buffer wraps around several
    times. Steps may terminate an episode, truncate it, or do both.
    """
    stream, draw = Stream(2), np.random.default_rng(0)
    memory = replay_buffer.empty({"seen": jnp.zeros(ENVS, jnp.int16)}, None, SLOTS)
    add = jax.jit(replay_buffer.add)
    refreshed = jax.jit(functools.partial(priorities.add_complete, reach=N_STEP))
    known, by_step = priorities.empty(ENVS, SLOTS), [{} for _ in range(ENVS)]
    kept = 0
    for turn in range(40):
        before = memory.written
        for _ in range(1 + turn % 3):
            memory = add(memory, *stream.step())
        known = refreshed(known, memory, before)
        values, seen = flat(known), np.asarray(memory.obs["seen"])
        for env, steps in enumerate(stream.steps):
            written, numbers = int(memory.written[env]), [row[0] for row in steps]
            # A step takes one slot; the final observation of a truncated episode takes one, too.
            counts = np.cumsum([0] + [1 + row[4] for row in steps])[:-1]
            expected = np.zeros(SLOTS)
            for number, count in zip(numbers, counts, strict=True):
                if written - SLOTS < count <= written - N_STEP:
                    by_step[env].setdefault(number, float(known.largest[env]))
                    expected[count % SLOTS] = by_step[env][number]
                    assert seen[env, count % SLOTS] == number
            np.testing.assert_allclose(values[env], expected, rtol=1e-6)
            kept += (expected > 0).sum()
        slot = values.argmax(axis=1).astype(np.int32)
        if values.max(axis=1).min() == 0.0:
            continue
        error = draw.uniform(0.1, 3.0, ENVS).astype(np.float32)
        envs = np.arange(ENVS, dtype=np.int32)
        known, _ = updated(known, sums(known), SampledSlots(envs, slot, error), error, 0.5)
        for env in range(ENVS):
            by_step[env][int(seen[env, slot[env]])] = float((error[env] + 1e-6) ** 0.5)
        largest = max(1.0, float(known.largest[0]))
        np.testing.assert_array_equal(known.largest, np.float32(largest))
    assert kept > 300


def some(envs: int, slots: int) -> Priorities:
    """Return priorities: a third are 0, the others range over four orders of magnitude."""
    draw = np.random.default_rng(envs)
    made = priorities.empty(envs, slots)
    value = 10.0 ** draw.uniform(-3, 1, made.value.shape) * draw.integers(0, 3, made.value.shape)
    value.reshape(envs, -1)[:, slots:] = 0.0
    return made._replace(value=jnp.asarray(value, jnp.float32))


@pytest.mark.parametrize(
    ("envs", "slots"),
    [
        (5, 37),
        pytest.param(1, 100, marks=pytest.mark.full),
        pytest.param(64, 2, marks=pytest.mark.full),
    ],
)
def test_slots_are_drawn_in_proportion_to_their_priorities(envs, slots):
    """Compare frequencies with priorities by a chi-square test; priority 0 is never drawn."""
    known, times = some(envs, slots), np.zeros((envs, slots))
    beta, count = jnp.float32(0.7), 40_000
    for seed in range(3):
        drawn = sample(jax.random.key(seed), known, sums(known), count, beta, ALONE)
        np.add.at(times, (np.asarray(drawn.env), np.asarray(drawn.slot)), 1)
    share = flat(known, slots) / flat(known, slots).sum()
    assert not times[share == 0].any()
    expected = 3 * count * share
    often = expected >= 5
    observed = np.append(times[often], times[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    assert stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-3
    drawn_share = share[drawn.env, drawn.slot]
    weight = (1.0 / (share > 0).sum() / drawn_share) ** 0.7
    np.testing.assert_allclose(drawn.weight, weight / weight.max(), rtol=1e-4)


@pytest.mark.full
def test_a_million_slots_are_drawn_evenly_within_float32():
    """Draw from a million equal priorities, whose running sum in float32 would be too imprecise."""
    known = priorities.empty(1, 1_000_000)
    value = known.value.reshape(-1).at[:1_000_000].set(1.0)
    known = known._replace(value=value.reshape(known.value.shape))
    drawn = sample(jax.random.key(0), known, sums(known), 20_000, jnp.float32(0.4), ALONE)
    slot = np.asarray(drawn.slot)
    assert stats.chisquare(np.bincount(slot // 100_000, minlength=10)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(slot % 16, minlength=16)).pvalue > 1e-3
    np.testing.assert_array_equal(drawn.weight, 1.0)


def test_no_share_of_the_sum_falls_into_an_item_without_mass():
    """No fraction of the total mass, from 0 to 1, may select an item of mass 0.

    One mass is 1e-9, which is lost when it is added to the other masses in float32.
    """
    pick = jax.jit(jax.vmap(priorities.pick, (0, None)))
    masses = jnp.array([0.0, 1e-9, 0.0, 3.0, 0.0, 1.0, 0.0, 0.0])
    shares = jnp.array([0.0, 0.5, 0.7499, 0.7501, np.nextafter(np.float32(1), 0), 1.0])
    picked = np.asarray(pick(shares, masses))
    np.testing.assert_array_equal(picked[1:5], [3, 3, 5, 5])
    assert np.asarray(masses)[picked].all()


def test_a_slot_drawn_twice_keeps_its_larger_error():
    known = some(2, 9)
    env, slot = np.array([1, 0, 1], np.int32), np.array([4, 8, 4], np.int32)
    error = np.array([-2.0, 0.5, 1.0], np.float32)
    drawn = SampledSlots(env, slot, np.ones(3, np.float32))
    after, totals = updated(known, sums(known), drawn, error, 0.5)
    expected = flat(known, 9)
    expected[1, 4], expected[0, 8] = 2.0**0.5, 0.5**0.5
    np.testing.assert_allclose(flat(after, 9), expected, rtol=1e-5)
    np.testing.assert_allclose(totals, after.value.sum(axis=2), rtol=1e-6)
    np.testing.assert_allclose(after.largest, 2.0**0.5, rtol=1e-5)


def test_gradient_steps_update_the_priorities_of_sampled_slots():
    """After an update of DQN, sampled slots have priorities from their TD errors."""
    agent = learner(Clock(), "dqn", rollout_steps=7, n_step=2, priority=0.6, num_envs=4)
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    for _ in range(2):
        runners, metrics = loop.run_chunk(agent, runners)
    runner = jax.tree.map(lambda leaf: leaf[0], runners)
    assert float(metrics["q_loss"][0, 0]) > 0
    values, written = flat(runner.priorities, 16), np.asarray(runner.replay_buffer.written)
    slot = np.arange(16)
    complete = np.asarray(runner.replay_buffer.is_step) & (slot <= written[:, None] - 2)
    np.testing.assert_array_equal(values > 0, complete)
    changed = values[complete] != np.float32(1.0)
    assert changed.any()
    np.testing.assert_allclose(runner.priorities.largest, max(1.0, values.max()))


@pytest.mark.parametrize("envs", [pytest.param(1, marks=pytest.mark.full), 3])
def test_the_smallest_buffer_always_has_a_slot_to_sample(envs):
    """The smallest allowed buffer must always contain a complete n-step window to sample.

    It contains the fewest complete windows if all environments are truncated at the same step.
    """
    small = {"num_envs": envs, "n_step": 2, "priority": 0.6, "rollout_steps": 1, "batch_size": 8}
    small |= {"warm_up": 2 * envs, "gradient_steps": 1}
    with pytest.raises(ValueError, match=rf"n_step=2 needs 4: give capacity={4 * envs} or more"):
        learner(Clock(), "dqn", capacity=3 * envs, **small)
    agent = learner(Clock(), "dqn", capacity=4 * envs, **small)
    runners, metrics = loop.start(agent, jax.random.split(jax.random.key(0), 1)), {}
    for made in range(14):
        runners, metrics = loop.run_chunk(agent, runners)
        assert made < 1 or (np.asarray(runners.priorities.value) > 0).any(axis=(2, 3)).all()
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(runners.weights))
    assert all(np.isfinite(x).all() for x in metrics.values()) and metrics["q_loss"][0, 0] > 0


def test_without_priorities_nothing_is_stored_for_them():
    agent = learner(Countdown(), "dqn")
    runners = jax.eval_shape(loop.start, agent, jax.random.split(jax.random.key(0), 1))
    assert runners.priorities == () and runners.first == ()


@pytest.mark.parametrize("name", ["priority", "importance", "munchausen", "reset_keep"])
def test_shares_above_one_are_refused(name):
    with pytest.raises(ValueError, match=rf"{name}=1.5 must be at most 1"):
        dqn.Settings(**{name: 1.5}).check()


@pytest.mark.full
def test_a_resumed_run_with_priorities_is_bit_identical(tmp_path):
    resumes_bit_identically(tmp_path, ["--algo", "dqn", *TINY, "--priority", "0.6"])
