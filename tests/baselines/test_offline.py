"""Tests of behaviour cloning, implicit Q-learning and DAgger."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from test_ppo_rnn import Cue

import jaxenvs
from jaxenvs import demos, levels
from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.evaluation import command as evaluation
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.offline import bc, dagger, data, iql
from jaxenvs.baselines.registry import ALGORITHMS, build
from jaxenvs.baselines.run import demos as recording
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs
from jaxenvs.demos import layout

pytestmark = pytest.mark.full

pytest.importorskip("h5py")
ID = "Grid-Empty-5x5-v0"
TINY = ["--hidden", "8", "--embed", "2", "--eval-episodes", "4", "--checkpoint-every", "2"]


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make(ID)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, env):
    """Write a dataset of eight episodes with random contents; return the folder of the dataset."""
    path = tmp_path_factory.mktemp("datasets")
    writer = demos.Writer("some-v0", env, ID, {}, path)
    rng = np.random.default_rng(0)
    for length in (3, 40, 1, 9, 30, 5, 2, 64):
        over = np.arange(length) == length - 1
        episode = demos.Episode(
            obs=rng.integers(0, 2, (length + 1, 7, 7, 3), np.uint8),
            action=rng.integers(0, 7, length, np.int32),
            reward=rng.normal(size=length).astype(np.float32),
            terminated=over & (length % 2 == 0),
            truncated=over & (length % 2 == 1),
        )
        writer.add(episode)
    writer.finish()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(layout.ROOT, str(path))
        yield path


@pytest.fixture(scope="module")
def some(folder, env):
    return demos.load("some-v0", env)


def learner(env, algorithm, **given) -> Learner:
    kind = ALGORITHMS[algorithm].load().Settings
    usual = {"demos": "some-v0", "hidden": (8,), "embed": 2, "batch_size": 128}
    return build(algorithm, env, kind(**{**usual, "gradient_steps": 2, **given}))


def random_weights(network, obs, seed=0):
    """Return initial weights plus Gaussian noise, because some initial weights are nearly 0."""
    weights = network.init(jax.random.key(seed), jnp.asarray(obs))
    leaves, tree = jax.tree.flatten(weights)
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(
        tree, [leaf + rng.normal(0, 0.3, leaf.shape).astype(leaf.dtype) for leaf in leaves]
    )


def cross_entropy(network, weights, episodes):
    """Return the cross-entropy and the accuracy of a network's actions, averaged over all steps.

    The network runs step by step from each episode's start; the loss is computed in float64.
    """
    think = jax.jit(lambda memory, obs: network.think(weights, memory, obs, None))
    found, right = [], []
    for episode in episodes:
        memory = network.begin()
        for obs, action in zip(episode.obs[:-1], episode.action, strict=True):
            memory, logits, _ = think(memory, jnp.asarray(obs))
            logits = np.asarray(logits, np.float64)
            found.append(np.log(np.exp(logits).sum()) - logits[action])
            right.append(logits.argmax() == action)
    return np.mean(found), np.mean(right)


@pytest.mark.parametrize("memory", [0, 4])
def test_the_loss_is_the_mean_cross_entropy_of_whole_episodes(memory, some, env):
    """Compare with a loop over single episodes: packing and padding must not change the loss."""
    agent = learner(env, "bc", memory=memory)
    weights = random_weights(agent.network, some.obs[0])
    chosen = np.array([3, 0, 1, 5, 4])
    rows = (data.packed if memory else data.single)(some, chosen)
    width = 64 if memory else 1
    assert rows.action.shape == ((2, width) if memory else (87, width))
    assert rows.weight.sum() == some.lengths[chosen].sum()
    loss, parts = jax.jit(bc.loss, static_argnums=0)(
        agent, weights, jax.tree.map(jnp.asarray, rows)
    )
    wanted = cross_entropy(agent.network, weights, map(some.episode, chosen.tolist()))
    np.testing.assert_allclose([loss, parts["accuracy"]], wanted, rtol=1e-5)


def test_held_out_episodes_are_not_trained_on(some, env):
    """Each episode is either in the training part or in the held-out part, with all its steps."""
    parts = data.split("some-v0", env, 0.25, False)
    assert len(parts.held_out.action) + len(parts.train.action) == some.steps
    both = [
        {(obs.tobytes(), int(a)) for obs, a in zip(rows.obs[:, 0], rows.action[:, 0], strict=True)}
        for rows in parts
    ]
    assert both[0].isdisjoint(both[1])
    assert parts.held_out.done.sum() == 2 and parts.train.done.sum() == 6


def test_the_best_weights_are_kept_and_training_ends(some, env):
    """With a huge learning rate the held-out loss rises, so that training ends early."""
    agent = learner(env, "bc", memory=0, held_out=0.25, patience=2, learning_rate=0.3)
    given = loop.placed_params(agent)
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 2), given)
    history, kept = [], None
    for _ in range(12):
        runners, metrics = loop.run_chunk(agent, runners, given)
        history.append({name: np.asarray(value)[:, 0] for name, value in metrics.items()})
        if history[-1]["stopped"].all() and kept is None:
            kept = jax.device_get(runners)
    assert kept is not None
    for old, new in zip(jax.tree.leaves(kept), jax.tree.leaves(runners), strict=True):
        np.testing.assert_array_equal(old, new)  # nothing changes once training has ended
    losses = np.array([each["held_out_loss"] for each in history])
    np.testing.assert_allclose(np.nanmin(losses, axis=0), runners.best, rtol=1e-6)
    assert bc.finished({"stopped": [1.0, 1.0]}) and not bc.finished({"stopped": [1.0, 0.0]})
    for seed in range(2):
        weights = jax.tree.map(lambda leaf, i=seed: leaf[i], runners.weights)
        _, parts = jax.jit(bc.loss, static_argnums=0)(agent, weights, given.held_out)
        np.testing.assert_allclose(parts["loss"], runners.best[seed], rtol=1e-5)


def test_losses_of_implicit_q_learning_equal_a_slow_reference(some, env):
    agent = learner(env, "iql", gamma=0.9, expectile=0.8, temperature=2.0, largest_weight=1.5)
    given = iql.params(agent)
    # Some of these steps are terminal, and some are truncated.
    index = np.array([0, 2, 41, 43, 44, 120, 153])
    batch = iql.sampled(jax.tree.map(jnp.asarray, given), jnp.asarray(index))
    policy = random_weights(agent.network, some.obs[0])
    critics, target = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *two)
        for two in (
            [random_weights(iql.critic(agent), some.obs[0], seed) for seed in seeds]
            for seeds in ((1, 2), (3, 4))
        )
    )
    weights = {"policy": policy, "critic": critics}
    total, parts = jax.jit(iql.loss, static_argnums=0)(agent, weights, target, batch)

    def values(stacked, which, obs):
        one = jax.tree.map(lambda leaf: leaf[which], stacked)
        return np.asarray(iql.critic(agent).apply(one, jnp.asarray(obs)), np.float64)

    value_loss, q_loss, policy_loss = [], [], []
    for step in index:
        episode = int(np.searchsorted(some.starts, step, side="right")) - 1
        at = step - int(some.starts[episode])
        one = some.episode(episode)
        action = int(one.action[at])
        logits, value = agent.network.apply(policy, jnp.asarray(one.obs[at]))
        _, after = agent.network.apply(policy, jnp.asarray(one.obs[at + 1]))
        least = min(values(target, i, one.obs[at])[action] for i in range(2))
        error = least - float(value)
        value_loss.append((0.8 if error > 0 else 0.2) * error**2)
        goal = one.reward[at] + (0.0 if one.terminated[at] else 0.9 * float(after))
        q_loss.append(sum((values(critics, i, one.obs[at])[action] - goal) ** 2 for i in range(2)))
        logits = np.asarray(logits, np.float64)
        weight = min(np.exp(2.0 * error), 1.5)
        policy_loss.append(-weight * (logits[action] - np.log(np.exp(logits).sum())))
    wanted = {
        "value_loss": np.mean(value_loss),
        "q_loss": np.mean(q_loss),
        "policy_loss": np.mean(policy_loss),
    }
    for name, number in wanted.items():
        np.testing.assert_allclose(parts[name], number, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(total, sum(wanted.values()), rtol=1e-4)


def test_muon_orthogonalises_each_critic_and_the_policy_separately():
    """The critics' weights are stacked, the policy's are not; Adam updates all biases."""
    settings = iql.Settings(demos="x", optimiser="muon", max_grad_norm=1e9)
    rng = np.random.default_rng(0)
    shapes = {"kernel": (5, 3), "bias": (3,)}
    one = lambda *more: {k: np.float32(rng.normal(size=(*more, *v))) for k, v in shapes.items()}  # noqa: E731
    weights = {"policy": one(), "critic": one(2)}

    def moved(chain, tree):
        return jax.jit(lambda t: minibatches.apply_gradient(chain, t, chain.init(t), t)[0])(tree)

    both = moved(minibatches.optimiser(settings, stacked="critic"), weights)
    critics = [jax.tree.map(lambda leaf, i=i: leaf[i], weights["critic"]) for i in range(2)]
    found = [jax.tree.map(lambda leaf, i=i: leaf[i], both["critic"]) for i in range(2)]
    for alone, after in zip([weights["policy"], *critics], [both["policy"], *found], strict=True):
        wanted = moved(minibatches.optimiser(settings), alone)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7), after, wanted
        )


def test_gradients_of_implicit_q_learning_stay_in_their_networks(some, env):
    """Each loss trains only its own networks: the value, the critics or the actor."""
    agent = learner(env, "iql")
    given = jax.tree.map(jnp.asarray, iql.params(agent))
    batch = iql.sampled(given, jnp.arange(20))
    runner = iql.init(agent, jax.random.key(0), given)
    weights = {"policy": runner.weights, "critic": runner.critic}

    def trained(name):
        gradient = jax.jit(jax.grad(lambda w: iql.loss(agent, w, runner.target, batch)[1][name]))(
            weights
        )
        inside = gradient["policy"]["params"]
        groups = {"actor": inside["actor"], "value": inside["critic"], "q": gradient["critic"]}
        return {
            k for k, tree in groups.items() if any(leaf.any() for leaf in jax.tree.leaves(tree))
        }

    assert [trained(name) for name in iql.LOSSES] == [{"value"}, {"q"}, {"actor"}]


@pytest.mark.parametrize(("error", "wanted"), [([1.0, -1.0], [0.7, 0.3]), ([2.0, 0.0], [2.8, 0.0])])
def test_the_expectile_loss_weighs_positive_errors_more(error, wanted):
    found = iql.expectile_loss(jnp.float32(error), 0.7)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_dagger_stores_labels_of_visited_states(monkeypatch):
    """DAgger's dataset is a ring buffer of rollouts; steps without an oracle's label have no loss.

    The label of a step is the oracle's action in the visited state, or -1 if it is unknown.
    """

    def first_actions(env, state, node_budget):
        return (state.time % 2).astype(jnp.int32), state.time != 3

    monkeypatch.setattr(levels, "check_first_actions", lambda env: first_actions)
    monkeypatch.setattr(levels, "first_actions", first_actions)
    small = {"num_envs": 4, "rollout_steps": 6, "capacity": 48, "gradient_steps": 2}
    agent = tiny.learner(Cue(), "dagger", batch_size=8, memory=4, mixture=0.0, **small)
    runners = loop.start(agent, jax.random.key(0)[None])
    sets = []
    for _ in range(3):
        before = jax.device_get(runners)
        runners, metrics = loop.run_chunk(agent, runners)
        sets.append(jax.device_get(jax.tree.map(lambda leaf: leaf[0], runners.replay_buffer)))
        assert np.isfinite(metrics["loss"]).all()
        slot = (len(sets) - 1) % 2
        np.testing.assert_array_equal(sets[-1].memory[:, slot], before.memory[0])
    labels = sets[0].label[:, 0]
    assert set(np.unique(labels)) <= {-1, 0, 1} and (sets[0].label[:, 1] == -1).all()
    np.testing.assert_array_equal(sets[2].label[:, 1], sets[1].label[:, 1])
    # Steps with an unknown label do not count in the loss.
    part = jax.tree.map(lambda leaf: jnp.asarray(leaf[:, 0]), sets[2])
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    loss = jax.jit(dagger.loss, static_argnums=0)
    whole = loss(agent, weights, part)[0]
    known = part.label != -1
    logits = bc.unroll(
        agent, weights, data.Rows(part.obs, part.label, part.done, known, part.memory)
    )
    entropy = -jax.nn.log_softmax(logits)[known, part.label[known]].mean()
    np.testing.assert_allclose(whole, entropy, rtol=1e-5)


def test_the_share_of_oracle_actions_falls_to_0():
    settings = dagger.Settings(total_steps=10_240, mixture=0.8, mixture_share=0.5)
    found = [float(dagger.probability(settings, jnp.int32(u))) for u in (0, 1, 5, 9)]
    np.testing.assert_allclose(found, [0.8, 0.64, 0.0, 0.0], atol=1e-6)


def records_of(path):
    return runs.Run.open(path).records()


def resumes(tmp_path, flags, update):
    """Check that a run resumed after `update` equals a run without interruption, bit by bit."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train.main([*flags, "--out", str(whole)]) == 0
    shutil.copytree(whole, parts)
    kept = sorted((parts / "checkpoints").iterdir())
    assert int(kept[0].name) == update
    shutil.rmtree(kept[-1])
    assert train.main(["--resume", str(parts)]) == 0
    for a, b in zip(records_of(whole), records_of(parts), strict=True):
        assert {n for n in a if a[n] != b[n]} <= {"seconds", "steps_per_second"}
    assert (whole / "eval.json").read_text() == (parts / "eval.json").read_text()
    return whole


