"""Tests of the benchmark that compares PLR's level scores with the true regret of a level."""

import json

import jax
import numpy as np
import pytest
from tiny import FLAGS

from jaxenvs.baselines.run import train
from jaxenvs.baselines.storage.runs import Run, load_policy
from jaxenvs.benchmarks import curricula, level_scores
from jaxenvs.benchmarks.tables.curricula import level_scores as table

MAZE = ["Grid-AMaze-13x13-v0", "--set", "size=6", "walls=4", "--param", "max_steps_in_episode=8"]
SIZES = ["--num-envs", "4", "--rollout-steps", "8", "--minibatches", "2", "--total-steps", "64"]


def row(**scores):
    """Return how scores of ten levels correlate with the levels' regrets, 0.0, 0.1, ... 0.9."""
    regret = np.arange(10) / 10
    found = {"regret": regret, "success": 1.0 - regret, "optimum": np.ones(10)}
    return level_scores.compared({**found, "scores": scores})


def test_correlations_of_known_scores():
    order = np.array([3, 1, 4, 0, 9, 2, 6, 5, 8, 7])
    found = row(equal=np.arange(10) ** 2, reverse=-np.arange(10), constant=np.ones(10), mixed=order)
    scores = found["scores"]
    assert scores["equal"] == {
        "regret": 1.0,
        "success": -1.0,
        "regret_of_top": 0.9,
        "unsolvable_of_top": 0.0,
    }
    assert scores["reverse"]["regret"] == -1.0 and scores["reverse"]["regret_of_top"] == 0.0
    assert scores["constant"]["regret"] is None
    difference = order - np.arange(10)  # Spearman's formula for ranks without ties
    expected = 1 - 6 * np.sum(difference**2) / (10 * (10**2 - 1))
    assert scores["mixed"]["regret"] == pytest.approx(expected, abs=1e-4)
    assert scores["mixed"]["regret_of_top"] == 0.4
    assert found["mean_regret"] == 0.45 and found["unsolvable"] == 0.0


