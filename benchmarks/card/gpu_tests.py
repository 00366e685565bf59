"""Job of `card` that runs the tests marked `gpu`, in slices: a record for each test."""

import os
from typing import Any

from .results import HERE, OutOfTimeError, Work, absent

TESTS = HERE.parent / "tests"
MARK = "mark.gpu"  # text that every file with GPU tests contains
# Start of pytest's warning about modules that were imported before it started.
IMPORTED = "Module already imported"
LONGEST = 45.0  # seconds that a test may take; if fewer are left, no test starts
# Limit on test processes: each needs GPU memory for its CUDA context and programs.
MOST_WORKERS = 12


class Keeper:
    """Pytest plugin that skips recorded tests, records the others, and stops before time is up."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.cut = False

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Deselect tests that already have a record; a tiny run keeps only three tests."""
        rest = [item for item in items if not self.work.has(test=item.nodeid)]
        items[:] = rest[:3] if self.work.tiny else rest

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a test or of its failed setup; stop if no time is left."""
        import pytest

        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            said = "" if report.passed else str(report.longrepr)[-500:]
            record = {"test": report.nodeid, "outcome": report.outcome, "said": said}
            self.work.keep([record | {"times_s": [report.duration]}])
            if self.work.left() < LONGEST and not self.work.tiny:
                self.cut = True
                raise pytest.Session.Interrupted("no time is left")


def run(work: Work) -> None:
    """Run `pytest -m gpu` on the GPU and the CPU, in several processes if possible."""
    import pytest

    if not TESTS.is_dir():
        work.miss("tests", "only a checkout has them")
        return
    keeper = Keeper(work)
    files = [str(f) for f in sorted(TESTS.rglob("test_*.py")) if MARK in f.read_text("utf-8")]
    words = [*files, "-m", "gpu", "-q", "-p", "no:cacheprovider", "-W", f"ignore:{IMPORTED}"]
    code = pytest.main([*words, *_divided(work)], plugins=[keeper])
    if code not in (0, 1, 2, 5):  # pytest's codes: passed, failed, stopped, none left
        raise RuntimeError(f"pytest ended with {code}; see above")
    if keeper.cut:
        raise OutOfTimeError


def _divided(work: Work) -> list[str]:
    """Return pytest options for several test processes; compilation takes most of the time."""
    count = workers()
    if work.tiny or count < 2 or absent(["xdist"]):
        return []
    # xdist's workers do not load the plugin `Keeper`, so recorded tests are deselected here.
    done = [f"--deselect={record['test']}" for record in work.records]
    # pytest-benchmark, where it is installed, warns about xdist, and warnings are errors.
    return ["-n", str(count), "--dist", "worksteal", "-p", "no:benchmark", *done]


def workers() -> int:
    """Return how many test processes to use: 3 for 4 cores, at most `MOST_WORKERS`."""
    return min(MOST_WORKERS, (os.cpu_count() or 1) * 3 // 4)
