"""Short runs for the page of each id: which are asked for, and what is kept of them."""

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
    """Of four actions one is legal, another one in each step; an illegal one costs 1."""

    default_params = jaxenvs.Params(max_steps_in_episode=np.int32(4))
    action_space = Discrete(4)
    observation_space = Box(0, 1, (1,), jnp.float32)

    def reset_state(self, key, level, params):
        return jaxenvs.State(time=jnp.int32(0))

    def step_state(self, key, state, action, params):
        illegal = action != (state.time - 1) % 4  # the clock already counts this step
        return Transition(state, -illegal.astype(jnp.float32), jnp.zeros((), jnp.bool_))

    def observe(self, state, params=None):
        return jnp.zeros(1, jnp.float32)

    def action_mask(self, state, params=None):
        return jnp.arange(4) == state.time % 4


def test_random_play_takes_only_legal_actions(monkeypatch):
    """As the policies do with which it is compared."""
    monkeypatch.setattr(reference, "EPISODES", 8)
    monkeypatch.setattr(jaxenvs, "make", lambda id: OneWay())
    row = reference.random_play("Test-OneWay-v0")
    assert (row["return"], row["length"]) == (0.0, 4.0)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """An empty folder of recorded runs, and the file to write."""
    monkeypatch.setattr(reference, "RESULTS", tmp_path)
    monkeypatch.setattr(reference, "SHORT_RUNS", tmp_path / "short.json")
    return tmp_path / "table.out"


def train(table, *more):
    folder = table.parent / "runs"
    asked = ["--out", str(table), "--runs", str(folder), *more]
    return reference.main(["--train", "300000", *asked])


def test_no_more_steps_are_asked_for_than_the_preset_has(table, monkeypatch, capsys):
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


def test_what_is_recorded_is_not_trained_again(table, monkeypatch):
    row = {"id": ID, "evaluation": None, "last_returns": [1.0], "steps": 1, "command": "c"}
    row |= {"date": "d", "versions": {"jaxenvs": "0", "jax": "0"}}
    (table.parent / "other.json").write_text(json.dumps([row]), "utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("nothing is left to train"))
    assert train(table, "--ids", ID) == 0


def test_what_a_task_has_of_its_own_is_told(table):
    words = "jaxenvs train X --seeds 1"
    row = {"id": ID, "evaluation": None, "last_returns": [1.0], "steps": 1, "date": "d"}
    row |= {"versions": {"jaxenvs": "0", "jax": "0"}}
    commands = [
        f"{words} --total-steps 5",
        f"{words} --preset rnd",
        f"{words} --bonus 0.1 --set scramble=10 size=3",
        f"{words} --bonus 0.1 --novelty e3b",
        f"{words} --clairvoyant",
        f"{words} --set 'ways=(1, 2)' name=x --seed 3",
    ]
    rows = [{**row, "command": command} for command in commands]
    (table.parent / "runs.json").write_text(json.dumps(rows), "utf-8")
    apart = [run["apart"] for run in reference.recorded(table.parent)[ID]]
    fields = [["scramble=10", "size=3"], ["ways=(1, 2)", "name=x"]]
    assert apart == [[], ["RND"], ["RND", *fields[0]], ["E3B"], ["clairvoyant"], fields[1]]


def test_the_table_has_the_runs_that_are_recorded():
    kept = json.loads(reference.REFERENCE.read_text("utf-8"))["trained"]
    assert kept == reference.recorded(reference.RESULTS)  # else: python -m ... .reference --ids


@pytest.mark.slow
def test_a_run_is_recorded_and_copied_to_the_table(table, capsys):
    assert train(table, "--ids", ID, "--device", "a test") == 0
    (row,) = json.loads(reference.SHORT_RUNS.read_text("utf-8"))
    assert (row["id"], row["device"]) == (ID, "a test") and row["steps"] >= 250_000
    (kept,) = json.loads(table.read_text("utf-8"))["trained"][ID]
    assert kept["evaluated"] and kept["returns"][0] > 400
    assert capsys.readouterr().out.startswith(ID)


@pytest.mark.parametrize("flag", ["--train", "--jobs"])
def test_bad_numbers_are_refused(flag, table, capsys):
    with pytest.raises(SystemExit):
        train(table, flag, "0")
    assert f"argument {flag}: '0' must be a whole number" in capsys.readouterr().err
