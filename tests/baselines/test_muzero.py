"""Tests of MuZero: two-hot numbers, targets across episode ends, plans that use only the model."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Clock, Endless
from tiny_masks import Gate

from jaxenvs import make
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.model_based import muzero, muzero_loss
from jaxenvs.baselines.model_based.muzero_loss import Window
from jaxenvs.baselines.model_based.muzero_network import BoardNetwork, MuZeroNetwork
from jaxenvs.baselines.networks import two_hot
from jaxenvs.baselines.presets import preset
from jaxenvs.baselines.run import loop
from jaxenvs.core.env import Env
from jaxenvs.core.spaces import Box

pytestmark = pytest.mark.full

pytest.importorskip("mctx")
KEY = jax.random.key(0)
learner = functools.partial(tiny.learner, algorithm="muzero")


def test_squeezed_numbers_equal_the_papers_and_invert():
    numbers = np.float32([-300, -7.5, -1, -0.01, 0, 0.3, 1, 2, 40, 1e4])
    squeezed = np.asarray(jax.jit(two_hot.squeezed)(numbers))
    exact = np.sign(numbers) * (np.sqrt(np.abs(numbers.astype(float)) + 1) - 1) + 1e-3 * numbers
    np.testing.assert_allclose(squeezed, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(two_hot.stretched)(squeezed), numbers, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("spacing", [1.0, 0.05])
def test_a_number_is_two_hot_over_its_neighbouring_atoms(spacing):
    numbers, top = np.float32([-0.4, 0.0, 0.5, 3.0, 8.1, 1e6, -1e6]), 5
    numbers[:5] *= spacing
    shares = np.asarray(jax.jit(two_hot.two_hot, static_argnums=(1, 2))(numbers, top, spacing))
    assert shares.shape == (7, 11)
    for number, share in zip(numbers.astype(float), shares, strict=True):
        place = np.sign(number) * (np.sqrt(abs(number) + 1) - 1) + 1e-3 * number
        place = np.clip(place / spacing, -top, top)
        low = int(np.floor(place))
        expected = np.zeros(11)
        expected[low + top] = 1 - (place - low)
        if place > low:
            expected[low + 1 + top] = place - low
        np.testing.assert_allclose(share, expected, atol=1e-5)
    found = two_hot.mean(jnp.log(jnp.maximum(shares, 1e-12)), spacing)
    np.testing.assert_allclose(found[:5], numbers[:5], atol=1e-2 * spacing)


def test_the_loss_is_the_cross_entropy_with_these_shares():
    rng = np.random.default_rng(0)
    logits, numbers = rng.normal(size=(6, 11)).astype(np.float32), np.linspace(-4, 9, 6)
    cross_entropy = jax.jit(two_hot.cross_entropy, static_argnums=2)
    got = cross_entropy(logits, numbers.astype(np.float32), 0.5)
    shares = np.asarray(two_hot.two_hot(jnp.float32(numbers), 5, 0.5))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(got, -(shares * log_probs).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 101), (8, 6, 101), (128, 6, 21), (2, 16, 3, 63)])
def test_means_over_batches_are_right_as_tests_compile_them(shape):
    """Compare means of softmaxes with NumPy.

    The XLA flags of the tests once disabled a compiler pass, which made these means wrong.
    """
    logits = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    chances = np.exp(logits.astype(float))
    chances /= chances.sum(axis=-1, keepdims=True)
    place = (chances * (np.arange(shape[-1]) - shape[-1] // 2)).sum(axis=-1)
    got = two_hot.squeezed(jax.jit(two_hot.mean, static_argnums=1)(logits, 0.1))
    np.testing.assert_allclose(got, 0.1 * place, rtol=1e-4, atol=1e-5)


def windows(seed: int = 0, count: int = 200, moments: int = 4, n_step: int = 3) -> Window:
    """Return random windows of consecutive slots, as a replay buffer would return them.

    Some steps of the windows are terminations or truncations. In some windows, the first slot holds
    no step.
    """
    rng = np.random.default_rng(seed)
    slots = moments + n_step
    shape = (count, slots)
    ends = rng.random(shape)
    return Window(
        obs=jnp.zeros((count, moments, 1)),
        mask=None,
        action=jnp.asarray(rng.integers(0, 2, shape), jnp.int32),
        reward=jnp.asarray(rng.normal(size=shape), jnp.float32),
        terminated=jnp.asarray(ends < 0.15),
        truncated=jnp.asarray(ends > 0.85),
        policy=jnp.asarray(rng.random((count, moments, 2)), jnp.float32),
        is_step=jnp.asarray(rng.random(count) < 0.9),
        weight=jnp.ones(count, jnp.float32),
        ahead=jnp.zeros((count, n_step, 1)),
        mask_ahead=None,
    )


def values(window: Window) -> jax.Array:
    """Return a random state value for each slot of each window."""
    rng = np.random.default_rng(1)
    return jnp.asarray(rng.normal(size=window.reward.shape), jnp.float32)


def test_targets_over_ends_equal_a_plain_loop():
    gamma, n_step, window = 0.9, 3, windows()
    worth = values(window)
    slots = jax.jit(muzero_loss.bootstrap_slots, static_argnums=1)(window, n_step)
    after = jnp.take_along_axis(worth, slots, axis=1)
    got = jax.jit(muzero_loss.targets, static_argnums=(2, 3))(window, after, n_step, gamma)
    (seen, worth), met = jax.device_get((window, worth)), set()
    for row in range(len(seen.reward)):
        state, last = ("open" if seen.is_step[row] else "unknown"), 0.0
        for moment in range(4):
            met.add((moment > 0, state))
            is_open = state == "open"
            assert got.is_open[row, moment] == is_open
            assert got.is_known[row, moment] == (state != "unknown")
            np.testing.assert_allclose(got.reward[row, moment], last, rtol=1e-6)
            np.testing.assert_array_equal(got.policy[row, moment], seen.policy[row, moment])
            value = value_of(seen, worth, row, moment, n_step, gamma) if is_open else 0.0
            np.testing.assert_allclose(got.value[row, moment], value, rtol=1e-4, atol=1e-5)
            last = float(seen.reward[row, moment]) if is_open else 0.0
            if is_open:
                ended, cut = seen.terminated[row, moment], seen.truncated[row, moment]
                state = "over" if ended else "unknown" if cut else "open"
    # The loop must have met every combination of `moment` (0 or later) and `state` (open, over or
    # unknown). An episode is never over at moment 0, so there are five combinations.
    assert len(met) == 5


def value_of(
    seen: Window, worth: np.ndarray, row: int, moment: int, n_step: int, gamma: float
) -> float:
    """Return the n-step value target of a step, computed by a loop.

    The target is the discounted sum of up to `n_step` rewards of the episode, plus the discounted
    bootstrap value. If one of these steps is terminal, there is no bootstrap value.
    """
    total, power = 0.0, 1.0
    for at in range(moment, moment + n_step):
        total += power * seen.reward[row, at]
        power *= gamma
        if seen.terminated[row, at]:
            return total
        if seen.truncated[row, at]:
            break
    return total + power * worth[row, at + 1]


@functools.cache
def collected(env: Env, **settings):
    """Return a learner and its runner (training state) after four rollouts, without learning."""
    agent = learner(env, **settings)
    runners = loop.start(agent, KEY[None])
    collect = jax.jit(jax.vmap(functools.partial(muzero.collect, agent), axis_name=SEEDS))
    for key in jax.random.split(KEY, 4):
        runners, _ = collect(runners, key[None])
    return agent, jax.tree.map(lambda leaf: leaf[0], runners)


def shaken(weights):
    """Perturb the weights, because initial weights predict rewards and values of 0."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: leaf + np.float32(rng.normal(0, 0.3, leaf.shape)), weights)


