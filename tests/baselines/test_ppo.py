"""Tests of PPO: advantages, truncation, loss, learning rate, counts and sums of episodes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Clock, Countdown, Endless, collected, learner

import jaxenvs
from jaxenvs.baselines.core import minibatches, returns, rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop

ADVANTAGES = jax.jit(returns.advantages, static_argnums=(2, 3))


def rollout_of(steps: int, envs: int, seed: int) -> rollouts.Rollout:
    """Return a random rollout with terminations and truncations placed by hand."""
    draw = np.random.default_rng(seed)
    normal = lambda: jnp.asarray(draw.normal(size=(steps, envs)), jnp.float32)  # noqa: E731
    terminated, truncated = np.zeros((2, steps, envs), bool)
    terminated[2, 0] = terminated[3, 0] = True  # terminations in two consecutive steps
    truncated[2, 1] = truncated[-1, 2] = True  # truncations in the middle and at the end
    terminated[-1, 3] = True
    return rollouts.Rollout(
        obs=normal(),
        action=jnp.zeros((steps, envs), jnp.int32),
        log_prob=normal(),
        value=normal(),
        reward=normal(),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        truncation_value=jnp.where(truncated, normal(), 0.0),
        returns=normal(),
        lengths=jnp.asarray(draw.integers(1, 9, (steps, envs)), jnp.int32),
    )


@pytest.mark.parametrize("seed", range(4))
def test_advantages_equal_a_plain_loop(seed):
    gamma, gae_lambda = 0.9, 0.8
    rollout = rollout_of(steps=7, envs=5, seed=seed)
    if seed:  # with seeds above 0, episodes end at random steps
        ends = np.random.default_rng(seed).choice(3, p=(0.6, 0.2, 0.2), size=(7, 5))
        terminated, truncated = jnp.asarray(ends == 1), jnp.asarray(ends == 2)
        rollout = rollout._replace(
            terminated=terminated, truncated=truncated, truncation_value=rollout.returns
        )
    last_value = np.arange(5, dtype=np.float32)
    got = np.asarray(ADVANTAGES(rollout, last_value, gamma, gae_lambda))

    rollout, last_value = jax.device_get((rollout, last_value))
    steps, envs = rollout.reward.shape
    for env in range(envs):
        later = 0.0
        for t in reversed(range(steps)):
            following = last_value[env] if t == steps - 1 else rollout.value[t + 1, env]
            if rollout.truncated[t, env]:
                following, later = rollout.truncation_value[t, env], 0.0
            if rollout.terminated[t, env]:
                following, later = 0.0, 0.0
            surprise = rollout.reward[t, env] + gamma * following - rollout.value[t, env]
            later = surprise + gamma * gae_lambda * later
            np.testing.assert_allclose(got[t, env], later, rtol=1e-5, atol=1e-6)


def test_rewards_do_not_reach_back_over_an_end():
    rollout = rollout_of(steps=7, envs=5, seed=0)
    before = ADVANTAGES(rollout, np.zeros(5, np.float32), 0.9, 0.8)
    changed = rollout._replace(reward=rollout.reward.at[4:].add(100.0))
    after = ADVANTAGES(changed, np.zeros(5, np.float32), 0.9, 0.8)
    # Mask of the environments in which an episode ends in the first four steps. `rollout_of`
    # truncates an episode at step 2 of environment 1.
    ends = rollout.terminated.at[2, 1].set(True)[:4].any(axis=0)
    np.testing.assert_array_equal((before[:3] == after[:3]).all(axis=0), ends)


def test_a_truncated_episode_is_bootstrapped_from_its_true_successor():
    ppo_ = learner(Clock(), num_envs=4, rollout_steps=12)
    keys = jax.random.split(jax.random.key(0), 2)
    runners = loop.start(ppo_, keys)
    after, rollout = collected(ppo_, runners, keys)
    cut = np.zeros((2, 12, 4), bool)
    cut[:, [4, 9]] = True
    np.testing.assert_array_equal(rollout.truncated, cut)
    # Clock observes the time. The final observation of the episode is 5, but the next observation
    # in the rollout is 0.
    np.testing.assert_array_equal(np.unique(rollout.obs), np.arange(5))
    fives = jnp.full((4, 1), 5.0)
    predict = jax.jit(jax.vmap(lambda weights: rollouts.predict(ppo_, weights, fives)[1]))
    value = predict(runners.weights)
    expected = np.where(cut, np.asarray(value)[:, None, :], 0.0)
    np.testing.assert_allclose(rollout.truncation_value, expected, rtol=1e-6)
    assert (np.abs(value) > 1e-3).all()
    np.testing.assert_array_equal(after.lengths, np.full((2, 4), 2))


def test_seeds_share_one_branch_for_truncations():
    """All seeds must share the condition of `cond`, else `vmap` computes both of its branches."""
    ppo_ = learner(Endless())
    keys = jax.random.split(jax.random.key(0), 2)
    runners = jax.eval_shape(functools.partial(loop.start, ppo_), keys)
    text = str(jax.make_jaxpr(functools.partial(collected, ppo_))(runners, keys))
    assert text.count("cond[") == 1


@pytest.mark.parametrize(
    "algorithm",
    [
        "ppo",
        pytest.param("ppo-rnn", marks=pytest.mark.full),
        pytest.param("dqn", marks=pytest.mark.full),
    ],
)
def test_no_matrix_product_of_a_single_seed_has_a_batch_axis(algorithm):
    """With one seed, no matrix product may have a batch axis: on a CPU it would double the time."""
    agent = learner(Endless(), algorithm)

    def products(seeds: int) -> list[str]:
        keys = jax.random.split(jax.random.key(0), seeds)
        runners = jax.eval_shape(functools.partial(loop.start, agent), keys)
        text = loop.run_chunk.lower(agent, runners, None).as_text()
        return [line for line in text.splitlines() if "stablehlo.dot_general" in line]

    assert products(1)
    assert not any("batching_dims" in line for line in products(1))
    assert any("batching_dims" in line for line in products(2))


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["ppo", "pqn"])
def test_accelerators_take_the_same_gradient_steps(monkeypatch, algorithm):
    """Accelerators update all weights as one vector, with the same result as on a CPU."""
    agent = learner(Clock(), algorithm)
    key = jax.random.key(0)
    update = lambda key: agent.update(agent.init(key))  # noqa: E731
    usual = jax.jit(jax.vmap(update, axis_name=SEEDS))(key[None])
    monkeypatch.setattr(minibatches, "by_platform", lambda *given, cpu, default: default(*given))
    other = jax.jit(jax.vmap(lambda key: update(key), axis_name=SEEDS))(key[None])
    usual, other = ((r.weights, r.optimiser, metrics) for r, metrics in (usual, other))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), usual, other)


def flops(function, *arguments) -> float:
    """Return the number of floating-point operations of a compiled function."""
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


def test_a_step_computes_one_observation():
    """A step of a rollout must compute only one observation, because observations are expensive.

    The final observations of truncated episodes are computed later, by `truncations.later`.
    """
    ppo_ = learner(jaxenvs.make("Grid-DoorKey-8x8-v0"), num_envs=64)
    runner = jax.eval_shape(ppo_.init, jax.random.key(0))
    key, slot = jax.eval_shape(lambda: jax.random.key(0)), jax.ShapeDtypeStruct((), jnp.int32)
    cuts = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype),
        (runner.world.env, runner.memory),
    )

    def world(key, runner, action, read):
        step = ppo_.env.step(key, runner.world, action)
        return (*step[:4], step.info["final_obs"]) if read else step[:4]

    one = flops(
        functools.partial(rollouts.act, ppo_, ppo.choose, None), (runner, cuts), (key, slot)
    )
    policy = flops(lambda runner, key: ppo.choose(ppo_, runner, key, None)[1:], runner, key)
    lone, both = (
        flops(functools.partial(world, read=read), key, runner, runner.lengths)
        for read in (False, True)
    )
    observation = both - lone
    assert observation > 0.2 * lone
    assert one < policy + lone + 0.5 * observation


class Hurried(Clock):
    """Environment `Clock` that computes its time limit, always four steps here, from the state."""

    def time_limit(self, state, params):
        """Return a limit of four steps; the limit of 6, from time 9 on, is never used."""
        return jnp.where(state.time < 9, 4, 6)


@pytest.mark.full
def test_time_limits_set_by_the_state():
    """If the state sets the time limit, truncated steps still have the right bootstrap values.

    The learner does not know these limits in advance (`shortest_limit` is 1), so it must expect
    many truncations in a rollout.
    """
    assert (Clock().shortest_limit(Clock().default_params), Hurried().shortest_limit(None)) == (
        5,
        1,
    )
    ppo_ = learner(Hurried(), num_envs=2, rollout_steps=10)
    keys = jax.random.split(jax.random.key(0), 1)
    runners = loop.start(ppo_, keys)
    _, rollout = collected(ppo_, runners, keys)
    assert rollout.truncated[0, :, 0].nonzero()[0].tolist() == [3, 7]
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    value = jax.jit(rollouts.predict, static_argnums=0)(ppo_, weights, jnp.full((2, 1), 4.0))[1]
    expected = np.where(rollout.truncated[0], value, 0.0)
    np.testing.assert_allclose(rollout.truncation_value[0], expected, rtol=1e-6)


def test_values_are_bootstrapped_at_the_time_limit():
    """PPO learns the value of a reward of 1 at every step, 1 / (1 - gamma) = 5.

    Without bootstrapping at the time limit of five steps, the value would be below 3.
    """
    ppo_ = learner(
        Endless(), gamma=0.8, learning_rate=1e-2, total_steps=5120, rollout_steps=32, chunk=20
    )
    runners, _ = loop.run_chunk(ppo_, loop.start(ppo_, jax.random.split(jax.random.key(0), 1)))
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    value = rollouts.predict(ppo_, weights, jnp.ones((1, 1)))[1]
    np.testing.assert_allclose(value, 5.0, rtol=0.1)


normalisers, whole_loss, predict = (
    jax.jit(function, static_argnums=0)
    for function in (ppo.normalisers, ppo.loss, rollouts.predict)
)


@pytest.fixture(scope="module")
def on_policy():
    """Return a learner, its weights, and a rollout made with them, as a flat batch of 40 items."""
    ppo_ = learner(Endless())
    rollout = jax.tree.map(lambda leaf: leaf.reshape(-1), rollout_of(8, 5, 1))
    rollout = rollout._replace(obs=jnp.ones((40, 1)), action=jnp.arange(40, dtype=jnp.int32) % 2)
    weights = jax.jit(ppo_.network.init)(jax.random.key(0), jnp.ones(1))
    logits, _ = predict(ppo_, weights, rollout.obs)
    log_prob = ppo_.policy.log_prob(logits, rollout.action)
    return ppo_, weights, rollout._replace(log_prob=log_prob)


def loss(ppo_, weights, rollout, advantage, target):
    """Return PPO's loss and the parts of the loss, for a single minibatch of all items."""
    batch = (rollout, advantage, target)
    mean, std = normalisers(ppo_, batch, jnp.arange(40)[None])
    return whole_loss(ppo_, weights, *batch, mean[0], std[0])


