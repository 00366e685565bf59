"""Short runs for the page of each id: which are asked for, and what is kept of them."""

import json
import subprocess

import pytest

from jaxenvs.benchmarks import reference

ID = "Classic-CartPole-v0"


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
        f"{words} --clairvoyant",
        f"{words} --set 'ways=(1, 2)' name=x --seed 3",
    ]
    rows = [{**row, "command": command} for command in commands]
    (table.parent / "runs.json").write_text(json.dumps(rows), "utf-8")
    apart = [run["apart"] for run in reference.recorded(table.parent)[ID]]
    fields = [["scramble=10", "size=3"], ["ways=(1, 2)", "name=x"]]
    assert apart == [[], ["RND"], ["RND", *fields[0]], ["clairvoyant"], fields[1]]


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
    assert train(table, flag, "0") == 2
    assert f"{flag} must be at least 1, got 0" in capsys.readouterr().err
