"""Tests that no learner takes an illegal action, learns from one, or bootstraps from one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import TREES
from tiny import Clock, Endless, learner
from tiny_masks import Gate

import jaxenvs
from jaxenvs.baselines.core import minibatches, playing, replay_buffer, rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.networks import policies, q_network
from jaxenvs.baselines.off_policy import dqn, q_learning, r2d2
from jaxenvs.baselines.on_policy import ppo, ppo_rnn, pqn
from jaxenvs.baselines.ray import actors as ray_actors
from jaxenvs.baselines.ray import ppo as ray_ppo
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.storage.runs import Config, Run, load_policy
from jaxenvs.core.masking import NEVER
from jaxenvs.core.spaces import Discrete
from jaxenvs.render import pilots
from jaxenvs.render.session import Session

TSP = jaxenvs.make("Puzzle-TSP-20-v0")
KEY = jax.random.key(0)
SMALL = {"num_envs": 8, "rollout_steps": 24, "hidden": (8,), "embed": 0}


def of(algorithm, env, **settings):
    """Return a learner with small settings in the environment `env`."""
    replays = {"capacity": 320, "warm_up": 64, "gradient_steps": 2, "batch_size": 8}
    more = replays if algorithm in BY_REPLAY else {"minibatches": 2}
    return learner(env, algorithm, **(SMALL | more | settings))


NAMES = ("ppo", "ppo-rnn", "ppo-trxl", "pqn", "pqn-rnn", "dqn", "r2d2")
BY_REPLAY = {"dqn": q_learning.action_values, "r2d2": r2d2.action_values}
LEARNERS = [functools.partial(of, name) for name in NAMES]
of_ppo, of_ppo_rnn, of_ppo_trxl, of_pqn, of_pqn_rnn, of_dqn, of_r2d2 = LEARNERS
explore = functools.partial(pqn.choose, epsilon=jnp.float32(0.5))
CHOOSE = {
    "ppo": ppo.choose,
    "ppo-rnn": ppo.choose,
    "ppo-trxl": ppo.choose,
    "pqn": explore,
    "pqn-rnn": explore,
}


def by_default(*chosen):
    """Return all learners as pytest parameters; those not in `chosen` have the marker `full`."""
    full = pytest.mark.full
    return [make if make in chosen else pytest.param(make, marks=full) for make in LEARNERS]


@functools.cache
def collected(agent):
    """Return the runner (training state) of a new learner after one rollout, and the rollout."""
    runners, name = loop.start(agent, KEY[None]), agent.algorithm.name
    if name in BY_REPLAY:
        collect = functools.partial(q_learning.collect, agent, action_values=BY_REPLAY[name])
        made = jax.jit(jax.vmap(collect))(runners)
    else:
        act = functools.partial(rollouts.collect, agent, choose=CHOOSE[name])
        made = jax.jit(jax.vmap(act, axis_name=SEEDS))(runners, KEY[None])
    return jax.tree.map(lambda leaf: leaf[0], made)


def wasted(obs, action) -> float:
    """Return the fraction of actions that go to a city that `obs` shows as visited."""
    visited = np.asarray(obs)[..., 2] == 1
    return float(np.take_along_axis(visited, np.asarray(action)[..., None], axis=-1).mean())


@pytest.mark.parametrize("make", by_default(of_ppo))
def test_no_learner_takes_an_illegal_action(make):
    after, *_, rollout = collected(make(TSP))
    if make in (of_dqn, of_r2d2):
        is_step = np.asarray(after.replay_buffer.is_step)
        assert is_step.sum() == 8 * 24
        assert wasted(after.replay_buffer.obs[is_step], after.replay_buffer.action[is_step]) == 0.0
    else:
        assert wasted(rollout.obs, rollout.action) == 0.0
        # A tour has 19 steps, so each environment ends exactly one tour in its 24 steps.
        np.testing.assert_array_equal(rollout.terminated.sum(axis=0), 1)


@pytest.mark.full
@pytest.mark.parametrize("make", by_default(of_ppo))
def test_an_update_in_which_masks_count_stays_finite(make):
    agent = make(TSP)
    runners, metrics = loop.run_chunk(agent, loop.start(agent, KEY[None]))
    for leaf in jax.tree.leaves((runners.weights, metrics)):
        assert np.isfinite(leaf).all()
    # Legal actions are about equally probable, so the entropy of a step is the logarithm of the
    # number of legal actions. This number falls from 19 to 1 during a tour.
    if "entropy" in metrics:
        tour = np.log(np.arange(19, 0, -1))
        uniform = (tour.sum() + tour[:5].sum()) / 24
        np.testing.assert_allclose(metrics["entropy"], uniform, atol=0.02)


@pytest.mark.parametrize("make", [of_ppo, pytest.param(of_ppo_rnn, marks=pytest.mark.full)])
def test_no_gradient_reaches_the_logits_of_illegal_actions(make):
    """An illegal action's weights and bias in the last layer get no gradient."""
    agent = make(Gate(), rollout_steps=2)
    after, rollout = collected(agent)
    # The step at time 0, where action 0 is illegal.
    first = jax.tree.map(lambda leaf: leaf[:1, :1], rollout)
    if make is of_ppo_rnn:
        rows, unroll = minibatches.as_sequences(first), ppo_rnn.unroll
        rows = rows._replace(memory=jnp.zeros((1, 1, 8)))
    else:
        rows, unroll = minibatches.as_steps(first), ppo.unroll
    one = jnp.ones_like(rows.reward)

    def loss(weights):
        scale = (jnp.float32(0), jnp.float32(1))
        return ppo.loss(agent, weights, rows, one, one, *scale, unroll=unroll)[0]

    gradient = jax.jit(jax.grad(loss))(after.weights)["params"]
    layer = gradient["policy" if make is of_ppo_rnn else "Dense_1"]
    np.testing.assert_array_equal(np.asarray(layer["bias"]) == 0, [True, False, False])
    np.testing.assert_array_equal(layer["kernel"][:, 0], 0.0)


