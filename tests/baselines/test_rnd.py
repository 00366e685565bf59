"""Tests of random network distillation (RND): it rewards novel states, not familiar ones."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Clock, Endless, collected, learner

from jaxenvs.baselines.core import bonuses, rollouts
from jaxenvs.baselines.core.devices import ALONE, DEVICES, Devices
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.core.moments import Moments
from jaxenvs.baselines.exploration.rnd import RND
from jaxenvs.baselines.networks import policies
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.core.spaces import Box

pytestmark = pytest.mark.full

SPACE = Box(-9.0, 9.0, (4,), np.float32)
BONUS = RND(SPACE, gamma=0.9, minibatches=4, learning_rate=3e-3, width=16)
KEY = jax.random.key(0)


def places(middle: float, seed: int, shape: tuple[int, ...] = (16, 8)) -> jax.Array:
    """Return observations whose components are drawn from a normal distribution around `middle`."""
    draw = np.random.default_rng(seed)
    return jnp.asarray(draw.normal(middle, 0.3, (*shape, 4)), jnp.float32)


@pytest.fixture(scope="module")
def visits():
    """Learn from 60 batches of similar observations; return states of `BONUS`, and bonuses.

    The 61 states are the initial state and the state after each batch.
    """
    learn = jax.jit(functools.partial(BONUS.learn))
    states, returns, bonuses = [jax.jit(BONUS.init)(KEY, jnp.zeros(4))], jnp.zeros(8), []
    for visit in range(60):
        state, returns, bonus = learn(states[-1], returns, places(1.0, visit))
        states.append(state)
        bonuses.append(np.asarray(bonus))
    return states, bonuses


def test_the_bonus_falls_with_visits_and_is_larger_for_what_has_not_been_seen(visits):
    states, bonuses = visits
    raw = [
        bonus.mean() * state.earned.deviation
        for bonus, state in zip(bonuses, states[1:], strict=True)
    ]
    assert raw[-1] < raw[20] < raw[5] and raw[-1] < raw[1] / 5
    errors = jax.jit(
        lambda x: BONUS.errors(
            states[-1], BONUS.normalised(states[-1], BONUS.features(states[-1], x))
        )
    )
    known, unknown = (errors(places(x, 99, (128,))) for x in (1.0, -1.0))
    assert bonuses[0].shape == (16, 8) and known.shape == (128,)
    assert float(unknown.min()) > float(known.max())


def test_only_the_predictor_learns(visits):
    states, _ = visits
    first, last = states[0], states[-1]
    jax.tree.map(np.testing.assert_array_equal, first.target, last.target)
    jax.tree.map(np.testing.assert_array_equal, first.encoder, last.encoder)
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), first.predictor, last.predictor)
    assert all(jax.tree.leaves(moved))


def test_no_gradient_enters_the_target():
    state = jax.jit(BONUS.init)(KEY, jnp.zeros(4))
    inputs = places(0.0, 0, (32,))
    errors = jax.grad(lambda state: BONUS.errors(state, inputs).sum(), allow_int=True)
    slope = jax.jit(errors)(state)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves((slope.target, slope.encoder)))
    assert any((leaf != 0).any() for leaf in jax.tree.leaves(slope.predictor))


def test_the_bonus_is_in_deviations_of_its_discounted_returns(visits):
    """Bonuses are divided by the standard deviation of the discounted sums of bonuses.

    Each sum continues from one rollout to the next.
    """
    states, bonuses = visits
    total, returns = np.zeros(8), []
    for bonus, state in zip(bonuses[:3], states[1:4], strict=True):
        for error in bonus * np.asarray(state.earned.deviation):
            total = 0.9 * total + error
            returns.append(total)
        np.testing.assert_allclose(state.earned.deviation, np.std(returns), rtol=1e-4)
    seen = np.concatenate([places(1.0, visit).reshape(-1, 4) for visit in range(3)])
    np.testing.assert_allclose(states[3].seen.mean, seen.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(states[3].seen.deviation, seen.std(axis=0), rtol=1e-4)


def test_networks_see_deviations_from_what_is_usual(visits):
    states, _ = visits
    stream = jnp.concatenate([places(1.0, visit).reshape(-1, 4) for visit in range(60)])
    inputs = np.asarray(
        jax.jit(BONUS.normalised)(states[-1], jax.jit(BONUS.features)(states[-1], stream))
    )
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0, rtol=1e-2)
    far = jax.jit(BONUS.normalised)(states[-1], jnp.array([[9.0, -9.0, 1.0, 1.0]]))
    np.testing.assert_allclose(far[0, :2], [5.0, -5.0])


def test_devices_share_statistics_and_predictor():
    """Two devices with half of a batch each learn as one device does from the whole batch.

    A `vmap` over the two halves, with the axis name `DEVICES`, stands for the two devices.
    """
    state = jax.jit(BONUS.init)(KEY, jnp.zeros(4))
    halves = jnp.stack([places(1.0, 0), places(-2.0, 1)])
    before = jnp.arange(16.0).reshape(2, 8)
    learn = functools.partial(BONUS.learn, devices=Devices(2))
    mapped = jax.jit(jax.vmap(learn, in_axes=(None, 0, 0), axis_name=DEVICES))
    two, returns, bonus = mapped(state, before, halves)
    one, together, whole = jax.jit(BONUS.learn)(
        state, before.T.reshape(16), halves.swapaxes(0, 1).swapaxes(1, 2).reshape(16, 16, 4)
    )
    np.testing.assert_allclose(returns, together.reshape(8, 2).T, rtol=1e-4)
    for name in ("seen", "earned"):
        for a, b in zip(getattr(two, name), getattr(one, name), strict=True):
            np.testing.assert_allclose(a, np.stack([b, b]), rtol=1e-4, atol=1e-6)
    equal = jax.tree.map(lambda leaf: bool((leaf[0] == leaf[1]).all()), two.predictor)
    assert all(jax.tree.leaves(equal))
    whole = np.asarray(whole).reshape(16, 8, 2)
    np.testing.assert_allclose(bonus, np.moveaxis(whole, 2, 0), rtol=1e-4)


def curious(env, **settings) -> Learner:
    """Return PPO with an exploration bonus."""
    return learner(env, bonus=0.5, **settings)


def test_a_step_is_rewarded_for_what_it_led_to():
    agent = curious(Clock())
    runner, rollout = started(agent)
    after, rewarded = jax.jit(bonuses.add_bonus, static_argnums=0)(agent, runner, rollout)
    led_to = np.concatenate([rollout.obs[1:], runner.obs[None]])
    bonus = bonuses.of_settings(agent)
    learn, before = jax.jit(bonus.learn), jnp.zeros(8)
    _, returns, bonus = learn(runner.bonus, before, jnp.asarray(led_to))
    np.testing.assert_allclose(after.bonus_returns, returns, rtol=1e-6)
    ended = np.asarray(rollout.truncated)
    assert ended.any()
    expected = np.asarray(rollout.reward) + 0.5 * np.where(ended, 0.0, bonus)
    np.testing.assert_allclose(rewarded.reward, expected, rtol=1e-6)
    assert (np.asarray(rewarded.reward)[~ended] > 1).all()
    # The returns of episodes do not include the bonus.
    np.testing.assert_array_equal(rewarded.returns, rollout.returns)
    assert float(after.bonus.seen.number) == led_to.size


def started(agent: Learner) -> tuple[ppo.Runner, rollouts.Rollout]:
    """Return a runner after its first rollout, and the rollout without bonuses."""
    keys, runners = jax.random.split(KEY, 1), loop.start(agent, jax.random.split(KEY, 1))
    plain = dataclasses.replace(agent, settings=dataclasses.replace(agent.settings, bonus=0.0))
    return jax.tree.map(lambda leaf: leaf[0], collected(plain, runners, keys))


def test_without_a_weight_nothing_of_it_is_in_the_program(monkeypatch):
    plain, with_it = learner(Endless()), curious(Endless())
    assert bonuses.of_settings(plain) is None
    keys = jax.random.split(KEY, 1)
    shapes = [jax.eval_shape(functools.partial(loop.start, x), keys) for x in (plain, with_it)]
    assert shapes[0].bonus == shapes[0].bonus_returns == ()
    assert len(jax.tree.leaves(shapes[1].bonus)) > 10
    for name in ("weights", "optimiser", "world", "obs", "key", "memory"):
        same = jax.tree.map(lambda a, b: a == b, *(getattr(shape, name) for shape in shapes))
        assert all(jax.tree.leaves(same))

    def without(runner):
        """Make PPO's update, with `add_bonus` replaced by a function that changes nothing."""
        with monkeypatch.context() as patched:
            patched.setattr(
                bonuses, "add_bonus", lambda learner, runner, rollout: (runner, rollout)
            )
            return plain.update(runner)

    def program(update) -> str:
        return str(jax.make_jaxpr(jax.vmap(update, axis_name=SEEDS))(shapes[0]))

    # Trace once and discard the result: the first trace fills JAX's caches, so its text differs
    # slightly from the text of later traces.
    program(plain.update)
    assert program(plain.update) == program(without)