@functools.partial(jax.jit, static_argnums=0)
def drawn(agent: Learner, runner: muzero.Runner) -> Window:
    """Return windows that are sampled uniformly from the replay buffer."""
    nothing = muzero.Learned((), (), (), ())
    return muzero.sample_windows(agent, runner, jnp.float32(1.0), nothing, KEY)[1]


def test_windows_hold_the_steps_of_the_environment():
    """Clock observes the time; its episodes are truncated after five steps.

    The replay buffer stores the final observation, 5, in a slot without a step.
    """
    agent, runner = collected(Clock())
    window = drawn(agent, runner)
    time = np.asarray(window.obs)[..., 0]
    assert time.shape == (8, 4) and window.action.shape == (8, 6)
    for row in range(8):
        for moment in range(3):
            assert time[row, moment + 1] == (time[row, moment] + 1) % 6
            assert window.truncated[row, moment] == (time[row, moment] == 4) or (
                # At time 5, the slot holds no step, and `truncated` is undefined.
                time[row, moment] == 5
            )
        assert window.is_step[row] == (time[row, 0] != 5)
    np.testing.assert_array_equal(np.asarray(window.ahead)[:, 0, 0], (time[:, -1] + 1) % 6)
    np.testing.assert_array_equal(window.weight, 1.0)
    sums = np.asarray(runner.found).sum(axis=-1)
    np.testing.assert_allclose(sums[np.asarray(runner.replay_buffer.is_step)], 1.0, rtol=1e-5)


