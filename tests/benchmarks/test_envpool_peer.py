"""Tests of EnvPool as a peer (a package to compare with): its levels, figures, observations."""

import json
import sys
import types

import jax
import numpy as np
import pytest
from craftax import craftax_env

import jaxenvs
from jaxenvs.benchmarks import throughput
from jaxenvs.benchmarks.harness import report, timing
from jaxenvs.benchmarks.harness.timing import Record
from jaxenvs.benchmarks.peers import envpool

LEVEL, CRAFT = "Grid-Empty-5x5-v0", "Craft-Classic-Symbolic-v0"


@pytest.fixture
def engine(monkeypatch):
    """Replace EnvPool by a stand-in that has some levels; return the record of its calls."""
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

    names = ["MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0", "Craftax-Classic-Symbolic-v1"]
    names.append("Craftax-Classic-Symbolic-AutoReset-v1")
    module = types.SimpleNamespace(list_all_envs=lambda: names, make_gymnasium=make)
    monkeypatch.setitem(sys.modules, "envpool", module)
    return calls


def test_it_plays_the_same_level(engine):
    envpool.build("EnvPool", LEVEL, 4)
    envpool.build("EnvPool", "BabyAI-GoToLocal-v0", 8)
    assert engine.made == [("MiniGrid-Empty-5x5-v0", 4), ("BabyAI-GoToLocal-v0", 8)]
    with pytest.raises(LookupError, match="EnvPool has no level like Grid-DoorKey-8x8-v0"):
        envpool.build("EnvPool", "Grid-DoorKey-8x8-v0", 4)


def test_craft_uses_the_id_with_same_step_reset(engine):
    game = envpool.build("EnvPool", "Craft-Classic-Ids-v0", 4)
    assert engine.made == [("Craftax-Classic-Symbolic-AutoReset-v1", 4)]
    assert game.obs == "symbolic"
    assert envpool.level("Craft-Pixels-v0") == "Craftax-Pixels-AutoReset-v1"
    with pytest.raises(LookupError, match="EnvPool has no level like Craft-Symbolic-v0"):
        envpool.build("EnvPool", "Craft-Symbolic-v0", 4)


def test_a_repeat_steps_the_whole_batch(engine, monkeypatch):
    monkeypatch.setattr(timing, "AGE_STEPS", 1)
    runner = timing.GameRunner(envpool.build("EnvPool", LEVEL, 3), LEVEL, 0.0001)
    engine.actions.clear()
    assert runner.run() > 0
    assert runner.record.steps == 3 * len(engine.actions)
    drawn = np.stack(engine.actions)
    assert drawn.dtype == np.int32 and (drawn.min(), drawn.max()) == (0, 6)


def test_a_ratio_per_core_uses_processor_time():
    # Wall times of 1 s and 8 s have the ratio 8. CPU times of 2 s and 8 s have the ratio 4.
    ours = Record("jaxenvs", LEVEL, 8, "exact", "dict", 10, 1, 0.0, [1.0] * 3, [2.0] * 3)
    theirs = Record("EnvPool", LEVEL, 8, "own", "dict", 10, 1, 0.0, [8.0] * 3, [8.0] * 3)
    (found,) = report.ratios([[ours.as_dict(), theirs.as_dict()]])
    assert (found["obs"], found["ratio"], found["per_core"]) == ("dict", 8.0, 4.0)


def test_one_run_compares_it_with_two_observations(engine, tmp_path, monkeypatch, capsys):
    class Ours(timing.Runner):
        def __init__(self, env_id, num_envs, source, obs, params, seconds):
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
    pool = envpool.build("EnvPool", "BabyAI-GoToLocal-v0", 2)
    observed, reward, *_ = pool.step(np.zeros(2, np.int32))
    assert set(observed) == {"image", "direction", "mission"} and reward.shape == (2,)


@pytest.fixture
def craftax_of():
    """Return a function that makes EnvPool's Craftax; skip the test if EnvPool lacks it."""
    envpool = pytest.importorskip("envpool")

    def make(env_id, seed):
        level = envpool.level(env_id)
        if level not in envpool.list_all_envs():
            pytest.skip(f"this EnvPool has no {level}")
        return envpool.make_gymnasium(level, num_envs=1, seed=seed)

    return make


@pytest.mark.parametrize("env_id", [name for name in jaxenvs.registry.list() if "Craft-" in name])
def test_its_craft_has_our_actions_limit_and_the_observation_of_craftax(craftax_of, env_id):
    pool, ours = craftax_of(env_id, 0), jaxenvs.make(env_id)
    assert pool.action_space.n == ours.action_space.n
    assert pool.config["max_episode_steps"] == ours.default_params.max_steps_in_episode
    assert pool.observation_space.dtype == np.float32
    if "-Ids-" not in env_id:
        assert pool.observation_space.shape == ours.observation_space.shape


@pytest.mark.full
def test_its_craft_plays_like_craftax_from_the_same_seed(craftax_of):
    pool = craftax_of(CRAFT, 3)
    env = craftax_env.make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=True)
    # craftax does not support strict dtype promotion
    standard = jax.numpy_dtype_promotion("standard")
    reset, step = jax.jit(standard(env.reset)), jax.jit(standard(env.step))
    key, rng = jax.random.PRNGKey(3), np.random.default_rng(1)
    obs, state = reset(key, env.default_params)
    np.testing.assert_array_equal(pool.reset()[0][0], obs)
    for _ in range(60):
        key, key_step = jax.random.split(key)
        action = int(rng.integers(17))
        obs, state, reward, done, _ = step(key_step, state, action, env.default_params)
        theirs, gained, terminated, truncated, _ = pool.step(np.array([action], np.int32))
        np.testing.assert_allclose(theirs[0], obs, rtol=0, atol=1e-6)
        assert gained[0] == reward and (terminated | truncated)[0] == done
