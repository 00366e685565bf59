"""Tests of Ape-X: n-step items, prioritised sampling from shards, updates.

A shard is one of several replay buffers. In training, each shard runs in its own Ray process; here,
all run in one process.
"""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from tiny import Clock, TimedCountdown

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.ray import apex, gym_envs
from jaxenvs.baselines.ray.actors import Sampling
from jaxenvs.baselines.ray.explorers import Exploration, Explorer
from jaxenvs.baselines.ray.replayed import ReplayLearner
from jaxenvs.baselines.ray.replays import Drawn, Replay, importance, shares
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run.train import main

pytestmark = pytest.mark.full

GROUP = "apex"
N_STEP, GAMMA, ENVS, STEPS = 3, 0.9, 4, 8
ROW = ALGORITHMS["apex"]


def items(errors, first=0.0):
    """Return a replay item for each TD error in `errors`; item i observes `first` + i."""
    count = len(errors)
    seen = np.arange(first, first + count, dtype=np.float32)[:, None]
    return {
        "obs": {"seen": seen},
        "action": np.zeros(count, np.int32),
        "reward": seen[:, 0],
        "discount": np.ones(count, np.float32),
        "next_obs": {"seen": seen + 1},
        "next_mask": None,
        "error": np.float32(errors),
    }


@pytest.mark.parametrize("priority", [0.0, 0.6, 1.0])
def test_a_shard_samples_by_priority(priority):
    """Compare 40,000 draws among 50 items with their priorities by a chi-square test."""
    errors = np.random.default_rng(0).normal(size=50) ** 3
    shard = Replay(64, priority, seed=1)
    shard.add(items(errors))
    drawn = shard.sample(40, 1000)
    chance = (np.abs(np.float32(errors)) + 1e-6) ** priority
    chance /= chance.sum()
    seen = drawn.items["obs"]["seen"][..., 0].astype(int)
    np.testing.assert_allclose(drawn.chance, chance[seen], rtol=1e-5)
    expected, count = chance * seen.size, np.bincount(seen.ravel(), minlength=50)
    often = expected > 5
    statistic = (((count - expected) ** 2 / expected)[often]).sum()
    degrees = often.sum() - 1
    assert statistic < degrees + 4 * np.sqrt(2 * degrees)
    assert drawn.held == 50 and drawn.items["next_mask"] is None


def test_late_errors_do_not_change_overwritten_items():
    shard = Replay(8, 1.0, seed=0)
    shard.add(items(np.ones(6)))
    shard.sample(1, 64)
    shard.add(items(np.ones(5), first=6))  # overwrites items 0, 1 and 2
    shard.mark([np.full((1, 64), 9, np.float32)], 0)
    drawn = shard.sample(1, 8000)
    seen = drawn.items["obs"]["seen"][0, :, 0]
    assert seen.min() == 3 and seen.max() == 10 and drawn.held == 8
    # The late errors give items 3, 4 and 5 the error 9. The five newer items have the error 1. So
    # items 3 to 5 are sampled with probability 3 * 9 / (3 * 9 + 5 * 1) = 27 / 32.
    np.testing.assert_allclose((seen < 6).mean(), 27 / 32, atol=0.02)


def test_a_full_shard_keeps_the_latest_items():
    shard = Replay(4, 1.0, seed=0)
    shard.add(items(np.ones(11)))
    seen = shard.sample(1, 500).items["obs"]["seen"]
    assert set(seen.ravel()) == {7.0, 8.0, 9.0, 10.0}


def test_a_batch_is_divided_in_proportion_to_items():
    assert dict(shares(128, [300, 100])) == {0: 96, 1: 32}
    assert dict(shares(7, [0, 5, 0, 5])) == {1: 3, 3: 4}
    assert sum(share for _, share in shares(100, [1, 1, 1])) == 100


def test_importance_weights_correct_for_sampling_probabilities():
    """Sample from two shards: the importance-weighted mean equals the mean of all items."""
    draw, parts, values = np.random.default_rng(0), [], []
    for shard, (_, share) in enumerate(shares(20_000, [300, 100])):
        count = (300, 100)[shard]
        held = Replay(512, 0.7, seed=shard)
        values.append(draw.normal(shard, 1.0, count).astype(np.float32))
        held.add(items(draw.exponential(size=count)) | {"reward": values[-1]})
        parts.append(held.sample(1, share))
    weight = importance(parts, 1.0)
    assert weight.max() == 1.0 and weight.shape == (1, 20_000)
    reward = np.concatenate([part.items["reward"] for part in parts], axis=1)
    found = (weight * reward).sum() / weight.sum()
    assert abs(found - np.concatenate(values).mean()) < 0.05
    chance = np.concatenate([part.chance * part.chance.shape[1] / 20_000 for part in parts], 1)
    half = (400 * chance) ** -0.5
    np.testing.assert_allclose(importance(parts, 0.5), half / half.max(), rtol=1e-4)
    np.testing.assert_array_equal(importance(parts, 0.0), np.ones((1, 20_000)))


