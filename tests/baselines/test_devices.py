"""Tests of learners on several devices and in several processes.

Devices are simulated on the CPU; processes communicate by gloo.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jax
import pytest
import tiny

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core.devices import Devices
from jaxenvs.baselines.off_policy.presets import DQN_FAMILY
from jaxenvs.baselines.puzzles import davi
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage.runs import Run

HERE = Path(__file__).parent
REAL = ("sac", "td3", "tqc", "crossq")  # learners that need continuous actions
FLAGS = os.environ.get("XLA_FLAGS", "")
DOORKEY = ["Grid-DoorKey-5x5-v0", "--eval-episodes", "256"]


def start(argv: list[str], devices: int = 1, **environment: str) -> subprocess.Popen:
    """Start a Python process with a number of simulated CPU devices."""
    return subprocess.Popen(
        [sys.executable, *argv],
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"{FLAGS} --xla_force_host_platform_device_count={devices}",
            "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
            "PYTHONPATH": str(HERE),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen, code: int = 0, timeout: int = 300) -> tuple[str, str]:
    """Wait for a process, check its exit code, and return its stdout and stderr."""
    said = process.communicate(timeout=timeout)
    assert process.returncode == code, said[1]
    return said


def learn(flags: list[str], devices: int = 1, **environment: str) -> subprocess.Popen:
    """Start `jaxenvs train` in a separate process."""
    return start(["-m", "jaxenvs.baselines.run.train", *flags], devices, **environment)


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def on_eight(*arguments: str) -> dict:
    """Run `on_eight.py` with eight simulated devices; return its JSON output."""
    said, _ = end(start([str(HERE / "on_eight.py"), *arguments], 8))
    return json.loads(said.splitlines()[-1])


@pytest.fixture(scope="module")
def seen():
    """Return the results of `on_eight.py` on gradients, a compiled update and a replay buffer."""
    return on_eight()


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Return the folder of a run on eight devices, and the JSON output of on_eight.py."""
    out = tmp_path_factory.mktemp("devices") / "run"
    return out, on_eight(str(out))


@pytest.mark.full
def test_eight_devices_have_the_gradient_of_one(seen):
    gradients = seen["gradients"]
    assert gradients["together"] < 1e-5
    # The gradient is wrong if advantages are normalised on each device separately.
    assert gradients["alone"] > 1e-2


@pytest.mark.full
def test_a_minibatch_exchanges_once_and_gathers_nothing(seen):
    program = seen["program"]
    assert program["minibatch"] == {"all-reduce": 1}
    # The update's all-reduces: one per minibatch, two for the mean and variance of advantages, and
    # two (in jax 0.7 four) for the metrics.
    assert program["update"].keys() == {"all-reduce"}
    assert 4 <= program["update"]["all-reduce"] - program["minibatches"] <= 6


@pytest.mark.full
def test_weights_stay_equal_and_environments_are_divided(seen):
    program = seen["program"]
    assert program["equal_weights"]
    assert program["envs_of_a_device"] == 2
    # Devices draw different levels: more than 4 of the 8 possible levels occur.
    assert program["different_levels"] > 4
    assert program["episodes"] > 16  # number of episodes on all devices together


@pytest.mark.full
def test_eight_devices_draw_from_a_replay_as_one_does(seen):
    """With the same key, sampling on eight devices and on one device draws the same slots.

    Chi-square tests check that slots are drawn in proportion to their priorities.
    """
    replay = seen["replay"]
    assert replay["equal"] and replay["never"] == 0
    assert min(*replay["fit"], replay["alike"]) > 1e-3


