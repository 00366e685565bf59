"""Tests of the setups of Craft in runs: config, old runs, and evaluation under another setup."""

import json

import pytest
from tiny import FLAGS

from jaxenvs import cli
from jaxenvs.baselines.core import forced
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import options, train
from jaxenvs.baselines.storage.checkpoints import RunError
from jaxenvs.baselines.storage.runs import Config, Run

CLASSIC = "Craft-Classic-Ids-v0"


def test_a_new_run_names_its_setup():
    made = options.config(options.parse([CLASSIC], "ppo"), "ppo")
    assert made.fields["setup"] == "original" and not made.env.uses_mask
    made = options.config(options.parse([CLASSIC, "--set", "setup=eased"], "ppo"), "ppo")
    assert made.fields["setup"] == "eased" and made.env.skips_forced


@pytest.mark.parametrize(
    "flags, in_eased, in_masked",
    [
        ([], True, False),
        (["--skip-forced"], True, True),
        (["--no-skip-forced"], False, False),
        (["--skip_forced"], True, True),
        (["--no_skip_forced"], False, False),
        (["--skip-forced=False"], False, False),
        (["--skip-forced", "False", "--seeds", "2"], False, False),
        (["--skip-forced", "None"], True, False),
    ],
)
def test_the_flag_goes_before_the_setup(flags, in_eased, in_masked):
    """Without the flag, the setup says whether forced steps are skipped."""
    for setup, expected in {"eased": in_eased, "masked": in_masked}.items():
        made = options.config(options.parse([CLASSIC, "--setup", setup, *flags], "ppo"), "ppo")
        settings = ppo.Settings(**made.settings)
        assert forced.are_skipped(made.env, settings) == expected, setup


@pytest.mark.parametrize("flags", [["--no-skip-forced", "True"], ["--no-skip-forced=False"]])
def test_a_negative_flag_with_a_value_is_refused(flags):
    with pytest.raises(RunError, match="--no-skip-forced takes no value; give --skip-forced or"):
        options.parse([CLASSIC, *flags], "ppo")


def test_an_old_run_is_masked():
    old = Config(CLASSIC, {}, 0, 1, {}, "ppo")
    assert old.env.setup == "masked" and old.env_fields == {"setup": "masked"}
    assert Config("Grid-Empty-5x5-v0", {}, 0, 1, {}, "ppo").env_fields == {}


def test_a_family_without_setups_refuses_one(tmp_path, capsys):
    given = ["Grid-Empty-5x5-v0", "--setup", "eased", "--out", str(tmp_path / "run")]
    assert cli.main(["train", *given]) == 2
    assert "has no setups; omit --setup" in capsys.readouterr().err


@pytest.mark.full
def test_an_eased_policy_is_evaluated_under_the_original_setup(tmp_path, capsys):
    out, file = tmp_path / "run", tmp_path / "found.json"
    given = [CLASSIC, "--setup", "eased", *FLAGS, "--total-steps", "512", "--out", str(out)]
    assert cli.main(["train", *given, "--param", "max_steps_in_episode=40"]) == 0
    assert Run.open(out).config.fields["setup"] == "eased"
    asked = ["eval", str(out), "--setup", "original", "--episodes", "4", "--json", str(file)]
    assert cli.main(asked) == 0
    assert "Setup: trained eased, evaluated original." in capsys.readouterr().out
    assert json.loads(file.read_text())["setup"] == {"trained": "eased", "evaluated": "original"}
    assert train.main(["--resume", str(out)]) == 0
