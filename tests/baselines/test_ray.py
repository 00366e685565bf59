"""Tests of training on Ray, in one small cluster; some tests kill actors or learners."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest
import ray
from tiny import Clock, learner
from tiny_worker import Worker

from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.ray import cluster as ray_cluster
from jaxenvs.baselines.ray import ppo as ray_ppo
from jaxenvs.baselines.ray import training as ray_training
from jaxenvs.baselines.ray.cluster import Made, Pool
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage import runs

# Hide two warnings, about `os.fork` and about multi-threaded processes. Ray forks this process,
# which has threads of JAX. The fork is safe, because a child process uses JAX only after it has
# executed another program.
pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning"),
    # Ray 2.50 announces a change of CUDA_VISIBLE_DEVICES; our actors compute on the CPU.
    pytest.mark.filterwarnings("ignore:Tip. In future versions of Ray:FutureWarning"),
    # Ray leaves this file open.
    pytest.mark.filterwarnings("ignore:unclosed file .*/dev/null:ResourceWarning"),
    # Ray does not wait for one of the subprocesses that it starts.
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

SIGNAL = "gym:tiny_gym:Signal-v0"
SMALL = ["--num-envs", "8", "--rollout-steps", "16", "--minibatches", "2", "--hidden", "8"]
SMALL += ["--embed", "0", "--actors", "2", "--learning-rate", "1e-2", "--eval-episodes", "16"]


@pytest.fixture(scope="module", autouse=True)
def cluster(request):
    """Start a Ray cluster of 4 CPUs whose processes share this process's JAX compilation cache."""
    if request.config.option.markexpr == "slow" and not request.session.items:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir or "")
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
        for name, value in ray_cluster.ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        ray.init("local", num_cpus=4, include_dashboard=False, **ray_cluster.QUIET)
        yield
        ray.shutdown()