def test_the_table_has_a_row_per_score_and_stage():
    found = row(pvl=np.arange(10), learnability=np.zeros(10))
    rows = [{**found, "steps": steps, "seed": seed} for steps in (2000, 1000) for seed in (0, 1)]
    made = table({"rows": rows})
    assert [each[:3] for each in made.rows] == [
        ["`pvl`", "1.00 k", "1.00 (1.00 to 1.00)"],
        ["`pvl`", "2.00 k", "1.00 (1.00 to 1.00)"],
        ["`learnability`", "1.00 k", "all scores equal"],
        ["`learnability`", "2.00 k", "all scores equal"],
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the directory of a run with two seeds, in small mazes."""
    path = tmp_path_factory.mktemp("scores") / "run"
    assert train.main([*MAZE, *FLAGS, *SIZES, "--out", str(path)]) == 0
    return path


@pytest.mark.full
@pytest.mark.xdist_group("level_scores")
def test_scores_of_a_run(run, tmp_path, capsys):
    """Rows have the run's steps and seeds; the score `regret` agrees with the true regret."""
    file, picture = tmp_path / "scores.json", tmp_path / "scores.png"
    words = [str(run), "--levels", "60", "--steps", "400"]
    assert level_scores.main([*words, "--json", str(file), "--picture", str(picture)]) == 0
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [(each["seed"], each["steps"]) for each in rows] == [(3, 64), (4, 64)]
    for each in rows:
        assert set(each["scores"]) == set(level_scores.SCORES)
        assert each["scores"]["regret"]["regret"] > 0.3  # the score comes from one rollout
        # A rollout is as long as the time limit, so no level has both a success and a failure. The
        # learnability of every level is therefore 0, and equal scores have no correlation.
        assert each["scores"]["learnability"]["regret"] is None
        assert 0.0 < each["mean_success"] < 1.0 and 0.0 < each["mean_regret"] < 1.0
    assert picture.read_bytes().startswith(b"\x89PNG")
    merged = tmp_path / "merged.json"
    assert level_scores.main(["--merge", str(file), str(file), "--json", str(merged)]) == 0
    assert json.loads(merged.read_text("utf-8"))["rows"] == rows + rows
    assert "correlation with regret: " in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.xdist_group("level_scores")
def test_scores_do_not_depend_on_how_regret_is_measured(run):
    """More episodes for the true regret leave the levels and the scores of a rollout unchanged."""
    learner = level_scores.scoring(Run.open(run), 20)
    weights = load_policy(run, 0).weights
    given = jax.tree.map(lambda leaf: leaf[None], (weights, jax.random.key(5)))
    few, many = (
        jax.device_get(
            level_scores.over_seeds(lambda g, n=n: level_scores.outcomes(learner, *g, n))(given)
        )
        for n in (16, 80)
    )
    assert np.array_equal(few["optimum"], many["optimum"])
    for kind in ("pvl", "maxmc", "l1", "regret"):
        assert np.array_equal(few["scores"][kind], many["scores"][kind])
    assert not np.array_equal(few["regret"], many["regret"])
    # The regret is between 0 and the best possible return. For an unsolvable level, both are 0.
    assert (many["regret"] >= -1e-6).all() and (many["regret"] <= many["optimum"] + 1e-6).all()


@pytest.mark.full
def test_runs_that_cannot_be_measured(tmp_path, capsys):
    """Two kinds of run are refused, and the message says why.

    In the first one's environment, the best return of a level is unknown. The second one's learner
    is PQN, which has Q-values.
    """
    common = ["--num-envs", "4", "--total-steps", "64", "--seeds", "1", "--eval-episodes", "4"]
    common += ["--rollout-steps", "8", "--hidden", "8", "--embed", "2", "--minibatches", "2"]
    short = ["--param", "max_steps_in_episode=8"]
    keys, other = tmp_path / "keys", tmp_path / "other"
    assert train.main(["Grid-DoorKey-5x5-v0", *short, *common, "--out", str(keys)]) == 0
    assert level_scores.main([str(keys)]) == 2
    assert "does not compute the best return of a level" in capsys.readouterr().err
    assert train.main([*MAZE, "--algo", "pqn", *common, "--out", str(other)]) == 0
    assert level_scores.main([str(other)]) == 2
    assert "was trained by pqn; give one of ppo or plr" in capsys.readouterr().err
    assert level_scores.main([str(tmp_path / "none")]) == 2


@pytest.mark.full
def test_a_series_of_curricula_continues(tmp_path, monkeypatch, capsys):
    """Each seed has its own directory; a second call trains only what is missing."""
    tiny = f"{' '.join(MAZE)} {' '.join(SIZES[:6])} --hidden 8 --embed 2 --eval-episodes 4"
    monkeypatch.setattr(curricula, "MAZES", tiny)
    monkeypatch.setattr(curricula, "COMMON", "--chunk 1 --no-anneal")
    monkeypatch.setitem(curricula.METHODS, "plr-maxmc", "--algo plr --memory 0 --buffer 8")
    monkeypatch.setattr(curricula, "STAGES", (64, 1000))
    monkeypatch.setattr(level_scores, "measure", lambda run, *_: [])
    words = ["--out", str(tmp_path), "--steps", "128", "--levels", "100"]
    only = ["--only", "dr", "plr-maxmc"]
    assert curricula.main([*words, "--seeds", "1", *only]) == 0
    first = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.json")}
    names = {str(file.relative_to(tmp_path)) for file in first}
    assert {f"dr/128/0/{name}.json" for name in ("scores-64", "scores-128", "eval-worst")} <= names
    assert {"plr-maxmc/128/0/eval.json", "plr-maxmc/128/0/eval-worst.json"} <= names
    assert Run.open(tmp_path / "dr" / "128" / "0").records()[-1]["steps"] == 128
    capsys.readouterr()
    assert curricula.main([*words, "--seeds", "2", "--only", "plr-maxmc"]) == 0
    assert {file: file.stat().st_mtime_ns for file in first} == first
    assert Run.open(tmp_path / "plr-maxmc" / "128" / "1").config.seed == 1
    # Other numbers of steps have their own runs; another number of levels is evaluated again.
    again = ["--out", str(tmp_path), "--levels", "120", "--seeds", "1", "--only", "plr-maxmc"]
    assert curricula.main([*again, "--steps", "192"]) == curricula.main([*again, "--steps", "128"])
    assert Run.open(tmp_path / "plr-maxmc" / "192" / "0").records()[-1]["steps"] == 192
    worst = json.loads((tmp_path / "plr-maxmc/128/0/eval-worst.json").read_text("utf-8"))
    assert worst["seeds"][0]["worst"]["levels"] == 120
