"""Tests of C51, QR-DQN, IQN and Rainbow: targets and losses against NumPy, noise, resets, runs."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats
from test_dqn import resumes_bit_identically, some_batch
from tiny import Endless, learner
from tiny_masks import Gate

from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.networks import products, q_network
from jaxenvs.baselines.off_policy import c51, dqn, iqn, q_learning, qr_dqn, rainbow
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.storage import runs

pytestmark = pytest.mark.full

KEY = jax.random.key(7)
RELATIVES = ("c51", "qr-dqn", "iqn", "rainbow")
ROWS = 24


def weights_of(agent, seed=0):
    """Return weights with which values differ by observation and by action."""
    weights = jax.jit(agent.network.init)(jax.random.key(seed), jnp.ones(1))
    return jax.tree.map(
        lambda leaf: leaf + 0.3 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), weights
    )


def masked_batch():
    """Return a batch of random items; in some items, one of the two actions is illegal."""
    draw = np.random.default_rng(3)
    masks = np.array([[True, True], [True, False], [False, True]])[draw.integers(0, 3, (2, ROWS))]
    batch = some_batch(ROWS)
    # actions that were taken must be legal
    masks[0, np.arange(ROWS), np.asarray(batch.action)] = True
    return batch._replace(mask=jnp.asarray(masks[0]), next_mask=jnp.asarray(masks[1]))


def softmax(logits):
    """Return the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@functools.cache
def compiled(function):
    """Return `function` compiled; its first argument, the learner, is static."""
    return jax.jit(function, static_argnums=0)


def answers_of(agent, weights, obs, *given):
    """Return the network's outputs for a batch of observations, in float64."""
    say = jax.jit(lambda obs, *given: q_network.apply_batch(agent, weights, obs, None, *given))
    return np.asarray(say(obs, *given), np.float64)


def project_in_loops(support, values, mass):
    """Project a distribution onto the atoms: algorithm 1 of Bellemare et al. (2017), by loops."""
    out, step = np.zeros(len(support)), support[1] - support[0]
    for value, part in zip(values, mass, strict=True):
        place = (np.clip(value, support[0], support[-1]) - support[0]) / step
        low, high = int(np.floor(place)), int(np.ceil(place))
        if low == high:
            out[low] += part
        else:
            out[low] += part * (high - place)
            out[high] += part * (place - low)
    return out


def test_a_projection_keeps_mass_and_mean():
    draw, support = np.random.default_rng(0), np.linspace(-2.0, 3.0, 11, dtype=np.float32)
    project = jax.jit(jax.vmap(functools.partial(c51.project, support)))
    reward, discount = draw.normal(size=(50, 1)), draw.choice([0.0, 0.5, 0.9, 1.0], (50, 1))
    reward[:10] = np.round(reward[:10])  # some values are exactly atoms of the support
    values = (reward + discount * support).astype(np.float32)
    mass = draw.dirichlet(np.ones(11) * 0.3, 50).astype(np.float32)
    got = np.asarray(project(values, mass))
    for row in range(50):
        expected = project_in_loops(support.astype(np.float64), values[row], mass[row])
        np.testing.assert_allclose(got[row], expected, atol=2e-6)
    within = (values.min(axis=1) >= -2) & (values.max(axis=1) <= 3)
    assert within.sum() > 5
    np.testing.assert_allclose(
        (got @ support)[within], (mass * values).sum(axis=1)[within], atol=1e-5
    )


@pytest.mark.parametrize("double", [True, False])
def test_c51_targets_are_projections_for_the_best_legal_action(double):
    agent = learner(Endless(), "c51", v_min=-1.0, v_max=2.0, double=double)
    weights, target, batch = weights_of(agent), weights_of(agent, 1), masked_batch()
    support = agent.network.support.astype(np.float64)
    online, target_mass = (softmax(answers_of(agent, w, batch.next_obs)) for w in (weights, target))
    means = np.where(batch.next_mask, (online if double else target_mass) @ support, -np.inf)
    action = means.argmax(axis=1)
    assert (action != ((online if double else target_mass) @ support).argmax(axis=1)).any()
    got = compiled(c51.td_target)(agent, weights, target, batch)
    for row in range(ROWS):
        values = float(batch.reward[row]) + float(batch.discount[row]) * support
        expected = project_in_loops(support, values, target_mass[row, action[row]])
        np.testing.assert_allclose(got.mass[row], expected, atol=1e-5)
        mean = float(np.asarray(target_mass[row, action[row]]) @ np.asarray(values))
        assert float(got.clipped[row]) == (mean < -1.001 or mean > 2.001)
    assert 0 < got.clipped.mean() < 1


