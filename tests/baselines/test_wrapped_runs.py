"""Tests of learners in the wrapped environment that `docs/tutorials/wrappers.md` registers."""

import json
import re
import sys
from pathlib import Path

import pytest

import jaxenvs
from jaxenvs import cli, registry, wrappers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "wrappers.md"
FLAGS = ["--total-steps", "512", "--num-envs", "8", "--rollout-steps", "32", "--hidden", "8"]
FLAGS += ["--eval-episodes", "8"]


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Write the tutorial's module to a folder on `sys.path`; other tests do not see its ids."""
    (code,) = re.findall(r"```py\n# short_pole.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    more = 'jaxenvs.register("Mine-LoggedPole-v0", env=wrappers.NormalizeObservation(pole))(\n'
    (tmp_path / "short_pole.py").write_text(f"{code}\n{more}    wrappers.LogWrapper\n)\n")
    # Load all other ids first. An id that is loaded into the copied tables is lost after the test.
    registry.list()
    for table in ("_specs", "_aliases"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("short_pole", None)


@pytest.mark.full
@pytest.mark.parametrize(
    ("id", "algo"),
    [
        ("Mine-LoggedPole-v0", "ppo"),
        ("Mine-ShortPole-v0", "ppo"),
        ("Mine-LoggedPole-v0", "dqn"),
        ("Mine-LoggedPole-v0", "ppo-rnn"),
    ],
)
def test_a_learner_trains_in_a_wrapped_environment(id, algo, registered, capsys):
    out = registered / "run"
    flags = [*FLAGS, "--warm-up", "256"] if algo == "dqn" else FLAGS
    assert cli.main(["train", f"short_pole:{id}", "--algo", algo, "--out", str(out), *flags]) == 0
    length = json.loads((out / "eval.json").read_text())["mean_length"]
    assert 5 < length <= (100 if "Short" in id else 500)


def test_the_id_of_a_wrapped_environment_has_its_facts(registered, capsys):
    env = jaxenvs.make("short_pole:Mine-ShortPole-v0", max_episode_steps=50)
    assert env == wrappers.TimeLimit(jaxenvs.make("Classic-CartPole-v0"), 50)
    spec = jaxenvs.spec("Mine-ShortPole-v0")
    assert (spec.reset_source, spec.achievements) == ("auto", ())
    assert cli.main(["info", "short_pole:Mine-ShortPole-v0"]) == 0
    assert "TimeLimit" in capsys.readouterr().out
