"""Tests of runs with reset source `stock` (levels generated ahead).

They test which reset source is recorded, and how runs are resumed.
"""

import json
import shutil

import jax
import numpy as np
import pytest
from test_devices import end, learn
from tiny import FLAGS, Countdown

from jaxenvs.baselines.core.devices import Devices
from jaxenvs.baselines.on_policy import rl2
from jaxenvs.baselines.run import options
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import checkpoints
from jaxenvs.baselines.storage.runs import Run

ID = "Puzzle-Maze-10x10-v0"
FLAGS = [*FLAGS, "--hidden", "8"]
ACCELERATOR = "jaxenvs.core.vector.has_accelerator"


def total(updates):
    """Return the command-line flags for a number of updates."""
    return ["--total-steps", str(updates * 8 * 32)]


@pytest.fixture
def accelerator(monkeypatch):
    """Return a function `there(b)`: if `b`, JAX seems to have an accelerator, otherwise none."""

    def there(is_there):
        monkeypatch.setattr(ACCELERATOR, lambda: is_there)

    return there


def arrays(out):
    """Return all arrays of a run's newest checkpoint, by name."""
    return checkpoints.contents(checkpoints.saved(out / "checkpoints")[-1])


def recorded(out):
    """Return the reset source that a run's config.json records."""
    return json.loads((out / "config.json").read_text())["settings"]["reset_source"]


def interrupted(out, copy):
    """Copy a run without its last checkpoint, as if it had been interrupted; return the copy."""
    shutil.copytree(out, copy)
    shutil.rmtree(checkpoints.saved(copy / "checkpoints")[-1])
    return copy


@pytest.mark.full
@pytest.mark.parametrize("began_with", ["stock", None])
def test_a_run_goes_on_with_the_source_it_began_with(accelerator, tmp_path, began_with):
    """A resumed run keeps its reset source on a machine whose default is another one.

    `began_with` is the source recorded first: `stock` on an accelerator, None on a CPU. A run begun
    on an accelerator is resumed on a CPU, and the reverse.
    """
    out = tmp_path / "run"
    accelerator(began_with == "stock")
    assert main([ID, *FLAGS, *total(4), "--out", str(out)]) == 0
    assert recorded(out) == began_with
    whole = arrays(out)
    assert any(name.startswith("stock.") for name in whole) == (began_with == "stock")
    again = interrupted(out, tmp_path / "again")
    accelerator(began_with is None)
    assert main(["--resume", str(again), "--eval-episodes", "16"]) == 0
    assert recorded(again) == (began_with or "exact")
    jax.tree.map(np.testing.assert_array_equal, whole, arrays(again))


@pytest.mark.full
def test_devices_have_separate_stocks(tmp_path):
    """Each of eight devices has its own stock (levels generated ahead).

    Resumed on eight devices, the run equals an uninterrupted one bit by bit. Resumed on one device,
    it begins with an empty stock of another size.
    """
    out = tmp_path / "run"
    flags = [*FLAGS, "--num-envs", "16", "--seeds", "1", "--total-steps", "2048"]
    flags += ["--reset-source", "stock", "--devices", "8", "--out", str(out)]
    end(learn([ID, *flags], 8))
    whole = arrays(out)
    assert whole["stock.counters"].shape == (1, 8 * 4)
    again = interrupted(out, tmp_path / "again")
    end(learn(["--resume", str(again), "--devices", "8"], 8))
    jax.tree.map(np.testing.assert_array_equal, whole, arrays(again))
    more = ["--resume", str(again), "--total-steps", "3072", "--learning-rate", "1e-3"]
    assert main(more) == 0
    alone = arrays(again)
    assert alone["stock.counters"].shape == (1, 4)
    assert alone["stock.counters"][0, 1] > 0, "the ring was filled"
    assert [row["steps"] for row in Run.open(again).records()][-1] == 3072


def test_a_learner_takes_the_default_of_the_machine(accelerator):
    accelerator(True)
    assert Devices(2).batch(Countdown(), 64, None).reset_source == "stock"
    assert Devices(2).batch(Countdown(), 64, "exact").reset_source == "exact"


def test_a_source_is_named_only_where_it_is_not_the_environments(accelerator):
    def named(*flags, algorithm="ppo"):
        asked = options.with_source(options.parse([*flags], algorithm), algorithm)
        return asked.settings.reset_source

    accelerator(True)
    assert named(ID) == named("BabyAI-GoToLocal-v0") == "stock"
    assert named("Grid-DoorKey-5x5-v0") is None
    assert named(ID, "--reset-source", "exact") == "exact"
    assert named(ID, algorithm="ppo-ray") is None, "actors have a CPU each"
    accelerator(False)
    assert named(ID) is None


def test_a_stock_does_not_suit_trials():
    with pytest.raises(ValueError, match="reset_source=stock: every step of a stock reads all"):
        rl2.Settings(task_set="trivial-21k", reset_source="stock").check()
