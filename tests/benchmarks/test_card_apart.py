"""Processes of the jobs of `card`: their time, their turns on the device, and what they measure."""

import gzip
import json
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
from jaxenvs.benchmarks import (
    card,
    card_apart,
    card_jobs,
    card_profiles,
    card_search,
    card_steps,
    card_tests,
    card_work,
    exclusive,
    korf,
)
from jaxenvs.benchmarks.card_work import CUT, DONE, FAILED
from jaxenvs.core import gpu_flags

ABOUT = {"device": "NVIDIA H200", "platform": "gpu", "jax": "0.0", "code": "1", "commit": "c"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def task(tmp_path) -> card.Task:
    return card.Task(
        card_jobs.Job("one", "nothing", print, 1), tmp_path / "nvidia-h200-one.json", None
    )


def apart(task: card.Task, monkeypatch, program: str, seconds: float, most=60.0) -> tuple:
    """Run a program in the place of a job's process."""
    monkeypatch.setattr(card_apart, "child", lambda *words: [sys.executable, "-S", "-c", program])
    args = card._parser().parse_args(["--scratch", str(task.file.parent)])
    header = card._header(task, args, ABOUT)
    limits = card_apart.Limits(seconds, most)
    said, trouble = card.run_apart(task, args, header, limits, threading.Event())
    return card._settle(task, header, said, trouble), said, trouble


def test_an_overrun_is_killed_with_all_that_it_began(task, monkeypatch, tmp_path):
    alive = tmp_path / "alive"
    grandchild = f"import time; time.sleep(3); open({str(alive)!r}, 'w')"
    program = (
        "import subprocess, sys, time; print('begun', flush=True)\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {grandchild!r}]); time.sleep(60)"
    )
    start = time.monotonic()
    (state, _), said, trouble = apart(task, monkeypatch, program, 2.0)
    assert (state, said) == (CUT, ["begun"]) and trouble.startswith("killed at its limit")
    assert card_work.load(task.file)["said"] == ["begun"]
    time.sleep(max(0.0, start + 3.5 - time.monotonic()))
    assert not alive.exists()


def test_the_rows_before_a_crash_and_its_last_words_stay(task, monkeypatch):
    program = (
        "import json, sys; told = json.load(sys.stdin); found = told['header']\n"
        "found |= {'state': 'running', 'rows': [{'id': 'a'}]}\n"
        "json.dump(found, open(told['file'], 'w')); sys.exit('out of memory')"
    )
    (state, rows), said, _ = apart(task, monkeypatch, program, 20.0)
    assert (state, rows, said) == (FAILED, 1, ["out of memory"])
    assert card_work.load(task.file)["trouble"] == "its process ended with 1"


def test_flags_for_gpus_are_set_on_a_gpu_alone_unless_a_job_asks_for_others(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--mine")
    asked = {job.name: job.environment for job in card_jobs.JOBS}
    header = ABOUT | {"tiny": False}
    flags = card_apart.environment(asked["craft"], header)["XLA_FLAGS"].split()
    assert flags == ["--mine", *map(str, gpu_flags.known())]
    assert card_apart.environment(asked["graphs"], header)["XLA_FLAGS"] == "--mine"
    header |= {"platform": "cpu"}
    assert card_apart.environment(asked["craft"], header)["XLA_FLAGS"] == "--mine"


def test_a_stop_ends_the_jobs_that_run(task, monkeypatch):
    monkeypatch.setattr(card_apart, "child", lambda *words: [sys.executable, "-S", "-c", SLEEP])
    args = card._parser().parse_args(["--scratch", str(task.file.parent)])
    header, stop = card._header(task, args, ABOUT), threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(card_apart.StoppedError):
        card.run_apart(task, args, header, card_apart.Limits(60.0, 60.0), stop)
    assert not task.file.exists()  # as it left it: the next run goes on from there


SLEEP = "import time; time.sleep(60)"
WAIT = """
import json, sys, time
told = json.load(sys.stdin)
json.dump({"waited": 0.0, "since": time.monotonic()}, open(told["report"], "w"))
time.sleep(2)
json.dump({"waited": 2.0, "since": None}, open(told["report"], "w"))
time.sleep(float(sys.argv[1]))
json.dump({**told["header"], "state": "done", "rows": []}, open(told["file"], "w"))
"""


@pytest.mark.parametrize(
    ("after", "most", "state"), [(0.0, 60.0, DONE), (30.0, 60.0, CUT), (0.0, 1.0, CUT)]
)
def test_the_time_of_a_job_stands_still_while_it_waits(task, monkeypatch, after, most, state):
    program = WAIT.replace("sys.argv[1]", repr(str(after)))
    assert apart(task, monkeypatch, program, 1.2, most)[0][0] == state


MEASURE = """
import sys, time
from pathlib import Path
from jaxenvs.benchmarks import exclusive
folder, name = Path(sys.argv[1]), sys.argv[2]
exclusive.DEVICE.share(folder / "lock", folder / f"{name}.waited")
with exclusive.held(), exclusive.held():
    begun = time.monotonic()
    time.sleep(0.5)
    end = time.monotonic()
print(begun, end, exclusive.DEVICE.waited)
"""


def test_one_process_at_a_time_holds_the_device(tmp_path):
    words = [sys.executable, "-c", MEASURE, str(tmp_path)]
    both = [
        subprocess.Popen([*words, name], stdout=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    said = sorted([float(word) for word in p.communicate(timeout=60)[0].split()] for p in both)
    assert said[0][1] <= said[1][0]
    for name in ("a", "b"):
        report = tmp_path / f"{name}.waited"
        assert json.loads(report.read_text())["since"] is None
        assert exclusive.waited(report) in {line[2] for line in said}


def test_time_waited_counts_neither_as_the_job_s_nor_as_a_case_s(tmp_path, monkeypatch):
    work = card_work.Work(tmp_path / "a.json", {"tiny": False}, 100.0, tmp_path, most=150.0)
    device = exclusive.Device()
    monkeypatch.setattr(exclusive, "DEVICE", device)

    def figures():
        device.waited += 30.0
        return [{"id": "a"}]

    work.measure(figures, id="a")
    assert 120 < work.left() <= 130 and work.longest < 5
    device.waited += 900.0
    assert work.left() <= 150


# The tests that need a GPU.

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
from jaxenvs.benchmarks import card_tests, card_work
folder, root, processes, seconds = sys.argv[1:]
card_tests.TESTS, card_tests.workers = Path(folder), lambda: int(processes)
header = {"tiny": False, "rows": [{"test": "test_some.py::test_a[0]", "outcome": "passed"}]}
work = card_work.Work(Path(folder) / "out.json", header, float(seconds), Path(folder))
sys.path.insert(0, root)
try:
    card_tests.run(work)
except card_work.OutOfTimeError:
    print("out of time")
"""


def run_tests(folder: Path, processes: int, seconds: float) -> tuple[list[dict], str]:
    """Run in a separate process, as a job does; the first test has a record of an earlier slice."""
    (folder / "test_some.py").write_text(FILE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    words = [sys.executable, "-c", RUN, str(folder), str(ROOT), str(processes), str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return card_work.load(folder / "out.json")["rows"], done.stdout


@pytest.mark.parametrize("processes", [1, 2])
def test_tests_leave_a_record_each_and_are_not_repeated(tmp_path, processes):
    rows, said = run_tests(tmp_path, processes, 500.0)
    assert sorted(row["test"] for row in rows) == [f"test_some.py::test_a[{n}]" for n in range(6)]
    assert [row["outcome"] for row in rows].count("failed") == 1
    assert ("bringing up nodes" in said) == (processes == 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_tests_stop_where_no_time_is_left(tmp_path, processes):
    rows, said = run_tests(tmp_path, processes, 10.0)
    assert len(rows) == 2 and "out of time" in said


# New jobs.


def test_a_file_of_programs_keeps_earlier_ones(tmp_path):
    file = tmp_path / "a.hlo.json.gz"
    card_profiles.keep(file, {"a": {"hlo": "old"}, "b": {"hlo": "b"}})
    card_profiles.keep(file, {"a": {"hlo": "new"}})
    assert card_profiles.kept(file) == {"a": {"hlo": "new"}, "b": {"hlo": "b"}}
    for damaged in (file.read_bytes()[:30], b"[]", gzip.compress(b"[]"), gzip.compress(b"{")):
        file.write_bytes(damaged)
        assert card_profiles.kept(file) == {}


def test_korfs_levels_are_a_hundred_and_their_bounds_hold():
    puzzle = jaxenvs.make(card_search.FIFTEEN)
    boards = [puzzle.level(level.numbers).board for level in korf.LEVELS]
    assert len({bytes(np.asarray(board)) for board in boards}) == 100
    bounds = np.array([float(puzzle.heuristic((), board)) for board in boards[::10]])
    lengths = np.array([level.optimal for level in korf.LEVELS[::10]])
    assert (bounds <= lengths).all() and ((lengths - bounds) % 2 == 0).all()
    assert sum(level.optimal for level in korf.LEVELS) == 5305  # 53.05 on average


def test_levels_without_room_are_searched_again():
    """One level is solved in each pass; the solved ones start at the goal."""
    asked = []

    def search(boards):
        asked.append(np.asarray(boards)[:, 0].tolist())
        best = next((i for i, board in enumerate(asked[-1]) if board), None)
        at_goal = np.array([not board for board in asked[-1]])
        optimal = at_goal | (np.arange(3) == best)
        if len(asked) == 3:
            optimal = at_goal  # no room even for the last one
        cost = np.arange(3.0) + 50
        return types.SimpleNamespace(optimal=optimal, cost=cost, nodes=10, expanded=5)

    boards, goal = jnp.array([[7], [8], [9]]), jnp.array([0])
    cost, counts = card_search._passes(search, boards, goal)
    assert asked == [[7, 8, 9], [0, 8, 9], [0, 0, 9]]
    assert cost.tolist() == [50, 51, np.inf]
    assert (counts["passes"], counts["nodes"], counts["expanded"]) == (3, 30, 15)


def test_stock_is_measured_where_it_exists(monkeypatch):
    monkeypatch.setattr(card_steps, "RESET_SOURCES", ("exact", "pool"))
    assert card_steps.with_stock("exact", "none") == ("exact", "none")
    monkeypatch.setattr(card_steps, "RESET_SOURCES", ("exact", "pool", "stock"))
    assert card_steps.with_stock("exact", "none") == ("exact", "stock", "none")


def test_every_test_that_needs_a_gpu_is_marked():
    """What is skipped for the want of a GPU has the mark by which the job finds it."""
    for path in card_tests.TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        asked = text.count("@needs_gpu") + text.count('reason="needs a GPU')
        defined = text.count("needs_gpu = ")
        assert text.count(card_tests.MARK) >= asked - defined, path
