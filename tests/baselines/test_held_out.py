"""Tests of PPO on some levels of a PuzzleScript game, evaluated on held-out levels and games."""

import json
import shutil

import numpy as np
import pytest
from defaults import with_full

from jaxenvs.baselines import presets
from jaxenvs.baselines.evaluation import command
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import runs
from jaxenvs.puzzlescript import collection
from jaxenvs.render import watch

pytestmark = pytest.mark.full

ID = "PuzzleScript-v0"
GAMES = ("crates", "lodestone")
SMALL = ["--num-envs", "8", "--rollout-steps", "8", "--minibatches", "2", "--hidden", "8"]
SMALL += ["--total-steps", "128", "--eval-episodes", "4", "--param", "max_steps_in_episode=9"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train on the levels `train` of the game crates; return the run's folder.

    The environment's folder of games also has the game lodestone.
    """
    folder = tmp_path_factory.mktemp("games")
    for game in GAMES:
        shutil.copy(collection.SHIPPED / f"{game}.txt", folder)
    out = folder / "run"
    chosen = [f"game={folder}", "games=crates", "levels=train", "observation=names", "mask=inputs"]
    assert main([ID, *SMALL, "--out", str(out), "--set", *chosen]) == 0
    return out


def test_a_run_uses_the_preset_and_stores_the_selection(trained):
    config = runs.Run.open(trained).config
    given = {"rollout_steps", "hidden", "total_steps"}
    tuned = presets.preset(ID).settings
    assert tuned and given < config.settings.keys()
    for name in tuned.keys() - given:
        assert np.array_equal(config.settings[name], tuned[name]), name
    assert config.fields["levels"] == "train" and config.fields["games"] == "crates"


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        (("levels=test",), {2}),
        *with_full(((), {0, 1}), (("games=lodestone",), {3, 4, 6})),
    ],
)
def test_eval_plays_the_selected_levels(trained, tmp_path, monkeypatch, fields, places):
    played = []
    given = command.load_policy
    monkeypatch.setattr(
        command, "load_policy", lambda *a, **k: played.append(given(*a, **k)) or played[-1]
    )
    out = tmp_path / "eval.json"
    argv = [str(trained), "--episodes", "8", "--random", "--json", str(out)]
    assert command.main([*argv, *(("--set", *fields) if fields else ())]) == 0
    found = json.loads(out.read_text("utf-8"))
    assert found["fields"]["levels"] == ("test" if fields == ("levels=test",) else "train")
    for kind in ("here", "random"):
        figures = found["seeds"][0][kind]
        assert 0 <= figures["terminated_rate"] <= 1
        assert figures["mean_return"] == figures["terminated_rate"]  # a win is a reward of 1
        assert 1 <= figures["mean_length"] <= 9  # the run's `max_steps_in_episode`
    assert {*played[0].env._selection.places.tolist()} == places


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("levels=tset", "did you mean 'test'"),
        ("levels=9:", "selects no level; the numbers of levels are: crates 3"),
        ("games=crate", "the games are crates, lodestone"),
        ("observation=objects", "changes the observation_space: the policy was trained with"),
        ("game=crates", "changes the observation_space"),
        ("level", "write NAME=VALUE"),
        ("leves=test", "leves"),
    ],
)
@pytest.mark.parametrize("command", [command.main, watch.main])
def test_wrong_fields_of_a_run_are_one_sentence(trained, tmp_path, command, pair, words, capsys):
    drawn = ["--gif", str(tmp_path / "a.gif")] if command is watch.main else []
    assert command([str(trained), *drawn, "--set", pair]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