def test_the_loss_normalises_advantages(on_policy):
    ppo_, weights, rollout = on_policy
    advantage = np.linspace(-1, 2, 40, dtype=np.float32)
    moved = rollout._replace(
        log_prob=rollout.log_prob + np.linspace(-0.3, 0.3, 40, dtype=np.float32)
    )
    a = loss(ppo_, weights, moved, advantage, rollout.value)[1]
    b = loss(ppo_, weights, moved, 7.0 * advantage + 3.0, rollout.value)[1]
    np.testing.assert_allclose(a["policy_loss"], b["policy_loss"], rtol=1e-4)
    assert abs(float(a["policy_loss"])) > 1e-3


def test_advantage_floor_keeps_noise_small(on_policy):
    """If all advantages are small noise, `advantage_floor` limits how much they are scaled up."""
    ppo_, weights, rollout = on_policy
    settings = dataclasses.replace(ppo_.settings, advantage_floor=0.05)
    careful = dataclasses.replace(ppo_, settings=settings)
    moved = rollout._replace(
        log_prob=rollout.log_prob + np.linspace(-0.1, 0.1, 40, dtype=np.float32)
    )
    noise = 1e-4 * np.linspace(-1, 2, 40, dtype=np.float32)
    plain, floored, large, large_floored = (
        float(loss(learner_, weights, moved, scale * noise, rollout.value)[1]["policy_loss"])
        for learner_, scale in ((ppo_, 1.0), (careful, 1.0), (ppo_, 1e4), (careful, 1e4))
    )
    assert abs(floored) < abs(plain) / 100
    # The floor does not change the normalisation of large advantages.
    np.testing.assert_allclose(large, large_floored, rtol=1e-6)


