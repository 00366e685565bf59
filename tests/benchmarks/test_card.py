"""Tests of `card`, a command that runs benchmarks (jobs) on a GPU, each in a separate process.

They test the order of jobs, the records of failed jobs, and one real job.
"""

import importlib.abc
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jaxenvs.benchmarks.card import __main__ as card
from jaxenvs.benchmarks.card import jobs, processes, results, steps
from jaxenvs.benchmarks.card.jobs import Job
from jaxenvs.benchmarks.card.results import CUT, DONE, FAILED, LEFT_OUT, RUNNING
from jaxenvs.benchmarks.harness import timing
from jaxenvs.benchmarks.peers import environments as peers
from jaxenvs.benchmarks.tables.card import HEURISTICS, MAZES

ABOUT = {"device": "NVIDIA H200", "platform": "gpu", "jax": "0.0", "code": "1", "commit": "c"}
ROOT = Path(__file__).resolve().parents[2]


class Bench:
    """Runs stand-in jobs of `card` in this process, on a device that does not exist.

    The list `ran` has the names of the jobs in the order in which they ran.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out, self.ran, self.about = folder / "out", [], dict(ABOUT)
        monkeypatch.setattr(card, "_about_device", lambda args: self.about)
        monkeypatch.setattr(card, "run_apart", self.run_apart)
        monkeypatch.setattr(results, "BROUGHT_HOME", folder / "home")
        self.patch = monkeypatch

    def jobs(self, *chosen: Job) -> None:
        self.patch.setattr(jobs, "JOBS", chosen)

    def run_apart(self, task, args, header, limits, stop):
        header = json.loads(json.dumps(header))
        work = results.Work(task.file, header, limits.seconds, args.scratch)
        self.ran.append(task.job.name)
        try:
            work.write(processes.state_after(task.job, work))
        except ZeroDivisionError:
            return ["last line"], "its process ended with 1"
        return [], ""

    def run(self, *words: str) -> int:
        # One job at a time, so that jobs run in the order of the list.
        words = ("--jobs", "1", *words)
        return card.main([*words, "--out", str(self.out), "--scratch", str(self.out.parent / "s")])

    def result(self, name: str) -> dict:
        return json.loads((self.out / f"nvidia-h200-{name}.json").read_text())


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def job(name: str, run=lambda work: work.keep([{"id": "a", "times_s": [1.0]}]), **more) -> Job:
    return Job(name, f"what {name} measures", run, **{"minutes": 1, **more})


def cases(*names: str):
    """Return the function of a job that stores one row for each of the cases `names`."""

    def run(work):
        for name in names:
            work.measure(lambda name=name: [{"id": name, "times_s": [1.0]}], id=name)

    return run


def crash(work):
    work.keep([{"id": "a"}])
    raise ZeroDivisionError


def interrupted(work):
    work.keep([{"id": "a"}])
    raise KeyboardInterrupt


# Tests of the order of jobs.


def test_every_job_writes_one_json_and_is_skipped_the_next_time(bench, capsys):
    bench.jobs(job("one"), job("two"))
    assert bench.run() == 0
    assert bench.ran == ["one", "two"]
    found = bench.result("two")
    assert (found["state"], found["job"], found["tiny"]) == (DONE, "two", False)
    assert found["rows"] == [{"id": "a", "times_s": [1.0]}]
    assert ABOUT.items() <= found.items() and {"date", "command", "xla_flags"} <= found.keys()
    assert bench.run() == 0
    assert bench.ran == ["one", "two"] and "two: done before" in capsys.readouterr().out
    assert bench.run("--again", "--only", "two") == 0
    assert bench.ran[2:] == ["two"]


@pytest.mark.parametrize("change", [{"code": "2"}, {"device": "NVIDIA H100"}])
def test_other_code_or_another_device_is_measured_again(bench, change):
    bench.jobs(job("one"))
    bench.run()
    bench.about |= change
    bench.run()
    assert bench.ran == ["one", "one"]


def test_results_copied_back_count_as_done(bench):
    bench.jobs(job("one"), job("two"))
    bench.run("--only", "one")
    bench.out.rename(results.BROUGHT_HOME)
    bench.run()
    assert bench.ran == ["one", "two"]


def test_a_tiny_result_does_not_count_as_a_measurement(bench):
    bench.jobs(job("one"))
    bench.run("--tiny")
    bench.run()
    assert bench.ran == ["one", "one"] and bench.result("one")["tiny"] is False


def test_a_job_starts_only_if_the_time_left_suffices(bench, capsys):
    bench.jobs(job("long", minutes=8), job("short", minutes=1))
    assert bench.run("--minutes", "5") == 0
    assert bench.ran == ["short"]
    assert "long: not started, it takes 8 min and 4.7 are left" in capsys.readouterr().out


def test_a_job_that_would_exceed_the_limit_on_files_does_not_start(bench, capsys):
    bench.jobs(*(job(f"job{n}") for n in range(6)), job("two", files=2), job("last"), job("late"))
    bench.run()
    assert bench.ran == [f"job{n}" for n in range(6)] + ["two", "last"]
    assert "late: not started" in capsys.readouterr().out
    bench.patch.setattr(results, "BROUGHT_HOME", bench.out)
    bench.out = bench.out.parent / "next"
    bench.run()
    assert bench.ran[8:] == ["late"]


def test_an_interrupted_job_runs_after_those_not_started(bench):
    bench.jobs(job("one"), job("two", interrupted), job("three"))
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.result("two")["state"] == RUNNING
    bench.jobs(job("one"), job("two", cases("a", "b")), job("three"))
    bench.run()
    assert bench.ran == ["one", "two", "three", "two"]
    assert [row["id"] for row in bench.result("two")["rows"]] == ["a", "b"]


def test_a_crash_costs_one_job(bench, capsys):
    bench.jobs(job("one", crash), job("two"))
    assert bench.run() == 1
    found = bench.result("one")
    assert (found["state"], found["trouble"]) == (FAILED, "its process ended with 1")
    assert (found["said"], found["rows"]) == (["last line"], [{"id": "a"}])
    assert bench.result("two")["state"] == DONE
    bench.run()
    assert bench.ran == ["one", "two"] and "one: failed before" in capsys.readouterr().out
    bench.run("--only", "one")
    assert bench.ran[2:] == ["one"]


def test_an_interrupted_job_resumes_from_its_rows(bench):
    measured = []

    def run(work):
        for name in "abc":
            work.measure(lambda name=name: measured.append(name) or [{"id": name}], id=name)
            work.longest = 1e9 if name == "b" and not work.header.get("later") else 0.0

    bench.jobs(job("one", run))
    bench.run()
    assert (bench.result("one")["state"], len(bench.result("one")["rows"])) == (CUT, 2)
    bench.about["later"] = True
    bench.run()
    assert (bench.result("one")["state"], measured) == (DONE, ["a", "b", "c"])


# Tests of several jobs at once.


def test_jobs_run_in_parallel_and_those_that_must_be_alone_run_last(bench):
    both = threading.Barrier(2, timeout=20)
    among = []

    def meet(work):
        both.wait()
        work.keep([{"id": "a"}])

    def alone(work):
        among.append(list(bench.ran))
        work.keep([{"id": "a"}])

    bench.jobs(job("apart", alone, alone=True), job("one", meet), job("two", meet))
    assert bench.run("--jobs", "3") == 0
    assert sorted(among[0]) == ["apart", "one", "two"] and among[0][-1] == "apart"


def test_files_of_running_jobs_count(bench, capsys):
    started, refused = threading.Event(), []

    def hold(work):
        started.set()
        while not refused:
            refused.extend(
                line for line in capsys.readouterr().out.splitlines() if "--files" in line
            )
            time.sleep(0.01)
        work.keep([{"id": "a"}])

    bench.jobs(job("one", hold, files=2), job("two", files=2))
    bench.run("--jobs", "2", "--files", "3")
    assert bench.ran == ["one"] and refused[0].startswith("two: not started")


# Tests of missing packages.


class Blocker(importlib.abc.MetaPathFinder):
    """Import hook that hides packages, as if they were not installed."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("package", ["optax", "orbax.checkpoint", "tyro"])
