"""Tests of CrossQ: batch renormalisation and joint loss against NumPy; running statistics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import HIGH, LOW, Push

from jaxenvs.baselines.core import replay_buffer, rollouts
from jaxenvs.baselines.core.devices import ALONE, DEVICES, Devices
from jaxenvs.baselines.networks import batch_renorm
from jaxenvs.baselines.networks.batch_renorm import STATISTICS, BatchRenorm
from jaxenvs.baselines.off_policy import actor_critic, crossq
from jaxenvs.baselines.run import loop, train

pytestmark = pytest.mark.full

ROWS = 24
# Mask (items,): True for items of weight 1, False for items of weight 0.
COUNTS = np.arange(ROWS) % 5 > 0


def drawn(shift: float = 0.0):
    """Return a batch of features; items of weight 0 are outliers, which must have no effect."""
    features = np.random.default_rng(0).normal(shift, 2.0, (ROWS, 3)).astype(np.float32)
    features[~COUNTS] += 50.0
    return features


def weights_of(mean, variance, steps=0):
    """Return the weights of a batch renormalisation layer with three features."""
    moments = np.array([mean] * 3, np.float32), np.array([variance] * 3, np.float32)
    params = {"scale": np.array([1.0, 2.0, 0.5], np.float32), "bias": np.float32([0, 1, 2])}
    return {
        "params": params,
        STATISTICS: {"mean": moments[0], "variance": moments[1], "steps": np.int32(steps)},
    }


@functools.partial(jax.jit, static_argnums=0)
def renormalised(warm_up, weights, features, weight):
    """Return a layer's output in training, its updated statistics, and its inference output."""
    layer = BatchRenorm(warm_up=warm_up)
    out, after = batch_renorm.trained(layer, ALONE, weights, weight, features)
    return out, after[STATISTICS], jax.vmap(layer.apply, in_axes=(None, 0))(weights, features)


def by_hand(features, weights, steps, warm_up):
    """Return the corrections r and d of a batch, and the renormalised batch, in float64."""
    kept = {name: np.float64(value) for name, value in weights[STATISTICS].items()}
    counted = np.float64(features)[COUNTS]
    mean, deviation = counted.mean(axis=0), np.sqrt(counted.var(axis=0) + 1e-3)
    usual = np.sqrt(kept["variance"] + 1e-3)
    factor = np.clip(deviation / usual, 1 / 3, 3)
    shift = np.clip((mean - kept["mean"]) / usual, -5, 5)
    if steps < warm_up:
        factor, shift = np.ones(3), np.zeros(3)
    normal = (features - mean) / deviation * factor + shift
    return factor, shift, normal * weights["params"]["scale"] + weights["params"]["bias"]


def test_statistics_are_summed_in_full_precision():
    """All matrix products, also in the gradient, have the precision HIGHEST.

    The products compute sums over a batch. With lower precision, accelerators would round the
    inputs of the products.
    """
    weights, features = weights_of(0.0, 1.0), drawn()

    def total(features):
        return renormalised(10, weights, features, np.ones(ROWS, np.float32))[0].sum()

    program = str(jax.make_jaxpr(jax.grad(total))(features))
    products = program.count("dot_general[")
    assert products >= 4 and program.count("precision=(Precision.HIGHEST") == products


@pytest.mark.parametrize(
    ("mean", "variance", "limited"),
    [(0.3, 3.0, False), (40.0, 0.01, True)],
)
def test_batch_renormalisation_equals_the_papers(mean, variance, limited):
    features, weight = drawn(), COUNTS.astype(np.float32)
    # The layer has seen `steps` batches so far. The warm-up has 10 batches, so the next batch is
    # the last one of the warm-up (`steps` = 9) or the first one after it (`steps` = 10).
    for steps in (9, 10):
        weights = weights_of(mean, variance, steps)
        factor, shift, wanted = by_hand(features, weights, steps, warm_up=10)
        out, after, outside = renormalised(10, weights, features, weight)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
        counted = features[COUNTS]
        np.testing.assert_allclose(after["mean"], 0.99 * mean + 0.01 * counted.mean(axis=0), 1e-5)
        kept = 0.99 * variance + 0.01 * counted.var(axis=0)
        np.testing.assert_allclose(after["variance"], kept, rtol=1e-4)
        assert after["steps"] == steps + 1
        usually = (features - mean) / np.sqrt(variance + 1e-3)
        wanted = usually * weights["params"]["scale"] + weights["params"]["bias"]
        np.testing.assert_allclose(outside, wanted, rtol=1e-4, atol=1e-4)
    assert limited == bool((factor == 3).all() and (shift == -5).all())
    # without clipping of r and d, the output in training equals the output at inference
    if not limited:
        np.testing.assert_allclose(out, outside, rtol=1e-3, atol=1e-3)