def test_the_loss_of_an_unchanged_policy(on_policy):
    ppo_, weights, rollout = on_policy
    target = predict(ppo_, weights, rollout.obs)[1] + 2.0
    total, parts = loss(ppo_, weights, rollout, np.linspace(-1, 2, 40, dtype=np.float32), target)
    # The policy loss is 0, because the normalised advantages have mean 0.
    np.testing.assert_allclose(parts["policy_loss"], 0.0, atol=1e-6)
    np.testing.assert_allclose([parts["kl"], parts["clipped"]], 0.0, atol=1e-6)
    np.testing.assert_allclose(parts["value_loss"], 0.5 * 2.0**2, rtol=1e-5)
    # An untrained policy is nearly uniform over two actions.
    np.testing.assert_allclose(parts["entropy"], np.log(2), rtol=1e-3)
    settings = ppo_.settings
    expected = settings.value_weight * parts["value_loss"] - settings.entropy * parts["entropy"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_a_ratio_beyond_the_clip_has_no_gradient(on_policy):
    ppo_, weights, rollout = on_policy
    ppo_ = dataclasses.replace(
        ppo_, settings=dataclasses.replace(ppo_.settings, entropy=0.0, value_weight=0.0)
    )
    sign = jnp.where(jnp.arange(40) < 20, 1.0, -1.0)
    # The ratio of the current to the stored probability is 1.5 for actions with positive advantage,
    # and 1 / 1.5 for other actions.
    beyond = rollout._replace(log_prob=rollout.log_prob - sign * jnp.log(1.5))
    short_of = rollout._replace(log_prob=rollout.log_prob + sign * jnp.log(1.5))
    for record, moves in ((beyond, False), (short_of, True)):
        value = jax.grad(lambda w, r=record: loss(ppo_, w, r, sign, rollout.value)[0])
        gradient = jax.jit(value)(weights)
        assert any(jnp.abs(leaf).max() > 1e-6 for leaf in jax.tree.leaves(gradient)) == moves


def test_a_value_beyond_its_clip_has_the_error_at_the_clip(on_policy):
    """The value error is the larger of two errors: with the value clipped, and without clipping."""
    ppo_, weights, rollout = on_policy
    settings = dataclasses.replace(ppo_.settings, value_clip=0.2, entropy=0.0)
    clipped = dataclasses.replace(ppo_, settings=settings)
    value = np.asarray(predict(ppo_, weights, rollout.obs)[1])
    before = value + np.repeat([-0.5, -0.1, 0.1, 0.5], 10).astype(np.float32)
    target = value + np.tile([-3.0, 3.0], 20).astype(np.float32)
    record = rollout._replace(value=jnp.asarray(before))
    advantage = np.linspace(-1, 2, 40, dtype=np.float32)
    got = loss(clipped, weights, record, advantage, jnp.asarray(target))[1]["value_loss"]
    near = before + np.clip(value - before, -0.2, 0.2)
    errors = np.maximum((value - target) ** 2, (near - target) ** 2)
    assert (errors > 9.1).any() and (errors < 9.1).any()
    np.testing.assert_allclose(got, 0.5 * errors.mean(), rtol=1e-5)
    plain = loss(ppo_, weights, record, advantage, jnp.asarray(target))[1]["value_loss"]
    np.testing.assert_allclose(plain, 0.5 * 3.0**2, rtol=1e-5)


def test_the_learning_rate_falls_by_updates_not_by_gradient_steps():
    ppo_ = learner(Endless(), total_steps=3 * 128, epochs=2, learning_rate=0.3, max_grad_norm=1e9)
    assert ppo_.settings.updates == 3
    optimiser, weights = minibatches.optimiser(ppo_.settings), {"w": jnp.zeros(1)}
    state, moved = optimiser.init(weights), []
    update = jax.jit(optimiser.update)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(2 * 2 * 3 + 1):
            change, state = update({"w": jnp.ones(1)}, state, weights)
            moved.append(-float(change["w"][0]))
    # With a constant gradient, each Adam step moves a weight by the learning rate. The learning
    # rate must be the same in all four gradient steps of an update.
    expected = np.repeat([0.3, 0.2, 0.1, 0.0], 4)[:13]
    np.testing.assert_allclose(moved, expected, rtol=1e-3, atol=1e-6)


def test_a_large_gradient_is_clipped_by_its_norm_over_all_weights():
    optimiser = minibatches.optimiser(ppo.Settings(max_grad_norm=0.5))
    gradient = {"a": jnp.full(9, 4.0), "b": jnp.full(16, 3.0)}  # total norm: (144 + 144) ** 0.5
    with jax.numpy_dtype_promotion("standard"):
        _, state = jax.jit(optimiser.update)(gradient, optimiser.init(gradient), gradient)
    first_moments = jax.tree.leaves(state[1][0].mu)
    norm = sum(float((leaf**2).sum()) for leaf in first_moments) ** 0.5
    np.testing.assert_allclose(norm, 0.5 * (1 - 0.9), rtol=1e-5)


def test_sums_count_finished_episodes_only():
    rollout = rollout_of(7, 5, 0)
    done = np.asarray(rollout.terminated | rollout.truncated)
    sums = jax.jit(rollouts.episode_sums)(rollout)
    assert int(sums["episodes"]) == done.sum() == 5
    np.testing.assert_allclose(sums["return_sum"], np.asarray(rollout.returns)[done].sum(), 1e-5)
    assert int(sums["length_sum"]) == np.asarray(rollout.lengths)[done].sum()


def test_an_update_carries_episodes_over_and_keeps_types():
    ppo_ = learner(Endless(), rollout_steps=7)  # 7 steps per update, while episodes last five steps
    runners = loop.start(ppo_, jax.random.split(jax.random.key(0), 2))
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    totals = np.zeros(2)
    for update in range(5):  # five updates of 7 steps are seven episodes
        runners, metrics = loop.run_chunk(ppo_, runners)
        # the metric `oldest` is the number of steps of the unfinished episodes
        assert metrics.pop("oldest").tolist() == [[7 * (update + 1) % 5]] * 2
        assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types  # compares weak types too
        np.testing.assert_array_equal(metrics["return_sum"], 5 * np.asarray(metrics["episodes"]))
        totals += np.asarray(metrics["episodes"])[:, 0]
    np.testing.assert_array_equal(totals, 7 * 8)


@pytest.mark.full
def test_seeds_differ_and_a_seed_does_not_depend_on_the_others():
    ppo_ = learner(Countdown())
    keys = jax.random.split(jax.random.key(0), 3)
    many, one = loop.start(ppo_, keys), loop.start(ppo_, keys[1:2])
    for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(one), strict=True):
        np.testing.assert_array_equal(a[1], b[0])
    kernel = many.weights["params"]["Dense_0"]["kernel"]
    assert (kernel[0] != kernel[1]).any()


def test_settings_that_cannot_work_say_why():
    for wrong, words in (
        ({"num_envs": 0}, "num_envs=0 must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be at least 0"),
        ({"gamma": 1.01}, "gamma=1.01 must be at most 1"),
        ({"gae_lambda": 95.0}, "gae_lambda=95.0 must be at most 1"),
        ({"minibatches": 7}, "choose a divisor of 8192"),
    ):
        with pytest.raises(ValueError, match=words):
            ppo.Settings(**wrong).check()


def test_updates_are_whole_chunks_that_reach_the_total():
    settings = ppo.Settings(total_steps=8192 * 3 + 1, chunk=3)
    assert settings.updates == 6
    assert ppo.Settings(total_steps=1).updates == 1
