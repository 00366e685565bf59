"""Tests of reference returns: random play, short training runs, and the recorded table."""

import json
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.benchmarks import reference
from jaxenvs.core.env import Transition
from jaxenvs.core.spaces import Box, Discrete

ID = "Classic-CartPole-v0"


class OneWay(jaxenvs.Env):
    """Environment with four actions, of which one is legal; the legal action changes every step.

    An illegal action has reward -1.
    """

    default_params = jaxenvs.Params(max_steps_in_episode=np.int32(4))
    action_space = Discrete(4)
    observation_space = Box(0, 1, (1,), jnp.float32)

    def reset_state(self, key, level, params):
        return jaxenvs.State(time=jnp.int32(0))

    def step_state(self, key, state, action, params):
        illegal = action != (state.time - 1) % 4  # `time` already counts this step
        return Transition(state, -illegal.astype(jnp.float32), jnp.zeros((), jnp.bool_))

    def observe(self, state, params=None):
        return jnp.zeros(1, jnp.float32)

    def action_mask(self, state, params=None):
        return jnp.arange(4) == state.time % 4


def test_random_play_takes_only_legal_actions(monkeypatch):
    """Random play takes only legal actions, because the policies compared with it do so too."""
    monkeypatch.setattr(reference, "EPISODES", 8)
    monkeypatch.setattr(jaxenvs, "make", lambda id: OneWay())
    row = reference.random_play("Test-OneWay-v0")
    assert (row["return"], row["length"]) == (0.0, 4.0)
    assert (row["succeeded"], row["episodes"]) == (None, 8)  # None: `OneWay` defines no success


