"""Tests of NovelD and E3B: bonuses against plain NumPy, and resets at episode ends."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Clock, Push, collected, learner

from jaxenvs.baselines.core import bonuses
from jaxenvs.baselines.core.bonuses import Visits
from jaxenvs.baselines.core.devices import DEVICES, Devices
from jaxenvs.baselines.exploration import e3b, noveld
from jaxenvs.baselines.on_policy.ppo_rnn import wrapped
from jaxenvs.baselines.run import loop
from jaxenvs.core.spaces import Box

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
SPACE = Box(-9.0, 9.0, (2,), np.float32)
STEPS, ENVS = 12, 4


def walks(seed: int = 0, places: int = 5) -> Visits:
    """Return random walks between `places` observations, with episode ends."""
    rng = np.random.default_rng(seed)
    where = rng.integers(0, places, (STEPS + 1, ENVS))
    return Visits(
        obs=jnp.asarray(np.stack([where, where**2], axis=-1), jnp.float32),
        action=jnp.asarray(rng.integers(0, 3, (STEPS, ENVS)), jnp.int32),
        done=jnp.asarray(rng.random((STEPS, ENVS)) < 0.2),
    )


def test_novelty_counts_where_it_grows():
    novelty = np.random.default_rng(0).random((STEPS + 1, ENVS)).astype(np.float32)
    got = jax.jit(noveld.novelty_increase, static_argnums=1)(novelty, 0.5)
    for step in range(STEPS):
        for env in range(ENVS):
            expected = max(novelty[step + 1, env] - 0.5 * novelty[step, env], 0.0)
            np.testing.assert_allclose(got[step, env], expected, rtol=1e-6)
    assert (np.asarray(got) == 0).any() and (np.asarray(got) > 0).any()


def test_first_visits_of_an_episode_are_those_of_a_set():
    bonus = noveld.NovelD(SPACE)
    start = jax.jit(lambda obs: bonus.begin(None, obs))
    step = jax.jit(noveld.first_visits)
    rollouts = [walks(seed) for seed in range(4)]
    seen = start(rollouts[0].obs[0])
    sets = [{tuple(obs)} for obs in np.asarray(rollouts[0].obs[0])]
    for visits in rollouts:
        seen, got = step(seen, visits)
        for t in range(STEPS):
            for env in range(ENVS):
                place = tuple(np.asarray(visits.obs[t + 1, env]))
                if visits.done[t, env]:
                    sets[env] = set()
                assert got[t, env] == (place not in sets[env]), (t, env)
                sets[env].add(place)


def test_fingerprints_tell_observations_apart():
    """Fingerprints differ if any value of the observation differs, or if two values are swapped."""
    image = np.random.default_rng(0).integers(0, 3, (5000, 4, 3)).astype(np.uint8)
    obs = {"image": image, "speed": np.repeat(np.float32([0.0, 1e-9]), 2500)}
    marks = np.asarray(jax.jit(jax.vmap(noveld.fingerprint))(obs))
    distinct = {(*row.ravel(), speed) for row, speed in zip(image, obs["speed"], strict=True)}
    assert len(set(marks.tolist())) == len(distinct)
    swapped = image[:, ::-1]
    is_other = (swapped != image).any(axis=(1, 2))
    others = jax.jit(jax.vmap(noveld.fingerprint))(obs | {"image": swapped})
    np.testing.assert_array_equal(np.asarray(others) != marks, is_other)


def test_noveld_pays_once_for_the_difference_of_errors():
    bonus, visits = noveld.NovelD(SPACE, gamma=0.9, minibatches=4, width=16), walks()
    curiosity = jax.jit(bonus.init)(KEY, jnp.zeros(2))
    memory = bonus.begin(curiosity, visits.obs[0])
    after, _, returns, got = jax.jit(bonus.rewards)(curiosity, memory, jnp.zeros(ENVS), visits)
    # NovelD updates its running statistics before it computes bonuses, but its predictor
    # afterwards.
    known = curiosity._replace(seen=after.seen)
    features = bonus.features(known, visits.obs.reshape(-1, 2))
    errors = bonus.errors(known, bonus.normalised(known, features))
    novelty = np.sqrt(errors).reshape(STEPS + 1, ENVS)
    _, is_first = noveld.first_visits(memory, visits)
    new = np.maximum(novelty[1:] - 0.5 * novelty[:-1], 0.0)
    new = np.where(is_first & ~visits.done, new, 0.0)
    np.testing.assert_allclose(got, new / after.earned.deviation, rtol=1e-4, atol=1e-6)
    assert (np.asarray(got) > 0).any() and (new == 0).any()
    total = np.zeros(ENVS)
    for each in new:
        total = 0.9 * total + each
    np.testing.assert_allclose(returns, total, rtol=1e-4)


def test_elliptical_bonuses_are_those_of_the_inverted_matrix():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(STEPS, ENVS, 6)).astype(np.float32)
    done = np.asarray(walks().done)
    factor, got = jax.jit(e3b.elliptical_bonuses)(e3b.initial_factors(ENVS, 6), features, done)
    inverse = np.einsum("eij,ekj->eik", factor, factor)
    for env in range(ENVS):
        matrix = 0.1 * np.eye(6)
        for step in range(STEPS):
            if done[step, env]:
                matrix = 0.1 * np.eye(6)
            seen = features[step, env].astype(np.float64)
            expected = seen @ np.linalg.inv(matrix) @ seen
            np.testing.assert_allclose(got[step, env], expected, rtol=1e-3)
            matrix += np.outer(seen, seen)
        np.testing.assert_allclose(inverse[env], np.linalg.inv(matrix), rtol=1e-2, atol=1e-4)
    assert done.any()


@pytest.mark.parametrize("size", [pytest.param(1.0, marks=pytest.mark.full), 300.0])
def test_bonuses_of_large_features_stay_right_over_long_episodes(size):
    """Compare the last bonus of a long episode with NumPy in float64; no bonus is negative.

    The episode has 4,000 steps and 40 different observations.
    """
    rng = np.random.default_rng(0)
    known = rng.normal(size=(40, e3b.FEATURES)) * size / 8
    seen = known[rng.integers(0, 40, 4_000)].astype(np.float32)[:, None]
    done = np.zeros((4_000, 1), np.bool_)
    _, got = jax.jit(e3b.elliptical_bonuses)(e3b.initial_factors(1), seen, done)
    matrix = 0.1 * np.eye(e3b.FEATURES) + seen[:-1, 0].T.astype(np.float64) @ seen[:-1, 0]
    expected = seen[-1, 0] @ np.linalg.solve(matrix, seen[-1, 0])
    assert (np.asarray(got) >= 0).all()
    np.testing.assert_allclose(got[-1, 0], expected, rtol=0.05)


def test_what_was_seen_again_and_again_earns_a_share_of_its_visits():
    """With a single feature, E3B's bonus is count-based.

    An observation that was visited n times before has the bonus 1 / (n + ridge).
    """
    ones, none = jnp.ones((20, 1, 1)), jnp.zeros((20, 1), jnp.bool_)
    _, bonus = jax.jit(e3b.elliptical_bonuses)(e3b.initial_factors(1, 1), ones, none)
    np.testing.assert_allclose(bonus[:, 0], 1.0 / (np.arange(20) + 0.1), rtol=1e-4)


def test_the_inverse_model_learns_actions_and_ignores_ends():
    bonus = e3b.E3B(SPACE, minibatches=4, width=16, learning_rate=3e-3, num_actions=3)
    curiosity = jax.jit(bonus.init)(KEY, jnp.zeros(2))
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, (64, ENVS))
    where = np.concatenate([np.zeros((1, ENVS)), np.cumsum(action - 1, axis=0)])
    obs = jnp.asarray(np.stack([where, 0 * where], axis=-1) / 9, jnp.float32)
    visits = Visits(obs, jnp.asarray(action, jnp.int32), jnp.zeros((64, ENVS), jnp.bool_))
    batch = (obs[:-1].reshape(-1, 2), obs[1:].reshape(-1, 2), visits.action.ravel())

    def surprise(curiosity, is_pair):
        return bonus.inverse_loss((curiosity.encoder, curiosity.inverse), *batch, is_pair)

    everything, nothing = jnp.ones(64 * ENVS, jnp.bool_), jnp.zeros(64 * ENVS, jnp.bool_)
    surprise = jax.jit(surprise)
    learn = jax.jit(lambda curiosity: bonus.trained(curiosity, visits, Devices()))
    first = surprise(curiosity, everything)
    for _ in range(60):
        curiosity = learn(curiosity)
    assert surprise(curiosity, everything) < 0.3 < 0.9 < first
    assert surprise(curiosity, nothing) == 0.0


@pytest.mark.parametrize("kind", [noveld.NovelD, pytest.param(e3b.E3B, marks=pytest.mark.full)])
def test_devices_share_what_is_learned(kind):
    """Bonuses and statistics on two devices equal those on one device.

    The devices are simulated by a `vmap` over two halves of the environments. The `vmap` axis has
    the name of the devices' mesh axis, so that collectives work.
    """
    bonus = kind(SPACE, gamma=0.9, minibatches=4, width=16, num_actions=3)
    curiosity, visits = jax.jit(bonus.init)(KEY, jnp.zeros(2)), walks()
    halves = jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf.reshape(len(leaf), 2, ENVS // 2, *leaf.shape[2:]), 1, 0),
        visits,
    )

    def both(visits, devices):
        memory = bonus.begin(curiosity, visits.obs[0])
        before = jnp.zeros(visits.done.shape[1])
        return bonus.rewards(curiosity, memory, before, visits, devices=devices)

    mapped = jax.vmap(functools.partial(both, devices=Devices(2)), axis_name=DEVICES)
    two, _, _, got = jax.jit(mapped)(halves)
    one, _, _, whole = jax.jit(functools.partial(both, devices=Devices()))(visits)
    np.testing.assert_allclose(two.earned.deviation[0], one.earned.deviation, rtol=1e-4)
    got = np.moveaxis(np.asarray(got), 0, 1).reshape(STEPS, ENVS)
    np.testing.assert_allclose(got, whole, rtol=1e-3, atol=1e-5)
    same = jax.tree.map(lambda leaf: bool((leaf[0] == leaf[1]).all()), two)
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize("novelty", ["noveld", pytest.param("e3b", marks=pytest.mark.full)])
def test_bonuses_are_added_where_the_episode_goes_on(novelty):
    agent, plain = (learner(Clock(), bonus=weight, novelty=novelty) for weight in (0.5, 0.0))
    keys = jax.random.split(KEY, 1)
    runners = loop.start(agent, keys)
    _, bare = collected(plain, runners, keys)
    _, rollout = collected(agent, runners, keys)
    done = np.asarray(rollout.terminated | rollout.truncated)
    added = np.asarray(rollout.reward - bare.reward)
    assert (added[done] == 0).all() and (added[~done] >= 0).all() and (added > 0).any()
    np.testing.assert_array_equal(rollout.returns, bare.returns)


@pytest.mark.parametrize(
    "novelty",
    [
        "rnd",
        pytest.param("noveld", marks=pytest.mark.full),
        pytest.param("e3b", marks=pytest.mark.full),
    ],
)
def test_a_bonus_does_not_see_the_previous_action(novelty):
    env = wrapped(Clock(), {"previous": True})
    agent = learner(env, "ppo-rnn", bonus=0.5, novelty=novelty, previous=True)
    bonus = bonuses.of_settings(agent)
    assert bonus.space == Clock().observation_space and bonus.num_actions == 2
    start = functools.partial(loop.start, agent)
    runners = jax.eval_shape(start, jax.random.split(KEY, 1))
    after, _ = jax.eval_shape(functools.partial(loop.run_chunk, agent), runners)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, runners)
    assert runners.bonus_returns.shape == (1, 8)


def test_bonuses_for_actions_that_are_not_numbered():
    """E3B refuses actions that are not discrete; RND and NovelD accept any actions."""
    for novelty in ("rnd", "noveld"):
        agent = learner(Push(), "ppo", bonus=0.1, novelty=novelty)
        before = jax.eval_shape(functools.partial(loop.start, agent), jax.random.split(KEY, 1))
        after, _ = jax.eval_shape(functools.partial(loop.run_chunk, agent), before)
        assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, before)
    with pytest.raises(ValueError, match=r"Push\(\) has the action space .* give novelty=rnd"):
        learner(Push(), "ppo", bonus=0.1, novelty="e3b")
