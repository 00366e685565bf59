"""Tests of the benchmark of training with Ray actors.

They test its slow environments, learning curves, picture, and list of running processes.
"""

import json
import os
import subprocess
import sys
import time
import types

import gymnasium
import numpy as np
import pytest

from jaxenvs.benchmarks import scaling_ray, slow_worlds


def test_the_slow_cartpole_sleeps_in_every_step():
    env = gymnasium.make("jaxenvs.benchmarks.slow_worlds:SlowCartPole-v0")
    env.reset(seed=0)
    begun = time.perf_counter()
    for _ in range(5):
        assert env.step(0)[1] == 1.0
    assert time.perf_counter() - begun >= 5 * slow_worlds.PAUSE
    env.close()


class Packaged:
    """Stand-in for `crafter.Env` with the members that `slow_worlds.Crafter` uses."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def reset(self) -> None:
        self.time = 0

    def step(self, action: int):
        self.time += 1
        semantic = np.arange(64)[:, None] % 19 + np.zeros((64, 64), int)
        semantic[3, 60] = 18
        info = {
            "semantic": semantic,
            "player_pos": np.array([3, 60]),
            "inventory": {f"item {i}": i for i in range(16)},
            "discount": 0.0 if action == 7 else 1.0,
        }
        return None, 0.5, action in (7, 8), info


def test_crafter_has_the_interface_of_gymnasium(monkeypatch):
    package = types.ModuleType("crafter")
    package.Env = Packaged  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "crafter", package)
    env = slow_worlds.Crafter()
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert obs["cells"][4, 3, 0] == 18  # the player is in the centre
    np.testing.assert_array_equal(obs["cells"][:, 3, 0], [0, 0, 1, 2, 18, 4, 5, 6, 7])
    assert (obs["cells"][1:, 6] > 0).any() and obs["items"].max() == 9
    assert env.step(0)[1:4] == (0.5, False, False)
    assert env.step(7)[1:4] == (0.5, True, False)  # the player has died: terminated
    assert env.step(8)[1:4] == (0.5, False, True)  # the time limit is reached: truncated


def test_curves_average_the_latest_episodes(monkeypatch):
    monkeypatch.setattr(scaling_ray, "EPISODES", 4)
    log = [
        {"seconds": 2.0 + i, "steps": 10 * i, "return": value, "episodes": count}
        for i, (value, count) in enumerate([(None, 0), (1.0, 2), (4.0, 2), (8.0, 2), (10.0, 8)])
    ]
    assert scaling_ray.curve(log) == [
        [2.0, 20, 2.5],
        [3.0, 30, 6.0],
        [4.0, 40, 10.0],
    ]


def test_exchanged_data_is_summarised():
    row = {"fragment_bytes": 100, "weight_bytes": 7, "learn_seconds": 0.5, "lag": 1.0, "lag_max": 2}
    log = [row | {"seconds": 1.0}, row | {"seconds": 3.0, "lag": 2.0}, row | {"seconds": 5.0}]
    assert scaling_ray.exchanged(log) == {
        "updates_per_second": 0.5,
        "fragment_bytes_per_update": 100,
        "weight_bytes": 7,
        "lag_mean": pytest.approx(1.333, abs=1e-3),
        "lag_max": 2,
        "learn_seconds": 0.5,
    }


def test_the_picture_shows_the_results(tmp_path):
    runs = [
        {
            "world": env,
            "actors": actors,
            "mode": "async",
            "samples_per_second": 100.0,
            "curve": [[0.0, 10, 1.0], [1.0, 20, 2.0]],
        }
        for env in scaling_ray.TITLES
        for actors in (1, 2)
    ]
    out, picture = tmp_path / "ray.json", tmp_path / "ray.png"
    out.write_text(json.dumps({"runs": runs}))
    argv = ["--only-draw", "--out", str(out), "--picture", str(picture)]
    assert scaling_ray.main(argv) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_processes_are_counted_until_they_end():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe) as process:
        limit = time.monotonic() + 30
        while len(found := dict(scaling_ray.below(process.pid))) < 1:
            assert time.monotonic() < limit
        assert process.pid in dict(scaling_ray.below(os.getpid()))
        children = {process.pid, *found}
        assert set(scaling_ray.running(children)) == children
        process.communicate(b"\n", timeout=30)
    assert scaling_ray.running(children) == []
