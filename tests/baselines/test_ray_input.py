"""Tests that settings unsupported on Ray are refused in one sentence, before Ray starts."""

import importlib.util

import pytest

from jaxenvs.baselines.ray.ppo import Settings
from jaxenvs.baselines.run.train import main
from jaxenvs.core.typed import installation

SIGNAL = "gym:tiny_gym:Signal-v0"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--actors", "0"], "actors=0 must be at least 1"),
        (["--actors", "3"], "num_envs=64 does not divide evenly among 3 actors; try --num-envs 63"),
        (
            ["--learners", "3"],
            "of 4 actors do not divide evenly among 3 learners; give a divisor of 4",
        ),
        (["--patience", "0"], "patience=0 must be at least 1"),
        (["--chunk", "2"], "chunk=2: here each update is a call"),
        (["--unroll", "4"], "unroll=4: here actors use CPUs; give --unroll 1"),
        (["--bonus", "0.1"], "bonus=0.1: actors have no exploration bonus"),
        (["--devices", "2"], "do not go with --ray; see --learners"),
        (["--seeds", "2"], "do not go with --ray; see --learners"),
        (
            ["--algo", "davi"],
            "--algo davi --ray: with Ray there are ppo and apex; omit one of them",
        ),
    ],
)
def test_flags_that_cannot_work_get_a_sentence(tmp_path, monkeypatch, capsys, argv, words):
    monkeypatch.chdir(tmp_path)
    assert main([SIGNAL, "--ray", *argv]) == 2
    captured = capsys.readouterr().err
    assert words in captured and len(captured.splitlines()) == 1
    assert not list(tmp_path.iterdir())  # no run has been started


def test_learners_need_whole_minibatches():
    with pytest.raises(
        ValueError, match="a learner's share of a rollout of 4 x 1 steps does not split into"
    ):
        Settings(num_envs=8, rollout_steps=1, actors=2, learners=2, minibatches=8).check()


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("gym:CartPol-v1", "Gymnasium cannot make it"),
        ("gym:tiny_gym:Steered-v0 --algo apex", "apex needs a Discrete one: give --algo ppo-ray"),
        ("Grid-Emty-5x5-v0", "did you mean"),
    ],
)
def test_environments_that_cannot_be_trained_in(tmp_path, monkeypatch, capsys, id, words):
    monkeypatch.chdir(tmp_path)
    assert main([*id.split(), "--ray"]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_gymnasium_needs_actors(capsys):
    assert main(["gym:CartPole-v1"]) == 2
    words = "outside of ppo's compiled program; train with actors: jaxenvs train gym:CartPo"
    assert words in capsys.readouterr().err


def test_without_ray_the_error_names_the_install_command(monkeypatch, capsys):
    there = importlib.util.find_spec
    hidden = {"ray": None}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: hidden.get(name, there(name, *rest))
    )
    assert main([SIGNAL, "--ray"]) == 2
    error = capsys.readouterr().err
    assert f"needs ray, not installed here: run {installation('ray')}" in error
