"""Tests of the benchmark of auto-resets, which times each reset source.

They test how many iterations `exact` needs to generate the levels of a step, and batches whose
episodes end at different times.
"""

import json

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs.benchmarks import resets
from jaxenvs.benchmarks.harness import timing

LEVEL = "Grid-Empty-5x5-v0"


def test_trips_are_those_of_the_fullest_lane():
    done = np.zeros((3, 10), bool)
    # Environment i belongs to lane i % chunk, and a lane resets one environment per iteration. All
    # three environments of the next line belong to lane 0.
    done[1, [0, 4, 8]] = True
    done[2, [1, 2, 3]] = True  # three different lanes, so one iteration is enough
    assert resets.trips(done, chunk=4).tolist() == [0, 3, 1]


@pytest.mark.parametrize(("limit", "ended"), [pytest.param(0, 0, marks=pytest.mark.full), (5, 8)])
def test_with_staggered_clocks_episodes_end_evenly(limit, ended):
    batch = resets.staggered("Grid-DoorKey-8x8-v0", 40, "fresh", limit, chunk=8)
    state = jax.jit(batch.reset)(jax.random.key(0))
    _, ((_, done), _) = jax.jit(batch.rollout(10))(jax.random.key(1), state)
    assert (done.sum(axis=1) == ended).all()


@pytest.mark.full
def test_the_command_writes_every_source_and_limit(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timing, "ROLLOUT_STEPS", (16, 64))
    out = tmp_path / "resets.json"
    options = ["--batch", "64", "--limits", "4", "--seconds", "0.01", "--repeats", "2"]
    assert resets.main(["--ids", LEVEL, *options, "--json", str(out)]) == 0
    results = json.loads(out.read_text())
    found = {(row["reset_source"], row["limit"]) for row in results["rows"]}
    assert found == {(source, 4) for source in resets.SOURCES}
    for row in results["rows"]:
        assert row["microseconds"] > 0
        assert ("trips_per_step" in row) == (row["reset_source"] == "exact")
        assert row["ended_per_step"] >= 16
    assert {"device", "versions"} <= set(results)
    assert "trips" in capsys.readouterr().out


def test_an_unknown_id_is_rejected(capsys):
    with pytest.raises(jaxenvs.UnknownIdError):
        jaxenvs.spec("Grid-DorKey-8x8-v0")
    assert resets.main(["--ids", "Grid-DorKey-8x8-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err
