"""Tests of training whose losses become NaN: it warns, and ends when no agent learns any more."""

import pytest
from tiny import FLAGS

from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run.divergence import Divergence
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage.runs import Config, Run, RunError

NAN = float("nan")


@pytest.fixture
def divergence(tmp_path):
    settings = {"hidden": (8,)}
    config = Config("Grid-Empty-5x5-v0", {}, 7, 2, {**vars(ppo.Settings()), **settings})
    return Divergence(Run(tmp_path, config))


def record(update, first, second, **more):
    return {"update": update, "steps": 100 * update, "kl": [first, second], **more}


def test_an_agent_whose_losses_are_nan_is_named_once(divergence, capsys):
    divergence.look([record(1, 0.0, 0.1, **{"return": [None, 1.0], "seconds": 0.5})])
    assert capsys.readouterr().err == ""
    divergence.look([record(2, 0.0, NAN, entropy=[1.0, NAN]), record(3, 0.0, NAN)])
    divergence.look([record(4, 0.0, NAN)])
    assert capsys.readouterr().err == (
        "seed 8: kl, entropy is NaN at step 200; try a smaller --learning-rate or --max-grad-norm\n"
    )


def test_when_no_agent_is_left_the_run_ends(divergence, capsys):
    divergence.look([record(1, 0.0, NAN)])
    with pytest.raises(RunError, match=r"no agent of .* learns any more.*--learning-rate"):
        divergence.look([record(2, NAN, NAN)])
    assert "seed 7: kl is NaN at step 200" in capsys.readouterr().err


@pytest.mark.full
def test_a_run_that_diverges_ends_and_keeps_the_checkpoint_before(tmp_path, capsys):
    out = tmp_path / "run"
    asked = ["Classic-CartPole-v0", *FLAGS, "--chunk", "1", "--learning-rate", "1e30"]
    assert main([*asked, "--total-steps", "4096", "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "seed 3: " in said and "seed 4: " in said and "has ended without a new" in said
    # the run asked for 16 updates, but ended earlier
    assert len((out / "log.jsonl").read_text("utf-8").splitlines()) < 16
