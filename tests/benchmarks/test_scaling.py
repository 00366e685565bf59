"""Tests of the benchmark of training on several devices: collectives, medians and tables."""

import json

import jax
import pytest

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.on_policy import rl2
from jaxenvs.benchmarks import gpu_work, scaling
from jaxenvs.benchmarks.tables import training

# HLO of an update with three minibatches: one collective before the loop, one in each iteration.
HLO = """HloModule update

add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8] get-tuple-element(%p), index=1
  %go = f32[8] all-reduce-start(%x), to_apply=%add
  %come = f32[8] all-reduce-done(%go)
  ROOT %out = (s32[], f32[8]) tuple(%i, %come)
}

condition (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[], f32[8]) parameter(0)
  ROOT %more = pred[] constant(true)
}

ENTRY main (x: f32[8]) -> (s32[], f32[8]) {
  %x = f32[8] parameter(0)
  %mean = f32[8] all-reduce(%x), to_apply=%add
  %zero = s32[] constant(0)
  %start = (s32[], f32[8]) tuple(%zero, %mean)
  ROOT %loop = (s32[], f32[8]) while(%start), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"3"}}
}
"""  # noqa: E501


def row(devices: int, speed: float, seconds: float = 1.0) -> dict:
    """Return the record of one measurement."""
    numbers = {"devices": devices, "steps_per_second": speed, "compile_seconds": seconds}
    numbers["times_s"] = [6.4 / speed]
    return {"id": "Grid-v0", "num_envs": 64, "device": "cpu", **numbers}


def test_collectives_are_counted_per_update_and_per_minibatch():
    found = scaling.exchanges(HLO, minibatches=3)
    assert found["update"] == {"all-reduce": 4}
    assert found["minibatch"] == {"all-reduce": 1}
    assert scaling.exchanges(HLO, minibatches=5)["minibatch"] == {}


def test_rounds_become_medians_relative_to_one_device():
    rows = scaling.medians([row(1, 100), row(8, 90), row(1, 300), row(8, 60), row(1, 200)])
    assert [each["steps_per_second"] for each in rows] == [200, 75]
    assert rows[0]["all"] == [100, 300, 200]
    # Seconds of each of the three rounds: 6.4 / (steps per second).
    assert rows[0]["times_s"] == [0.064, 6.4 / 300, 0.032]
    lines = training.scaled(rows).plain().splitlines()
    assert lines[-1].split() == ["8", "64", "75", "0.38", "1.0"]


def test_measurements_are_added_to_older_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "in_own_process", lambda id, n, count, *_: row(count, 10 * count))
    file = tmp_path / "scaling.json"
    file.write_text('{"described": 1}')
    assert scaling.main(["--devices", "1", "2", "--rounds", "2", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["described"] == 1
    assert [each["all"] for each in found["simulated"]["rows"]] == [[10, 10], [20, 20]]
    assert "2 devices, 256 envs: 20 steps/s" in capsys.readouterr().out


@pytest.mark.full
def test_an_impossible_measurement_gives_the_reason(capsys):
    asked = ["--id", "Grid-Empty-5x5-v0", "--num-envs", "7", "--devices", "2", "--rounds", "1"]
    assert scaling.main(asked) == 2
    assert "num_envs=7 does not divide evenly among 2 devices" in capsys.readouterr().err


@pytest.mark.skipif(not gpu_work.has_compiler(), reason='needs pip install "jax[cuda13]", no GPU')
def test_eight_gpus_have_one_collective_per_minibatch():
    found = scaling.describe("Grid-DoorKey-5x5-v0", 512, 8)
    assert found["minibatch"] == {"all-reduce": 1}
    assert found["update"] == {"all-reduce": found["minibatches"] + 4}
    assert found["kernels"] < 20_000


@pytest.mark.full
def test_learners_with_params_are_compiled(monkeypatch):
    """RL² passes its training tasks to the program as params. Only the traced program is tested."""
    sizes = {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "hidden": (8,), "memory": 8}
    settings = rl2.Settings(**sizes, task_set="trivial-21k")
    env = registry.training_env("rl2", jaxenvs.make("XLand-R1-9x9-v0"), settings)
    agent, seen = registry.build("rl2", env, settings), []

    def finish(traced):
        seen.append(traced)
        raise InterruptedError

    monkeypatch.setattr(gpu_work, "finish", finish)
    with pytest.raises(InterruptedError):
        scaling.compile_chunk(agent)
    params = seen[0].in_avals[0][-1]
    assert len(jax.tree.leaves(params)) == len(jax.tree.leaves(agent.params)) > 0