def test_random_play_counts_successes(monkeypatch):
    monkeypatch.setattr(reference, "EPISODES", 64)
    row = reference.random_play("Grid-DoorKey-5x5-v0")
    assert 0 < row["succeeded"] < 32 and row["return"] < row["succeeded"] / 64


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Make `reference` use an empty folder; return the path of the table that it writes there."""
    monkeypatch.setattr(reference, "RESULTS", tmp_path)
    monkeypatch.setattr(reference, "SHORT_RUNS", tmp_path / "short.json")
    monkeypatch.setattr(reference, "RETRIES", tmp_path / "retries.json")
    return tmp_path / "table.out"


def train(table, *more):
    folder = table.parent / "runs"
    asked = ["--out", str(table), "--runs", str(folder), *more]
    return reference.main(["--train", "300000", *asked])


def test_a_training_has_at_most_the_steps_of_its_preset(table, monkeypatch, capsys):
    asked = []

    def run(command, **settings):
        asked.append(command[3:])
        return subprocess.CompletedProcess(command, 1, "", "no space left\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert train(table, "--ids", ID, "MiniGrid-DoorKey-16x16-v0") == 1
    steps = {command[0]: command[-1] for command in asked}
    assert steps == {ID: "250000", "Grid-DoorKey-16x16-v0": "300000"}
    out, err = capsys.readouterr()
    assert out == "" and err.count("failed: no space left") == 2
    assert not reference.SHORT_RUNS.exists()


def test_a_recorded_id_is_not_trained_again(table, monkeypatch):
    row = {"id": ID, "evaluation": None, "last_returns": [1.0], "steps": 1, "command": "c"}
    row |= {"date": "d", "versions": {"jaxenvs": "0", "jax": "0"}}
    (table.parent / "other.json").write_text(json.dumps([row]), "utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("nothing is left to train"))
    assert train(table, "--ids", ID) == 0


def test_a_second_attempt_is_made_once_and_only_where_no_run_has_learned(table, monkeypatch):
    row = {"evaluation": None, "steps": 1, "date": "d", "versions": {"jaxenvs": "0", "jax": "0"}}
    ids = [ID, "Grid-DistShift2-v0", "Puzzle-Cube-2x2-v0", "Grid-MultiRoom-N6-v0", "Grid-v0"]
    learned = dict.fromkeys(ids, 0.0) | {ID: 9.0}
    rows = [
        {**row, "id": id, "command": "c", "last_returns": [learned[id]]}
        for id in ids
        if id != ids[4]
    ]
    rows.append({**rows[3], "command": "c --bonus 0.1"})
    (table.parent / "other.json").write_text(json.dumps(rows), "utf-8")
    chance = {"return": 1.0, "error": 0.1, "succeeded": None, "episodes": 1024}
    random = dict.fromkeys(ids, chance)
    table.write_text(json.dumps({"random": random}), "utf-8")
    asked = []

    def run(command, **settings):
        asked.append(command[3:])
        return subprocess.CompletedProcess(command, 1, "", "no space left\n")

    monkeypatch.setattr(subprocess, "run", run)
    options = ["--ids", *ids, "--out", str(table), "--runs", str(table.parent / "runs")]
    assert reference.main(["--retry", "600000", *options]) == 1
    flags = {command[0]: (command[2:-4], command[-1]) for command in asked}
    assert flags == {
        "Grid-DistShift2-v0": (["--preset", "noveld"], "500000"),
        "Puzzle-Cube-2x2-v0": (["--reward-scaling"], "600000"),
    }


def test_changes_of_the_task_are_listed(table):
    row = {"evaluation": None, "last_returns": [1.0], "steps": 1, "date": "d"}
    row |= {"versions": {"jaxenvs": "0", "jax": "0"}, "id": "Grid-MultiRoom-N6-v0"}
    changes = {
        "--total-steps 5": [],
        "--preset rnd": ["RND"],
        "--preset noveld": ["NovelD"],
        "--bonus 0.1 --set scramble=10 size=3": ["RND", "scramble=10", "size=3"],
        "--bonus 0.1 --novelty e3b": ["E3B"],
        "--reward-scaling": ["scaled rewards"],
        "--clairvoyant": ["clairvoyant"],
        "--set 'ways=(1, 2)' name=x --seed 3": ["ways=(1, 2)", "name=x"],
    }
    rows = [{**row, "command": f"jaxenvs train X --seeds 1 {flags}"} for flags in changes]
    with_preset = {**row, "id": "Grid-MemoryS7-v0", "algorithm": "ppo-rnn", "command": "c"}
    (table.parent / "runs.json").write_text(json.dumps([*rows, with_preset]), "utf-8")
    found = reference.recorded(table.parent)
    assert [run["apart"] for run in found["Grid-MultiRoom-N6-v0"]] == [*changes.values()]
    # The preset of this id has a novelty bonus.
    assert found["Grid-MemoryS7-v0"][0]["apart"] == ["NovelD"]


def test_successes_are_summed_over_seeds(table):
    row = {"id": "Grid-v0", "command": "c", "steps": 1, "date": "d", "last_returns": [0.5, 0.5]}
    row |= {"versions": {"jaxenvs": "0", "jax": "0"}}
    shares = [{"mean_return": 0.5, "success_rate": share} for share in (0.5, 0.25)]
    evaluated = {"episodes": 64, "per_seed": shares}
    found = [reference.kept({**row, "evaluation": each}) for each in (evaluated, None)]
    assert [(run["succeeded"], run["episodes"]) for run in found] == [(48, 128), (None, 400)]


def test_the_table_has_the_recorded_runs():
    kept = json.loads(reference.REFERENCE.read_text("utf-8"))
    made = reference.table(kept["random"], reference.RESULTS)
    assert kept == made  # if this fails, run: python -m jaxenvs.benchmarks.reference --ids


@pytest.mark.slow
def test_a_run_is_recorded_and_copied_to_the_table(table, capsys):
    assert train(table, "--ids", ID, "--device", "a test") == 0
    (row,) = json.loads(reference.SHORT_RUNS.read_text("utf-8"))
    assert (row["id"], row["device"]) == (ID, "a test") and row["steps"] >= 250_000
    (kept,) = json.loads(table.read_text("utf-8"))["trained"][ID]
    assert kept["evaluated"] and kept["returns"][0] > 400
    assert capsys.readouterr().out.startswith(ID)


@pytest.mark.parametrize("flag", ["--train", "--retry", "--jobs"])
def test_invalid_numbers_are_rejected(flag, table, capsys):
    with pytest.raises(SystemExit):
        train(table, flag, "0")
    assert f"argument {flag}: '0' must be a whole number" in capsys.readouterr().err
