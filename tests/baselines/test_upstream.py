"""Tests of `jaxenvs eval` in jaxenvs, and in the packages whose games jaxenvs reproduces."""

import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.evaluation import command, upstream
from jaxenvs.baselines.run.train import main
from jaxenvs.core.extras import MissingExtraError

pytestmark = pytest.mark.full

GROUP = "tiny_runs"  # tests of this group share a worker, which compiles the run's program once


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a tiny run of two seeds, as a string."""
    out = tmp_path_factory.mktemp("upstream") / "run"
    arguments = [*FLAGS, "--total-steps", "256", "--out", str(out)]
    assert main(["Grid-Empty-Random-5x5-v0", *arguments]) == 0
    return str(out)


def uniform(id: str, **fields) -> Policy:
    """Return a policy with uniform probabilities of legal actions; its memory counts the steps."""
    env = jaxenvs.make(id, **fields)

    def predict(memory, obs, mask):
        logits = jnp.zeros(env.action_space.n) if mask is None else jnp.where(mask, 0.0, -1e9)
        return memory + 1, logits, jnp.float32(0)

    return Policy(env, lambda: jnp.int32(0), predict, id)


@pytest.mark.full
def test_the_regret_of_each_seed_is_printed_and_written(run, tmp_path, capsys):
    file = tmp_path / "eval.json"
    argv = ["eval", run, "--regret", "--random", "--episodes", "8", "--json", str(file)]
    assert cli.main(argv) == 0
    assert capsys.readouterr().out.count("regret against full information") == 4
    for seed in json.loads(file.read_text())["seeds"]:
        here, random = seed["here"], seed["random"]
        assert here["optimal_return"] == random["optimal_return"] > here["mean_return"]
        assert here["regret"] == pytest.approx(
            here["optimal_return"] - here["mean_return"], abs=1e-5
        )


@pytest.mark.full
def test_every_seed_plays_here_and_there(run, tmp_path, capsys):
    config, file = pathlib.Path(run) / "config.json", tmp_path / "eval.json"
    text = config.read_text()
    assert text.count('"total_steps": 256') == 1
    # Make the run look unfinished: its config now demands more steps. `eval` must accept it, too.
    config.write_text(text.replace('"total_steps": 256', '"total_steps": 1000'))
    argv = ["eval", run, "--in", "minigrid", "--episodes", "16", "--json", str(file)]
    assert cli.main(argv) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("seed 3: return ") and "; in minigrid return " in out[0]
    found = json.loads(file.read_text())
    assert (found["id"], found["package"]) == ("Grid-Empty-Random-5x5-v0", "minigrid")
    assert found["steps"] == 256
    assert [result["seed"] for result in found["seeds"]] == [3, 4]
    for result in found["seeds"]:
        here, there = result["here"], result["there"]
        error = np.hypot(here["error"], there["error"])
        apart = (here["mean_return"] - there["mean_return"]) / error
        assert result["standard_errors_apart"] == pytest.approx(apart, abs=2e-3)
        assert abs(apart) < 4


def test_what_minigrid_shows_is_an_observation_of_ours():
    env = jaxenvs.make("BabyAI-GoToRedBallGrey-v0")
    raw = {"image": np.full((7, 7, 3), 2), "direction": 2, "mission": "go to the red ball"}
    obs = env.upstream_obs(raw)
    assert env.observation_space.contains(jax.tree.map(jnp.asarray, obs))
    words = env.observe(env.reset(jax.random.key(0)).state)["mission"]
    np.testing.assert_array_equal(obs["mission"], words)
    cells = jaxenvs.make("Grid-Empty-5x5-v0").upstream_obs(raw)
    assert cells.dtype == np.uint8 and (cells == 2).all()


@pytest.mark.parametrize(
    "id", [pytest.param("Grid-LavaGapS5-v0", marks=pytest.mark.full), "Classic-CartPole-v0"]
)
def test_random_play_is_as_long_there_as_here(id):
    policy = uniform(id)
    ours = command.here(policy, jax.random.key(1), 200)
    theirs = upstream.play(policy, policy.env.package, jax.random.key(0), 200)
    for here, there in ((ours.lengths, theirs.lengths), (ours.returns, theirs.returns)):
        error = np.hypot(np.std(here), np.std(there)) / np.sqrt(200)
        assert abs(np.mean(here) - np.mean(there)) < 4 * error
    assert (theirs.lengths > 0).all() and theirs.terminated.any()


@pytest.mark.slow
@pytest.mark.parametrize("id", ["Craft-Classic-Ids-v0", "Craft-Ids-v0"])
def test_random_play_of_legal_actions_scores_as_much_in_craftax(id):
    policy = uniform(id)
    ours = command.here(policy, jax.random.key(1), 128)
    theirs = upstream.play(policy, "craftax", jax.random.key(0), 128)
    for here, there in ((ours.lengths, theirs.lengths), (ours.returns, theirs.returns)):
        error = np.hypot(np.std(here), np.std(there)) / np.sqrt(128)
        assert abs(np.mean(here) - np.mean(there)) < 4 * error


def test_what_cannot_be_played_there_is_said_in_a_sentence(run, capsys):
    assert cli.main(["eval", run, "--in", "craftax"]) == 2
    said = capsys.readouterr().err
    assert "Grid-Empty-Random-5x5-v0 is not in craftax: it is in minigrid" in said
    key = jax.random.key(0)
    with pytest.raises(upstream.NotThereError, match="no package has it"):
        upstream.play(uniform("Puzzle-Hanoi-5-v0"), "minigrid", key, 2)
    with pytest.raises(upstream.NotThereError, match="no MiniGrid-Empty-5x5-v0 with view_size=5"):
        upstream.play(uniform("Grid-Empty-5x5-v0", view_size=5), "minigrid", key, 2)
    with pytest.raises(ValueError, match="minigrid shows image and dict, not obs='rgb'"):
        upstream.play(uniform("Grid-Empty-5x5-v0", obs="rgb"), "minigrid", key, 2)
    with pytest.raises(upstream.NotThereError, match="minigrid cannot make MiniGrid-WFC-Maze"):
        upstream.play(uniform("Grid-WFC-MazeSimple-v0"), "minigrid", key, 2)


@pytest.mark.parametrize(
    ("id", "package", "says"),
    [
        ("Classic-CartPole-v0", "gymnasium", r"this needs gymnasium, not .*\[gym\]"),
        ("Grid-Empty-5x5-v0", "minigrid", r"this needs minigrid, not .*\[minigrid\]"),
        ("Craft-Classic-Ids-v0", "craftax", "this needs craftax, not .*--no-deps craftax"),
    ],
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(monkeypatch, id, package, says):
    # `import` of the package now fails, as if it were not installed
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises((upstream.NotThereError, MissingExtraError), match=says):
        upstream.play(uniform(id), package, jax.random.key(0), 2)


def test_a_policy_that_remembers_begins_every_episode_anew():
    """The recurrent state counts the steps of an episode, and must begin at 0 in each episode."""
    env = jaxenvs.make("Classic-CartPole-v0")

    def predict(memory, obs, mask):
        # The policy alternates between left and right, which balances the pole for longer than
        # random actions do.
        return memory + 1, jnp.where(memory % 2 == jnp.arange(2), 9.0, -9.0), jnp.float32(0)

    policy = Policy(env, lambda: jnp.int32(0), predict, "Classic-CartPole-v0")
    ours = command.here(policy, jax.random.key(0), 64, greedy=True)
    theirs = upstream.play(policy, "gymnasium", jax.random.key(0), 64, greedy=True)
    error = np.hypot(np.std(ours.lengths), np.std(theirs.lengths)) / 8
    assert abs(np.mean(ours.lengths) - np.mean(theirs.lengths)) < 4 * error
    assert np.mean(theirs.lengths) > 30
