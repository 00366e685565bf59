"""Tests of V-trace and of learning from fragments (rollouts by Ray actors), without a cluster."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_ppo import rollout_of
from tiny import Clock, learner
from tiny import collected as collect

from jaxenvs.baselines.core import minibatches, rollouts
from jaxenvs.baselines.core.devices import ALONE, DEVICES, Devices
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.core.returns import advantages, baselines, limited
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.ray import ppo as ray_ppo
from jaxenvs.baselines.ray.learners import improve
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop

pytestmark = pytest.mark.full

STEPS, ENVS = 7, 5
predict = jax.jit(rollouts.predict, static_argnums=0)


def corrected_advantages(rollout, last_value, ratio, gamma, gae_lambda):
    """Return V-trace's advantages for a rollout with the probability ratios `ratio`."""
    return advantages(rollout, last_value, gamma, gae_lambda, limited(ratio))


def ratios(seed: int) -> np.ndarray:
    """Return random probability ratios, some below 1 and some above."""
    return np.exp(np.random.default_rng(seed).normal(size=(STEPS, ENVS))).astype(np.float32)


def test_corrected_advantages_equal_a_plain_loop():
    """Compare with V-trace's definition, computed by loops.

    v_s = V_s + the sum over t of gamma^(t-s) (product of the c_i) rho_t delta_t, up to the next
    episode end.
    """
    gamma, gae_lambda = 0.9, 0.8
    rollout, last_value, ratio = (
        rollout_of(STEPS, ENVS, 0),
        np.arange(5.0, dtype=np.float32),
        ratios(1),
    )
    got = corrected_advantages(
        rollout, jnp.asarray(last_value), jnp.asarray(ratio), gamma, gae_lambda
    )
    r = jax.tree.map(np.asarray, rollout)
    for env in range(ENVS):
        surprise = np.zeros(STEPS)
        for t in range(STEPS):
            following = last_value[env] if t == STEPS - 1 else r.value[t + 1, env]
            following = r.truncation_value[t, env] if r.truncated[t, env] else following
            following = 0.0 if r.terminated[t, env] else following
            surprise[t] = r.reward[t, env] + gamma * following - r.value[t, env]
        for s in range(STEPS):
            total, product = 0.0, 1.0
            for t in range(s, STEPS):
                rho = min(1.0, ratio[t, env])
                total += product * rho * surprise[t]
                product *= gamma * gae_lambda * min(1.0, ratio[t, env])
                if r.terminated[t, env] or r.truncated[t, env]:
                    break
            np.testing.assert_allclose(got[s, env], total, rtol=1e-4, atol=1e-5)


