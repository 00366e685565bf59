"""Tests of the benchmark that compares off-policy learners with other libraries.

The learners train with equal settings, in separate processes that take turns.
"""

import argparse
import dataclasses
import json
import sys
import types

import pytest

from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.benchmarks import off_policy
from jaxenvs.benchmarks.harness import instrument
from jaxenvs.benchmarks.off_policy import SETTINGS, Setting
from jaxenvs.benchmarks.peers import off_policy as off_policy_peers
from jaxenvs.benchmarks.tables import training

SMALL = Setting(
    **{"algorithm": "sac", "env": "Pendulum-v1", "steps": 600, "learning_rate": 1e-3},
    **{"gamma": 0.9, "batch_size": 8, "capacity": 1000, "hidden": (4,), "warm_up": 100},
)
# Program of a process that answers like `peers/off_policy.py`.
FAKE = """
import json, sys
asked = json.loads(sys.stdin.readline())
missing = None if asked["learner"] == "sb3" else "no module"
print(json.dumps({"missing": missing}), flush=True)
for seed in sys.stdin if not missing else ():
    if asked["setting"]["algorithm"] == "td3":
        sys.exit(7)
    record = {"seconds": 9.0, "warm_steps": 300, "warm_seconds": 3.0, "evaluation": -float(seed)}
    print(json.dumps(record), flush=True)
"""


def sent(setting, **more):
    """Return a setting as the dictionary that the learners' processes receive as JSON."""
    return {**dataclasses.asdict(setting), "mark": setting.mark, **more}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("num_envs", [1, 16])
def test_our_settings_agree_with_every_setting(setting, num_envs):
    chosen = setting.among(num_envs, None)
    given = off_policy_peers.our_settings(sent(chosen))
    settings = ALGORITHMS[setting.algorithm].load().Settings(**given)
    settings.check()
    made = settings.updates * settings.steps_per_update
    assert chosen.steps <= made <= 1.1 * chosen.steps
    assert (settings.batch_size, settings.gamma) == (setting.batch_size, setting.gamma)
    iterations = settings.steps_per_update // num_envs
    ratio = setting.gradient_steps / chosen.rollout_steps
    assert settings.gradient_steps / iterations == pytest.approx(ratio)
    assert not settings.layer_norm  # the other libraries use no layer norm either


def test_peers_get_the_same_settings():
    (values,) = [each for each in SETTINGS if each.name == "qr-dqn MountainCar-v0"]
    given = off_policy_peers.their_settings(sent(values.among(16, None)), "sb3")(None)
    assert given == {
        **{"learning_rate": 4e-3, "gamma": 0.98, "batch_size": 128, "learning_starts": 1000},
        **{"buffer_size": 10_000, "gradient_steps": 8, "train_freq": 16, "device": "cpu"},
        **{"target_update_interval": 600, "exploration_fraction": 0.2},
        "exploration_final_eps": 0.07,
        "policy_kwargs": {"net_arch": [64, 64], "n_quantiles": 25},
    }
    crossq = off_policy_peers.their_settings(sent(SMALL, algorithm="crossq"), "sbx")(None)
    assert crossq["policy_kwargs"] == {"net_arch": {"pi": [4], "qf": [4]}}
    assert crossq["policy_delay"] == 3 and "device" not in crossq


def test_td3_of_the_peers_has_action_noise(monkeypatch):
    made = types.SimpleNamespace(NormalActionNoise=lambda mean, sigma: (mean.shape, sigma[0]))
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.noise", made)
    for name in ("stable_baselines3", "stable_baselines3.common"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    envs = types.SimpleNamespace(action_space=types.SimpleNamespace(shape=(2,)))
    given = off_policy_peers.their_settings(sent(SMALL, algorithm="td3"), "sb3")(envs)
    assert given["action_noise"] == ((2,), 0.1) and given["policy_kwargs"] == {"net_arch": [4]}


def test_an_unsupported_learner_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sbx", types.SimpleNamespace(CrossQ=int))
    assert off_policy_peers.named("crossq", "sbx") is int
    with pytest.raises(LookupError, match="sbx have no QRDQN"):
        off_policy_peers.named("qr-dqn", "sbx")


def test_processes_take_turns_and_missing_learners_are_named(tmp_path, monkeypatch, capsys):
    fake, file = tmp_path / "fake.py", tmp_path / "found.json"
    fake.write_text(FAKE)
    monkeypatch.setattr(off_policy, "PEERS", fake)
    monkeypatch.setattr(off_policy, "ASK_VERSIONS", "print('{}')")
    monkeypatch.setattr(instrument, "use_one_core", lambda: None)
    argv = ["--sbx-python", sys.executable, "--settings", "sac Pendulum-v1", "--envs", "1"]
    argv += ["--learners", "sb3", "sbx", "--seeds", "3", "--steps", "500", "--json", str(file)]
    assert off_policy.main(argv) == 0
    said = capsys.readouterr()
    assert "sbx, sac Pendulum-v1: no module" in said.err
    found = json.loads(file.read_text())
    (row,) = found["rows"]
    assert [each["seed"] for each in row["trainings"]] == [0, 1, 2]
    assert row["steps_per_second"] == 100.0 and row["setting"]["steps"] == 500
    assert "sac Pendulum-v1" in said.out and "-1.0" in said.out
    argv[3] = "td3 Pendulum-v1"
    assert off_policy.main(argv) == 2
    assert "sb3, td3 Pendulum-v1: its process ended with 7" in capsys.readouterr().err


def test_the_table_compares_learners_of_one_setting():
    def row(learner, speed, num_envs, *returns):
        setting = {**vars(SMALL), "num_envs": num_envs, "name": SMALL.name}
        trainings = [{"evaluation": each} for each in returns]
        return {
            **{"learner": learner, "setting": setting, "steps_per_second": speed},
            "trainings": trainings,
        }

    rows = [row("jaxenvs", 900.0, 1, -150.0, -170.0), row("sb3", 90.0, 1, -140.0, -180.0)]
    rows += [row("jaxenvs", 9000.0, 16, -160.0)]
    table = training.off_policy({"rows": rows})
    cells = [dict(zip(table.head, line, strict=True)) for line in table.rows]
    assert [line["ours is faster by"] for line in cells] == ["", "10.0", ""]
    assert cells[1]["return: mean"] == "-160.0" and cells[1]["worst"] == "-180.0"

    (line,) = training.off_policy_speed({"rows": rows[:2]}).rows
    assert line[-3:] == ["900", "90", "10.0"] and "4" in line


def test_sizes_are_widths_and_batches():
    assert off_policy.size("32x64") == {"hidden": (32, 32), "batch_size": 64}
    with pytest.raises(argparse.ArgumentTypeError, match="must be a width and a batch"):
        off_policy.size("32")


@pytest.mark.full
def test_ours_trains_and_is_evaluated():
    train = off_policy_peers.ours(sent(SMALL), "jaxenvs")
    first, second = train(0), train(1)
    assert first["warm_steps"] > 0 and 0 < first["warm_seconds"] < first["seconds"]
    assert -2000 < first["evaluation"] < 0 and first["evaluation"] != second["evaluation"]
    assert first["last_return"] < 0
