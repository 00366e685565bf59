"""EnvPool as a peer: which level it plays, what its figures are, and that it may be missing."""

import json
import sys
import types

import numpy as np
import pytest

from jaxenvs.benchmarks import envpool_peer, report, throughput, timing
from jaxenvs.benchmarks.timing import Record

LEVEL = "Grid-Empty-5x5-v0"


@pytest.fixture
def engine(monkeypatch):
    """A stand-in for the package, which has two levels and remembers what it was asked."""
    calls = types.SimpleNamespace(made=[], actions=[])

    class Batch:
        action_space = types.SimpleNamespace(n=7)

        def reset(self):
            pass

        def step(self, actions):
            calls.actions.append(actions)

    def make(name, **options):
        calls.made.append((name, options["num_envs"]))
        return Batch()

    names = ["MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0"]
    module = types.SimpleNamespace(list_all_envs=lambda: names, make_gymnasium=make)
    monkeypatch.setitem(sys.modules, "envpool", module)
    return calls


def test_it_is_asked_for_the_same_level(engine):
    envpool_peer.build("EnvPool", LEVEL, 4)
    envpool_peer.build("EnvPool", "BabyAI-GoToLocal-v0", 8)
    assert engine.made == [("MiniGrid-Empty-5x5-v0", 4), ("BabyAI-GoToLocal-v0", 8)]
    with pytest.raises(LookupError, match="EnvPool has no level like Grid-DoorKey-8x8-v0"):
        envpool_peer.build("EnvPool", "Grid-DoorKey-8x8-v0", 4)


def test_a_repeat_steps_the_whole_batch(engine, monkeypatch):
    monkeypatch.setattr(timing, "AGE_STEPS", 1)
    runner = timing.GameRunner(envpool_peer.build("EnvPool", LEVEL, 3), LEVEL, 0.0001)
    engine.actions.clear()
    assert runner.run() > 0
    assert runner.record.steps == 3 * len(engine.actions)
    drawn = np.stack(engine.actions)
    assert drawn.dtype == np.int32 and (drawn.min(), drawn.max()) == (0, 6)


def test_a_ratio_per_core_is_one_of_processor_time():
    # Two threads halve the time of the clock, not that of the processor.
    ours = Record("jaxenvs", LEVEL, 8, "exact", "dict", 10, 1, 0.0, [1.0] * 3, [2.0] * 3)
    theirs = Record("EnvPool", LEVEL, 8, "own", "dict", 10, 1, 0.0, [8.0] * 3, [8.0] * 3)
    (found,) = report.ratios([[ours.as_dict(), theirs.as_dict()]])
    assert (found["obs"], found["ratio"], found["per_core"]) == ("dict", 8.0, 4.0)


def test_both_observations_stand_beside_it_in_one_run(engine, tmp_path, monkeypatch, capsys):
    class Ours(timing.Runner):
        def __init__(self, env_id, num_envs, source, obs, seconds):
            self.record = Record("jaxenvs", env_id, num_envs, source, obs, 10, 1, 0.0)

        def run(self):
            return 1e-9

    monkeypatch.setattr(timing, "AGE_STEPS", 1)
    monkeypatch.setattr(throughput, "_own", Ours)
    options = ["--ids", LEVEL, "--batches", "4", "--obs", "image", "dict", "--quick"]
    options += ["--seconds", "0.005", "--without", "NAVIX", "XLand-MiniGrid", "minigrid"]
    assert throughput.main([*options, "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert [(row["contestant"], row["obs"]) for row in results["rows"]] == [
        ("jaxenvs", "image"),
        ("jaxenvs", "dict"),
        ("EnvPool", "dict"),
    ]
    assert [ratio["obs"] for ratio in results["ratios"]] == ["image", "dict"]
    assert all({"ratio", "per_core"} <= ratio.keys() for ratio in results["ratios"])
    assert "envpool" in results["versions"]
    assert "per core" in capsys.readouterr().out


def test_the_engine_itself_plays():
    pytest.importorskip("envpool")
    pool = envpool_peer.build("EnvPool", "BabyAI-GoToLocal-v0", 2)
    observed, reward, *_ = pool.step(np.zeros(2, np.int32))
    assert set(observed) == {"image", "direction", "mission"} and reward.shape == (2,)
