"""Tests that R2D2 and MuZero count a decision and its forced steps as one.

The reference is `Napper`, see sleeping.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sleeping import ENVS, KEY, STEPS, scripted_buffers
from tiny import learner
from tiny_sleep import Napper, Sleeper

from jaxenvs.baselines.core import replay_buffer
from jaxenvs.baselines.core.rollouts import Runner
from jaxenvs.baselines.model_based import muzero
from jaxenvs.baselines.off_policy import r2d2
from jaxenvs.core.masking import is_forced

SLOTS, GAMMA = 48, 0.9  # the slots hold all steps and final observations
SIZES = {"burn_in": 2, "sequence": 6, "n_step": 3, "period": 3}
MEMORY = {"num_envs": ENVS, "capacity": ENVS * SLOTS, "warm_up": 100}
R2D2 = {"squeeze": False, "gamma": GAMMA, **SIZES, **MEMORY}


def q(obs, shift=0.0):
    """Return arbitrary values of the three actions, computed from observations."""
    return jnp.sin(obs[..., :1] * 1.3 + obs[..., 1:] * 0.7 + jnp.arange(3.0) + shift)


def sequences_of(agent, buffer, env, number):
    """Return sequences of R2D2, and values of the online and the target network."""
    found = r2d2.sequences_at(agent.settings, buffer, (), jnp.int32(env), jnp.int32(number))
    obs = found.obs[:, agent.settings.burn_in :]
    return found, q(obs), q(obs, 2.0)


@functools.cache
def of_r2d2():
    """Return a learner of `Sleeper`, all its sequences, their TD targets and forced steps.

    Also return the number of the slot of each target, and the environments of the sequences.
    """
    agent = learner(Sleeper(), "r2d2", skip_forced=True, **R2D2)
    buffer = scripted_buffers(Sleeper(), STEPS, SLOTS, False)[-1]
    last = (int(buffer.written.min()) - agent.settings.reach) // 3
    env, number = map(np.ravel, np.meshgrid(np.arange(ENVS), np.arange(last + 1), indexing="ij"))
    sequences, *values = sequences_of(agent, buffer, env, number)
    here = is_forced(sequences.mask)
    target = r2d2.td_target(agent.settings, sequences, *values, here)
    slots = number[:, None] * 3 + 2 + np.arange(6)
    return agent, sequences, values, np.asarray(here), np.asarray(target), slots, env, buffer


def test_targets_of_r2d2_equal_those_of_one_step_sleeps():
    """Compare the decisions after which n decisions follow in their sequence."""
    agent, sequences, _, here, target, slots, env, buffer = of_r2d2()
    plain = learner(Napper(), "r2d2", **R2D2)
    theirs = scripted_buffers(Napper(), STEPS, SLOTS, False)[-1]
    # number of the decision (or final observation) in each slot
    forced = np.asarray(is_forced(buffer.mask)) & np.asarray(buffer.is_step)
    numbers = np.cumsum(~forced, axis=1) - 1
    done = np.asarray(sequences.terminated | sequences.truncated)
    compared = 0
    for row, column in np.ndindex(*target.shape):
        if here[row, 2 + column] or not sequences.is_step[row, 2 + column]:
            continue
        rest = slice(2 + column, agent.settings.length)
        later = ~here[row, rest][1:]
        ends = done[row, rest][:-1].any()
        if later.sum() < 3 and not ends:
            continue
        slot = numbers[env[row], slots[row, column]]
        if slot < 2:
            continue
        # a sequence of `Napper` whose first step after the burn-in is this decision
        kept = theirs._replace(written=())
        rolled = jax.tree.map(lambda leaf, slot=slot: jnp.roll(leaf, 2 - slot, axis=1), kept)
        parts = sequences_of(plain, rolled, [env[row]], [0])
        expected = r2d2.td_target(plain.settings, *parts)[0, 0]
        np.testing.assert_allclose(target[row, column], expected, rtol=1e-4, atol=1e-5)
        compared += 1
    assert compared > 100


def test_targets_of_r2d2_bootstrap_from_a_sleep_at_the_end_of_the_sequence():
    """Compare with a loop that adds rewards until a decision, or the last slot, is reached."""
    _, sequences, (values, target_values), here, target, *_ = of_r2d2()
    best = np.where(sequences.mask[:, 2:], values, -np.inf).argmax(axis=-1)
    value = np.take_along_axis(np.asarray(target_values), best[..., None], axis=-1)[..., 0]
    in_sleep = 0
    for row, column in np.ndindex(*target.shape):
        slot, total, discount, decisions = 2 + column, 0.0, 1.0, 0
        while True:
            total += discount * float(sequences.reward[row, slot])
            terminated, truncated = sequences.terminated[row, slot], sequences.truncated[row, slot]
            slot += 1
            if not here[row, slot] or terminated or truncated:
                discount, decisions = discount * GAMMA, decisions + 1
            if terminated or truncated or decisions == 3 or slot == 10:
                break
        bootstrap = 0.0 if terminated else discount * value[row, slot - 2]
        if sequences.is_step[row, 2 + column]:
            np.testing.assert_allclose(target[row, column], total + bootstrap, rtol=1e-4, atol=1e-5)
        in_sleep += bool(here[row, slot])
    assert in_sleep > 10


def test_r2d2_learns_from_decisions_and_the_last_slots_of_sequences():
    agent, sequences, (_, target_values), here, _, slots, *_ = of_r2d2()
    counts = np.asarray(r2d2.counted(agent.settings, sequences, jnp.asarray(here)))
    last = (slots - agent.settings.reach) % 3 == 0  # the last slots of sequences
    is_step = np.asarray(sequences.is_step[:, 2:8])
    np.testing.assert_array_equal(counts, is_step & (~here[:, 2:8] | last))
    assert (counts & here[:, 2:8]).any() and (~counts & is_step).any()
    everything = np.asarray(r2d2.counted(agent.settings, sequences, ()))
    np.testing.assert_array_equal(everything, is_step)

    # All decisions have the same weight: the loss is a mean over them.
    memory = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (len(here), *x.shape)), agent.network.begin()
    )
    weights = agent.network.init(KEY, sequences.obs[0, 0])
    sequences = sequences._replace(memory=memory)
    loss, metrics = jax.jit(functools.partial(r2d2.loss, agent))(weights, sequences, target_values)
    values = r2d2.unroll(agent, weights, sequences)
    target = r2d2.td_target(agent.settings, sequences, values, target_values, jnp.asarray(here))
    action = np.asarray(sequences.action)[:, 2:8, None]
    chosen = np.take_along_axis(np.asarray(values)[:, :6], action, axis=-1)[..., 0]
    errors = np.abs(np.asarray(target) - chosen)
    np.testing.assert_allclose(loss, 0.5 * np.square(errors[counts]).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q"], chosen[counts].mean(), rtol=1e-4, atol=1e-6)
    mean = (counts * errors).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    priority = 0.9 * (counts * errors).max(axis=1) + 0.1 * mean
    np.testing.assert_allclose(metrics["error"], priority, rtol=1e-3, atol=1e-6)


def test_muzero_stores_a_sleep_and_the_policy_of_its_decision_in_one_slot():
    """test_forced.py compares such a replay buffer with one-step sleeps."""
    agent = learner(Sleeper(), "muzero", skip_forced=True, **MEMORY, rollout_steps=STEPS)
    runner = jax.tree.map(lambda leaf: leaf[0], jax.vmap(agent.init)(KEY[None]))
    collect = jax.jit(jax.vmap(functools.partial(muzero.collect, agent), axis_name="seeds"))
    after, ends = collect(jax.tree.map(lambda leaf: leaf[None], runner), KEY[None])
    after, ends = jax.tree.map(lambda leaf: np.asarray(leaf[0]), (after, ends))
    buffer = after.replay_buffer
    assert 0.2 < ends.forced.mean() < 0.8
    slot = np.arange(buffer.reward.shape[1])
    written = (slot < buffer.written[:, None]) & buffer.is_step
    assert written.sum() == (~ends.forced).sum()
    assert not np.asarray(is_forced(jnp.asarray(buffer.mask)))[written].any()
    # The policy of a slot is the search's policy of its decision, which may choose every action.
    assert ((after.found[written] > 0).sum(axis=-1) == 3).mean() > 0.9
    np.testing.assert_allclose(after.found[written].sum(axis=-1), 1.0, rtol=1e-5)


def test_muzero_learns_nothing_from_incomplete_windows():
    agent = learner(Sleeper(), "muzero", skip_forced=True, **MEMORY)
    buffer = scripted_buffers(Sleeper(), 6, SLOTS, True)[-1]
    found = jnp.zeros((ENVS, SLOTS, 3))
    runner = Runner(weights=(), replay_buffer=buffer, found=found)
    env = jnp.arange(ENVS, dtype=jnp.int32)
    settings = agent.settings
    window = muzero.windows_at(settings, runner, env, jnp.zeros_like(env))
    expected = np.asarray(replay_buffer.newest(buffer)) >= settings.reach
    np.testing.assert_array_equal(window.is_step, expected)
    goals = muzero.targets(window, jnp.ones((ENVS, settings.unroll_steps + 1)), 1, 0.9)
    assert not np.asarray(goals.is_known | goals.is_open)[~expected].any()
