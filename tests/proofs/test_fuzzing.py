"""Tests of `fuzzing.py`: it saves results, and continues a saved run if the options are equal."""

import json

import fuzzing
import pytest

from jaxenvs.testing import Fuzzed

ID = "Classic-CartPole-v0"


@pytest.mark.full
def test_it_counts_keeps_and_goes_on(tmp_path, capsys):
    out = tmp_path / "fuzzing.json"
    asked = ["CartPole-v1", "--steps", "1", "--out", str(out)]
    assert fuzzing.main(asked) == 0
    found = json.loads(out.read_text())
    assert list(found["ids"]) == [ID] and found["ids"][ID]["broken"] == {}
    assert found["steps"] == found["ids"][ID]["steps"] > 1 and found["broken"] == 0
    assert fuzzing.main(asked) == 0  # all steps are done already
    assert json.loads(out.read_text()) == found
    assert capsys.readouterr().out.count(f"1/1 {ID}") == 1
    assert fuzzing.main([*asked, "--seed", "1"]) == 2
    assert "holds another run; give another --out" in capsys.readouterr().err


def test_a_broken_rule_is_reported(tmp_path, monkeypatch):
    found = Fuzzed(7, {"clock": 2, "reward outside": 0})
    monkeypatch.setattr(fuzzing, "fuzz", lambda env, **asked: found)
    # Disable `clear_caches`, which would discard the compiled programs of other tests.
    monkeypatch.setattr(fuzzing.jax, "clear_caches", list)
    out = tmp_path / "fuzzing.json"
    assert fuzzing.main([ID, "--out", str(out)]) == 1
    assert json.loads(out.read_text())["ids"][ID]["broken"] == {"clock": 2}


def test_an_unknown_id_is_refused(capsys):
    assert fuzzing.main(["Grid-Emty-5x5-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err