def exploration(env, **settings):
    """Return a learner, the settings of its Ray actors, and its training state for one seed."""
    given = apex.Settings(num_envs=ENVS, rollout_steps=STEPS, actors=1, hidden=(8,), embed=2)
    given = dataclasses.replace(given, n_step=N_STEP, gamma=GAMMA, **settings)
    learner = Learner(ROW, env, registry.network(ROW, env, vars(given)), given)
    runners = jax.device_get(jax.jit(jax.vmap(learner.init))(jax.random.key(0)[None]))
    exploring = Exploration(Sampling.of(learner), N_STEP, GAMMA, given.epsilons(0))
    return learner, exploring, runners


@pytest.fixture(autouse=True)
def unchanged_variables(monkeypatch):
    """Keep an Ape-X actor in this process from changing environment variables."""
    monkeypatch.setattr("jaxenvs.baselines.ray.explorers.use_one_thread", lambda: None)


class Watched(Explorer):
    """Ape-X actor that keeps the records of its steps, so that a test can read them."""

    def __init__(self, *given):
        super().__init__(*given)
        self.records, collect = [], self._envs.collect
        self._envs.collect = lambda weights: (
            self.records.append(collect(weights)) or {**self.records[-1]}
        )


@pytest.fixture(autouse=True)
def tiny_ids(monkeypatch):
    """Register `TimedCountdown`, which also terminates, and `Clock`, which only truncates."""
    make, tiny = jaxenvs.make, {"Countdown-v0": TimedCountdown(), "Clock-v0": Clock()}
    monkeypatch.setattr(jaxenvs, "make", lambda id, **fields: tiny.get(id) or make(id, **fields))


def known(id):
    """Return an environment, and the keyword arguments with which an actor makes it.

    For an id of Gymnasium, the first item has only the name and the spaces of the environment.
    """
    if not id.startswith("gym:"):
        return jaxenvs.make(id), {}
    return gym_envs.look(id, {}), {"length": 5, "cut": True}


def plain(record, first, env):
    """Return the n-step reward, discount and last step of the item that begins at step `first`.

    This slow reference loops over the steps of environment `env` in `record`.
    """
    reward, discount, last = 0.0, 1.0, first
    for last in range(first, first + N_STEP):
        reward += discount * record["reward"][last, env]
        discount *= GAMMA * (not record["terminated"][last, env])
        if record["terminated"][last, env] or record["truncated"][last, env]:
            break
    return reward, discount, last


@pytest.mark.parametrize(
    ("id", "ends"),
    [
        ("Countdown-v0", 1),
        pytest.param("Puzzle-SlidingTile-3x3-v0", 0, marks=pytest.mark.full),
        ("gym:tiny_gym:Fussy-v0", 1),
    ],
)
def test_items_equal_a_plain_loop(id, ends):
    """Compare n-step rewards, discounts, next observations, masks and TD errors.

    The items come from three consecutive rollouts of an actor.
    """
    env, fields = known(id)
    learner, exploring, runners = exploration(env)
    actor = Watched(id, fields, exploring, 3)
    made = [actor.sample(runners.weights, (1, 0)) for _ in range(3)]
    counts = [about["items"] for about, _ in made]
    assert counts == [ENVS * (STEPS - N_STEP + 1), ENVS * STEPS, ENVS * STEPS]
    record = jax.tree.map(lambda *leaves: np.concatenate(leaves), *actor.records)
    found = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(part for _, part in made))
    done = record["terminated"] | record["truncated"]
    sums = jax.tree.map(lambda *parts: sum(parts)[0], *(about["sums"] for about, _ in made))
    assert done.sum() == sums["episodes"] >= ends
    np.testing.assert_allclose(sums["return_sum"], record["returns"][done].sum(), rtol=1e-6)
    if id == "Countdown-v0":
        before = sum(about["measured"]["before_sum"] for about, _ in made)
        np.testing.assert_array_equal(before, sums["length_sum"] - sums["episodes"])
    starts = itertools.product(range(3 * STEPS - N_STEP + 1), range(ENVS))
    lasts = []
    for at, (first, row) in enumerate(starts):
        reward, discount, last = plain(record, first, row)
        np.testing.assert_allclose(found["reward"][at], reward, rtol=1e-5)
        np.testing.assert_allclose(found["discount"][at], discount, rtol=1e-5)
        lasts.append((first, last, row))
    firsts, lasts, rows = np.array(lasts).T
    assert len(rows) == len(found["error"])
    for name, of, at in (
        ("obs", "obs", firsts),
        ("action", "action", firsts),
        ("next_obs", "final_obs", lasts),
        ("next_mask", "final_mask", lasts),
    ):
        expected = jax.tree.map(lambda leaf, at=at: leaf[at, rows], record[of])
        jax.tree.map(np.testing.assert_array_equal, found[name], expected)
    np.testing.assert_allclose(found["error"], errors(learner, runners, found), 1e-4, 1e-5)


