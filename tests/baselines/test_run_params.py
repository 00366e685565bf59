"""Tests of the environment params of a run: given by `--param`, saved, and used again."""

import json
import shutil

import pytest

from jaxenvs.baselines.evaluation import command
from jaxenvs.baselines.evaluation.record import _command
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import runs
from jaxenvs.render import watch

pytestmark = pytest.mark.full

ID, LIMIT = "Grid-Empty-5x5-v0", "max_steps_in_episode"
SMALL = ["--num-envs", "4", "--rollout-steps", "16", "--minibatches", "2", "--hidden", "8"]
SMALL += ["--eval-episodes", "4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a run with a time limit of 3 steps, in which no goal can be reached."""
    out = tmp_path_factory.mktemp("runs") / "short"
    argv = [ID, *SMALL, "--total-steps", "64", "--out", str(out)]
    assert main([*argv, "--param", f"{LIMIT}=3"]) == 0
    return out


@pytest.mark.full
def test_params_are_saved_and_reach_the_environment(trained):
    config = runs.Run.open(trained).config
    assert config.params == {LIMIT: 3} and config.env.default_params.max_steps_in_episode == 3
    assert json.loads((trained / "eval.json").read_text())["mean_length"] == 3
    assert config.title == f"{ID} {LIMIT}=3"
    assert _command(config, None).endswith(f"--param {LIMIT}=3")
    assert runs.load_policy(trained).env.default_params.max_steps_in_episode == 3


@pytest.mark.full
def test_a_resumed_run_keeps_its_params(trained, tmp_path, capsys):
    again = tmp_path / "again"
    shutil.copytree(trained, again)
    more = ["--total-steps", "128", "--learning-rate", "0.001", "--eval-episodes", "4"]
    assert main(["--resume", str(again), *more]) == 0
    assert runs.Run.open(again).config.params == {LIMIT: 3}
    assert main(["--resume", str(again), "--param", f"{LIMIT}=4"]) == 2
    words = f"was trained with --param {{'{LIMIT}': 3}} and cannot continue with {{'{LIMIT}': 4}}"
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("given", "length"), [([], 3), (["--param", f"{LIMIT}=5"], 5)])
def test_eval_plays_with_the_params_of_the_run_or_with_others(trained, tmp_path, given, length):
    out = tmp_path / "eval.json"
    assert command.main([str(trained), "--episodes", "2", "--json", str(out), *given]) == 0
    found = json.loads(out.read_text())
    assert found["params"] == {LIMIT: length}
    assert found["seeds"][0]["here"]["mean_length"] == length


def test_watch_draws_a_run_with_its_params_or_with_others(trained, tmp_path):
    for given in ([], ["--param", f"{LIMIT}=5"]):
        page = tmp_path / f"{len(given)}.html"
        assert watch.main([str(trained), "--html", str(page), "--frames", "9", *given]) == 0
        assert f"after {5 if given else 3} steps" in page.read_text("utf-8")


@pytest.mark.parametrize("command", [command.main, watch.main])
def test_wrong_params_of_a_run_are_one_sentence(trained, tmp_path, command, capsys):
    drawn = ["--gif", str(tmp_path / "a.gif")] if command is watch.main else []
    for pair, words in (
        ("max_steps=5", f"did you mean '{LIMIT}'"),
        (f"{LIMIT}=0", "must be at least 1"),
        ("view_size=5", f"view_size is a constructor field of {ID}; give it by --set"),
    ):
        assert command([str(trained), *drawn, "--param", pair]) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1


def test_a_package_has_its_own_params(trained, capsys):
    assert command.main([str(trained), "--episodes", "2", "--in", "minigrid"]) == 2
    words = f"minigrid has no MiniGrid-Empty-5x5-v0 with {LIMIT}=3; its params are --param "
    assert f"{words}{LIMIT}=100" in capsys.readouterr().err
    own = ["--param", f"{LIMIT}=100"]
    assert command.main([str(trained), "--episodes", "2", "--in", "minigrid", *own]) == 0


def test_a_run_from_before_there_were_params_is_read(trained, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(trained, old)
    config = json.loads((old / "config.json").read_text())
    del config["params"]
    (old / "config.json").write_text(json.dumps(config))
    assert runs.Run.open(old).config.params == {}
