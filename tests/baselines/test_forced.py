"""Tests that a decision and its forced steps count as one step.

The reference is `Napper`, the environment in which a sleep is one step, with a learner that does
not skip forced steps.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sleeping import (
    BORDER,
    ENVS,
    KEY,
    STEPS,
    alike,
    both,
    decided,
    decisions_of,
    gradient_of,
    of_sleep,
    played,
    scripted_buffers,
)
from tiny import Clock, learner
from tiny_sleep import Dreamer, ForcedSleeper, Napper, Sleeper

import jaxenvs
from jaxenvs.baselines.core import (
    forced,
    minibatches,
    priorities,
    replay_buffer,
    reward_scaling,
    rollouts,
    target_scaling,
)
from jaxenvs.baselines.core.devices import DEVICES, Devices
from jaxenvs.baselines.off_policy import c51, q_learning
from jaxenvs.baselines.on_policy import ppo, ppo_rnn, pqn
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop

OF_REPLAY = ("dqn", "c51", "qr-dqn", "iqn", "rainbow", "r2d2", "muzero")
MEMORIES = {"ppo-rnn": {}, "ppo-trxl": {"memory": 16}}


def test_the_script_contains_every_case():
    _, _, rollout, *_ = both()
    here, done = rollout.forced.here, rollout.terminated | rollout.truncated
    for ended in (rollout.terminated, rollout.truncated):
        assert (here & ended).any()  # an episode ends during a sleep
    assert (rollout.forced.following & here).any()  # a sleep of three steps or more
    assert (~here & done).any()
    assert 0.2 < here.mean() < 0.8


def test_advantages_equal_those_of_an_environment_in_which_sleep_is_one_step():
    skipping, after, rollout, _, reference, expected = both()
    _, advantage, target = ppo.targets(skipping, after, rollout)
    advantage, target = decisions_of((advantage, target), rollout.forced.here)
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(target, expected + reference.value, rtol=1e-4, atol=1e-5)


def test_losses_and_gradients_of_ppo_equal_those_of_one_step_sleeps():
    skipping, after, rollout, plain, reference, expected = both()
    batch = minibatches.as_steps(ppo.targets(skipping, after, rollout))
    found = gradient_of(skipping, after.weights, batch)
    wanted = (reference, expected, expected + reference.value)
    alike(found, gradient_of(plain, after.weights, wanted))
    assert 0.0 < found[1]["clipped"] < 1.0


def test_losses_and_gradients_of_pqn_equal_those_of_one_step_sleeps():
    skipping, after, rollout, plain, reference, expected = both("pqn")
    target = rollouts.lambda_returns(skipping, after, rollout)
    wanted = expected + reference.value
    ours = decisions_of(target, rollout.forced.here)
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
    found = gradient_of(skipping, after.weights, minibatches.as_steps((rollout, target)), pqn.loss)
    alike(found, gradient_of(plain, after.weights, (reference, wanted), pqn.loss))


@pytest.mark.parametrize("name", ["ppo-rnn", pytest.param("ppo-trxl", marks=pytest.mark.full)])
def test_sequences_learn_nothing_from_forced_steps(name):
    """Anything may stand at forced steps, except for the value target of a rollout's first step."""
    agent = of_sleep(Sleeper(), name, rollout_steps=STEPS, skip_forced=True, **MEMORIES[name])
    after, rollout = played(agent, BORDER)
    here = rollout.forced.here
    assert here[0].any() and not here[0].all()
    memory = jax.tree.map(lambda leaf: leaf[None], loop.start(agent, KEY[None]).memory)
    memory = jax.tree.map(lambda leaf: leaf[0], memory)
    rollout = rollout._replace(memory=memory)
    rollout, advantage, target = ppo.targets(agent, after, rollout)
    # The telescoped advantages of decisions do not depend on the values of forced states.
    changed = rollout._replace(value=jnp.where(here, 9.0, rollout.value))
    _, other, _ = ppo.targets(agent, after, changed)
    np.testing.assert_allclose(*(jnp.where(here, 0, x) for x in (advantage, other)), atol=2e-5)

    def noisy(leaf, keep):
        return jnp.where(here & ~keep, leaf + 3.0, leaf)

    never = jnp.zeros_like(here)
    first = never.at[0].set(True)
    spoiled = rollout._replace(log_prob=noisy(rollout.log_prob, never))
    loss = functools.partial(ppo.loss, unroll=ppo_rnn.unroll)

    def learned(*batch):
        return gradient_of(agent, after.weights, minibatches.as_sequences(batch), loss)

    expected = learned(rollout, advantage, target)
    alike(learned(spoiled, noisy(advantage, never), noisy(target, first)), expected, 1e-6)
    # The value of the state in which the rollout begins has a loss.
    *_, losses = learned(rollout, advantage, noisy(target, never))
    assert losses["value_loss"] > expected[1]["value_loss"] + 0.03