@pytest.mark.parametrize("novelty", ["rnd", "noveld", "e3b"])
def test_an_update_with_it_keeps_types_and_learns_it_and_a_stop_changes_nothing(tmp_path, novelty):
    agent = curious(Clock(), novelty=novelty)
    runners = loop.start(agent, jax.random.split(KEY, 2))
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    fixed = jax.tree.map(np.asarray, getattr(runners.bonus, "target", ()))
    learned = jax.tree.map(np.asarray, runners.bonus.encoder)
    runners, _ = loop.run_chunk(agent, runners)
    checkpoints.save(tmp_path, 1, loop.split(jax.device_get(runners)), "this test")
    runners, metrics = loop.run_chunk(agent, runners)
    assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types  # compares weak types too
    assert np.isfinite(metrics["value_loss"]).all()
    np.testing.assert_array_equal(runners.bonus.earned.number, 2 * 8 * 16)
    jax.tree.map(np.testing.assert_array_equal, getattr(runners.bonus, "target", ()), fixed)
    if novelty == "e3b":
        moved = jax.tree.map(lambda a, b: (a != b).any(), learned, runners.bonus.encoder)
        assert all(jax.tree.leaves(moved))

    shapes = jax.eval_shape(functools.partial(loop.start, agent), jax.random.split(KEY, 2))
    _, trees = checkpoints.restore(tmp_path, loop.split(shapes), "this test")
    assert (trees["learner"]["bonus_returns"] > 0).all()
    restored = jax.tree.map(jnp.array, trees["learner"] | {"weights": trees["weights"]})
    again, _ = loop.run_chunk(agent, ppo.Runner(**restored))
    jax.tree.map(np.testing.assert_array_equal, again, runners)


