"""Tests of the processes that run the jobs of the benchmark command `card`.

They also test its jobs that run the GPU tests, profiles and searches.
"""

import gzip
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.benchmarks import kernels
from jaxenvs.benchmarks.card import __main__ as card
from jaxenvs.benchmarks.card import (
    gpu_tests,
    jobs,
    korf,
    processes,
    results,
    search,
)
from jaxenvs.benchmarks.card.results import CUT, FAILED
from jaxenvs.benchmarks.harness import device_lock
from jaxenvs.core import gpu_flags

pytestmark = pytest.mark.full

ABOUT = {"device": "NVIDIA H200", "platform": "gpu", "jax": "0.0", "code": "1", "commit": "c"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def task(tmp_path) -> card.Task:
    return card.Task(jobs.Job("one", "nothing", print, 1), tmp_path / "nvidia-h200-one.json", None)


def apart(task: card.Task, monkeypatch, program: str, most: float = 60.0) -> tuple:
    """Run a task as `card` does, but with the Python code `program` as the job's process."""
    monkeypatch.setattr(processes, "child", lambda *words: [sys.executable, "-S", "-c", program])
    args = card._parser().parse_args(["--scratch", str(task.file.parent)])
    header = card._header(task, args, ABOUT)
    limits = processes.Limits(1.0, most)
    said, trouble = card.run_apart(task, args, header, limits, threading.Event())
    return card._settle(task, header, said, trouble), said, trouble


def test_an_overrun_is_killed_with_its_children(task, monkeypatch, tmp_path):
    alive = tmp_path / "alive"
    grandchild = f"import time; time.sleep(3); open({str(alive)!r}, 'w')"
    program = (
        "import subprocess, sys, time; print('begun', flush=True)\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {grandchild!r}]); time.sleep(60)"
    )
    start = time.monotonic()
    (state, _), said, trouble = apart(task, monkeypatch, program, most=2.0)
    assert (state, said) == (CUT, ["begun"]) and trouble.startswith("killed at its limit")
    assert results.load(task.file)["said"] == ["begun"]
    time.sleep(max(0.0, start + 3.5 - time.monotonic()))
    assert not alive.exists()


def test_rows_before_a_crash_and_its_last_output_are_kept(task, monkeypatch):
    program = (
        "import json, sys; message = json.load(sys.stdin); found = message['header']\n"
        "found |= {'state': 'running', 'rows': [{'id': 'a'}]}\n"
        "json.dump(found, open(message['file'], 'w')); sys.exit('out of memory')"
    )
    (state, rows), said, _ = apart(task, monkeypatch, program)
    assert (state, rows, said) == (FAILED, 1, ["out of memory"])
    assert results.load(task.file)["trouble"] == "its process ended with 1"


def test_gpu_flags_are_set_only_on_a_gpu_unless_a_job_sets_others(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--mine")
    asked = {job.name: job.environment for job in jobs.JOBS}
    header = ABOUT | {"tiny": False}
    flags = processes.environment(asked["craft"], header)["XLA_FLAGS"].split()
    assert flags == ["--mine", *map(str, gpu_flags.known())]
    assert processes.environment(asked["graphs"], header)["XLA_FLAGS"] == "--mine"
    header |= {"platform": "cpu"}
    assert processes.environment(asked["craft"], header)["XLA_FLAGS"] == "--mine"


def test_a_stop_ends_the_jobs_that_run(task, monkeypatch):
    monkeypatch.setattr(processes, "child", lambda *words: [sys.executable, "-S", "-c", SLEEP])
    args = card._parser().parse_args(["--scratch", str(task.file.parent)])
    header, stop = card._header(task, args, ABOUT), threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(processes.StoppedError):
        card.run_apart(task, args, header, processes.Limits(60.0, 60.0), stop)
    assert not task.file.exists()  # without a result file, the next run repeats the job


SLEEP = "import time; time.sleep(60)"
OVERRUN = f"import sys; sys.exit({processes.OVERRUN})"
WATCHED = """
import sys, threading, time
from pathlib import Path
from jaxenvs.benchmarks.card import processes, results
from jaxenvs.benchmarks.harness import device_lock
folder, waited, most = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
processes.MARGIN = 0.0
device_lock.DEVICE._waited = waited
work = results.Work(folder / "a.json", {"tiny": False}, 0.5, folder, most)
parent = int(sys.argv[4]) or processes.os.getppid()
threading.Thread(target=processes._watch, args=(work, parent), daemon=True).start()
time.sleep(2)
"""


def test_a_process_at_its_own_limit_counts_as_cut(task, monkeypatch):
    (state, _), _, trouble = apart(task, monkeypatch, OVERRUN)
    assert state == CUT and trouble == "killed at its limit of 0.0 min"


@pytest.mark.parametrize(
    ("waited", "most", "parent", "code"),
    [
        (0.0, 60.0, 0, processes.OVERRUN),
        pytest.param(30.0, 60.0, 0, 0, marks=pytest.mark.full),
        (30.0, 1.0, 0, processes.OVERRUN),
        (30.0, 60.0, 1, 1),
    ],
)
def test_a_process_ends_at_its_limit_without_waits_or_after_its_parent(
    tmp_path, waited, most, parent, code
):
    words = [sys.executable, "-c", WATCHED, str(tmp_path), str(waited), str(most), str(parent)]
    assert subprocess.run(words, timeout=60).returncode == code


MEASURE = """
import sys, time
from pathlib import Path
from jaxenvs.benchmarks.harness import device_lock
folder = Path(sys.argv[1])
device_lock.DEVICE.share(folder / "lock")
with device_lock.held(), device_lock.held():
    begun = time.monotonic()
    time.sleep(0.5)
    end = time.monotonic()
print(begun, end, device_lock.DEVICE.waited)
"""


def test_one_process_at_a_time_holds_the_device(tmp_path):
    words = [sys.executable, "-c", MEASURE, str(tmp_path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted([float(word) for word in p.communicate(timeout=60)[0].split()] for p in both)
    (_, end, _), (begun, _, waited) = said
    assert end <= begun and waited >= 0


def test_waiting_counts_neither_as_time_of_the_job_nor_of_a_case(tmp_path, monkeypatch):
    work = results.Work(tmp_path / "a.json", {"tiny": False}, 100.0, tmp_path, most=150.0)
    device = device_lock.Device()
    monkeypatch.setattr(device_lock, "DEVICE", device)

    def figures():
        device._waited += 30.0
        return [{"id": "a"}]

    work.measure(figures, id="a")
    assert 120 < work.left() <= 130 and work.longest < 5
    device._waited += 900.0
    assert work.left() <= 150


# Tests of the job that runs the tests that need a GPU.

FILE = """
import pytest
pytestmark = pytest.mark.gpu
@pytest.mark.parametrize("n", range(6))
def test_a(n):
    import jaxenvs.benchmarks
    assert n != 5
"""


RUN = """
import sys
from pathlib import Path
from jaxenvs.benchmarks.card import gpu_tests, results
folder, root, processes, seconds = sys.argv[1:]
gpu_tests.TESTS, gpu_tests.workers = Path(folder), lambda: int(processes)
header = {"tiny": False, "rows": [{"test": "test_some.py::test_a[0]", "outcome": "passed"}]}
work = results.Work(Path(folder) / "out.json", header, float(seconds), Path(folder))
sys.path.insert(0, root)
try:
    gpu_tests.run(work)
except results.OutOfTimeError:
    print("out of time")
"""


def run_tests(folder: Path, processes: int, seconds: float) -> tuple[list[dict], str]:
    """Run GPU tests in a separate process, as the job does; return the rows and the output.

    The result file already has a row for the first test, as after an earlier run.
    """
    (folder / "test_some.py").write_text(FILE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    words = [sys.executable, "-c", RUN, str(folder), str(ROOT), str(processes), str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return results.load(folder / "out.json")["rows"], done.stdout


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.full)])
def test_each_test_has_a_record_and_is_not_repeated(tmp_path, processes):
    rows, said = run_tests(tmp_path, processes, 500.0)
    assert sorted(row["test"] for row in rows) == [f"test_some.py::test_a[{n}]" for n in range(6)]
    assert [row["outcome"] for row in rows].count("failed") == 1
    assert ("bringing up nodes" in said) == (processes == 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_tests_stop_when_no_time_is_left(tmp_path, processes):
    rows, said = run_tests(tmp_path, processes, 10.0)
    assert len(rows) == 2 and "out of time" in said


# Tests of the jobs for profiles and searches.


def test_a_file_of_programs_keeps_earlier_programs(tmp_path):
    file = tmp_path / "a.hlo.json.gz"
    kernels.keep(file, {"a": {"hlo": "old"}, "b": {"hlo": "b"}})
    kernels.keep(file, {"a": {"hlo": "new"}})
    assert kernels.kept(file) == {"a": {"hlo": "new"}, "b": {"hlo": "b"}}
    for damaged in (file.read_bytes()[:30], b"[]", gzip.compress(b"[]"), gzip.compress(b"{")):
        file.write_bytes(damaged)
        assert kernels.kept(file) == {}


def test_korfs_levels_are_a_hundred_and_their_bounds_hold():
    puzzle = jaxenvs.make(search.FIFTEEN)
    boards = [puzzle.level(level.numbers).board for level in korf.LEVELS]
    assert len({bytes(np.asarray(board)) for board in boards}) == 100
    bounds = np.array([float(puzzle.heuristic((), board)) for board in boards[::10]])
    lengths = np.array([level.optimal for level in korf.LEVELS[::10]])
    assert (bounds <= lengths).all() and ((lengths - bounds) % 2 == 0).all()
    # The mean length of the hundred optimal solutions is 53.05.
    assert sum(level.optimal for level in korf.LEVELS) == 5305


def test_levels_without_room_are_searched_again():
    """Levels that stay unsolved because the table of nodes is full are searched in another pass.

    In each further pass, the goal board, here [0], must replace the levels that are already solved.
    The stand-in `solve` solves one level per pass.
    """
    asked = []

    def solve(boards):
        asked.append(np.asarray(boards)[:, 0].tolist())
        best = next((i for i, board in enumerate(asked[-1]) if board), None)
        at_goal = np.array([not board for board in asked[-1]])
        optimal = at_goal | (np.arange(3) == best)
        if len(asked) == 3:
            optimal = at_goal  # pass 3 solves no level, as if the node table were full
        cost = np.arange(3.0) + 50
        actions = np.array(asked[-1])[:, None] + len(asked)
        return types.SimpleNamespace(
            optimal=optimal, cost=cost, actions=actions, nodes=10, expanded=5
        )

    boards, goal = jnp.array([[7], [8], [9]]), jnp.array([0])
    cost, actions, counts = search.passes(solve, boards, goal)
    assert asked == [[7, 8, 9], [0, 8, 9], [0, 0, 9]]
    assert cost.tolist() == [50, 51, np.inf]
    assert actions.tolist() == [[7 + 1], [8 + 2], [-1]]  # each from the pass that solved the level
    assert (counts["passes"], counts["nodes"], counts["expanded"]) == (3, 30, 15)


def test_every_test_that_needs_a_gpu_is_marked():
    """Every test that is skipped without a GPU has the marker by which `card` selects tests."""
    for path in gpu_tests.TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        asked = text.count("@needs_gpu") + text.count('reason="needs a GPU')
        defined = text.count("needs_gpu = ")
        assert text.count(gpu_tests.MARK) >= asked - defined, path