@pytest.mark.full
def test_epsilon_falls_over_the_environments_of_all_devices(seen):
    """Epsilons of all environments, over all devices, follow Horgan et al. (2018), section 4.1."""
    expected = [0.4 ** (1.0 + 7.0 * i / 15) for i in range(16)]
    assert seen["replay"]["epsilons"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.full
def test_a_run_of_eight_devices_writes_the_usual_files(eight):
    out, seen = eight
    assert seen["exit"] == 0
    assert seen["files"] == ["checkpoints", "config.json", "curve.png", "eval.json", "log.jsonl"]
    assert [row["steps"] for row in Run.open(out).records()] == [128, 256]


@pytest.mark.slow
def test_a_checkpoint_of_eight_devices_resumes_on_one(eight, tmp_path):
    out = shutil.copytree(eight[0], tmp_path / "run")
    more = ["--total-steps", "512", "--learning-rate", "1e-3"]
    assert train.main(["--resume", str(out), *more]) == 0
    assert [row["steps"] for row in Run.open(out).records()] == [128, 256, 384, 512]


@pytest.mark.slow
def test_two_processes_learn_as_one_with_two_devices(eight, tmp_path):
    """Resume an eight-device run on two devices, in one process and in two; compare the results."""
    one, two = (shutil.copytree(eight[0], tmp_path / name) for name in ("one", "two"))
    together = ["--total-steps", "512", "--learning-rate", "1e-3", "--devices", "all"]
    alone = learn(["--resume", str(one), *together], devices=2)
    address = f"127.0.0.1:{free_port()}"
    joined = ["--resume", str(two), *together, "--coordinator", address, "--processes", "2"]
    first, second = (learn([*joined, "--process", str(i)]) for i in range(2))
    end(alone)
    assert "Evaluated over" in end(first)[0]
    assert "Evaluated" not in end(second)[0]
    rows = [Run.open(path).records() for path in (one, two)]
    assert [row["update"] for row in rows[0]] == [1, 2, 3, 4]
    for a, b in zip(*rows, strict=True):
        assert (a["episodes"], a["return"], a["length"]) == (
            b["episodes"],
            b["return"],
            b["length"],
        )
        assert a["value_loss"] == pytest.approx(b["value_loss"], rel=1e-5)


@pytest.mark.full
def test_tasks_of_slurm_join_by_its_variables(tmp_path):
    tasks = {
        "SLURM_JOB_ID": str(free_port()),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
    }
    flags = ["Grid-Empty-Random-5x5-v0", "--devices", "3", "--out", str(tmp_path / "run")]
    each = [learn(flags, SLURM_PROCID=str(i), SLURM_LOCALID=str(i), **tasks) for i in range(2)]
    # The two processes have two devices together, so both refuse `--devices 3`.
    for process in each:
        assert "--devices 3: there are 2 (cpu)" in end(process, 2)[1]


def refused(capsys, argv: list[str]) -> str:
    """Return the error message of a command that must be refused."""
    assert train.main(argv) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--devices", "99"], "--devices 99: there is 1 (cpu); give at most that, or all."),
        (["--devices", "none"], "--devices none: give a number from 1 to 1, or all"),
        (["--coordinator", "host"], "--coordinator host: give HOST:PORT, such as 10.0.0.1:4321"),
        (["--coordinator", "h:1"], "needs --processes N and --process I, I from 0 to N - 1"),
        (["--processes", "2"], "--processes and --process need --coordinator HOST:PORT"),
        (
            ["--coordinator", "h:1", "--processes", "2", "--process", "2"],
            "--process 2: give a number from 0 to 1 (--processes)",
        ),
    ],
)
def test_flags_that_do_not_fit(capsys, flags, message):
    assert message in refused(capsys, [*DOORKEY, *flags])


@pytest.mark.parametrize(
    ("process", "message"),
    [("1", "no process answers"), ("0", "no connection from process 1 after 1 s")],
)
def test_missing_processes_are_named(capsys, process, message):
    address = f"127.0.0.1:{free_port()}"
    flags = ["--coordinator", address, "--processes", "2", "--process", process]
    said = refused(capsys, [*DOORKEY, *flags, "--join-timeout", "1"])
    assert f"--coordinator {address}: {message}" in said
    assert "give a longer --join-timeout" in said


def test_environments_that_do_not_divide():
    with pytest.raises(
        ValueError, match=r"num_envs=64 does not divide evenly among 3.*--num-envs 63"
    ):
        Devices(3).batch(tiny.Countdown(), 64, None)
    with pytest.raises(
        ValueError, match=r"pool of 4096 levels does not divide evenly among 3 devices"
    ):
        Devices(3).batch(tiny.Countdown(), 63, "pool")
    assert Devices(4).batch(tiny.Countdown(), 64, "pool").pool_size == 1024


def test_davi_trains_on_one_device_only():
    puzzle = jaxenvs.make("Puzzle-Cube-2x2-v0")
    with pytest.raises(ValueError, match="davi trains on one device; omit --devices"):
        registry.build("davi", puzzle, davi.Settings(), Devices(2))