def test_a_missing_package_skips_the_jobs_that_train(bench, monkeypatch, capsys, package):
    for name in [name for name in sys.modules if (name + ".").startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blocker(package), *sys.meta_path])
    trains = [found for found in jobs.JOBS if found.needs == jobs.TRAINS]
    bench.jobs(*trains, job("last"))
    assert bench.run("--files", "100") == 0
    names = ["training", "training-full", "training-rnn", "billion", "classic-1b", "craft-1b"]
    names += ["craft-2b-eased", *HEURISTICS]
    assert [found.name for found in trains] == [*names, *(f"maze-{name}" for name in MAZES)]
    for found in trains:
        left = bench.result(found.name)
        assert (left["state"], list(left["missing"]), left["rows"]) == (LEFT_OUT, [package], [])
    assert bench.result("last")["state"] == DONE
    assert f"{package}: not installed" in capsys.readouterr().out


def test_a_missing_peer_is_named_and_the_others_run(bench, monkeypatch):
    class Ours(timing.Runner):
        def __init__(self, contestant, seconds, programs):
            assert programs == "compiled"
            self.record = timing.Record("jaxenvs", "a", 8, contestant.reset_source, "", 10, 1, 0.0)

        def run(self):
            return 0.5

    def absent(*args):
        raise ModuleNotFoundError("no package")

    monkeypatch.setattr(timing, "lower", lambda contestant: lambda: "compiled")
    monkeypatch.setattr(timing, "BatchRunner", Ours)
    monkeypatch.setattr(steps, "launches", lambda runner: {})
    monkeypatch.setattr(peers, "peer", absent)
    asked = ("exact", "pool"), (steps.CRAFTAX,)
    run = lambda work: work.keep(steps.turns(work, steps.SYMBOLIC, 8, *asked))  # noqa: E731
    bench.jobs(job("craft", run))
    assert bench.run("--tiny") == 0
    found = bench.result("craft")
    assert found["missing"] == {steps.CRAFTAX: peers.INSTALL_CRAFTAX}
    assert [(row["reset_source"], row["times_s"]) for row in found["rows"]] == [
        ("exact", [0.5, 0.5]),
        ("pool", [0.5, 0.5]),
    ]