def test_prioritised_windows_are_real_steps_ranked_by_error():
    agent = learner(Clock(), priority=0.6, simulations=2)
    runners = loop.start(agent, KEY[None])
    for _ in range(3):
        runners, _ = loop.run_chunk(agent, runners)
    runner = jax.tree.map(lambda leaf: leaf[0], runners)
    ranks, is_step = np.asarray(runner.priorities.value), np.asarray(runner.replay_buffer.is_step)
    ranks = ranks.reshape(len(is_step), -1)[:, : is_step.shape[1]]
    assert (ranks > 0).any() and (ranks[~is_step] == 0).all()
    # New windows get the largest priority so far. Sampled windows get priorities computed from
    # their errors, so priorities differ.
    assert len(np.unique(ranks[ranks > 0])) > 2

    def learned(value):
        value = jnp.asarray(value, jnp.float32)
        known = muzero.Learned(runner.weights, runner.target, (), runner.priorities)
        known = known._replace(priorities=runner.priorities._replace(value=value))
        return known._replace(sums=value.sum(axis=2))

    draw = jax.jit(functools.partial(muzero.sample_windows, agent, runner))
    beta, blocks = jnp.float32(0.5), np.asarray(runner.priorities.value)
    slots, window = draw(beta, learned(blocks), KEY)
    assert np.asarray(window.is_step).all()
    assert window.weight.max() == 1.0 and (np.asarray(window.weight) > 0).all()
    np.testing.assert_array_equal(window.weight, slots.weight)
    # A batch is shuffled, so its first two windows may come from any environment.
    drawn = [draw(beta, learned(blocks), key)[0].env[:2] for key in jax.random.split(KEY, 8)]
    assert len(np.unique(drawn)) == len(is_step)
    only = np.zeros_like(blocks)
    only[1].flat[np.flatnonzero(blocks[1])[0]] = 1.0
    slots, window = draw(beta, learned(only), KEY)
    np.testing.assert_array_equal(slots.env, 1)
    assert (np.asarray(window.obs) == np.asarray(window.obs)[:1]).all()