def test_one_device_has_no_exchange_in_its_program():
    agent = tiny.learner(tiny.Countdown())
    runners = jax.eval_shape(lambda: loop.start(agent, jax.random.split(jax.random.key(0), 1)))
    assert "all_reduce" not in loop.run_chunk.lower(agent, runners).as_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "flags"),
    [
        ("Grid-Empty-Random-5x5-v0", "ppo --bonus 0.1"),
        ("Grid-Empty-Random-5x5-v0", "ppo-rnn --bonus 0.1"),
        ("Grid-Empty-Random-5x5-v0", "ppo-trxl --previous"),
        ("Grid-Empty-Random-5x5-v0", "pqn"),
        ("Grid-Empty-Random-5x5-v0", "pqn-rnn"),
        ("Grid-Empty-Random-5x5-v0", "dqn"),
        ("Grid-Empty-Random-5x5-v0", "dqn --priority 0.6"),
        ("Grid-Empty-Random-5x5-v0", "rainbow"),
        ("Grid-Empty-Random-5x5-v0", "r2d2 --burn-in 2 --sequence 4 --period 2 --batch-size 8"),
        ("Grid-Empty-Random-5x5-v0", "muzero --simulations 4"),
        ("Grid-Empty-Random-5x5-v0", "muzero --simulations 4 --priority 0.6"),
        ("Grid-Empty-Random-5x5-v0", "muzero --simulations 4 --codes 3"),
        *(("Classic-Pendulum-v0", name) for name in REAL),
        (
            "Grid-Empty-Random-5x5-v0",
            "dyna --imagined-envs 8 --imagined-steps 3 --model-steps 2 --model-batch 8 --width 8 "
            "--num-heads 2 --depth 1 --memory 8 --warm-up 128",
        ),
        (
            "Grid-AMaze-13x13-v0 --param max_steps_in_episode=8",
            "plr --memory 4 --buffer 8 --edits 2",
        ),
        (
            "Grid-AMaze-13x13-v0 --param max_steps_in_episode=8",
            "sfl --memory 4 --candidates 8 --candidate-envs 4 --candidate-steps 8 --kept 4",
        ),
        ("XLand-R1-9x9-v0", "rl2 --task-set trivial-21k --test-episodes 1 --trial-steps 20"),
    ],
)
def test_every_learner_takes_several_devices(tmp_path, id, flags):
    small = "--num-envs 8 --rollout-steps 8 --hidden 8 --embed 2 --total-steps 512"
    small += " --eval-episodes 4 --out"
    has_replay = flags.split()[0] in (*DQN_FAMILY, *REAL, "r2d2", "muzero")
    minibatches = [] if has_replay else ["--minibatches", "2"]
    warm = ["--warm-up", "128", "--capacity", "512"] if has_replay else []
    warm += ["--critic-hidden", "8", "--chunk", "1"] if flags in REAL else []
    argv = [*id.split(), "--algo", *flags.split(), *small.split()]
    argv += [str(tmp_path / "two"), "--devices", "2", *minibatches, *warm]
    # XLA flags of the new process, without the other flags of the test session: with those, XLA's
    # library YNNPACK cannot compute the gradient of a layer norm's scale.
    usual = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"} if "trxl" in flags else {}
    end(learn(argv, devices=2, **usual))
    rows = Run.open(tmp_path / "two").records()
    assert rows[-1]["steps"] >= 512
    low, high = (-2000, 0) if flags in REAL else (0, 1)
    assert all(row["episodes"] == [0] or low <= row["return"][0] <= high for row in rows)
    more = ["--resume", str(tmp_path / "two"), "--total-steps", "1024", "--learning-rate", "1e-3"]
    end(learn(more, **usual))
    assert Run.open(tmp_path / "two").records()[-1]["steps"] >= 1024


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize(("algorithm", "least"), [("ppo", 0.95), ("dqn", 0.9)])
def test_both_learn_to_open_the_door(tmp_path, algorithm, least, devices):
    """PPO and DQN learn DoorKey on one device and on eight.

    DQN's preset has a prioritised replay buffer.
    """
    flags = ["--algo", algorithm, "--devices", "all", "--out", str(tmp_path / "run")]
    end(learn([*DOORKEY, *flags], devices), timeout=1500)
    result = json.loads((tmp_path / "run" / "eval.json").read_text())
    print(f"{algorithm}, {devices} devices: return {result['mean_return']:.3f}")
    assert result["mean_return"] >= least