def test_a_rollout_that_ends_in_a_sleep_bootstraps_without_discount():
    agent = of_sleep(Sleeper(), rollout_steps=BORDER, skip_forced=True, gae_lambda=1.0)
    after, rollout = played(agent)
    asleep = np.asarray(after.world.env.asleep)
    assert asleep.any() and not asleep.all()
    *_, last = rollouts.think(agent, after, None)
    _, advantage, _ = ppo.targets(agent, after, rollout)
    here, gamma = np.asarray(rollout.forced.here), agent.settings.gamma
    for env in np.flatnonzero(asleep):
        start = np.flatnonzero(~here[:, env])[-1]  # the decision to sleep
        found = advantage[start, env] + rollout.value[start, env]
        expected = rollout.reward[start:, env].sum() + last[env]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    env = np.flatnonzero(~asleep)[0]
    one = rollout.reward[-1, env] + gamma * last[env] - rollout.value[-1, env]
    np.testing.assert_allclose(advantage[-1, env], one, rtol=1e-5)


def test_weights_have_mean_one_and_keep_only_the_first_forced_state():
    agent = of_sleep(Sleeper(), rollout_steps=STEPS, skip_forced=True)
    _, rollout = played(agent, BORDER)
    here, marks = np.asarray(rollout.forced.here), rollout.forced
    np.testing.assert_array_equal(marks.policy > 0, ~here)
    valued = ~here
    valued[0] = True
    np.testing.assert_array_equal(marks.value > 0, valued)
    for weight in (marks.policy, marks.value):
        assert weight.mean() == pytest.approx(1.0, rel=1e-5)
        assert len(np.unique(weight)) == 2


def test_an_episode_that_begins_in_a_forced_state_does_not_continue_the_last_one():
    here, done = jnp.ones((2, 1), jnp.bool_), jnp.bool_([[True], [False]])
    marks = forced.marked(here, jnp.ones(1, jnp.bool_), done, Devices())
    np.testing.assert_array_equal(marks.following, [[False], [True]])


def test_several_devices_give_the_gradient_of_one():
    """Devices with different numbers of decisions weight all decisions equally."""
    skipping, after, rollout, *_ = both()
    batch = ppo.targets(skipping, after, rollout)
    expected, _ = gradient_of(skipping, after.weights, minibatches.as_steps(batch))

    def share(rollout, advantage, target, asleep):
        agent = dataclasses.replace(skipping, devices=Devices(2))
        done = rollout.terminated | rollout.truncated
        marks = forced.marked(rollout.forced.here, asleep, done, agent.devices)
        batch = (rollout._replace(forced=marks), advantage, target)
        return gradient_of(agent, after.weights, minibatches.as_steps(batch))[0]

    def halves(leaf, axis=1):
        return jnp.stack(jnp.split(jnp.asarray(leaf), 2, axis))

    counts = halves(decided(rollout), 0).sum(axis=1)
    assert counts[0] != counts[1]
    parts = jax.tree.map(halves, batch)
    asleep = halves(after.world.env.asleep, 0)
    found = jax.vmap(share, axis_name=DEVICES)(*parts, asleep)
    for half in range(2):
        alike(jax.tree.map(lambda leaf, half=half: leaf[half], found), expected)