def processes(name: str, root: int | None = None) -> list[int]:
    """Return the ids of descendants of process `root` whose title begins with `name`.

    By default, `root` is this process.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_text().replace("\0", " ")
            if title.startswith(name) and _is_below(int(folder.name), root or os.getpid()):
                found.append(int(folder.name))
        except OSError:  # the process has exited since it was listed
            continue
    return found


def _is_below(process: int, root: int) -> bool:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if process == root:
            return True
    return False


def rows(out: Path) -> list[dict]:
    return runs.Run.open(out).records()


def evaluation(out: Path) -> dict:
    return json.loads((out / "eval.json").read_text())


@pytest.fixture(scope="module")
def finished(cluster, tmp_path_factory):
    """Return the folder of a finished run of 40 updates, with synchronous actors."""
    out = tmp_path_factory.mktemp("ray") / "run"
    argv = [SIGNAL, "--ray", *SMALL, "--total-steps", str(40 * 128), "--out", str(out)]
    argv += ["--checkpoint-seconds", "3600"]  # write no checkpoint between the first and the last
    assert main(argv) == 0
    return out


def test_it_learns(finished):
    """An episode has 8 steps; random actions would get a return of 4."""
    assert evaluation(finished)["mean_return"] > 7
    assert evaluation(finished)["episodes"] == 16
    assert rows(finished)[0]["return"][0] < 6


def test_a_run_has_the_usual_files(finished):
    config = json.loads((finished / "config.json").read_text())
    assert (config["algorithm"], config["id"]) == ("ppo-ray", SIGNAL)
    log = rows(finished)
    assert [row["update"] for row in log] == list(range(1, 41))
    assert [row["steps"] for row in log] == [128 * i for i in range(1, 41)]
    assert all(row["lag"] == [0] and row["lag_max"] == [0] for row in log)
    assert {"return", "length", "episodes", "seconds", "steps_per_second"} <= set(log[-1])
    # Bytes of a hidden layer, a policy head and a value head.
    weights = 4 * (2 * 8 + 8 + 8 * 2 + 2 + 8 + 1)
    # Bytes of a step: observation, seven numbers, two flags of episode ends.
    per_step = 2 * 4 + 7 * 4 + 2
    assert log[-1]["weight_bytes"] == [weights]
    assert log[-1]["fragment_bytes"] == [128 * per_step + 8 * 2 * 4]
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in sorted((finished / "checkpoints").iterdir())] == [
        "00000000",
        "00000040",
    ]
    with pytest.raises(runs.RunError, match=r"which JAX cannot step: see eval.json"):
        runs.load_policy(finished)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo-ray", "apex"])
def test_runs_skip_forced_steps(algorithm, tmp_path):
    out, of_apex = tmp_path / "run", ["--actors", "2", "--warm-up", "64", "--gradient-steps", "2"]
    given = SMALL if algorithm == "ppo-ray" else [*APEX, *of_apex]
    argv = ["gym:tiny_gym:Sleepy-v0", "--algo", algorithm, *given, "--skip-forced"]
    argv += ["--total-steps", str(4 * 128), "--eval-episodes", "8", "--out", str(out)]
    assert main(argv) == 0
    log = rows(out)
    shares = [row["decisions"][0] for row in log]
    # The order in which Ape-X's processes run decides how soon its actors sleep, and how often.
    least, most = (0.2, 0.9) if algorithm == "ppo-ray" else (0.0, 1.0)
    assert least < min(shares) < most and max(shares) <= most, shares
    loss = "value_loss" if algorithm == "ppo-ray" else "q_loss"
    assert np.isfinite(log[-1][loss]).all() and log[-1][loss][0] > 0.0


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_actors(finished):
    argv = ["--resume", str(finished), "--total-steps", str(42 * 128), "--actors", "1"]
    assert main([*argv, "--learning-rate", "1e-3"]) == 0
    assert [row["update"] for row in rows(finished)] == list(range(1, 43))
    assert evaluation(finished)["mean_return"] > 7


@pytest.mark.slow
def test_asynchronous_actors_and_killed_processes(tmp_path, capfd):
    """Kill an actor, then the learner, with SIGKILL.

    Both are replaced, and the run completes.
    """
    out, killed = tmp_path / "run", []

    def kill() -> None:
        for name, at in (("ray::Actor", 6), ("ray::Learner", 14)):
            while not (out / "log.jsonl").exists() or len(rows(out)) < at:
                time.sleep(0.01)
            killed.extend(processes(name)[:1])
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    argv = [SIGNAL, "--ray", *SMALL, "--mode", "async", "--set", "pause=0.002"]
    argv += ["--total-steps", str(50 * 128), "--checkpoint-every", "4", "--out", str(out)]
    assert main(argv) == 0
    captured = capfd.readouterr()
    assert re.search(r"Actor [01] is replaced, its fragment dropped: .*died", captured.err)
    assert re.search(r"The learner is replaced, from update \d+: .*died", captured.err)
    log = rows(out)
    assert [row["update"] for row in log] == list(range(1, 51))
    assert (log[-1]["actors_lost"], log[-1]["learners_lost"]) == ([1], [1])
    assert max(row["lag_max"][0] for row in log) >= 1
    # The new learner begins with older weights, from a checkpoint. It drops rollouts sampled with
    # newer weights of the killed learner, because their lag would be negative.
    assert all(0 <= row["lag"][0] <= row["lag_max"][0] for row in log)
    assert re.search(r"return \d\.\d+   lag \d\.\d \(at most \d\)", captured.out)
    assert evaluation(out)["mean_return"] > 7
    assert nothing_left([*processes("ray::Actor"), *processes("ray::Learner")])


EMPTY = "Grid-Empty-5x5-v0"
APEX = ["--ray", "--algo", "apex", "--num-envs", "8", "--rollout-steps", "16", "--hidden", "32"]
APEX += ["--embed", "0", "--learning-rate", "1e-2", "--eval-episodes", "16", "--capacity", "4000"]
APEX += ["--warm-up", "300", "--gradient-steps", "8", "--batch-size", "64"]


@pytest.mark.parametrize("id", [SIGNAL, "gym:tiny_gym:Fussy-v0", EMPTY])
def test_ape_x_learns(tmp_path, id):
    """Train in two environments of Gymnasium (one of them has action masks) and in a grid world."""
    out = tmp_path / "run"
    argv = [id, *APEX, "--actors", "2", "--total-steps", str(50 * 128), "--out", str(out)]
    # Let many environments explore, else some runs do not reach the goal within these few steps.
    argv += ["--epsilon-power", "1"] if id == EMPTY else []
    assert main(argv) == 0
    log = rows(out)
    assert [row["update"] for row in log] == list(range(1, 51))
    # An actor's first batch of replay items lacks the last two steps of each environment: their
    # 3-step returns need steps of the next rollout.
    assert 112 <= log[0]["held"][0] <= 120 and 368 <= log[2]["held"][0] <= 376
    # Learning begins when the replay shards hold 300 steps.
    assert log[1]["q_loss"] == [None] and log[2]["q_loss"][0] > 0
    assert max(row["lag_max"][0] for row in log) >= 1 and log[-1]["held"] == [4000]
    least = {EMPTY: 0.3}.get(id, 7)
    assert evaluation(out)["mean_return"] > least
    if id == "Grid-Empty-5x5-v0":
        assert runs.load_policy(out).env_id == id


@pytest.mark.slow
def test_ape_x_replaces_an_actor_a_shard_and_the_learner(tmp_path, capfd):
    """Kill an actor, a replay shard and the learner, one after another; the run completes."""
    out, killed = tmp_path / "run", []

    def kill() -> None:
        for name, at in (("ray::Explorer", 8), ("ray::Replay", 16), ("ray::ReplayLearner", 24)):
            while not (out / "log.jsonl").exists() or len(rows(out)) < at:
                time.sleep(0.01)
            there = [p for p in processes(name) if title(p).split()[0].partition(".")[0] == name]
            killed.extend(there[:1])
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    argv = [SIGNAL, *APEX, "--actors", "1", "--replays", "2", "--set", "pause=0.001"]
    argv += ["--total-steps", str(60 * 128), "--checkpoint-every", "4", "--out", str(out)]
    assert main(argv) == 0
    killer.join()
    printed = capfd.readouterr().err
    assert re.search(r"Actor 0 is replaced, its fragment dropped: .*died", printed)
    assert re.search(r"Replay shard [01] is replaced, \d+ items dropped: .*died", printed)
    assert re.search(r"The learner is replaced, from update \d+: .*died", printed)
    log = rows(out)
    assert [row["update"] for row in log] == list(range(1, 61))
    lost = ("actors_lost", "replays_lost", "learners_lost")
    assert [log[-1][name] for name in lost] == [[1], [1], [1]]
    assert evaluation(out)["mean_return"] > 7
    left = [*processes("ray::Explorer"), *processes("ray::Replay")]
    assert nothing_left(left)


def title(process: int) -> str:
    """Return the title of a process, which Ray sets to the actor's name."""
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