def test_c51_loss_is_cross_entropy_and_its_error_the_divergence():
    agent = learner(Endless(), "c51", v_min=-1.0, v_max=2.0)
    weights, batch = weights_of(agent), some_batch(ROWS)
    worth = np.random.default_rng(1).dirichlet(np.ones(5), ROWS).astype(np.float32)
    worth[0] = [0, 0, 1, 0, 0]
    said = softmax(answers_of(agent, weights, batch.obs))[np.arange(ROWS), batch.action]
    share = jnp.linspace(0.0, 1.0, ROWS)
    target = c51.Target(jnp.asarray(worth), share)
    got, parts = compiled(c51.loss)(agent, weights, batch, target)
    is_step = np.asarray(batch.weight) > 0
    of_steps = np.asarray(share)[is_step].mean()
    np.testing.assert_allclose(parts["clipped_targets"], of_steps, rtol=1e-5)
    crossed = -(worth * np.log(said)).sum(axis=1)
    np.testing.assert_allclose(got, (crossed * batch.weight).mean(), rtol=1e-4)
    known = np.where(worth > 0, worth * np.log(np.where(worth > 0, worth, 1.0)), 0.0)
    np.testing.assert_allclose(parts["error"], crossed + known.sum(axis=1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(parts["q"], (said @ agent.network.support).mean(), rtol=1e-4)
    known = c51.Target(jnp.asarray(said, jnp.float32), share)
    exact = compiled(c51.loss)(agent, weights, batch, known)[1]["error"]
    np.testing.assert_allclose(exact, 0.0, atol=1e-5)  # a perfect prediction has divergence 0


def some_quantiles(targets, is_shared):
    """Return random quantile values, fractions and targets, and the targets' weights.

    The weights are random if `is_shared`, and otherwise 1.
    """
    draw = np.random.default_rng(2)
    share = draw.dirichlet(np.ones(targets), 6) * targets
    value, worth = draw.normal(size=(6, 4)), draw.normal(size=(6, targets)) * 2
    return value, draw.uniform(size=(6, 4)), worth, share if is_shared else np.ones_like(worth)


# (Huber threshold, number of targets, whether the targets have weights)
QUANTILES = [(1.0, 3, False), (0.3, 3, False), (0.3, 3, True)]


def in_float32(value, fraction, worth, share, is_shared):
    given = [jnp.asarray(x, jnp.float32) for x in (value, fraction, worth, share)]
    return given if is_shared else [*given[:3], None]


@pytest.mark.parametrize(("kappa", "targets", "is_shared"), QUANTILES)
def test_the_quantile_huber_loss_equals_a_loop(kappa, targets, is_shared):
    value, fraction, worth, share = given = some_quantiles(targets, is_shared)
    *given, weights = in_float32(*given, is_shared)
    got = jax.jit(functools.partial(qr_dqn.quantile_huber, kappa=kappa))(*given, share=weights)
    for row in range(6):
        total = 0.0
        for i in range(4):
            for j in range(targets):
                u = worth[row, j] - value[row, i]
                huber = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                huber *= share[row, j]
                total += abs(fraction[row, i] - (u < 0)) * huber / kappa / targets
        np.testing.assert_allclose(got[row], total, rtol=1e-4)


@pytest.mark.parametrize(("kappa", "targets", "is_shared"), QUANTILES)
def test_the_quantile_huber_loss_has_a_gradient_by_the_quantiles_alone(kappa, targets, is_shared):
    value, fraction, worth, share = given = some_quantiles(targets, is_shared)
    *given, weights = in_float32(*given, is_shared)

    @jax.jit
    def slopes(*given):
        def total(*all):
            return qr_dqn.quantile_huber(*all, kappa, weights).sum()

        return jax.grad(total, range(3))(*given)

    got = slopes(*given)
    apart = worth[:, None] - value[:, :, None]
    side = np.abs(fraction[..., None] - (apart < 0)) * share[:, None, :]
    expected = -(side * np.clip(apart, -kappa, kappa)).mean(axis=2) / kappa
    np.testing.assert_allclose(got[0], expected, rtol=1e-4, atol=1e-6)
    assert not got[1].any() and not got[2].any()


def test_qr_dqn_quantiles_are_at_midpoints_and_shift_with_the_reward():
    agent = learner(Endless(), "qr-dqn")
    weights, target, batch = weights_of(agent), weights_of(agent, 1), masked_batch()
    online, target_quantiles = (answers_of(agent, w, batch.next_obs) for w in (weights, target))
    action = np.where(batch.next_mask, online.mean(axis=2), -np.inf).argmax(axis=1)
    after = target_quantiles[np.arange(ROWS), action]
    expected = np.asarray(batch.reward)[:, None] + np.asarray(batch.discount)[:, None] * after
    worth = compiled(qr_dqn.td_target)(agent, weights, target, batch)
    np.testing.assert_allclose(worth, expected, rtol=1e-4, atol=1e-5)
    got, parts = compiled(qr_dqn.loss)(agent, weights, batch, worth)
    said = answers_of(agent, weights, batch.obs)[np.arange(ROWS), batch.action]
    middles = jnp.array([0.1, 0.3, 0.5, 0.7, 0.9])
    error = qr_dqn.quantile_huber(jnp.asarray(said, jnp.float32), middles, worth, 1.0)
    np.testing.assert_allclose(parts["error"], error, rtol=1e-4)
    np.testing.assert_allclose(got, (error * batch.weight).mean(), rtol=1e-4)


def test_iqn_multiplies_features_with_the_cosine_embedding():
    """Compare IQN with NumPy, for given fractions and for the default fractions.

    The default fractions are the midpoints of 32 equal parts of [0, 1].
    """
    agent = learner(Endless(), "iqn", dueling=False)
    weights, obs = weights_of(agent), np.array([[0.3], [-1.2]], np.float32)
    parts = jax.tree.map(np.asarray, weights["params"])
    fractions = np.array([[0.0, 0.2, 1.0], [0.5, 0.7, 0.9]], np.float32)
    got = answers_of(agent, weights, jnp.asarray(obs), jnp.asarray(fractions))
    assert got.shape == (2, 2, 3)

    def by_hand(seen, fraction):
        turns = np.cos(np.pi * np.arange(6) * fraction)
        asked = np.maximum(turns @ parts["Cosines"]["kernel"] + parts["Cosines"]["bias"], 0)
        x = (seen * asked) @ parts["Dense_0"]["kernel"] + parts["Dense_0"]["bias"]
        x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
        x = np.maximum(x * parts["LayerNorm_0"]["scale"] + parts["LayerNorm_0"]["bias"], 0)
        return x @ parts["Dense_1"]["kernel"] + parts["Dense_1"]["bias"]

    for row in range(2):
        for i in range(3):
            expected = by_hand(obs[row], float(fractions[row, i]))
            np.testing.assert_allclose(got[row, :, i], expected, rtol=1e-3, atol=1e-4)
    usual = answers_of(agent, weights, jnp.asarray(obs))
    assert usual.shape == (2, 2, 32)
    np.testing.assert_allclose(usual[1, :, 3], by_hand(obs[1], 3.5 / 32), rtol=1e-3, atol=1e-4)


def test_iqn_draws_separate_fractions_for_each_step():
    agent = learner(Endless(), "iqn")
    weights, target, batch = weights_of(agent), weights_of(agent, 1), masked_batch()
    fractions = iqn.draw_fractions(agent, batch, KEY)
    assert fractions.shape == (ROWS, 3) and len(np.unique(fractions)) == 3 * ROWS
    online = answers_of(agent, weights, batch.next_obs).mean(axis=2)
    action = np.where(batch.next_mask, online, -np.inf).argmax(axis=1)
    target_quantiles = answers_of(agent, target, batch.next_obs, fractions)[np.arange(ROWS), action]
    reward, discount = (np.asarray(x)[:, None] for x in (batch.reward, batch.discount))
    expected = reward + discount * target_quantiles
    worth = compiled(iqn.td_target)(agent, weights, target, batch, KEY)
    np.testing.assert_allclose(worth, expected, rtol=1e-4, atol=1e-5)
    said = answers_of(agent, weights, batch.obs, fractions)[np.arange(ROWS), batch.action]
    error = qr_dqn.quantile_huber(jnp.asarray(said, jnp.float32), fractions, worth, 1.0)
    got, parts = compiled(iqn.loss)(agent, weights, batch, worth, KEY)
    np.testing.assert_allclose(parts["error"], error, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(got, (error * batch.weight).mean(), rtol=1e-3)


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("qr-dqn", marks=pytest.mark.full)])
def test_munchausen_targets_equal_the_papers(algorithm):
    """Compare with Vieillard et al. (2020): the target network's softmax policy averages values."""
    agent = learner(Endless(), algorithm, munchausen=0.9, temperature=0.2)
    weights, target, batch = weights_of(agent), weights_of(agent, 1), masked_batch()
    target = jax.tree.map(lambda leaf: 3.0 * leaf, target)
    module = agent.algorithm.load()

    def policy(obs, mask):
        answer = answers_of(agent, target, obs)
        values = answer if algorithm == "dqn" else answer.mean(axis=2)
        return answer, softmax(np.where(mask, values / 0.2, -np.inf))

    _, now = policy(batch.obs, batch.mask)
    answer, then = policy(batch.next_obs, batch.next_mask)
    said = 0.2 * np.log(now[np.arange(ROWS), batch.action])
    assert (said < -1).any() and (said > -1).any()
    reward = np.asarray(batch.reward) + 0.9 * np.clip(said, -1, 0)
    log = 0.2 * np.log(np.where(then > 0, then, 1.0))
    if algorithm == "dqn":
        expected = reward + np.asarray(batch.discount) * (then * (answer - log)).sum(axis=1)
    else:
        soft = (then[..., None] * (answer - log[..., None])).sum(axis=1)
        expected = reward[:, None] + np.asarray(batch.discount)[:, None] * soft
    got = compiled(module.td_target)(agent, weights, target, batch)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_noisy_layers_have_factorised_noise():
    """With means 0 and noise scales 1, output j is f(b_j) (1 + sum over i of x_i f(a_i)).

    Here f(e) = sign(e) sqrt(abs(e)), and a_i and b_j are standard normal noise of input i and
    output j.
    """
    layer = q_network.Noisy(4000, 1.0)
    weights = jax.jit(layer.init)(KEY, jnp.ones(3))["params"]
    np.testing.assert_allclose(weights["kernel_noise"], 0.5 / np.sqrt(3), rtol=1e-6)
    np.testing.assert_allclose(weights["bias_noise"], 0.5 / np.sqrt(3), rtol=1e-6)
    for name, leaf in weights.items():
        weights[name] = jnp.full_like(leaf, float(name.endswith("noise")))
    inputs = jnp.concatenate([jnp.zeros((1, 3)), jnp.eye(3), jnp.ones((1, 3))])
    say = jax.jit(lambda x, key: layer.apply({"params": weights}, x, rngs={"noise": key}))
    said = np.asarray(say(inputs, KEY))
    out, each = said[0], said[1:4] / said[0] - 1.0
    np.testing.assert_allclose(each, np.tile(each[:, :1], 4000), atol=2e-2)
    np.testing.assert_allclose(said[4], out * (1.0 + each[:, 0].sum()), rtol=1e-2, atol=1e-4)
    assert stats.kstest(np.sign(out) * out**2, "norm").pvalue > 1e-3
    assert (say(inputs, jax.random.key(1)) != said).any()
    mean = jax.jit(lambda x: layer.apply({"params": weights}, x))(inputs)
    np.testing.assert_array_equal(mean, 0.0)  # without a random key there is no noise


def test_every_observation_has_separate_noise_and_a_trained_policy_none():
    agent = learner(Endless(), "rainbow", v_max=2.0)
    weights = weights_of(agent)
    say = jax.jit(lambda key: q_network.apply_batch(agent, weights, jnp.ones((3, 1)), key))
    one, two, three = np.asarray(say(KEY))
    assert (one != two).any() and (two != three).any()
    think = jax.jit(lambda obs: agent.network.think(weights, (), obs, None))
    _, logits, value = think(jnp.ones(1))
    still = answers_of(agent, weights, jnp.ones((1, 1)))[0]
    means = softmax(still) @ agent.network.support
    np.testing.assert_allclose(value, means.max(), rtol=1e-4)
    assert logits.argmax() == means.argmax()


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_a_reset_restores_the_last_layers_and_interpolates_the_others(optimiser):
    """After 8 gradient steps, the last layers get back their initial weights.

    The other layers move a quarter of the way back. The optimiser's state becomes the initial one,
    whose moments need a step count of 0; only the schedule still counts 8 steps. Muon's initial
    state contains constants that are not 0.
    """
    given = {"reset_every": 8, "reset_keep": 0.75, "hidden": (8, 8), "total_steps": 32 * 10}
    given |= {"optimiser": optimiser}
    agent = learner(Endless(), "dqn", **given)
    runners = loop.start(agent, KEY[None])
    back = jax.jit(jax.vmap(functools.partial(q_learning.reset, agent), axis_name=SEEDS))
    moved = runners._replace(weights=jax.tree.map(lambda leaf: leaf + 2.0, runners.weights))
    initial = jax.tree.leaves(runners.optimiser)

    def after(count, updates):
        optimiser = jax.tree.map(
            lambda leaf: jnp.full_like(leaf, count if leaf.dtype == jnp.int32 else 3.0),
            moved.optimiser,
        )
        return back(moved._replace(optimiser=optimiser), jnp.full(1, updates, jnp.int32))

    # There is no reset after 4 or 12 gradient steps, which are not multiples of 8, nor after update
    # 7, which is near the end of the run.
    for count, updates in ((4, 1), (12, 3), (8, 7)):
        same = after(count, updates)
        for a, b in zip(*map(jax.tree.leaves, (same.weights, moved.weights)), strict=True):
            np.testing.assert_array_equal(a, b)
    runners = after(8, 2)
    for now, first in zip(jax.tree.leaves(runners.optimiser), initial, strict=True):
        if first.dtype == jnp.float32:
            np.testing.assert_array_equal(now, first)
    counts = optax.tree_utils.tree_get_all_with_path(runners.optimiser, "count")
    assert {(path[-1].tuple_name, int(count[0])) for path, count in counts} >= {
        ("ScaleByAdamState", 0),
        ("ScaleByScheduleState", 8),
    }
    assert jax.vmap(minibatches.step_count)(runners.optimiser) == 8
    assert any(leaf.any() for leaf in initial) == (optimiser == "muon")
    body = agent.network.body
    names = runners.weights["params"]
    assert {"Dense_0", "LayerNorm_0"} <= body & names.keys()
    for name, layer in names.items():
        share = 0.75 if name in body else 0.0
        for a, b in zip(*map(jax.tree.leaves, (layer, moved.first["params"][name])), strict=True):
            np.testing.assert_allclose(a, b + share * 2.0, rtol=1e-5, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["c51", "iqn", "rainbow"])
def test_an_update_learns_and_stays_finite(algorithm):
    agent = (
        learner(Endless(), algorithm, v_max=9.0)
        if algorithm == "c51"
        else learner(Endless(), algorithm)
    )
    runners = loop.start(agent, jax.random.split(KEY, 2))
    first = jax.device_get(runners.weights)
    runners, metrics = loop.run_chunk(agent, runners)
    assert (np.asarray(metrics["q_loss"]) > 0).all()
    for old, new in zip(*map(jax.tree.leaves, (first, runners.weights)), strict=True):
        assert np.isfinite(new).all() and (old != new).any()
    if algorithm == "rainbow":
        assert (np.asarray(metrics["epsilon"]) == 0).all()
        assert (np.asarray(runners.priorities.value) != 0).any()


EVERYTHING = {"noisy": True, "munchausen": 0.9, "priority": 0.6, "epsilon_power": 2.0}


@pytest.mark.full
@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("dqn", EVERYTHING),
        pytest.param("c51", {"priority": 0.6, "noisy": True}, marks=pytest.mark.full),
        pytest.param("qr-dqn", EVERYTHING, marks=pytest.mark.full),
        pytest.param("iqn", EVERYTHING, marks=pytest.mark.full),
        pytest.param("rainbow", {}, marks=pytest.mark.full),
    ],
)
def test_all_settings_together_in_the_smallest_replay_buffer(algorithm, more):
    """Train in bfloat16 with the smallest replay buffer: 5 slots, for a single environment."""
    small = {"num_envs": 1, "rollout_steps": 3, "capacity": 5, "warm_up": 3, "n_step": 3}
    small |= {"gradient_steps": 2, "reset_every": 4, "batch_size": 40, "total_steps": 30}
    agent = learner(Gate(), algorithm, bfloat16=True, **(small | more))
    runners = loop.start(agent, KEY[None])
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    for made in range(8):
        runners, metrics = loop.run_chunk(agent, runners)
        assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types
        learned = (runners.weights, runners.target, runners.priorities, metrics)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learned))
        assert float(metrics["q_loss"][0, 0]) > 0
        buffer = jax.tree.map(lambda leaf: np.asarray(leaf)[0, 0], runners.replay_buffer)
        legal = np.take_along_axis(buffer.mask, buffer.action[:, None], axis=1)[:, 0]
        assert legal[buffer.is_step].all() and buffer.is_step.any(), made