def test_v_trace_weighs_legal_probabilities():
    """If a rollout was collected with the current weights, V-trace's targets must equal PPO's."""
    agent = of_ppo(TSP)
    after, rollout = collected(agent)
    fresh, behind = (
        jax.jit(targets, static_argnums=0)(agent, after, rollout)[1:]
        for targets in (ppo.targets, ray_ppo.corrected)
    )
    for a, b in zip(fresh, behind, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def biased(weights, dense: str):
    """Return weights with which the network outputs 3, 2, 1 for every observation."""
    flat = jax.tree.map(jnp.zeros_like, weights)
    layer = flat["params"][dense]
    layer["bias"] = layer["bias"] + jnp.array([3.0, 2.0, 1.0])
    return flat


@pytest.mark.full
def test_pqn_bootstraps_with_the_best_legal_action_of_the_true_successor():
    """The network's weights make it output the values 3, 2, 1 for every observation.

    `Gate` forbids action 0 at even times, so the best legal value is 2 there, and 3 at odd times.
    The first episode is truncated at time 5, and the next one begins at time 0.
    """
    agent = of_pqn(Gate(), rollout_steps=7, num_envs=2)
    runners = loop.start(agent, KEY[None])
    runners = runners._replace(weights=biased(runners.weights, "Dense_1"))
    collect = functools.partial(rollouts.collect, agent, choose=CHOOSE["pqn"])
    collect = jax.jit(jax.vmap(collect, axis_name=SEEDS))
    after, rollout = jax.tree.map(lambda leaf: leaf[0], collect(runners, KEY[None]))
    np.testing.assert_array_equal(rollout.value[:, 0], [2, 3, 2, 3, 2, 2, 3])
    np.testing.assert_array_equal(rollout.truncation_value[:, 0], [0, 0, 0, 0, 3, 0, 0])
    gamma = agent.settings.gamma
    returns = jax.jit(rollouts.lambda_returns, static_argnums=0)
    # The last step is at time 1. The next time, 2, is even, so its best legal value is 2.
    last = returns(agent, after, rollout)[-1]
    np.testing.assert_allclose(last, 1.0 + gamma * 2.0, rtol=1e-6)


@pytest.mark.parametrize("double", [True, False])
def test_dqn_values_the_best_legal_action_of_the_true_successor(double):
    agent = of_dqn(Gate(), rollout_steps=7, num_envs=2, n_step=1, dueling=False)
    # Acting does not depend on `double`, so one rollout serves both settings of `double`.
    after, *_ = collected(agent)
    settings = dataclasses.replace(agent.settings, double=double)
    agent = dataclasses.replace(agent, settings=settings)
    weights = biased(jax.jit(agent.network.init)(KEY, jnp.ones(1)), "Dense_1")
    window = jax.jit(replay_buffer.window, static_argnums=(3, 4))
    # Leave out slot 5, which holds the final observation of the episode truncated in slot 4.
    first = jnp.array([0, 1, 3, 4, 6], jnp.int32)
    batch = window(after.replay_buffer, jnp.zeros(5, jnp.int32), first, 1, 0.5)
    np.testing.assert_array_equal(batch.next_obs[:, 0], [1, 2, 4, 5, 1])
    expected = 1.0 + 0.5 * np.array([3, 2, 2, 3, 3])
    worth = jax.jit(dqn.td_target, static_argnums=0)(agent, weights, weights, batch)
    np.testing.assert_allclose(worth, expected, rtol=1e-6)


def test_exploration_is_even_over_legal_actions():
    values = jnp.tile(jnp.array([9.0, 3.0, 1.0, 2.0]), (4000, 1))
    mask = jnp.tile(jnp.array([False, True, True, True]), (4000, 1))
    explore = jax.jit(q_network.explore)
    for epsilon in (0.0, 0.4, 1.0):
        actions = explore(KEY, values, jnp.float32(epsilon), mask)
        share = np.bincount(actions, minlength=4) / 4000
        expected = epsilon * np.array([0, 1, 1, 1]) / 3 + (1 - epsilon) * np.array([0, 1, 0, 0])
        np.testing.assert_allclose(share, expected, atol=0.03)
        assert share[0] == 0


def test_the_policy_of_values_spreads_its_chance_over_legal_actions():
    network = q_network.QNetwork.of(Gate(), (8,), 0)
    weights = biased(jax.jit(network.init)(KEY, jnp.ones(1)), "Dense_1")
    think = jax.jit(network.think)
    _, logits, value = think(weights, (), jnp.ones(1), jnp.array([False, True, True]))
    np.testing.assert_allclose(jax.nn.softmax(logits), [0, 0.99, 0.01], atol=1e-6)
    assert value == 2.0
    _, logits, value = think(weights, (), jnp.ones(1), None)
    np.testing.assert_allclose(jax.nn.softmax(logits), [0.9867, 0.0067, 0.0067], atol=1e-4)


class AllLegal(Endless):
    """Environment that overrides `action_mask`, but always allows all actions."""

    def action_mask(self, state, params=None):
        """Allow both actions."""
        return jnp.ones(2, jnp.bool_)


@pytest.mark.parametrize("make", by_default(of_ppo))
def test_masks_that_allow_everything_are_not_in_the_program(make):
    """The update for `AllLegal` is the same program as for an environment without a mask."""
    texts = []
    for env in (Endless(), AllLegal(), Gate()):
        # Trace the environment and cache its `state_shape` first, so that caching does not affect
        # the programs compared below.
        assert env.state_shape
        agent = make(env)
        runners = jax.eval_shape(functools.partial(loop.start, agent), KEY[None])
        update = jax.vmap(agent.update, axis_name=SEEDS)
        texts.append(str(jax.make_jaxpr(update)(runners)))
    assert texts[0] == texts[1]
    assert [str(NEVER) in text for text in texts] == [False, False, True]


# Tests of policies that are loaded from runs on tours of ten cities, with untrained weights.


@pytest.fixture(scope="module")
def tours(tmp_path_factory):
    """Return the policies of two runs, one of PPO and one of DQN."""
    dueling = functools.partial(q_network.QNetwork.of, dueling=True)
    kinds = (("ppo", ppo.Settings, policies.ActorCritic.of), ("dqn", dqn.Settings, dueling))
    found = []
    for algorithm, kind, build in kinds:
        settings = dataclasses.asdict(kind(hidden=(8,)))
        config = Config("Puzzle-TSP-10-v0", {}, 0, 1, settings, algorithm)
        run = Run.create(tmp_path_factory.mktemp("runs") / algorithm, config)
        network = build(config.env, (8,), settings["embed"])
        weights = jax.jit(network.init)(KEY, jnp.zeros((10, 4)))
        run.save(1, TREES | {"weights": jax.tree.map(lambda leaf: leaf[None], weights)})
        found.append(load_policy(run.path))
    return found


@pytest.mark.parametrize(
    ("greedy", "which"),
    [
        (False, 1),
        pytest.param(True, 0, marks=pytest.mark.full),
        pytest.param(True, 1, marks=pytest.mark.full),
        pytest.param(False, 0, marks=pytest.mark.full),
    ],
)
def test_a_loaded_policy_never_takes_an_illegal_action(tours, which, greedy):
    """A tour of ten cities has nine steps; an illegal action would make it longer."""
    policy = tours[which]

    def act(key, obs, state, memory):
        keys = jax.random.split(key, 16)
        memory, action = jax.vmap(functools.partial(policy.act, greedy=greedy))(keys, memory, state)
        return action, memory

    play = functools.partial(playing.first_episodes, policy.env, act)
    played = jax.jit(lambda key: play(key, 16, policy.begin()))(KEY)
    np.testing.assert_array_equal(played.lengths, 9)
    assert played.terminated.all()

    session = Session(policy.env, pilots.of_policy(policy, greedy), 4)
    for _ in range(9):
        assert not session.is_over()
        session.forward()
    assert all(session.is_over(board) for board in range(4))


def test_a_policy_refuses_to_go_without_a_mask_where_there_is_one(tours):
    policy = tours[0]
    obs, state = jax.jit(policy.env.reset)(KEY)
    words = r"Puzzle-TSP-10-v0 forbids some actions in some states: give mask=env.action_mask"
    for forgetful in (policy.apply, functools.partial(policy.think, ())):
        with pytest.raises(TypeError, match=words):
            forgetful(obs)
    mask = policy.env.action_mask(state)
    logits, value = jax.jit(policy.apply)(obs, mask)
    np.testing.assert_array_equal(logits == NEVER, ~mask)
    assert value.shape == ()
    free = policies.ActorCritic.of(Clock(), (8,), 0)
    weights = jax.jit(free.init)(KEY, jnp.ones(1))
    assert (Policy.of(Clock(), free, weights).apply(jnp.ones(1))[0] > NEVER).all()


# Tests of actors under Ray.


@pytest.mark.full
def test_actors_of_our_environments_take_legal_actions():
    network = policies.ActorCritic.of(TSP, (8,), 0)
    sampling = ray_actors.Sampling(network, num_envs=4, steps=20, reset_source=None)
    sampler = ray_actors.JaxSampler("Puzzle-TSP-20-v0", {}, sampling, seed=0)
    weights = jax.jit(network.init)(KEY, jnp.zeros((20, 4)))
    rollout, _ = sampler.collect(jax.tree.map(lambda leaf: np.asarray(leaf)[None], weights))
    assert rollout["mask"].shape == (20, 4, 20)
    assert wasted(rollout["obs"], rollout["action"]) == 0.0


def test_actors_of_gymnasium_take_the_mask_of_the_info():
    """The environment gives the mask in `info`, and raises an error at an illegal action."""
    id, parts = "gym:tiny_gym:Fussy-v0", ("observation_space", "action_space")
    from jaxenvs.baselines.ray import gym_envs

    space, actions = (getattr(gym_envs.look(id, {}), part) for part in parts)
    assert isinstance(actions, Discrete)
    network = policies.ActorCritic(space, actions.n, (8,), 0)
    sampler = ray_actors.GymSampler(id, {}, ray_actors.Sampling(network, 3, 20, None), seed=0)
    weights = jax.jit(network.init)(KEY, jnp.zeros(2))
    weights = jax.tree.map(lambda leaf: np.asarray(leaf)[None], weights)
    rollout, _ = sampler.collect(weights)
    assert rollout["mask"].shape == (20, 3, 2) and rollout["mask"].dtype == np.bool_
    assert np.take_along_axis(rollout["mask"], rollout["action"][..., None], axis=-1).all()
    # The log-probability is 0, because only one of the two actions is legal.
    np.testing.assert_array_equal(rollout["log_prob"], 0.0)
    np.testing.assert_array_equal(sampler.play(weights, 2, seed=1)[0], 8.0)
    with pytest.raises(ValueError, match=r"gives info\['action_mask'\] in some resets and steps"):
        moody = ray_actors.Sampling(network, 3, 20, None)
        ray_actors.GymSampler("gym:tiny_gym:Moody-v0", {}, moody, seed=0).collect(weights)