@pytest.mark.slow
def test_two_learners_equal_one():
    """Two learner processes that divide a batch get the same weights as a single process."""
    ppo_ = learner(Clock(), num_envs=4, rollout_steps=8, epochs=1, minibatches=1)
    settings = ray_ppo.Settings(**vars(ppo_.settings))
    given = Learner(ALGORITHMS["ppo-ray"], ppo_.env.env, ppo_.network, settings)
    runners = jax.device_get(
        jax.tree.map(lambda leaf: leaf[None], jax.jit(given.init)(jax.random.key(0)))
    )
    draw = np.random.default_rng(0)
    fragments = [Made(slot, {}, ray.put(_fragment(draw, runners))) for slot in range(2)]
    states = []
    for count in (1, 2):
        sized = dataclasses.replace(settings, learners=count, actors=2, patience=120)
        learners = ray_training.Learners(dataclasses.replace(given, settings=sized), runners)
        learners.update(fragments)
        while not (metrics := learners.finish(learners.pending[0])):
            pass
        handles = learners._handles
        states += [*ray.get([handle.state.remote() for handle in handles]), metrics]
        learners.end()
    (one, metrics_of_one, first, second, metrics_of_two) = states
    for a, b, c in zip(*map(jax.tree.leaves, (first, second, one)), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)
    assert any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (one, runners)), strict=True))
    for name in ("episodes", "return_sum", "value_loss", "entropy"):
        np.testing.assert_allclose(metrics_of_two[name], metrics_of_one[name], rtol=1e-4)


