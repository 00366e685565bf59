"""Tests of `jaxenvs demos`, which records episodes: levels, choice of player, Ctrl-C, messages."""

import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import demos, levels
from jaxenvs.baselines.run import demos as command
from jaxenvs.baselines.run import oracle_demos, train
from jaxenvs.demos import layout
from jaxenvs.grid import tiles
from jaxenvs.levels import Solution

pytestmark = pytest.mark.full

pytest.importorskip("h5py")
ID = "Grid-Empty-Random-5x5-v0"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(layout.ROOT, str(tmp_path / "datasets"))
    return tmp_path


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make(ID)


def recorded(name, env=None):
    return demos.load(name, env)


def test_levels_that_cannot_be_solved_are_counted_and_left_out(folder, env, capsys, monkeypatch):
    """The command plays the levels of a file in order, and reports how many are unsolvable."""
    keys = jax.random.split(jax.random.key(0), 4)
    good = [env.sample_level(key) for key in keys]
    goal = np.asarray(good[0].grid) == tiles.GOAL
    hopeless = good[0].replace(grid=jnp.where(goal, tiles.EMPTY, good[0].grid).astype(jnp.uint8))
    levels.save(folder / "some.txt", [*good[:3], hopeless, good[3]], env)
    given = [ID, "--levels", str(folder / "some.txt"), "--episodes", "6", "--out", "mine-v0"]
    assert command.main(given) == 0
    out = capsys.readouterr().out
    assert "left out 1 level, unsolvable: no plan exists" in out
    found = recorded("mine-v0", env)
    wanted = [*good, good[0], good[1]]
    assert [o["level"] for o in found.options] == [env.level_text(level) for level in wanted]
    assert found.metadata["jaxenvs_unsolvable_levels"] == 1
    assert found.returns == pytest.approx(1 - 0.9 * found.lengths / 100)
    assert found.terminated[found.starts + found.lengths - 1].all()

    levels.save(folder / "none.txt", [hopeless], env)
    given = [ID, "--levels", str(folder / "none.txt"), "--out", "none-v0"]
    monkeypatch.setattr(oracle_demos, "HOPELESS", 2)
    assert command.main(given) == 2
    assert "no level has a proven plan" in capsys.readouterr().err
    assert not (folder / "datasets" / "none-v0").exists()


def solution(**given):
    usual = {"steps": 3, "plan": (0, 0, 2), "lower": 3, "proven": True, "unsolvable": False}
    return Solution(**{**usual, "optimal_return": 0.9, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"proven": False, "optimal_return": None}, "unproven: the budget did not suffice"),
        ({"unsolvable": True, "steps": None, "optimal_return": 0.0}, "unsolvable"),
        ({"optimal_return": 0.0}, "too long: the shortest plan exceeds the time limit"),
    ],
)
def test_each_reason_is_counted(given, words):
    assert oracle_demos.reason(solution()) == ""
    counts = oracle_demos.Counts()
    counts.left_out[oracle_demos.reason(solution(**given))] += 1
    assert words in counts.sentences()[0] and counts.short() == "1 level left out"


def test_plans_of_puzzles_with_rewards_for_each_step_are_recorded(capsys):
    """Record plans in Sokoban, although the optimal return of its levels is unknown.

    A level is left out as too long if its plan exceeds the time limit of 6 steps.
    """
    id, fields = "Puzzle-Sokoban-6x6-v0", {"max_steps_in_episode": 6}
    given = [id, "--episodes", "4", "--param", "max_steps_in_episode=6", "--out", "mine-v0"]
    assert command.main(given) == 0
    found = recorded("mine-v0", jaxenvs.make(id, **fields))
    assert found.episodes == 4 and found.lengths.max() <= 6
    assert found.terminated[found.starts + found.lengths - 1].all()
    assert found.metadata["jaxenvs_too_long_levels"] > 0
    assert "too long: the shortest plan exceeds the time limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Classic-CartPole-v0"], "has no exact solver"),
        (["Grid-Dynamic-Obstacles-5x5-v0"], "move at random"),
        (["Grid-Playground-v0"], "has no mission"),
        ([ID, "--by", "nobody"], "give oracle, random or the folder of a run"),
        ([ID, "--by", "random", "--out", "bad name"], "such as jaxenvs/mine/oracle-v0"),
        ([ID, "--levels", "nothing.txt"], "no such file"),
        (["Nothing-v0"], "Nothing-v0"),
        ([ID, "--by", "random", "--greedy"], "--greedy needs --by with the folder of a run, got"),
        ([ID, "--by", "random", "--budget", "9"], "--budget needs --by with oracle, got --by rand"),
    ],
)
def test_mistakes_get_a_sentence(arguments, words, capsys, as_a_user, folder):
    assert command.main(arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err and "recording" not in printed.out
    assert not list((folder / "datasets").rglob("*.hdf5"))


def test_a_stopped_recording_keeps_its_complete_batches(monkeypatch, capsys, env):
    add, asked = demos.Writer.add, []

    def interrupted(writer, episode):
        if not asked:
            asked.append(os.kill(os.getpid(), signal.SIGINT))
            time.sleep(0.2)
        add(writer, episode)

    monkeypatch.setattr(demos.Writer, "add", interrupted)
    given = [ID, "--by", "random", "--episodes", "1000", "--out", "cut-v0"]
    assert command.main([*given, "--param", "max_steps_in_episode=20"]) == 130
    assert recorded("cut-v0", env).episodes == command.BATCH
    assert "wrote 64 episodes" in capsys.readouterr().out
    assert command.main(given) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_the_policy_of_a_run_is_recorded(folder, capsys, env):
    """A policy observes its previous action and reward, but recorded observations omit them."""
    run = str(folder / "run")
    small = "--num-envs 8 --rollout-steps 16 --hidden 8 --embed 2 --minibatches 2 --memory 4"
    flags = [ID, "--algo", "ppo-rnn", *small.split(), "--total-steps", "128", "--previous"]
    flags += ["--param", "max_steps_in_episode=9", "--eval-episodes", "2", "--out", run]
    assert train.main(flags) == 0
    assert command.main([ID, "--by", run, "--episodes", "5", "--out", "policy-v0"]) == 0
    found = recorded("policy-v0", env)
    assert found.episodes == 5 and found.lengths.max() <= 9
    assert "max_steps_in_episode" in found.metadata["env_spec"]
    assert "ref_max_score" not in found.metadata
    capsys.readouterr()
    assert command.main(["Grid-Empty-5x5-v0", "--by", run]) == 2
    assert f"was trained in {ID}" in capsys.readouterr().err