def test_corrections_have_no_gradient():
    """The gradient must treat the corrections r and d of batch renormalisation as constants.

    It is compared with finite differences of a function in which r and d are constants.
    """
    features, weights = np.float64(drawn()), weights_of(0.3, 3.0, 10)
    slopes = np.random.default_rng(1).normal(size=features.shape) * COUNTS[:, None]
    factor, shift, _ = by_hand(features, weights, 10, 0)

    def total(features):
        counted = features[COUNTS]
        deviation = np.sqrt(counted.var(axis=0) + 1e-3)
        normal = (features - counted.mean(axis=0)) / deviation * factor + shift
        return (slopes * normal * weights["params"]["scale"]).sum()

    @jax.jit
    def gradient(features):
        def loss(features):
            weight = jnp.asarray(COUNTS, jnp.float32)
            return (renormalised(0, weights, features, weight)[0] * jnp.float32(slopes)).sum()

        return jax.grad(loss)(features)

    found = np.asarray(gradient(jnp.float32(features)))
    for at in ((1, 0), (7, 1), (22, 2)):
        ahead, back = features.copy(), features.copy()
        ahead[at] += 1e-4
        back[at] -= 1e-4
        assert found[at] == pytest.approx((total(ahead) - total(back)) / 2e-4, rel=1e-3, abs=1e-4)