def test_consistency_targets_are_standardised():
    """Only the items that `rows` selects count for the mean and standard deviation.

    Constant targets become 0.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(6, 4)).astype(np.float32)
    rows = np.bool_([True, True, False, True, True, False])
    standardised = jax.jit(functools.partial(muzero_loss.standardise, learner(Endless())))
    found = np.asarray(standardised(x, rows))
    expected = (x - x[rows].mean(axis=0)) / x[rows].std(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    x[~rows] = 100.0
    np.testing.assert_array_equal(found[rows], np.asarray(standardised(x, rows))[rows])
    np.testing.assert_array_equal(standardised(np.ones_like(x), rows), 0.0)


class Board(Endless):
    """Environment `Endless` that observes a 2 x 2 board of categories from 0 to `top`."""

    top = 3

    @property
    def observation_space(self) -> Box:
        """Return a space of 2 x 2 boards of categories."""
        return Box(0, self.top, (2, 2), np.uint8)

    def observe(self, state, params=None):
        """Observe the parity of the time in every cell."""
        return jnp.full((2, 2), state.time % 2, jnp.uint8)


def scaled(x):
    """Return x with mean 0 and standard deviation 1."""
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def layer(part, x):
    """Return the output of a dense layer with the weights `part`."""
    return x @ part["kernel"] + part["bias"]


def board_network():
    """Return a function that calls a method of a `BoardNetwork`, and the network's weights.

    The latent state is a board of 2 x 2 cells with 3 numbers each.
    """
    network = muzero.network(Board(), hidden=(6,), embed=0, lines=5, latent=12, atoms=4)
    assert isinstance(network, BoardNetwork)
    weights = shaken(jax.jit(network.init)(KEY, jnp.uint8([[0, 3], [2, 1]])))

    def call(method, *given):
        return jax.jit(functools.partial(network.apply, method=method))(weights, *given)

    return call, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])


def test_board_transitions_share_weights_over_lines():
    call, parts = board_network()
    latent = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    for action in range(2):
        moves, change, found = parts["dynamics"], np.zeros((2, 2, 3)), {"rows": [], "columns": []}
        for name, features in found.items():
            for line in range(2):
                at = (line, slice(None)) if name == "rows" else (slice(None), line)
                read = layer(moves[name], latent[at].reshape(-1)).reshape(2, 5)[action]
                features.append(np.maximum(scaled(read), 0))
                change[at] += layer(moves[f"of_{name}"], features[-1]).reshape(2, 3)
        means = np.concatenate([np.mean(features, axis=0) for features in found.values()])
        reward = layer(parts["reward"], np.maximum(layer(moves["both"], means), 0))
        following, predicted = call("transition", latent.reshape(-1), jnp.int32(action))
        np.testing.assert_allclose(following, scaled(latent + change).reshape(-1), atol=1e-4)
        np.testing.assert_allclose(predicted, reward, rtol=1e-4, atol=1e-4)


def test_lines_are_normalised_in_float32():
    """A bfloat16 network gives nearly the output of a float32 network for features of about 30.

    If the features of a line were normalised in bfloat16, the differences between such large
    features would be lost.
    """
    network = muzero.network(Board(), hidden=(6,), embed=0, lines=5, latent=12, atoms=4)
    half = network.clone(bfloat16=True)
    latent = jnp.asarray(np.random.default_rng(0).normal(size=12), jnp.float32)
    weights = shaken(jax.jit(network.init)(KEY, jnp.zeros((2, 2), jnp.uint8)))
    bias = weights["params"]["dynamics"]["rows"]["bias"]
    weights["params"]["dynamics"]["rows"]["bias"] = bias + jnp.float32(30)
    exact, near = (
        jax.jit(functools.partial(kind.apply, method="transition"))(weights, latent, jnp.int32(1))[
            0
        ]
        for kind in (network, half)
    )
    np.testing.assert_allclose(near, exact, atol=1.0)


def test_board_predictions_equal_plain_numpy():
    (call, parts), obs = board_network(), jnp.uint8([[0, 3], [2, 1]])
    latent = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    read = [latent[0], latent[1], latent[:, 0], latent[:, 1]]
    read = [np.maximum(layer(parts["lined"], line.reshape(-1)), 0) for line in read]
    known = np.maximum(scaled(layer(parts["layers_0"], np.concatenate(read))), 0)
    logits, value = call("predict", latent.reshape(-1))
    np.testing.assert_allclose(logits, layer(parts["policy"], known), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value, layer(parts["value"], known), rtol=1e-4, atol=1e-4)
    cells = layer(parts["encoder"], np.eye(4)[np.asarray(obs)])
    np.testing.assert_allclose(call("represent", obs), scaled(cells.reshape(-1)), atol=1e-4)
    said = np.exp(layer(parts["category"], latent.reshape(4, 3).astype(float)))
    chances = (said / said.sum(axis=1, keepdims=True))[np.arange(4), np.asarray(obs).reshape(-1)]
    surprise = call("reconstruction_loss", latent.reshape(-1), obs)
    np.testing.assert_allclose(surprise, -np.log(chances).mean(), rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            {"codes": 3, "value_consistency": 0.5, "reconstruction": 1.0}, marks=pytest.mark.slow
        ),
        {"reconstruction": 1.0, "consistency": 0.0},
    ],
)
def test_it_learns_on_boards(settings):
    """Train on boards for four updates, with chance codes and without.

    The boards are binary, so the encoder uses one feature per cell. Few unroll steps and
    simulations keep the test fast, because each of them is compiled separately.
    """

    class Ones(Board):
        top = 1

    few = {"unroll_steps": 1, "simulations": 2, "gradient_steps": 1}
    agent = learner(Ones(), lines=5, latent=12, **few, **settings)
    assert isinstance(agent.network, BoardNetwork)
    runners, metrics = loop.start(agent, KEY[None]), {}
    step = jax.jit(jax.vmap(functools.partial(muzero.update, agent), axis_name=SEEDS))
    for _ in range(4):
        runners, metrics = step(runners)
    assert all(metrics[name] > 0.0 for name in metrics if name.endswith("_loss"))
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), runners.target, runners.weights)
    moved = moved["params"]["dynamics"]
    assert all(moved[name]["kernel"] for name in ("rows", "columns", "of_rows", "of_columns"))


def test_a_latent_size_that_cells_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"latent=64 .* 9 cells .* multiple of 9, such as 144"):
        muzero.network(make("Puzzle-SlidingTile-3x3-v0"), hidden=(8,), embed=0, lines=4, latent=64)
    with pytest.raises(ValueError, match="lines=1 leaves a line one feature"):
        muzero.network(make("Puzzle-SlidingTile-3x3-v0"), hidden=(8,), embed=0, lines=1, latent=9)
    made = muzero.network(make("Puzzle-SlidingTile-3x3-v0"), hidden=(8,), embed=0, latent=64)
    assert type(made) is MuZeroNetwork


def test_reconstruction_needs_a_board():
    with pytest.raises(ValueError, match=r"reconstruction=1.0: .* observed lines=64"):
        muzero.Settings(reconstruction=1.0).check()
    settings = muzero.Settings(reconstruction=1.0, lines=8)
    agent = dataclasses.replace(learner(Endless()), settings=settings)
    with pytest.raises(ValueError, match=r"Endless\(\) observes Box.* by itself"):
        muzero.check_board(agent)


def test_a_plan_never_steps_the_environment(monkeypatch):
    agent = learner(Clock())
    obs = jnp.zeros((4, 1))
    weights = jax.jit(agent.network.init)(KEY, obs[0])

    def asked(*_, **__):
        raise AssertionError("the environment was asked")

    for name in ("step", "reset", "observe", "step_state", "action_mask", "reset_state"):
        for kind in (Env, Endless, Clock):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, asked)
    plan = jax.jit(functools.partial(muzero.plan, agent))(weights, KEY, obs, None)
    assert plan.action.shape == (4,)
    np.testing.assert_allclose(plan.policy.sum(axis=-1), 1.0, rtol=1e-5)
    with pytest.raises(AssertionError, match="the environment was asked"):
        agent.env.env.reset(KEY)


def test_a_stochastic_plan_never_steps_the_environment(monkeypatch):
    agent = learner(Clock(), codes=3, simulations=6)
    weights = shaken(jax.jit(agent.network.init)(KEY, jnp.zeros(1)))

    def asked(*_, **__):
        raise AssertionError("the environment was asked")

    for name in ("step", "reset", "observe", "step_state", "action_mask", "reset_state"):
        for kind in (Env, Endless, Clock):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, asked)
    plan = jax.jit(functools.partial(muzero.plan, agent, gumbel_scale=0.0))
    mask = jnp.bool_([[True, False], [False, True], [True, True], [True, True]])
    found = plan(weights, KEY, jnp.zeros((4, 1)), mask)
    np.testing.assert_array_equal(np.asarray(found.policy)[~np.asarray(mask)], 0.0)
    np.testing.assert_allclose(found.policy.sum(axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(found.action[:2], [0, 1])
    chosen = np.take_along_axis(np.asarray(found.policy), np.asarray(found.action)[:, None], axis=1)
    np.testing.assert_array_equal(chosen[:, 0], found.policy.max(axis=1))
    again = plan(weights, jax.random.key(1), jnp.zeros((4, 1)), mask)
    assert again.action.shape == (4,) and np.isfinite(again.policy).all()


def test_chance_codes_and_their_losses_equal_plain_numpy():
    rng = np.random.default_rng(0)
    agent = learner(Endless(), codes=3)
    probabilities = jnp.asarray(rng.dirichlet(np.ones(3), 6), jnp.float32)
    logits = jnp.asarray(rng.normal(size=(6, 3)), jnp.float32)
    seen = jnp.bool_([True, True, False, True, False, True])
    chance = jax.jit(functools.partial(muzero_loss.chance_codes, agent))
    code, errors = chance(probabilities, logits, seen)
    used = np.asarray(probabilities)[np.asarray(seen)].mean(axis=0)
    surprise, unsure = 0.0, 0.0
    for row in range(6):
        true = np.eye(3)[probabilities[row].argmax() if seen[row] else logits[row].argmax()]
        np.testing.assert_allclose(code[row], true, atol=1e-6)
        if seen[row]:
            surprise += -(logits[row] - np.log(np.exp(logits[row]).sum()))[true.argmax()]
            unsure += ((true - probabilities[row]) ** 2).sum()
            unsure += (probabilities[row] * np.log(3 * used)).sum()
    np.testing.assert_allclose(errors["chance_loss"].sum(), surprise, rtol=1e-5)
    np.testing.assert_allclose(errors["code_loss"].sum(), unsure, rtol=1e-4)
    # The gradient with respect to the one-hot code must pass unchanged to the encoder's
    # probabilities (straight-through). It is 0 where the next observation is not seen.
    weight = rng.normal(size=(6, 3)).astype(np.float32)
    slope = jax.jit(jax.grad(lambda p: (weight * chance(p, logits, seen)[0]).sum()))
    np.testing.assert_allclose(slope(probabilities), weight * np.asarray(seen)[:, None], rtol=1e-6)


def test_value_consistency_learns_from_values_of_true_states():
    """One term of the value loss draws predicted values to the values of observed states.

    This term is 0 after the end of the episode. The values of observed states are constants in it:
    they get no gradient.
    """
    agent = learner(Endless(), value_consistency=0.25)
    weights = shaken(jax.jit(agent.network.init)(KEY, jnp.ones(1)))
    rng = np.random.default_rng(0)
    latent, truth = jnp.asarray(rng.normal(size=(2, 4, agent.settings.latent)), jnp.float32)
    known, is_open = jnp.bool_([1, 1, 1, 0]), jnp.bool_([1, 1, 0, 0])
    value = jnp.asarray(rng.normal(size=4), jnp.float32)
    policy = jnp.full((4, 2), 0.5)
    goals = muzero_loss.Targets(value, value, policy, known, is_open)
    now = muzero_loss.Moment(latent, jnp.ones((4, 2), jnp.bool_), jnp.zeros(4, jnp.int32), goals)

    def error(latent, truth):
        return muzero_loss.prediction_losses(agent, weights, latent, now, truth)[0]["value_loss"]

    said = functools.partial(agent.network.of_batch, weights, "predict")
    (_, given), (_, seen) = (jax.jit(said)(of) for of in (latent, truth))
    log_given = np.asarray(given) - np.log(np.exp(given).sum(axis=1, keepdims=True))
    wanted = np.exp(seen) / np.exp(seen).sum(axis=1, keepdims=True)
    of_steps = np.asarray(jax.jit(agent.network.cross_entropy)(given, value))
    by_hand = 0.75 * of_steps - 0.25 * (wanted * log_given).sum(axis=1)
    by_hand[2:] = of_steps[2], 0.0
    np.testing.assert_allclose(jax.jit(error)(latent, truth), by_hand, rtol=1e-5)
    slopes = jax.jit(jax.grad(lambda *given: error(*given).sum(), argnums=(0, 1)))(latent, truth)
    assert np.abs(slopes[0]).max() > 0.01 and not np.any(slopes[1])


def test_the_code_loss_rewards_even_use_of_codes():
    """Compare the gradient of the code loss with the gradient of a sum computed here.

    The sum has two terms: the negative entropy of the mean probabilities of codes, and the mean
    squared distance of each item's probabilities from their most probable one-hot code.
    """
    agent = learner(Endless(), codes=3)
    rng = np.random.default_rng(0)
    scores = jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)
    seen = jnp.bool_([True, True, False, True, True])

    def uneven(scores):
        _, errors = muzero_loss.chance_codes(agent, jax.nn.softmax(scores), scores, seen)
        return errors["code_loss"].sum() / np.float32(4)

    def expected(scores):
        rows = jax.nn.softmax(scores)[np.flatnonzero(seen)]
        sure = jax.lax.stop_gradient(jax.nn.one_hot(rows.argmax(axis=-1), 3))
        used = rows.mean(axis=0)
        return jnp.square(sure - rows).sum() / np.float32(4) + (used * jnp.log(used)).sum()

    np.testing.assert_allclose(
        *(jax.jit(jax.grad(f))(scores) for f in (uneven, expected)), atol=1e-5
    )


def test_chance_is_learned_only_where_observed():
    agent = learner(Endless(), codes=3)
    weights = shaken(jax.jit(agent.network.init)(KEY, jnp.ones(1)))
    window = windows(count=6, n_step=2)
    none = jnp.zeros((6, 6), jnp.bool_)
    ended = window._replace(
        terminated=none.at[:, 1].set(True), truncated=none, is_step=jnp.ones(6, jnp.bool_)
    )
    goals = muzero_loss.targets(ended, values(ended)[:, : ended.policy.shape[1]], 2, 0.9)
    parts = jax.jit(lambda window: muzero_loss.loss(agent, weights, window, goals)[1])
    before = parts(ended)
    assert set(before) == {*muzero_loss.loss_names(agent.settings), "clipped_targets", "error"}
    same = parts(ended._replace(obs=ended.obs.at[:, 2:].add(5.0)))
    other = parts(ended._replace(obs=ended.obs.at[:, 1].add(5.0)))
    for name in muzero_loss.CHANCE_LOSSES:
        assert before[name] == same[name]
    assert before["code_loss"] != other["code_loss"]


def test_plans_follow_predicted_rewards():
    """Search with a model that predicts reward 3 for action 1, 0 for action 0, and values of 0."""
    agent = learner(Endless(), simulations=8)
    weights = jax.jit(agent.network.init)(KEY, jnp.ones(1))
    tops = two_hot.two_hot(jnp.float32([0.0, 3.0]), agent.settings.atoms, agent.settings.spacing)

    class Promising(muzero.MuZeroNetwork):
        """MuZero network whose model predicts a reward by action and never changes its state."""

        def transition(self, latent, action):
            """Return the unchanged latent state and the reward of the action."""
            return latent, jnp.log(jnp.maximum(tops, 1e-9))[action]

    given = {
        field.name: getattr(agent.network, field.name)
        for field in dataclasses.fields(agent.network)
    }
    fields = {name: value for name, value in given.items() if name not in ("parent", "name")}
    agent = dataclasses.replace(agent, network=Promising(**fields))
    plan = jax.jit(functools.partial(muzero.plan, agent, gumbel_scale=0.0))
    found = plan(weights, KEY, jnp.ones((2, 1)), None)
    np.testing.assert_array_equal(found.action, 1)
    assert (found.policy[:, 1] > 0.9).all()


def test_random_actions_are_legal_and_search_policies_are_stored():
    """The buffer stores the policy found by the search even if a random action was taken."""
    _, runner = collected(
        Gate(), epsilon_start=1.0, epsilon_end=1.0, num_envs=64, capacity=2048, warm_up=320
    )
    buffer = jax.tree.map(np.asarray, runner.replay_buffer)
    action, mask = buffer.action[buffer.is_step], buffer.mask[buffer.is_step]
    assert np.take_along_axis(mask, action[:, None], axis=1).all()
    for some in np.unique(mask, axis=0):
        taken = action[(mask == some).all(axis=1)]
        shares = np.bincount(taken, minlength=3) / len(taken)
        np.testing.assert_allclose(shares, some / some.sum(), atol=0.1)
    policy = np.asarray(runner.found)[buffer.is_step]
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, rtol=1e-5)
    assert policy[~mask].max() < 1e-6
    assert policy[mask].min() > 0.05  # the stored policy is not the one-hot of the random action


def test_illegal_actions_are_known_at_the_root():
    """In `Gate`, action 0 is illegal at even times: the search gives it probability 0 there."""
    _, runner = collected(Gate())
    buffer = runner.replay_buffer
    is_step = np.asarray(buffer.is_step)
    mask = np.asarray(buffer.mask)[is_step]
    assert not mask.all()
    taken = np.asarray(buffer.action)[is_step]
    assert np.take_along_axis(mask, taken[:, None], axis=1).all()
    np.testing.assert_array_equal(np.asarray(runner.found)[is_step][~mask], 0.0)


def test_nothing_is_learned_after_a_truncation():
    agent = learner(Endless())
    weights = jax.jit(agent.network.init)(KEY, jnp.ones(1))
    weights = shaken(weights)
    window = windows(count=6, n_step=2)
    none = jnp.zeros((6, 6), jnp.bool_)
    cut = window._replace(
        terminated=none, truncated=none.at[:, 1].set(True), is_step=jnp.ones(6, jnp.bool_)
    )
    goals = muzero_loss.targets(cut, values(cut)[:, : cut.policy.shape[1]], 2, 0.9)
    total = jax.jit(lambda *given: muzero_loss.loss(agent, weights, *given)[0])

    def loss(**changed):
        return float(total(cut._replace(**changed), goals))

    def turned(step):
        return cut.action.at[:, step].set(1 - cut.action[:, step])

    assert loss() == loss(obs=cut.obs.at[:, 2:].add(5.0)) == loss(action=turned(2))
    for changed in ({"obs": cut.obs.at[:, 1].add(5.0)}, *({"action": turned(i)} for i in (0, 1))):
        assert loss() != loss(**changed)


def test_reanalyse_uses_the_target_network():
    agent, runner = collected(Clock())
    settings = dataclasses.replace(agent.settings, reanalysed=0.5, lookahead=False)
    agent = dataclasses.replace(agent, settings=settings)
    window, other = drawn(agent, runner), shaken(runner.weights)
    reanalysed = jax.jit(muzero.reanalyse, static_argnums=0)
    anew = reanalysed(agent, other, KEY, window)
    np.testing.assert_array_equal(window.policy[4:], anew.policy[4:])
    assert (np.asarray(window.policy != anew.policy)[:4]).reshape(16, -1).any(axis=1).mean() > 0.9
    value = jax.jit(muzero.bootstrap_values, static_argnums=0)(agent, other, window)
    every = jax.vmap(jax.vmap(agent.network.apply, (None, 0)), (None, 0))
    _, worth = jax.jit(every)(other, jnp.concatenate([window.obs, window.ahead], axis=1))
    slots = jax.jit(muzero_loss.bootstrap_slots, static_argnums=1)(window, settings.n_step)
    np.testing.assert_allclose(value, np.take_along_axis(worth, slots, axis=1), rtol=1e-5)
    agent = dataclasses.replace(agent, settings=dataclasses.replace(settings, reanalysed=0.0))
    assert muzero.reanalyse(agent, other, KEY, window) is window


def test_bootstrap_values_use_the_right_slots_and_masks():
    """Compare bootstrap values with `lookahead_value` at the same slots, with the same masks.

    In the environment `Gate`, action 0 is illegal at even times.
    """
    agent, runner = collected(Gate())
    window, weights = drawn(agent, runner), shaken(runner.weights)
    got = jax.jit(muzero.bootstrap_values, static_argnums=0)(agent, weights, window)
    slots = np.asarray(jax.jit(muzero_loss.bootstrap_slots, static_argnums=1)(window, 2))
    obs = np.concatenate([window.obs, window.ahead], axis=1)
    mask = np.concatenate([window.mask, window.mask_ahead], axis=1)
    rows = np.arange(len(obs))[:, None]
    obs, mask = (x[rows, slots].reshape(-1, x.shape[-1]) for x in (obs, mask))
    look = jax.jit(muzero.lookahead_value, static_argnums=0)
    np.testing.assert_allclose(got.reshape(-1), look(agent, weights, obs, mask), rtol=1e-5)
    assert np.abs(look(agent, weights, obs, None) - got.reshape(-1)).max() > 0.01


@pytest.mark.parametrize(
    ("env_id", "algorithm", "highest"),
    [
        ("Classic-CartPole-v0", "muzero", 1 / (1 - 0.997)),
        ("Grid-DoorKey-5x5-v0", "muzero", 1.0),
        ("Puzzle-2048-v0", "muzero", 4000.0),
        ("Craft-Classic-Ids-v0", "muzero", 22.0),
    ],
)
def test_atoms_reach_the_highest_value(env_id, algorithm, highest):
    settings = muzero.Settings(**preset(env_id, None, algorithm).settings)
    assert settings.atoms * settings.spacing > two_hot.squeezed(jnp.float32(highest))


def test_the_network_has_the_atoms_of_the_settings():
    agent = learner(Clock(), atoms=7, spacing=0.3)
    assert (agent.network.atoms, agent.network.spacing) == (7, 0.3)
    highest = agent.network.number(jnp.float32([*[-9] * 14, 9]))
    assert two_hot.squeezed(highest) == pytest.approx(7 * 0.3, abs=1e-4)


@pytest.mark.parametrize(("codes", "rescale"), [(0, False), (0, True), (3, False)])
def test_lookahead_values_equal_plain_numpy(codes, rescale):
    """Compare lookahead values with NumPy.

    The lookahead value is the mean Q-value of the legal actions, weighted by the improved policy.
    """
    agent = learner(Gate(), codes=codes, rescale=rescale)
    runner = jax.jit(functools.partial(muzero.init, agent))(KEY)
    weights, network = shaken(runner.weights), agent.network
    times = jnp.arange(6, dtype=jnp.float32)[:, None]
    time = times[:, 0]
    legal = jnp.stack([time % 2 == 1, time > -1, time == 2], axis=-1)
    got = jax.jit(muzero.lookahead_value, static_argnums=0)(agent, weights, times, legal)

    @jax.jit
    def known(obs, action):
        latent = network.apply(weights, obs, method="represent")
        logits, _ = network.apply(weights, latent, method="predict")
        if codes:
            after = network.apply(weights, latent, action, method="afterstate")
            worth = network.number(network.apply(weights, after, method="predict_afterstate")[1])
            return logits[action], worth
        after, reward = network.apply(weights, latent, action, method="transition")
        value = network.number(network.apply(weights, after, method="predict")[1])
        return logits[action], network.number(reward) + agent.settings.gamma * value

    for at in range(6):
        actions = [known(times[at], jnp.int32(a)) for a in range(3) if legal[at, a]]
        logits, worths = np.array(actions, dtype=float).T
        scaled = worths
        if rescale:
            scaled = (worths - worths.min()) / max(np.ptp(worths), 1e-6)
        chances = np.exp(logits + 50 * agent.settings.value_scale * scaled)
        expected = (chances * worths).sum() / chances.sum()
        np.testing.assert_allclose(got[at], expected, rtol=1e-3, atol=1e-5)
    assert (np.asarray(got) != 0).all()


def test_an_update_keeps_types_and_copies_the_target_network_when_due():
    agent = learner(Clock(), target_every=4)
    runners = loop.start(agent, jax.random.split(KEY, 1))
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    same, seen = [], []
    for _ in range(4):  # the first update only fills the replay buffer
        runners, metrics = loop.run_chunk(agent, runners)
        equal = jax.tree.map(lambda a, b: bool((a == b).all()), runners.weights, runners.target)
        same.append(all(jax.tree.leaves(equal)))
        seen.append(float(metrics["policy_loss"][0, 0]))
    assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types
    assert np.isfinite(seen).all() and (np.array(seen) > 0).any()
    assert True in same and False in same


class Lever(Endless):
    """Environment: action 1 has reward 1 and continues; action 0 ends the episode, reward 0."""

    def step_state(self, key, state, action, params):
        """Give reward 1 for action 1; end the episode after action 0."""
        after = super().step_state(key, state, action, params)
        return after._replace(reward=action.astype(jnp.float32), terminated=action == 0)


@pytest.mark.slow
def test_it_learns_the_better_lever_and_its_value():
    """MuZero learns to pull the lever that pays 1 per step, whose value is 1 / (1 - 0.8) = 5."""
    settings = {"num_envs": 16, "gamma": 0.8, "learning_rate": 3e-3, "total_steps": 12_800}
    settings |= {"capacity": 8_000, "warm_up": 512, "batch_size": 64, "gradient_steps": 8}
    settings |= {"chunk": 50, "latent": 16, "hidden": (16,), "atoms": 10, "simulations": 8}
    settings |= {"target_every": 20}
    agent = learner(Lever(), **settings)
    runners = loop.start(agent, KEY[None])
    for _ in range(2):
        runners, _ = loop.run_chunk(agent, runners)
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    logits, value = jax.jit(agent.network.apply)(weights, jnp.ones(1))
    assert jax.nn.softmax(logits)[1] > 0.9
    np.testing.assert_allclose(value, 5.0, atol=1.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"capacity": 320}, "capacity=320 leaves 10 slots .* a window needs 11: give capacity=352"),
        ({"warm_up": 319}, "warm_up=319 ends before .* give at least 320"),
        ({"capacity": 352, "priority": 0.6}, "a window needs 12: give capacity=384 or more"),
        ({"reanalysed": 1.5}, "reanalysed=1.5 must be at most 1"),
        ({"unroll_steps": 0}, "unroll_steps=0 must be at least 1"),
        ({"target_rate": 0.0}, "target_rate=0.0 must be above 0 and at most 1"),
        ({"spacing": 0.0}, "spacing=0.0 must be above 0; try 0.2"),
        ({"epsilon_start": 0.1, "epsilon_end": 0.2}, "give 1 >= start >= end >= 0"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        muzero.Settings(**wrong).check()
