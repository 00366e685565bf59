"""Run CleanRL's scripts on `to_torch_vec`; `JAXENVS_CLEANRL` names a checkout of it."""

import os
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is an optional package (extra `torch`)")
if "JAXENVS_CLEANRL" not in os.environ:
    pytest.skip("JAXENVS_CLEANRL is not set", allow_module_level=True)

from cleanrl_scripts import run

FOLDER = Path(os.environ["JAXENVS_CLEANRL"]) / "cleanrl"
pytestmark = pytest.mark.full


def test_ppo_learns_cartpole():
    pytest.importorskip("tensorboard")
    pytest.importorskip("tyro")
    made = run(FOLDER / "ppo.py", "Classic-CartPole-v0", "--total-timesteps", "20000", "--no-cuda")
    returns = [value for _, value in made.episodes]
    assert sum(returns[-20:]) > 2 * sum(returns[:20])


def test_ppo_with_an_lstm_runs():
    pytest.importorskip("tensorboard")
    pytest.importorskip("stable_baselines3")
    made = run(
        FOLDER / "ppo_atari_lstm.py",
        "Grid-Empty-5x5-v0:frames",
        *("--total-timesteps", "64", "--num-envs", "4", "--num-steps", "8", "--no-cuda"),
    )
    assert made.steps == 64