def _fragment(draw: np.random.Generator, runners) -> tuple:
    """Return a random fragment, an actor's rollout: eight steps of two environments."""
    shape = (8, 2)
    floats = {
        name: draw.normal(size=shape).astype(np.float32)
        for name in ("value", "reward", "truncation_value", "returns")
    }
    rollout = {
        **floats,
        "obs": draw.uniform(0, 5, (*shape, 1)).astype(np.float32),
        "action": draw.integers(0, 2, shape).astype(np.int32),
        "log_prob": np.full(shape, np.log(0.5), np.float32),
        "terminated": draw.random(shape) < 0.2,
        "truncated": np.zeros(shape, bool),
        "lengths": draw.integers(1, 9, shape).astype(np.int32),
    }
    return rollout, np.ones((2, 1), np.float32)


def pool(count: int) -> Pool:
    """Return a pool of Ray actors that have been started."""
    kind = ray.remote(Worker).options(num_cpus=0)
    workers = Pool(lambda slot, generation: kind.remote(slot, generation), count, patience=120.0)
    for _ in range(count):
        workers.ask("do", "well")
    assert all(wait(workers))
    return workers


def wait(pool: Pool) -> list:
    """Wait for the pending calls of a pool; return their results."""
    made = []
    while pool.busy:
        made += [pool.finish(r) for r in ray.wait(list(pool.busy), timeout=0.1)[0]]
        pool.check()
    return made


def test_actors_that_hang_die_or_break_are_replaced(capsys):
    workers = pool(4)
    workers.patience = 2.0
    slots = {}
    for what in ("well", "hang", "die", "break"):
        slots[what] = workers.idle[0][0]
        workers.ask("do", what)
    found = [made for made in wait(workers) if made]
    assert [made.about["slot"] for made in found] == [slots["well"]]
    assert workers.lost == 3
    printed = capsys.readouterr().err
    for what, why in (
        ("hang", r"no answer in 2 s \(--patience\)"),
        ("die", "The actor is dead because its worker process has died."),
        ("break", "division by zero"),
    ):
        assert re.search(f"Actor {slots[what]} is replaced, its fragment dropped: {why}\n", printed)
    workers.patience = 120.0
    for _ in range(4):
        workers.ask("do", "well")
    generations = {made.slot: made.about["generation"] for made in wait(workers)}
    assert generations.pop(slots["well"]) == 0 and set(generations.values()) == {1, 2, 3}
    workers.end()


def test_repeated_deaths_of_actors_end_the_run():
    workers = pool(1)
    with pytest.raises(
        runs.RunError, match=r"4 actors died without a result in .*division by zero"
    ):
        for _ in range(10):
            workers.ask("do", "break")
            wait(workers)
    workers.end()


def test_a_run_of_another_algorithm_is_not_resumed(tmp_path, capsys):
    ours, other = (
        runs.Run.create(tmp_path / name, runs.Config(id, {}, 0, 1, {"num_envs": 8}, name))
        for name, id in (("ppo-ray", SIGNAL), ("ppo", "Grid-v0"))
    )
    assert main(["--ray", "--resume", str(other.path)]) == 2
    words = "was trained by ppo, not by ppo-ray; continue with: jaxenvs train --algo ppo --resume"
    assert words in capsys.readouterr().err
    assert main(["--algo", "ppo", "--resume", str(ours.path)]) == 2
    assert "was trained by ppo-ray, not by ppo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (None, r"no answer after 1 s .*`ray start --head --port \d+`"),
        ("somewhere", "give HOST:PORT of the cluster's head, or auto"),
    ],
)
def test_a_missing_cluster_is_an_error(monkeypatch, address, words):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    begun = time.monotonic()
    with pytest.raises(runs.RunError, match=words):
        ray_cluster.Cluster().start(address or free_address(), workers=2, timeout=1)
    assert time.monotonic() - begun < 10


