"""Tests of `update_work`, which counts the work of a whole update compiled for a GPU."""

import json
import re

import pytest

from jaxenvs.baselines import presets
from jaxenvs.baselines.on_policy import ppo_rnn
from jaxenvs.benchmarks import gpu_work, update_work
from jaxenvs.benchmarks.gpu_model import hlo, kernel_time
from jaxenvs.benchmarks.tables.gpu import UPDATES
from jaxenvs.benchmarks.tables.text import tabulated
from jaxenvs.benchmarks.update_work import CASES, MILLION, Case

# HLO of an update: a rollout of four steps, and four gradient steps with a product of bfloat16
# matrices; each step of the rollout has a loop whose number of iterations is unknown.
UPDATE = """\
HloModule jit_run_chunk, is_scheduled=true

%gemm (g0: bf16[4096,4096], g1: bf16[4096,8192]) -> bf16[4096,8192] {
  %g0 = bf16[4096,4096]{1,0} parameter(0)
  %g1 = bf16[4096,8192]{1,0} parameter(1)
  ROOT %dot.1 = bf16[4096,8192]{1,0} dot(%g0, %g1), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}, metadata={op_name="jit(run_chunk)/transpose(jvp(unroll))/dot_general"}
}

%trip (t: f32[64]) -> f32[64] {
  %t = f32[64]{0} parameter(0)
  ROOT %world = f32[64]{0} add(%t, %t), metadata={op_name="jit(run_chunk)/while/body/while/add"}
}

%unknown (u: f32[64]) -> pred[] {
  %u = f32[64]{0} parameter(0)
  ROOT %more = pred[] constant(true)
}

%act (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %think = f32[64]{0} negate(%a), metadata={op_name="jit(run_chunk)/while/body/think/neg"}
  ROOT %refill = f32[64]{0} while(%think), condition=%unknown, body=%trip
}

%learn (l: (bf16[4096,4096], bf16[4096,8192])) -> (bf16[4096,4096], bf16[4096,8192]) {
  %l = (bf16[4096,4096]{1,0}, bf16[4096,8192]{1,0}) parameter(0)
  %l0 = bf16[4096,4096]{1,0} get-tuple-element(%l), index=0
  %l1 = bf16[4096,8192]{1,0} get-tuple-element(%l), index=1
  %gradient = bf16[4096,8192]{1,0} fusion(%l0, %l1), kind=kCustom, calls=%gemm
  %next = bf16[4096,4096]{1,0} negate(%l0), metadata={op_name="jit(run_chunk)/jvp()/neg"}
  ROOT %l2 = (bf16[4096,4096]{1,0}, bf16[4096,8192]{1,0}) tuple(%next, %l1)
}

%always (w: f32[64]) -> pred[] {
  %w = f32[64]{0} parameter(0)
  ROOT %yes = pred[] constant(true)
}

ENTRY %main (x: f32[64], y: bf16[4096,4096], z: bf16[4096,8192]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
  %y = bf16[4096,4096]{1,0} parameter(1)
  %z = bf16[4096,8192]{1,0} parameter(2)
  %in = (bf16[4096,4096]{1,0}, bf16[4096,8192]{1,0}) tuple(%y, %z)
  %learning = (bf16[4096,4096]{1,0}, bf16[4096,8192]{1,0}) while(%in), condition=%always, \
body=%learn, backend_config={"known_trip_count":{"n":"4"}}
  ROOT %acting = f32[64]{0} while(%x), condition=%always, body=%act, \
backend_config={"known_trip_count":{"n":"4"}}
}
"""


def test_every_gpu_preset_is_measured():
    """A case that another preset of its learner overrides does not measure the first preset."""
    for row in presets.PRESETS:
        if row.name == "gpu":
            ids = [case.id for case in CASES if case.algorithm == row.algorithm]
            seen = [id for id in ids if presets._rows(id, row.algorithm)[-1] == row]
            assert seen or (row.ids == r"XLand-.*" and ids), row.ids
    assert all(re.search("gpu", str(presets.names(case.id, case.algorithm))) for case in CASES)