def test_running_scales_skip_forced_steps():
    skipping, after, rollout, *_ = both()
    agent = of_sleep(
        Sleeper(), rollout_steps=STEPS, skip_forced=True, target_scaling=0.5, reward_scaling=True
    )
    runner = jax.tree.map(lambda leaf: leaf[0], loop.start(agent, KEY[None]))
    batch = ppo.targets(skipping, after, rollout)
    scaled, _ = target_scaling.scale_targets(agent, runner, batch)
    weight, total, squares = scaled.weights["scales"].targets
    targets = decisions_of(batch[2], rollout.forced.here)
    np.testing.assert_allclose(total / weight, targets.mean(), rtol=1e-4)
    np.testing.assert_allclose(squares / weight, np.square(targets).mean(), rtol=1e-4)
    # Discounted sums of rewards, decision by decision.
    after_scaling, _ = reward_scaling.scale_rewards(agent, runner, rollout)
    gamma, sums = agent.settings.gamma, np.zeros(ENVS)
    here, done = np.asarray(rollout.forced.here), np.asarray(rollout.terminated | rollout.truncated)
    for step in range(STEPS):
        sums = np.where(here[step], 1.0, gamma) * sums + np.asarray(rollout.reward)[step]
        sums = np.where(done[step], 0.0, sums)
    np.testing.assert_allclose(after_scaling.gain_returns, sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_replay_buffer_stores_a_sleep_as_one_step(n_step):
    """Windows of `Sleeper` equal windows of `Napper`, also after the ring is full."""
    slots = 20
    ours = scripted_buffers(Sleeper(), STEPS, slots, True)[-1]
    theirs = scripted_buffers(Napper(), STEPS, slots, False)
    window = jax.jit(functools.partial(replay_buffer.window, n_step=n_step, gamma=0.9))
    assert not np.asarray(ours.pending).any()
    assert (np.asarray(ours.written) > slots).any() and (np.asarray(ours.written) < STEPS).all()
    counted = 0
    for env in range(ENVS):
        written = int(ours.written[env])
        same = next(buffer for buffer in theirs if buffer.written[env] >= written)
        assert int(same.written[env]) == written
        first = np.arange(max(written - slots + 1, 0), written - n_step + 1, dtype=np.int32)
        where = (np.full_like(first, env), first)
        found, expected = window(ours, *where), window(same, *where)
        np.testing.assert_array_equal(found.weight, expected.weight)
        is_step = np.asarray(found.weight) > 0
        counted += is_step.sum()
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a[is_step], b[is_step], rtol=1e-5, atol=1e-6)
    assert counted > 60


def test_no_window_contains_an_incomplete_sleep():
    slots, n_step = 16, 2
    buffers = scripted_buffers(Sleeper(), BORDER, slots, True)
    pending = np.asarray(buffers[-1].pending)
    assert pending.any() and not pending.all()
    ranks = priorities.empty(ENVS, slots)
    before = jnp.zeros(ENVS, jnp.int32)
    for buffer in buffers:
        ranks = priorities.add_complete(ranks, buffer, before, n_step)
        before = replay_buffer.newest(buffer)
    buffer = buffers[-1]
    newest = np.asarray(replay_buffer.newest(buffer))
    np.testing.assert_array_equal(newest, np.asarray(buffer.written) - pending)
    env, first = replay_buffer.sample_slots(KEY, buffer, 4000, n_step)
    batch = replay_buffer.window(buffer, env, first, n_step, 0.9)
    usable = np.asarray(batch.weight) > 0
    last = np.asarray(first)[usable] + n_step
    assert (last <= newest[np.asarray(env)[usable]]).all()
    value = np.asarray(ranks.value).reshape(ENVS, -1)[:, :slots]
    for row in range(ENVS):
        allowed = {int(x) % slots for x in np.asarray(first)[usable & (np.asarray(env) == row)]}
        assert set(np.flatnonzero(value[row])) == allowed


def test_a_window_that_is_not_complete_has_weight_zero():
    """A player that sleeps through the warm-up has made too few decisions for a window."""
    buffer = scripted_buffers(Sleeper(), 2, 16, True)[-1]
    env = jnp.arange(ENVS, dtype=jnp.int32)
    batch = replay_buffer.window(buffer, env, jnp.zeros_like(env), 2, 0.9)
    np.testing.assert_array_equal(batch.weight > 0, replay_buffer.newest(buffer) >= 2)
    assert len(np.unique(batch.weight)) == 2


@pytest.mark.parametrize(
    "name",
    [
        "ppo",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("ppo-rnn", "pqn-rnn", *OF_REPLAY, "alphazero")
        ),
    ],
)
def test_an_update_logs_the_share_of_decisions(name):
    for env, more, skips in (
        (Sleeper(), {"skip_forced": True}, True),
        (ForcedSleeper(), {}, True),
        (Sleeper(), {}, False),
    ):
        agent = learner(env, name, **more)
        runners = loop.start(agent, KEY[None])
        for _ in range(8 if name in OF_REPLAY else 1):
            runners, metrics = loop.run_chunk(agent, runners)
        assert ("decisions" in metrics) == skips
        if skips:
            assert 0.2 < metrics["decisions"] < 1.0
        for leaf in jax.tree.leaves((runners.weights, metrics)):
            assert np.isfinite(leaf).all()


