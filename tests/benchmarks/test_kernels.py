"""Tests of `kernels`, which sums the time and launches of each kernel over a GPU profile.

The last test makes a profile, so it needs a GPU (JAX_PLATFORMS=cuda).
"""

import json
import types

import jax
import pytest

from jaxenvs.benchmarks import kernels

on_gpu = jax.default_backend() == "gpu"


def plane(name: str, **lines):
    def events(pairs):
        return [types.SimpleNamespace(name=n, duration_ns=ns) for n, ns in pairs]

    found = [types.SimpleNamespace(name=n, events=events(pairs)) for n, pairs in lines.items()]
    return types.SimpleNamespace(name=name, lines=found)


def test_only_streams_of_a_gpu_count():
    streams = {"Stream #1": [("a", 1000), ("b", 500)], "Stream #2": [("a", 3000)]}
    gpu = plane("/device:GPU:0", **streams, **{"XLA Ops": [("a", 9000)]})
    host = plane("/host:CPU", **{"Stream #1": [("a", 9000)]})
    times, launches = kernels.durations([gpu, host])
    assert times == {"a": 4.0, "b": 0.5}
    assert launches == {"a": 2, "b": 1}
    assert list(times) == ["a", "b"]  # the kernel with the longest time comes first


@pytest.mark.skipif(on_gpu, reason="there is a GPU")
def test_without_a_gpu_the_error_names_gpu_work(capsys):
    assert kernels.main([]) == 2
    assert "gpu_work" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not on_gpu, reason="needs a GPU")
def test_kernels_of_a_step(tmp_path, capsys):
    out = tmp_path / "kernels.json"
    assert kernels.main(["--batches", "4096", "--json", str(out)]) == 0
    (row,) = json.loads(out.read_text())["rows"]
    once_a_step = [name for name, launches in row["launches"].items() if launches >= 1]
    assert 8 <= len(once_a_step) <= 14
    assert 0 < row["busy"] < 2000  # wide limits: other processes may use the device
    assert row["id"] in capsys.readouterr().out
