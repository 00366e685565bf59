"""Run CleanRL's scripts on `to_torch_vec`; `JAXENVS_CLEANRL` names a checkout of CleanRL."""

import os
import sys
import types
from pathlib import Path

import pytest
from cleanrl_scripts import changed, curve, run

import jaxenvs
from jaxenvs import adapters

FOLDER = Path(os.environ.get("JAXENVS_CLEANRL", "")) / "cleanrl"
SCRIPT = """import sys
from types import SimpleNamespace

if __name__ == "__main__":
    args = SimpleNamespace(num_envs=int(sys.argv[1]))
    # the statement that is replaced
    envs = gym.vector.SyncVectorEnv(
        [make_env(i) for i in range(args.num_envs)],
    )
    envs.seen = envs.num_envs, sys.argv[1:]
"""


@pytest.fixture
def checkout():
    """Skip the test if PyTorch, TensorBoard or a checkout of CleanRL is missing."""
    for name in ("torch", "tensorboard"):
        pytest.importorskip(name, reason="PyTorch and TensorBoard are optional packages")
    if "JAXENVS_CLEANRL" not in os.environ:
        pytest.skip("JAXENVS_CLEANRL is not set")


def test_only_the_statement_that_makes_the_batch_is_replaced():
    before, after = SCRIPT.splitlines(), changed(SCRIPT, "Some-v0").splitlines()
    assert after[:6] == before[:6] and after[7:] == before[9:]
    assert after[6].startswith("    envs = ") and "recorded('Some-v0', args.num_envs)" in after[6]


@pytest.mark.parametrize(("source", "count"), [("envs = 1\n", 0), (SCRIPT + SCRIPT, 2)])
def test_a_script_without_one_such_statement_is_refused(source, count):
    with pytest.raises(ValueError, match=rf"has {count} statements .* give a script such as"):
        changed(source, "Some-v0")


def test_a_changed_script_runs_on_the_batch(tmp_path, monkeypatch):
    def batch(env, num_envs, device):
        return types.SimpleNamespace(env=env, num_envs=num_envs)

    monkeypatch.setitem(vars(adapters), "to_torch_vec", batch)  # the stand-in needs no PyTorch
    (tmp_path / "script.py").write_text(SCRIPT)
    before = Path.cwd(), [*sys.argv], [*sys.path]
    made = run(tmp_path / "script.py", "Classic-CartPole-v0", "3")
    assert made.seen == (3, ["3"]) and made.env == jaxenvs.make("Classic-CartPole-v0")
    assert (Path.cwd(), sys.argv, sys.path) == before


def test_a_curve_has_the_last_hundred_episodes_at_each_fifth_of_the_steps():
    episodes = [(step, float(step > 500)) for step in range(1, 1001)]
    assert curve(episodes, 1000) == [0, 0, 1, 1, 1]
    assert curve(episodes, 2750)[0] == 0.5  # mean of episodes 451 to 550, half of which return 1


@pytest.mark.full
@pytest.mark.usefixtures("checkout")
def test_ppo_learns_cartpole():
    pytest.importorskip("tyro")
    made = run(FOLDER / "ppo.py", "Classic-CartPole-v0", "--total-timesteps", "20000", "--no-cuda")
    returns = [value for _, value in made.episodes]
    assert sum(returns[-20:]) > 2 * sum(returns[:20])


@pytest.mark.full
@pytest.mark.usefixtures("checkout")
def test_ppo_with_an_lstm_runs():
    pytest.importorskip("stable_baselines3")
    made = run(
        FOLDER / "ppo_atari_lstm.py",
        "Grid-Empty-5x5-v0:frames",
        *("--total-timesteps", "64", "--num-envs", "4", "--num-steps", "8", "--no-cuda"),
    )
    assert made.steps == 64