def test_bc_reaches_the_success_of_the_oracle(tmp_path, monkeypatch, capsys):
    """Record episodes of the oracle, an optimal solver, with `jaxenvs demos`; train on them."""
    monkeypatch.setenv(layout.ROOT, str(tmp_path))
    assert recording.main([ID, "--episodes", "70", "--out", "oracle-v0"]) == 0
    assert "wrote 70 episodes, 350 steps" in capsys.readouterr().out
    found = demos.load("oracle-v0", jaxenvs.make(ID))
    assert (found.infos["optimal_steps"].reshape(70, 6) == np.arange(5, -1, -1)).all()
    assert found.metadata["ref_max_score"] == pytest.approx(1 - 0.9 * 5 / 100)
    assert 0 <= found.metadata["ref_min_score"] < 0.9
    again = found.options[0]["level"]
    level = jaxenvs.make(ID).read_level(again)
    obs, _ = jaxenvs.make(ID).reset_to(jax.random.key(0), level)
    np.testing.assert_array_equal(obs, found.obs[0])

    flags = [ID, "--algo", "bc", "--demos", "oracle-v0", "--hidden", "32", "--memory", "0"]
    flags += ["--total-steps", "32000", "--eval-episodes", "16", "--checkpoint-every", "2"]
    flags += ["--gradient-steps", "100", "--batch-size", "80", "--learning-rate", "1e-2"]
    whole = tmp_path / "whole"
    assert train.main([*flags, "--out", str(whole)]) == 0
    result = json.loads((whole / "eval.json").read_text())
    assert result["success_rate"] == 1.0 and result["mean_length"] < 6
    policy = runs.load_policy(whole)
    assert np.isnan(policy.apply(jnp.asarray(found.obs[0]))[1])