def test_the_divisor_of_equal_bonuses_is_not_the_height_of_a_ramp():
    """The discounted sums of bonuses must continue from one rollout to the next.

    In this test all bonuses are equal. If the sums began at 0 in every rollout, they would rise in
    the same way in each rollout, so their standard deviation would never fall.
    """

    @jax.jit
    def deviations(errors):
        def rollout(carry, errors):
            earned, before = carry
            sums = BONUS.returns(before, errors)
            earned = earned.merged_with(sums.reshape(1, -1), ALONE)
            return (earned, sums[-1]), earned.deviation[0]

        start = Moments(jnp.float32(0), jnp.zeros(1), jnp.zeros(1)), jnp.zeros(8)
        return jax.lax.scan(rollout, start, errors)[1]

    first, *_, last = deviations(jnp.ones((100, 16, 8)))
    ramp = np.std(10 * (1 - 0.9 ** np.arange(1, 17)))
    np.testing.assert_allclose(first, ramp, rtol=1e-4)
    assert last < ramp / 3


def test_weights_and_bonus_are_drawn_with_keys_of_their_own(monkeypatch):
    """The network and the exploration bonus are initialised with different random keys.

    In this test, `init` returns its key in place of weights, so that the keys can be compared.
    """
    for kind in (policies.ActorCritic, RND):
        monkeypatch.setattr(
            kind, "init", lambda self, key, obs: {"params": jax.random.key_data(key)}
        )
    runner = jax.jit(curious(Clock()).init)(KEY)
    weights, bonus = runner.weights["params"], runner.bonus["params"]
    folded = jax.vmap(jax.random.fold_in, (None, 0))
    made_of_it = jax.random.key_data(folded(jax.random.wrap_key_data(weights), jnp.arange(100)))
    for other in (weights, runner.key, *np.asarray(made_of_it)):
        assert (bonus != other).any()