def test_a_prioritised_learner_survives_a_warm_up_without_a_decision():
    """Importance weights of a replay buffer without a complete window must not be NaN."""
    agent = learner(Sleeper(), "rainbow", skip_forced=True)
    runners = loop.start(agent, KEY[None])
    runner = jax.tree.map(lambda leaf: leaf[0], runners)
    key = jax.random.key(0)
    objective = q_learning.Objective(c51.td_target, c51.loss, c51.LOSSES)
    learned = q_learning.Learned(
        runner.weights, runner.target, runner.optimiser, runner.priorities
    )._replace(sums=priorities.sums(runner.priorities))
    draws = q_learning.draw(agent, runner.replay_buffer, key)
    step = functools.partial(q_learning.gradient_step, agent, objective, runner.replay_buffer)
    after, _ = jax.jit(step)(jnp.float32(0.4), learned, draws)
    for leaf in jax.tree.leaves(after.weights):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize(
    "env, name, message",
    [
        (Clock(), "ppo", "forbids no action in any state, so no step is forced"),
        (ForcedSleeper(), "bc", "skips forced steps: bc counts every step as a decision; give"),
        (ForcedSleeper(), "iql", "give --algo ppo, ppo-rnn, ppo-trxl, dyna, rl2, plr, sfl, pqn"),
    ],
)
def test_what_cannot_skip_forced_steps_is_refused(env, name, message):
    more = {"demos": "none"} if isinstance(env, ForcedSleeper) else {"skip_forced": True}
    with pytest.raises(ValueError, match=message):
        learner(env, name, **more)


def test_learners_refuse_to_skip_forced_steps_only_without_masks():
    """Datasets, continuous actions and searches for shortest solutions have no masks."""
    refusing = {name for name, row in ALGORITHMS.items() if not row.skips_forced}
    assert refusing == {"bc", "iql", "sac", "td3", "tqc", "crossq", "davi", "last-move", "world"}


@pytest.mark.full
@pytest.mark.parametrize("name", ["ppo", "pqn", "dqn"])
def test_a_long_sleep_is_not_discounted(name):
    """With a short horizon, only a learner that skips the sleep waits for the larger reward."""
    found = []
    for skip_forced in (False, True):
        more = {} if name == "dqn" else {"rollout_steps": 64}
        total = 240 * (32 if name == "dqn" else 256)
        more |= {"chunk": 60, "total_steps": total, "gamma": 0.9, "skip_forced": skip_forced}
        agent = learner(Dreamer(), name, **more)
        runners, metrics = loop.run_chunk(agent, loop.start(agent, KEY[None]))
        for _ in range(3):
            runners, metrics = loop.run_chunk(agent, runners)
        ended = {name: float(metrics[name].sum()) for name in ("return_sum", "episodes")}
        found.append(ended["return_sum"] / ended["episodes"])
    assert found[0] < 0.6
    assert found[1] > 0.85


@pytest.mark.parametrize(
    "asked, says", [(True, "omit --skip-forced"), (None, "give --no-skip-forced")]
)
def test_the_error_without_masks_names_the_flag_that_helps(asked, says):
    settings = ppo.Settings(skip_forced=asked)
    with pytest.raises(ValueError, match=f"so no step is forced; {says}$"):
        forced.check(ForcedSleeper(), settings, "ppo", None, "Sleepy-v0", masked=False)


def test_the_error_for_craft_without_masks_says_how_to_get_masks():
    env = jaxenvs.make("Craft-Classic-Ids-v0", setup="original")
    with pytest.raises(ValueError, match=r"Craft-Classic-Ids-v0 forbids no.*give --setup masked"):
        learner(env, "ppo", skip_forced=True)


def test_without_the_setting_nothing_is_marked():
    agent = of_sleep(Sleeper(), rollout_steps=STEPS)
    _, rollout = played(agent)
    assert rollout.forced == ()
    assert scripted_buffers(Sleeper(), 1, 4, False)[-1].pending == ()