def test_on_policy_v_trace_is_the_return():
    """If all ratios and lambda are 1, value targets are discounted, bootstrapped returns."""
    gamma, rollout = 0.9, rollout_of(STEPS, ENVS, 2)
    last_value = jnp.linspace(-1.0, 1.0, ENVS)
    ones = jnp.ones((STEPS, ENVS))
    target = rollout.value + corrected_advantages(rollout, last_value, ones, gamma, 1.0)
    r = jax.tree.map(np.asarray, rollout)
    for env in range(ENVS):
        later = float(last_value[env])
        for t in reversed(range(STEPS)):
            later = r.truncation_value[t, env] if r.truncated[t, env] else later
            later = 0.0 if r.terminated[t, env] else later
            later = r.reward[t, env] + gamma * later
            np.testing.assert_allclose(target[t, env], later, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_on_policy_advantages_equal_ppos(gae_lambda):
    rollout, last_value = rollout_of(STEPS, ENVS, 3), jnp.arange(5, dtype=jnp.float32)
    ones = jnp.ones((STEPS, ENVS))
    got = corrected_advantages(rollout, last_value, ones, 0.95, gae_lambda)
    expected = advantages(rollout, last_value, 0.95, gae_lambda)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_an_action_of_probability_0_has_no_weight():
    rollout, last_value = rollout_of(STEPS, ENVS, 4), jnp.zeros(ENVS)
    ratio = jnp.asarray(ratios(5)).at[3].set(0.0)
    changed = rollout._replace(reward=rollout.reward.at[3].add(100.0))
    before = corrected_advantages(rollout, last_value, ratio, 0.99, 0.95)
    after = corrected_advantages(changed, last_value, ratio, 0.99, 0.95)
    np.testing.assert_array_equal(before, after)


@pytest.fixture(scope="module")
def collected():
    """Return a small PPO learner, its runner after a rollout, and the rollout, of one seed."""
    ppo_ = learner(Clock(), num_envs=4, rollout_steps=8, gamma=0.9)
    runners = loop.start(ppo_, jax.random.split(jax.random.key(0), 1))
    made = collect(ppo_, runners, jax.random.split(jax.random.key(1), 1))
    after, rollout = jax.tree.map(lambda leaf: leaf[0], made)
    return ppo_, after, rollout


def given(ppo_: Learner, **settings) -> Learner:
    """Return the learner `ppo-ray`, which learns from fragments, in the same environment."""
    settings = {**vars(ppo_.settings), "actors": 1} | settings
    row = ALGORITHMS["ppo-ray"]
    return Learner(row, ppo_.env.env, ppo_.network, ray_ppo.Settings(**settings))


corrected, targets = (jax.jit(f, static_argnums=0) for f in (ray_ppo.corrected, ppo.targets))


def test_on_policy_fragments_train_v_trace_as_ppo(collected):
    ppo_, runner, rollout = collected
    seen, *ours = corrected(given(ppo_), runner, rollout)
    np.testing.assert_allclose(seen.weight, 1.0, rtol=1e-4)
    for a, b in zip(
        jax.tree.leaves((seen._replace(weight=()), *ours)),
        jax.tree.leaves(targets(ppo_, runner, rollout)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_stale_fragments_are_evaluated_with_the_current_weights(collected):
    """Log-probabilities and values of a stale fragment are computed with the current weights.

    The log-probabilities that the actor stored are used only for the probability ratios.
    """
    ppo_, runner, rollout = collected
    stale = rollout._replace(
        log_prob=rollout.log_prob + 1.0, value=jnp.full_like(rollout.value, 99.0)
    )
    seen, advantage, target = corrected(given(ppo_), runner, stale)
    np.testing.assert_allclose(seen.log_prob, rollout.log_prob, rtol=1e-5)
    np.testing.assert_allclose(seen.value, rollout.value, rtol=1e-4, atol=1e-5)
    ratio = jnp.full_like(rollout.value, np.exp(-1.0))
    last_value = predict(ppo_, runner.weights, runner.obs)[1]
    expected = corrected_advantages(rollout, last_value, ratio, 0.9, ppo_.settings.gae_lambda)
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(target, expected + rollout.value, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def stale(collected):
    """Return a V-trace learner, its runner, and a fragment that was made with older weights."""
    ppo_, runner, rollout = collected
    trace = given(ppo_, gae_lambda=0.0, advantage_floor=0.05, value_weight=0.0, entropy=0.0)
    draw = np.random.default_rng(6)
    older, reward = draw.normal(size=(2, *rollout.reward.shape)).astype(np.float32)
    return trace, runner, rollout._replace(log_prob=rollout.log_prob + older, reward=reward)


@functools.partial(jax.jit, static_argnums=0)
def first_gradients(trace, runner, rollout, orders):
    """Return the gradient of each minibatch's policy loss, and the inputs of the loss.

    `orders` has the indices of the steps of each minibatch.
    """
    batch = minibatches.as_steps(ray_ppo.corrected(trace, runner, rollout))

    def gradient(rows, scale):
        minibatch = jax.tree.map(lambda leaf: leaf[rows], batch)
        return minibatches.gradients(trace, ppo.loss, runner.weights, *minibatch, *scale)[0]

    return jax.vmap(gradient)(orders, ray_ppo.centred(trace, batch, orders)), batch[:2]


ORDERS = jnp.arange(32).reshape(2, 16)[:, ::-1]


def test_advantages_are_centred_with_their_weights(stale):
    """Compare with NumPy: subtract a weighted baseline, then divide by the root mean square.

    The weights are the probability ratios, clipped at 1.
    """
    trace, runner, rollout = stale
    got, (seen, advantage) = first_gradients(trace, runner, rollout, ORDERS)
    ratio = np.exp(np.asarray(seen.log_prob) - np.asarray(rollout.log_prob).reshape(-1))
    weights, weighted = np.minimum(ratio, 1.0)[ORDERS], np.asarray(advantage)[ORDERS]
    baseline = weighted.sum(axis=1) / weights.sum(axis=1)
    centred = weighted - weights * baseline[:, None]
    centred /= np.sqrt(np.square(centred).mean(axis=1, keepdims=True))

    def policy_loss(weights, rows, centred):
        logits, _ = predict(trace, weights, seen.obs[rows])
        return -(centred * trace.policy.log_prob(logits, seen.action[rows])).mean()

    gradients = jax.vmap(jax.grad(policy_loss), (None, 0, 0))
    expected = jax.jit(gradients)(runner.weights, ORDERS, jnp.asarray(centred))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_equally_good_stale_actions_have_no_gradient(stale):
    """If every action has the same advantage, the weighted baseline makes the gradient 0."""
    trace, runner, rollout = stale
    value = jax.vmap(functools.partial(predict, trace), (None, 0))(runner.weights, rollout.obs)[1]
    same = rollout._replace(
        reward=value + 2.0,
        terminated=jnp.ones_like(rollout.terminated),
        truncated=jnp.zeros_like(rollout.truncated),
    )
    gradients, _ = first_gradients(trace, runner, same, ORDERS)
    largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradients))
    assert largest < 1e-5


def test_devices_share_the_baseline():
    """Two devices with half of a batch each get the baseline of the whole batch.

    A `vmap` over the two halves, with the axis name `DEVICES`, stands for the two devices.
    """
    weight = np.minimum(ratios(7), 1.0).reshape(5, 7)[:, :6]
    weighted = weight * ratios(8).reshape(5, 7)[:, :6]
    whole = jax.jit(baselines, static_argnums=2)(weighted, weight, ALONE)
    share = functools.partial(baselines, devices=Devices(2))
    halves = [array.reshape(5, 2, 3).swapaxes(0, 1) for array in (weighted, weight)]
    parts = jax.jit(jax.vmap(share, axis_name=DEVICES))(*halves)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-5)
    np.testing.assert_allclose((weighted - whole).mean(axis=1), 0.0, atol=1e-6)


def learn(ppo_, runner, rollout, key):
    """Return the result of PPO's gradient steps on a rollout."""
    batch = minibatches.as_steps(ppo.targets(ppo_, runner, rollout))
    return ppo.learn(ppo_, runner, batch, key, ppo.loss)


def test_a_fragment_learner_takes_ppos_steps(collected):
    """Given PPO's rollout, a learner of fragments makes the same weights as PPO itself."""
    ppo_, runner, rollout = collected
    small = runner._replace(world=(), obs=(), returns=(), lengths=())
    key = jax.random.split(jax.random.wrap_key_data(runner.key))[1]
    expected, losses = jax.jit(learn, static_argnums=0)(ppo_, runner, rollout, key)
    batch = jax.device_get((rollout._asdict(), runner.obs))
    after, metrics = improve(given(ppo_), jax.tree.map(lambda leaf: leaf[None], small), batch)
    for a, b in zip(jax.tree.leaves(after.weights), jax.tree.leaves(expected.weights), strict=True):
        np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(metrics["value_loss"][0], losses["value_loss"], rtol=1e-4)
    # One episode of each environment is truncated, after five of eight steps.
    assert int(metrics["episodes"][0]) == 4
    assert after.obs == () and (after.key[0] != runner.key).any()


def test_a_fragment_learner_starts_from_the_spaces_alone():
    fragments = given(learner(Clock()))
    runners = jax.eval_shape(
        lambda keys: loop.start(fragments, keys), jax.random.split(jax.random.key(0), 1)
    )
    assert {leaf.shape[0] for leaf in jax.tree.leaves(runners)} == {1}
    assert runners.world == () and runners.returns == ()


def test_a_fragment_trains_as_the_rollout_of_the_compiled_learner():
    compiled = learner(Clock(), num_envs=4, rollout_steps=8, epochs=2, minibatches=2)
    fragments = given(compiled)

    def both(runner):
        runner, rollout = rollouts.collect(compiled, runner, jax.random.key(1), ppo.choose)
        key = jax.random.split(jax.random.wrap_key_data(runner.key))[1]
        bare = runner._replace(world=(), obs=(), returns=(), lengths=())
        after, _ = ray_ppo.update(fragments, bare, rollout, runner.obs)
        return learn(compiled, runner, rollout, key)[0].weights, after.weights, runner.weights

    runners = loop.start(compiled, jax.random.key(0)[None])
    whole, parts, before = jax.jit(jax.vmap(both, axis_name=SEEDS))(runners)
    for a, b, old in zip(*map(jax.tree.leaves, (whole, parts, before)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != old).any()