def errors(learner, runners, found):
    """Return the TD error of each item in `found`, with the online network as target network."""
    values = jax.jit(jax.vmap(learner.network.apply, in_axes=(None, 0)))
    one = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    after = np.array(values(one, found["next_obs"]))
    if found["next_mask"] is not None:
        assert not found["next_mask"].all()
        after = np.where(found["next_mask"], after, -1e9)
    now = np.array(values(one, found["obs"]))[np.arange(len(after)), found["action"]]
    return found["reward"] + found["discount"] * after.max(axis=-1) - now


def test_a_truncation_is_bootstrapped_from_its_true_successor():
    _learner, exploring, runners = exploration(Clock())
    _, found = Explorer("Clock-v0", {}, exploring, 0).sample(runners.weights, (1, 0))
    assert (found["discount"] > 0).all()
    # An episode of Clock is truncated at time 5. An item that begins at time t, which Clock
    # observes, therefore has at most 5 - t steps.
    length = np.minimum(5 - found["obs"][:, 0], N_STEP)
    np.testing.assert_array_equal(found["next_obs"][:, 0], found["obs"][:, 0] + length)
    np.testing.assert_allclose(found["discount"], GAMMA**length, rtol=1e-6)


def test_epsilons_fall_over_the_environments_of_all_actors():
    settings = apex.Settings(num_envs=8, actors=2)
    found = [*settings.epsilons(0), *settings.epsilons(1)]
    expected = [0.4 ** (1 + 7 * i / 7) for i in range(8)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert apex.Settings(num_envs=1, actors=1).epsilons(0) == (pytest.approx(0.4),)


def test_each_environment_has_its_epsilon():
    """Environments with epsilon 1 act randomly, those with epsilon 0 greedily."""
    env = Clock()
    learner, exploring, runners = exploration(env, rollout_steps=64)
    exploring = exploring._replace(
        sampling=exploring.sampling._replace(steps=64), epsilon=(1.0, 1.0, 0.0, 0.0)
    )
    actor = Watched("Clock-v0", {}, exploring, 0)
    actor.sample(runners.weights, (1, 0))
    record = actor.records[0]
    one = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    best = np.array(
        jax.vmap(jax.vmap(learner.network.apply, in_axes=(None, 0)), in_axes=(None, 0))(
            one, record["obs"]
        )
    ).argmax(axis=-1)
    agrees = (best == record["action"]).mean(axis=0)
    assert (agrees[2:] == 1).all() and (agrees[:2] < 0.8).all()


def test_an_update_learns_from_shares_and_returns_their_errors():
    """A batch gives the same update, whether it was drawn from one shard or from two."""
    env = Clock()
    learner, _, runners = exploration(env, gradient_steps=2, batch_size=6)
    draw = np.random.default_rng(0)
    shape = (2, 6)
    obs = draw.uniform(0, 5, (*shape, 1)).astype(np.float32)
    whole = {
        "obs": obs,
        "action": draw.integers(0, 2, shape).astype(np.int32),
        "reward": draw.normal(size=shape).astype(np.float32),
        "discount": np.full(shape, 0.5, np.float32),
        "next_obs": obs + 1,
        "next_mask": None,
    }
    chance = np.full(shape, 1 / 6, np.float32)
    cut = [
        jax.tree.map(lambda leaf, part=part: leaf[:, part], whole)
        for part in (
            slice(0, 4),
            slice(4, 6),
        )
    ]
    parts = [Drawn(cut[0], chance[:, :4] * 6 / 4, 4), Drawn(cut[1], chance[:, 4:] * 6 / 2, 2)]
    results = []
    for drawn in ([Drawn(whole, chance, 6)], parts):
        process = ReplayLearner(learner, True, runners)
        results.append(process.update(0.5, *drawn))
    (metrics, weights, (found,)), (metrics_of_two, weights_of_two, two) = results
    np.testing.assert_allclose(found, np.concatenate(two, axis=1), rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), weights, weights_of_two)
    np.testing.assert_allclose(metrics["q_loss"], metrics_of_two["q_loss"], rtol=1e-5)
    # The first gradient step's errors come from the initial weights and target network.
    first = jax.tree.map(lambda leaf: leaf[0], whole)
    np.testing.assert_allclose(found[0], errors(learner, runners, first), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--actors", "3"], "num_envs=64 does not divide evenly among 3 actors; try --num-envs 63"),
        (["--replays", "0"], "replays=0 must be at least 1"),
        (["--chunk", "2"], "chunk=2: here each update is a call"),
        (["--warm-up", "300000"], "capacity=200000 never holds warm_up=300000 steps"),
        (["--priority", "1.5"], "priority=1.5 must be at most 1"),
        (["--seeds", "2"], "do not go with --ray"),
        (["--capacity", "1000000000000"], "bytes, and this machine has"),
        (["--learners", "2"], "unrecognized"),
    ],
)
def test_flags_that_cannot_work_get_a_sentence(tmp_path, monkeypatch, capsys, argv, words):
    monkeypatch.chdir(tmp_path)
    assert main(["gym:tiny_gym:Signal-v0", "--ray", "--algo", "apex", *argv]) == 2
    assert words.lower() in capsys.readouterr().err.lower()
    assert not list(tmp_path.iterdir())  # no run has been started
