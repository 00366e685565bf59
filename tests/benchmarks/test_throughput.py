"""Tests of `jaxenvs bench`: steps per second and ratios, command line, and output files."""

import json
import statistics

import jax
import numpy as np
import pytest

from jaxenvs.benchmarks import throughput
from jaxenvs.benchmarks.harness import contestants, report, timing
from jaxenvs.benchmarks.harness.timing import Record
from jaxenvs.benchmarks.peers import environments as peers
from jaxenvs.benchmarks.tables.turns import faster
from jaxenvs.core.typed import installation

pytestmark = pytest.mark.full

LEVEL = "Grid-Empty-5x5-v0"


def row(contestant: str, num_envs: int, seconds: list[float], env_id: str = LEVEL) -> Record:
    return Record(contestant, env_id, num_envs, "pool", "image", 10, 2, 1.5, seconds)


def figures(*given) -> dict:
    return row(*given).as_dict()


def run(tmp_path, *options: str) -> int:
    return throughput.main(["--quick", "--seconds", "0.01", "--out", str(tmp_path), *options])


def test_steps_per_second_is_the_median_over_the_repeats():
    assert figures("jaxenvs", 8, [1.0, 4.0, 2.0])["steps_per_second"] == 8 * 10 * 2 / 2.0


def test_a_ratio_compares_neighbours_in_time():
    # In the second turn the machine was ten times slower for both contestants.
    ours, theirs = figures("jaxenvs", 8, [1.0, 10.0, 1.0]), figures("NAVIX", 8, [3.0, 30.0, 9.0])
    assert faster(ours, theirs) == pytest.approx(3.0)


def test_ratios_stay_within_a_batch_size_and_name_the_reset_source():
    groups = [
        [figures("jaxenvs", 8, [1.0]), figures("minigrid", 1, [2.0])],
        [figures("jaxenvs", 64, [1.0]), figures("minigrid", 1, [2.0])],
    ]
    found = report.ratios(groups)
    assert [(r["num_envs"], r["against"], r["ratio"]) for r in found] == [
        (8, "minigrid", 16.0),
        (64, "minigrid", 128.0),
    ]
    assert {r["reset_source"] for r in found} == {"pool"}


def test_turns_alternate():
    order = []

    class Recorder(timing.Runner):
        def __init__(self, name: str) -> None:
            self.record = row(name, 1, [])

        def run(self) -> float:
            order.append(self.record.contestant)
            return 1.0

    rows = timing.take_turns([Recorder("a"), Recorder("b")], 3)
    assert order == ["a", "b"] * 3
    assert [len(r["seconds"]) for r in rows] == [3, 3]


def test_a_rollout_stores_every_observation_and_reward():
    contestant = contestants.ours(LEVEL, 3, "exact")
    state = jax.jit(contestant.reset)(jax.random.key(0))
    after, (obs, reward) = jax.jit(contestant.rollout(5))(jax.random.key(1), state)
    assert obs.shape == (5, 3, 7, 7, 3)
    assert reward.shape == (5, 3)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert (obs[0] != obs[-1]).any()