def test_an_xla_error_is_noted_and_the_next_case_measured(bench):
    def run(work):
        work.measure(lambda: 1 / int("RESOURCE_EXHAUSTED: 80 GB\nmore"), id="large")
        work.measure(lambda: [{"id": "small"}], id="small")

    bench.jobs(job("one", run))
    bench.run()
    (failed,) = bench.result("one")["failed"]
    assert failed["id"] == "large" and "RESOURCE_EXHAUSTED" in failed["reason"]
    assert bench.result("one")["rows"] == [{"id": "small"}]
    assert bench.result("one")["state"] == DONE


def test_a_case_that_ran_out_of_memory_is_tried_again(tmp_path):
    failed = [{"id": "a", "reason": "RESOURCE_EXHAUSTED: Out of memory"}]
    failed += [{"id": "b", "reason": "it has no such level"}]
    header = {"tiny": False, "failed": failed}
    work = results.Work(tmp_path / "a.json", header, 10.0, tmp_path)
    assert not work.has(id="a") and work.has(id="b")


def test_a_job_fails_if_all_its_cases_fail(bench):
    bench.jobs(job("one", lambda work: work.measure(lambda: int("x"), id="a")))
    assert bench.run() == 1
    assert bench.result("one")["state"] == FAILED


def test_a_full_disk_is_reported_once_and_costs_one_job(bench, monkeypatch, capsys):
    real, full = results.save, []

    def save(file, content):
        if "one" in file.name:
            full.append(file)
            raise OSError(28, "No space left on device")
        real(file, content)

    monkeypatch.setattr(results, "save", save)
    bench.jobs(job("one", cases("a", "b", "c")), job("two"))
    assert bench.run() == 1
    said = capsys.readouterr().out
    assert said.count("No space left on device") == 1 and len(full) > 3
    assert "one: no result could be written" in said
    assert bench.result("two")["state"] == DONE


# Test of `--list`.


def test_jobs_take_at_most_nine_minutes_and_estimates_are_lower(capsys):
    assert all(job.minutes <= job.most <= 9 for job in jobs.JOBS)
    assert card.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [job.name for job in jobs.JOBS]


@pytest.mark.full
def test_a_real_job_from_a_checkout(tmp_path):
    words = [sys.executable, str(ROOT / "benchmarks"), "card", "--tiny", "--only", "graphs"]
    words += ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (tmp_path / "out").iterdir()
    found = json.loads(file.read_text())
    assert file.name == f"{results.slug(found['device'])}-graphs.json"
    assert (found["state"], found["tiny"], found["missing"]) == (DONE, True, {})
    for name in ("device", "driver", "jax", "jaxlib", "python", "commit", "date", "command"):
        assert isinstance(found[name], str)
    assert [row["reset_source"] for row in found["rows"]] == ["fresh"]
    assert all(row["times_s"] and row["steps_per_second"] > 0 for row in found["rows"])


@pytest.mark.slow
def test_all_real_jobs_at_tiny_sizes(tmp_path):
    words = [sys.executable, str(ROOT / "benchmarks"), "card", "--tiny"]
    words += ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch")]
    start = time.monotonic()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    print(f"{done.stdout}\n{time.monotonic() - start:.0f} s")
    assert done.returncode == 0
    files = list((tmp_path / "out").glob("*.json"))
    assert len(files) == len(jobs.JOBS)
    states = {found["job"]: found["state"] for found in map(json.loads, map(Path.read_text, files))}
    for job in jobs.JOBS:  # a job is left out if a package it needs is missing
        assert states[job.name] == (LEFT_OUT if results.absent(job.needs) else DONE), job.name