@pytest.mark.full
@pytest.mark.parametrize("algorithm", RELATIVES)
def test_a_resumed_run_is_bit_identical_and_its_policy_is_exported(tmp_path, algorithm):
    from test_dqn import TINY

    more = {"c51": ["--atoms", "5"], "qr-dqn": ["--quantiles", "5"], "iqn": ["--cosines", "6"]}
    flags = ["--algo", algorithm, *TINY, *more.get(algorithm, ["--reset-every", "4"])]
    whole = resumes_bit_identically(tmp_path, flags)
    policy = runs.load_policy(whole, seed=1)
    logits, value = jax.jit(policy.apply)(jax.jit(policy.env.reset)(KEY).obs)
    assert logits.shape == (7,) and value.shape == ()
    assert export.main([str(whole)]) == 0
    assert (whole / "export" / "policy.jax").is_file()


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (c51, {"atoms": 1}, "atoms=1 must be at least 2"),
        (rainbow, {"v_min": 3.0, "v_max": 3.0}, "v_min=3.0 must be below v_max=3.0"),
        (c51, {"munchausen": 0.9}, "munchausen=0.9 must be at most 0; it averages .* use dqn"),
        (qr_dqn, {"quantiles": 0}, "quantiles=0 must be at least 1"),
        (qr_dqn, {"kappa": 0.0}, "kappa=0.0 must be above 0"),
        (iqn, {"fractions": 0}, "fractions=0 must be at least 1"),
        (
            dqn,
            {"munchausen": 0.9, "temperature": 0.0},
            "temperature=0: munchausen needs more than 0",
        ),
        (dqn, {"reset_every": -1}, "reset_every=-1 must be at least 0"),
    ],
)
def test_settings_that_cannot_work_say_why(kind, wrong, words):
    with pytest.raises(ValueError, match=words):
        kind.Settings(**wrong).check()