def free_address() -> str:
    """Return a local address at which no process listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def start(arguments: list[str]) -> subprocess.Popen:
    """Start `jaxenvs train` as the leader of a process group, as a terminal does."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-m", "jaxenvs.baselines.run.train", *arguments]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def wait_for_rows(out: Path, count: int, process: subprocess.Popen) -> None:
    limit = time.monotonic() + 240
    while not (out / "log.jsonl").exists() or len(rows(out)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit, "no update was made in time"
        time.sleep(0.05)


def nothing_left(before: list[int], seconds: float = 30.0) -> bool:
    limit = time.monotonic() + seconds
    while any(Path(f"/proc/{process}").exists() for process in before):
        if time.monotonic() > limit:
            return False
        time.sleep(0.1)
    return True


def test_ctrl_c_saves_and_leaves_no_process(tmp_path):
    """Send SIGINT to the whole process group, as a terminal does."""
    out = tmp_path / "run"
    process = start([SIGNAL, "--ray", *SMALL, "--actors", "1", "--out", str(out)])
    wait_for_rows(out, 2, process)
    started = processes("", process.pid)
    assert len(started) > 4  # Ray's own processes, an actor and a learner
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    found = re.search(
        r"Saved after update (\d+); continue with: jaxenvs train --resume (\S+)", errors
    )
    assert found and found[2] == str(out) and int(found[1]) >= 2
    assert len(rows(out)) == int(found[1])
    assert nothing_left(started)


@pytest.mark.slow
@pytest.mark.parametrize("twice", [True, False])
def test_forced_exits_leave_no_process(tmp_path, twice):
    """A second Ctrl-C, or SIGKILL to the main process, also ends all processes of Ray."""
    out = tmp_path / "run"
    slow = ["--actors", "1", "--set", "pause=0.5"] if twice else ["--actors", "1"]
    process = start([SIGNAL, "--ray", *SMALL, *slow, "--out", str(out)])
    if not twice:
        wait_for_rows(out, 2, process)
    limit = time.monotonic() + 120
    while not any(
        Path(f"/proc/{p}/cmdline").read_text().startswith("ray::Actor.sample")
        for p in processes("ray::Actor", process.pid)
    ):
        assert time.monotonic() < limit
        time.sleep(0.1)
    started = processes("", process.pid)
    if twice:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if twice else -signal.SIGKILL), errors
    assert nothing_left(started, 30.0 if twice else 150.0)


@pytest.mark.slow
def test_an_existing_cluster_is_joined_and_left(tmp_path):
    """Join a running cluster. After the run, the cluster stays, but the run's actors have ended."""
    address = free_address()
    port = address.partition(":")[2]
    head = ["start", "--head", "--block", "--port", port, "--num-cpus", "3"]
    ray_command = [str(Path(sys.executable).with_name("ray")), *head, "--include-dashboard=false"]
    quiet = subprocess.DEVNULL
    cluster = subprocess.Popen(ray_command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        out = tmp_path / "run"
        flags = [*SMALL, "--address", address, "--total-steps", "20000", "--out", str(out)]
        process = start(["Grid-Empty-5x5-v0", "--ray", *flags])
        wait_for_rows(out, 3, process)
        ours = [*processes("ray::Actor", cluster.pid), *processes("ray::Learner", cluster.pid)]
        assert len(ours) == 3
        printed, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "Watch it: jaxenvs watch" in printed and evaluation(out)["mean_return"] > 0.5
        assert runs.load_policy(out).env_id == "Grid-Empty-5x5-v0"
        assert nothing_left(ours) and cluster.poll() is None
        process = start([SIGNAL, "--ray", *SMALL, "--total-steps", "1", "--out", f"{out}-own"])
        _, errors = process.communicate(timeout=120)  # without --address the run starts its own Ray
        assert process.returncode == 0, errors
        process = start([SIGNAL, "--ray", "--address", address, "--actors", "4"])
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "the cluster has 3 CPUs, and each of 5 actors and learners takes one" in errors
    finally:
        cluster.terminate()
        cluster.wait(timeout=60)