def test_devices_normalise_over_all_devices():
    """Updated statistics and the mean gradient are equal on one device and on four simulated ones.

    The four devices are simulated by a `vmap` over four parts of the batch.
    """
    layer, weights = BatchRenorm(warm_up=0), jax.tree.map(jnp.asarray, weights_of(0.3, 3.0))
    features, weight = drawn(1.0), COUNTS.astype(np.float32)

    def gradient(devices, params, features, weight):
        def loss(params):
            given = {**weights, "params": params}
            out, after = batch_renorm.trained(layer, devices, given, weight, features)
            return jnp.square(out).mean(), after

        slope, after = jax.grad(loss, has_aux=True)(params)
        return devices.mean(slope), after

    alone = jax.jit(functools.partial(gradient, ALONE))(weights["params"], features, weight)
    on_each = jax.vmap(
        functools.partial(gradient, Devices(4)), in_axes=(None, 0, 0), axis_name=DEVICES
    )
    parts = (features.reshape(4, -1, 3), weight.reshape(4, -1))
    together = jax.jit(on_each)(weights["params"], *parts)
    for one, each in zip(*map(jax.tree.leaves, (alone, together)), strict=True):
        np.testing.assert_allclose(each, np.stack([one] * 4), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def agent():
    return tiny.learner(Push(), "crossq", temperature=0.3)


@pytest.fixture(scope="module")
def runners(agent):
    """Return a list of three runners (training states), and the metrics of the third update.

    The runners are those before the first, after the first, and after the third update. The first
    update is the warm-up, without gradient steps.
    """
    made, kept = loop.start(agent, jax.random.key(0)[None]), []
    for _ in range(3):
        kept.append(jax.tree.map(jnp.copy, made))
        made, metrics = loop.run_chunk(agent, made)
    kept = [kept[0], kept[1], jax.tree.map(jnp.copy, made)]
    return [jax.tree.map(lambda leaf: leaf[0], one) for one in kept], metrics


def counts_of(weights):
    """Return the set of all layers' batch counts, the integers in the running statistics."""
    leaves = jax.tree.leaves(jax.device_get(weights[STATISTICS]))
    return {int(n) for leaf in leaves if leaf.dtype == np.int32 for n in np.ravel(leaf)}


def test_statistics_change_in_gradient_steps_alone(agent, runners):
    """The critics' statistics change in every gradient step, the actor's in every third.

    CrossQ has no target network.
    """
    (first, full, after), metrics = runners
    for one in (first, full):
        assert counts_of(one.critic) == counts_of(one.weights) == {0}
    gradient_steps = 2 * agent.settings.rollout_steps * agent.settings.replays
    (critics,), (actors,) = counts_of(after.critic), counts_of(after.weights)
    assert gradient_steps - 2 * agent.settings.replays <= critics <= gradient_steps
    assert actors == critics // 3
    assert after.target == ()
    for name in ("weights", "critic"):
        moved = jax.tree.map(np.array_equal, getattr(full, name), getattr(after, name))
        assert not any(jax.tree.leaves(moved)), name
    assert np.isfinite(metrics["actor_loss"]).all() and np.isfinite(metrics["entropy"]).all()
    assert "turns" not in metrics


def test_acting_uses_running_statistics(agent, runners):
    (_, _, after), _ = runners
    obs = np.float32([[0], [2], [5]])
    together = jax.jit(functools.partial(rollouts.predict, agent))
    said = together(after.weights, obs)
    for i in range(3):
        alone = together(after.weights, obs[[i]])[0]
        np.testing.assert_allclose(said[i], alone, rtol=1e-5, atol=1e-8)
    moved = jax.tree.map(jnp.copy, after.weights)
    moved[STATISTICS]["BatchRenorm_0"]["mean"] += 1.0
    assert not np.allclose(said, together(moved, obs))


def layer_by_hand(weights, name, features, weight):
    """Return a layer's output in the warm-up (plain batch normalisation), and the batch mean."""
    mean = (weight[:, None] * features).sum(axis=0) / weight.sum()
    variance = (weight[:, None] * (features - mean) ** 2).sum(axis=0) / weight.sum()
    part = weights["params"][name]
    return (features - mean) / np.sqrt(variance + 1e-3) * part["scale"] + part["bias"], mean


def test_steps_and_successors_pass_the_critics_in_one_batch(agent, runners):
    """The critics process observations and next observations as one batch, in training mode.

    The loss is compared with NumPy. TD targets use the minimum over the critics.
    """
    (_, _, runner), _ = runners
    learned, gamma = actor_critic.Learned.of(runner), agent.settings.gamma
    sample = functools.partial(replay_buffer.sample, size=32, n_step=1, gamma=gamma)
    batch = jax.jit(sample)(jax.random.key(3), runner.replay_buffer)

    @jax.jit
    def parts(learned, batch):
        noise = jax.random.normal(jax.random.key(1), (32, 2), jnp.float32)
        drawn = actor_critic.sample_actions(agent, learned.weights, batch.next_obs, noise)
        cost = jnp.exp(learned.temperature) * drawn[1]
        return *drawn, crossq.critic_loss(agent, learned.critic, batch, drawn[0], cost)

    action, log_prob, (loss, metrics) = jax.device_get(parts(learned, batch))
    batch, critics = jax.device_get(batch), jax.device_get(learned.critic)
    weight = np.float64([*batch.weight, *batch.weight])
    unit = (2 * np.concatenate([batch.action, action]) - LOW - HIGH) / (HIGH - LOW)
    both = np.concatenate([np.concatenate([batch.obs, batch.next_obs]), unit], axis=1)
    said = []
    for number in range(2):
        critic = jax.tree.map(lambda leaf, at=number: np.float64(leaf[at]), critics)
        features, mean = layer_by_hand(critic, "BatchRenorm_0", both, weight)
        kept = 0.99 * critic[STATISTICS]["BatchRenorm_0"]["mean"] + 0.01 * mean
        found = metrics[STATISTICS][STATISTICS]["BatchRenorm_0"]["mean"][number]
        np.testing.assert_allclose(found, kept, rtol=1e-4, atol=1e-5)
        dense = critic["params"]["Dense_0"]
        features = np.maximum(features @ dense["kernel"] + dense["bias"], 0)
        features, _ = layer_by_hand(critic, "BatchRenorm_1", features, weight)
        dense = critic["params"]["Dense_1"]
        said.append((features @ dense["kernel"] + dense["bias"])[:, 0])
    now, following = np.split(np.stack(said), 2, axis=1)
    soft = following.min(axis=0) - np.exp(learned.temperature) * log_prob
    goal = batch.reward + batch.discount * soft
    wanted = (0.5 * batch.weight * (now - goal) ** 2).mean(axis=1).sum()
    assert loss == pytest.approx(wanted, rel=1e-3)


def test_momentum_of_1_is_refused(tmp_path, capsys):
    flags = ["Classic-Pendulum-v0", "--algo", "crossq", "--out", str(tmp_path / "run")]
    assert train.main([*flags, "--momentum", "1"]) == 2
    assert "momentum=1.0 must be below 1" in capsys.readouterr().err


def test_the_log_does_not_average_the_warm_up(agent):
    tiny.warm_up_is_not_averaged(agent, ("actor_loss", "entropy"))