def test_only_the_last_layers_are_noisy():
    agent = learner(Endless(), "rainbow", hidden=(8, 8))
    shapes = jax.eval_shape(agent.network.init, KEY, jnp.ones(1))["params"]
    assert {name for name in shapes if name.startswith("Noisy")} == {
        "Noisy_0",
        "Noisy_1",
        "Noisy_2",
    }
    assert issubclass(q_network.Noisy, nn.Module) and "Dense_0" in shapes


def test_layers_without_norm_by_hand():
    agent = learner(Endless(), "dqn", hidden=(8, 8), layer_norm=False, dueling=False)
    assert agent.network.body == {"Encoder_0", "Dense_0"}
    weights = weights_of(agent)
    parts = jax.tree.map(np.asarray, weights["params"])
    assert parts.keys() == {"Dense_0", "Dense_1", "Dense_2"}
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    for name in ("Dense_0", "Dense_1"):
        expected = np.maximum(x @ parts[name]["kernel"] + parts[name]["bias"], 0)
        x = expected
    expected = x @ parts["Dense_2"]["kernel"] + parts["Dense_2"]["bias"]
    obs = jnp.linspace(-1, 1, 5)[:, None]
    np.testing.assert_allclose(answers_of(agent, weights, obs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stacked", [False, True])
def test_gradients_of_products_equal_those_of_jax(stacked):
    """Compare the gradients with `jnp.matmul`, for a batch and for several stacked networks."""
    key_inputs, key_weights = jax.random.split(KEY)
    inputs = jax.random.normal(key_inputs, (6, 5))
    weights = jax.random.normal(key_weights, (3, 5, 2) if stacked else (5, 2))

    def loss(product, weights, inputs):
        over_batch = jax.vmap(product, in_axes=(0, None))
        over_networks = jax.vmap(over_batch, in_axes=(None, 0)) if stacked else over_batch
        return jnp.square(over_networks(inputs, weights)).sum()

    ours, wanted = (
        jax.jit(jax.value_and_grad(functools.partial(loss, product), (0, 1)))(weights, inputs)
        for product in (products.of_item, jnp.matmul)
    )
    for a, b in zip(*map(jax.tree.leaves, (ours, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