def test_the_million_environments_have_the_minibatches_of_the_preset():
    preset = presets.preset("Craft-Ids-v0", "gpu", "ppo-rnn").settings
    settings = [ppo_rnn.Settings(**{**preset, **changed}) for changed in ({}, MILLION)]
    sizes = [each.num_envs * each.rollout_steps // each.minibatches for each in settings]
    assert sizes == [32_768, 32_768] and settings[1].num_envs == 2**20
    settings[1].check()


def test_the_work_is_divided_into_acting_learning_and_loops_of_unknown_length():
    settings = ppo_rnn.Settings(rollout_steps=4, unroll=1)
    work = update_work.counted(hlo.parse(UPDATE), settings)
    # two loops, four steps with one kernel and one inner loop, four gradient steps of two kernels
    assert work["kernels"] == 2 + 4 * 2 + 4 * 2
    assert work["kernels_per_trip"] == 4
    assert work["bytes_per_trip"] == 4 * 3 * 64 * 4  # an addition: two reads and a write
    assert 0 < work["acting_us"] < 20 < work["model_us"] - work["acting_us"]
    longest = work["longest"][0]
    assert (longest["kernel"], longest["launches"]) == ("gradient", 4)
    assert "transpose(jvp(unroll))" in longest["scope"]


def test_the_arithmetic_of_a_product_takes_time():
    """The operations take 463 us at 60 % of the H200's 989 TFLOP/s; the bytes take a third."""
    module = hlo.parse(UPDATE)
    times = {
        k.name: k.microseconds for k in kernel_time.timed(module, hlo.kernels(module, "learn"))
    }
    assert times["gradient"] == pytest.approx(2 * 4096**2 * 8192 / 593.4e6, rel=1e-3)


def test_rows_of_other_cases_stay_in_the_file(tmp_path, monkeypatch):
    def measure(id, preset, algorithm, **changed):
        counts = dict.fromkeys(("bytes", "conditions", "kernels_per_trip"), 0)
        times = dict.fromkeys(("model_us", "model_us_per_trip", "acting_us"), 2000.0)
        of_settings = {"num_envs": 8, "rollout_steps": 4, "epochs": 1, "minibatches": 1, **changed}
        row = {"algorithm": algorithm, "id": id, "changed": changed, **of_settings}
        return {**row, **counts, **times, "kernels": len(calls), "reset_source": "stock"}

    calls = []
    monkeypatch.setattr(update_work, "measure", lambda *a, **k: calls.append(a) or measure(*a, **k))
    monkeypatch.setattr(gpu_work, "choose_target", lambda here: None)
    file = tmp_path / "work.json"
    assert (
        update_work.main(["--json", str(file), "--algo", "ppo-rnn", "--ids", "Craft-Ids-v0"]) == 0
    )
    assert [call[0] for call in calls] == ["Craft-Ids-v0"] * 2
    assert update_work.main(["--json", str(file), "--ids", "Grid-DoorKey-8x8-v0"]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [(row["algorithm"], row["id"], row["changed"]) for row in rows] == [
        ("ppo", "Grid-DoorKey-8x8-v0", {}),
        ("ppo-rnn", "Craft-Ids-v0", {}),
        ("ppo-rnn", "Craft-Ids-v0", MILLION),
    ]
    table = tabulated(rows, UPDATES)
    assert table.rows[2][2] == "**1,048,576 x 32**" and table.rows[0][2] == "8 x 4"
    assert table.rows[0][5] == "2.0" and table.rows[0][8] == "16.0 k"


def test_an_id_without_a_case_is_measured_with_its_preset():
    assert list(update_work.chosen(None, ["Grid-Empty-5x5-v0"])) == [
        Case("ppo", "Grid-Empty-5x5-v0")
    ]
    assert list(update_work.chosen("ppo-rnn", ["Craft-Symbolic-v0"])) == [
        Case("ppo-rnn", "Craft-Symbolic-v0")
    ]
    assert list(update_work.chosen(None, None)) == list(CASES)