def test_a_rollout_refreshes_its_pool():
    contestant = contestants.ours("Grid-DoorKey-5x5-v0", 2, "pool", pool_size=16)
    state = jax.jit(contestant.reset)(jax.random.key(0))
    after, _ = jax.jit(contestant.rollout(1))(jax.random.key(1), state)
    assert (after.pool.grid != state.pool.grid).any()


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_a_rollout_fits_its_budget(monkeypatch, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    budget = {"cpu": 16 << 20, "gpu": 1 << 30}[backend]
    small, large = (contestants.ours(LEVEL, n, "exact") for n in (1, 100_000))
    shapes = [jax.eval_shape(c.reset, jax.random.key(0)) for c in (small, large)]
    assert timing.rollout_length(small, shapes[0]) == timing.ROLLOUT_STEPS[1]
    length = timing.rollout_length(large, shapes[1])
    assert length == max(timing.ROLLOUT_STEPS[0], budget // (100_000 * 151))


def test_figures_are_saved_at_once(tmp_path, monkeypatch):
    def turns(runners, repeats):
        if (tmp_path / "bench.json").exists():
            raise KeyboardInterrupt
        return [figures("jaxenvs", 4, [1.0] * repeats)]

    monkeypatch.setattr(timing, "take_turns", turns)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "--ids", LEVEL, "--batches", "4", "8", "--no-peers")
    assert len(json.loads((tmp_path / "bench.json").read_text())["rows"]) == 1


def test_many_ids_fill_several_rows_of_panels(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [figures("jaxenvs", 8, [1.0], f"Grid-{n}-v0") for n in range(6)]
    report.draw(rows, tmp_path / "bench.png", "six")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_minigrid_steps_a_level_of_babyai_and_is_silent(capsys):
    pytest.importorskip("minigrid")
    id = "BabyAI-GoToRedBall-v0"
    runner = timing.GameRunner(peers.peer("minigrid", id, 8), id, 0.001)
    assert runner.run() > 0
    assert capsys.readouterr().out == ""


def test_the_command_writes_a_table_figures_and_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    options = ["--ids", LEVEL, "--batches", "4", "--no-peers", "--reset-source", "pool"]
    assert run(tmp_path, *options) == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert [r["num_envs"] for r in results["rows"]] == [4]
    for found in results["rows"]:
        assert len(found["seconds"]) == results["repeats"]
        median = statistics.median(found["seconds"])
        assert found["steps_per_second"] == round(found["steps"] / median)
    assert {"jax", "jaxlib", "navix", "python"} <= set(results["versions"])
    assert {"date", "device", "cpus", "policy", "unroll"} <= set(results)
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert "jaxenvs (pool)" in capsys.readouterr().out


@pytest.mark.full
def test_minigrid_is_measured_in_the_same_turns(tmp_path):
    pytest.importorskip("minigrid")
    assert run(tmp_path, "--ids", LEVEL, "--batches", "4") == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    (ratio,) = [r for r in results["ratios"] if r["against"] == "minigrid"]
    assert ratio["ratio"] > 0


def test_continuous_actions_are_compared_with_gymnasium(tmp_path, capsys):
    pytest.importorskip("gymnasium")
    assert run(tmp_path, "--ids", "Classic-Pendulum-v0", "--batches", "4") == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert [row["contestant"] for row in results["rows"]] == ["jaxenvs", "gymnasium"]
    assert results["ratios"][0]["ratio"] > 0 and not results["missing"]


def test_continuous_actions_are_uniform_between_their_bounds():
    contestant = contestants.ours("Classic-Pendulum-v0", 500)
    game = contestants.Game("it", "", 500, contestant.actions, lambda action: None, turn=1)
    for drawn in (
        jax.jit(contestant.draw)(jax.random.key(0)),
        timing.drawn(np.random.default_rng(0), game, 1)[0],
    ):
        assert drawn.shape == (500, 1) and drawn.dtype == np.float32
        assert np.abs(drawn).max() <= 2 and abs(np.mean(drawn)) < 0.2 and np.std(drawn) > 1
    alone = timing.drawn(np.random.default_rng(0), game._replace(num_envs=1), 3)
    assert [action.shape for action in alone] == [(1,)] * 3


def test_a_missing_peer_is_named_unless_it_is_left_out(tmp_path, monkeypatch, capsys):
    def absent(*args):
        raise ModuleNotFoundError("no package")

    monkeypatch.setattr(peers, "peer", absent)
    assert run(tmp_path, "--ids", LEVEL, "--batches", "4", "--without", "XLand-MiniGrid") == 0
    shown = capsys.readouterr().out
    names = ["minigrid", "NAVIX", "EnvPool"]
    for name in names:
        assert f"{name}, {LEVEL}: not installed ({installation('bench')})" in shown
    results = json.loads((tmp_path / "bench.json").read_text())
    assert {m["contestant"] for m in results["missing"]} == set(names)


def test_a_level_that_a_peer_lacks_is_named():
    pytest.importorskip("xminigrid")
    with pytest.raises(LookupError, match="has no level like Grid-LavaGapS5-v0"):
        peers.peer("XLand-MiniGrid", "Grid-LavaGapS5-v0", 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ids", "Grid-DorKey-8x8-v0"], "did you mean"),
        (["--obs", "imagee"], "did you mean 'image'"),
    ],
)
def test_invalid_input_names_the_fix(tmp_path, capsys, options, message):
    assert run(tmp_path, *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--seconds", "-1"], ["--repeats", "0"], ["--batches", "0"]])
def test_numbers_must_be_above_zero(tmp_path, capsys, options):
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, *options)
    assert options[0] in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_rejected(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file") == 2
    assert "--out" in capsys.readouterr().err