@pytest.mark.parametrize(
    "flags",
    [
        "--algo bc --memory 4 --demos some-v0 --total-steps 1024 --gradient-steps 2 --held-out 0",
        "--algo iql --demos some-v0 --total-steps 1024 --gradient-steps 1 --seeds 2",
        "--algo dagger --num-envs 4 --rollout-steps 8 --total-steps 128 --memory 4 --capacity 64 "
        "--node-budget 4096",
    ],
)
def test_a_resumed_run_is_bit_identical(flags, folder, tmp_path):
    whole = resumes(tmp_path, [ID, *TINY, *flags.split()], 2)
    policy = runs.load_policy(whole)
    _, logits, _ = policy.think(policy.begin(), jnp.zeros((7, 7, 3), jnp.uint8))
    assert logits.shape == (7,)
    assert evaluation.main([str(whole), "--episodes", "4", "--greedy"]) == 0
    assert export.main([str(whole)]) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--algo", "bc"], "name a dataset"),
        (["--algo", "bc", "--demos", "none-v0"], "there is no dataset none-v0"),
        (["--algo", "iql", "--demos", "some-v0", "--set", "view_size=5"], "the shape"),
        (["--algo", "bc", "--demos", "some-v0", "--held-out", "0.01"], "leaves none"),
        (["--algo", "bc", "--demos", "some-v0", "--held-out", "1"], "leaves no episode"),
        (["--algo", "bc", "--demos", "some-v0", "--weight-decay", "1"], "optimiser=adamw"),
        (["--algo", "dagger", "--capacity", "10"], "capacity=10 is less"),
    ],
)
def test_mistakes_get_a_sentence(flags, words, folder, tmp_path, capsys, as_a_user):
    out = str(tmp_path / "run")
    assert train.main([ID, *flags, "--out", out]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_dagger_needs_an_oracle(tmp_path, capsys, as_a_user):
    flags = ["--algo", "dagger", "--out", str(tmp_path / "run")]
    assert train.main(["Classic-CartPole-v0", *flags]) == 2
    assert "has no oracle" in capsys.readouterr().err
    assert train.main(["Grid-Dynamic-Obstacles-5x5-v0", *flags]) == 2
    assert "move at random" in capsys.readouterr().err
