"""Job of the command `card` that runs the tests marked `gpu` and writes a record for each test.

The job stops when its time is up. The next run continues with the tests that have no record.
"""

import os
from typing import Any

from .results import HERE, OutOfTimeError, Work, absent

TESTS = HERE.parent / "tests"
MARK = "mark.gpu"  # text that every file with GPU tests contains
# Start of pytest's warning about modules that were imported before pytest started.
IMPORTED = "Module already imported"
LONGEST = 45.0  # estimated seconds of the longest test; no test starts if less time is left
# Limit on the number of test processes: each needs GPU memory for its CUDA context and programs.
MOST_WORKERS = 12


class Keeper:
    """Pytest plugin: skip tests that have a record, record all others, and stop when time is up."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.cut = False

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Deselect the tests that already have a record from an earlier run.

        A tiny run only checks that the job works, so it keeps at most three of the remaining tests.
        """
        rest = [item for item in items if not self.work.has(test=item.nodeid)]
        items[:] = rest[:3] if self.work.tiny else rest

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a test, or of its failed setup; stop the session if time is up."""
        import pytest

        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            said = "" if report.passed else str(report.longrepr)[-500:]
            record = {"test": report.nodeid, "outcome": report.outcome, "said": said}
            self.work.keep([record | {"times_s": [report.duration]}])
            if self.work.left() < LONGEST and not self.work.tiny:
                self.cut = True
                raise pytest.Session.Interrupted("no time is left")


def run(work: Work) -> None:
    """Run the tests marked `gpu`, which compare results of the GPU with results of the CPU.

    If pytest-xdist is installed and there are enough CPU cores, several processes share the tests.
    """
    import pytest

    if not TESTS.is_dir():
        work.miss("tests", "only a checkout has them")
        return
    keeper = Keeper(work)
    files = [str(f) for f in sorted(TESTS.rglob("test_*.py")) if MARK in f.read_text("utf-8")]
    words = [*files, "-m", "gpu", "-q", "-p", "no:cacheprovider", "-W", f"ignore:{IMPORTED}"]
    code = pytest.main([*words, *_divided(work)], plugins=[keeper])
    # Exit codes of pytest: 0 all tests passed, 1 some failed, 2 interrupted, 5 no tests left.
    if code not in (0, 1, 2, 5):
        raise RuntimeError(f"pytest ended with {code}; see above")
    if keeper.cut:
        raise OutOfTimeError


def _divided(work: Work) -> list[str]:
    """Return pytest options that run the tests in several processes.

    Several processes are faster, because compilation on the CPU takes most of the tests' time.
    """
    count = workers()
    if work.tiny or count < 2 or absent(["xdist"]):
        return []
    # Deselect the tests that have a record. pytest needs options for this, because xdist's worker
    # processes do not load the plugin `Keeper`.
    done = [f"--deselect={record['test']}" for record in work.records]
    # Disable pytest-benchmark: it warns about xdist, and pytest treats warnings as errors.
    return ["-n", str(count), "--dist", "worksteal", "-p", "no:benchmark", *done]


def workers() -> int:
    """Return the number of test processes: 3 for every 4 CPU cores, at most `MOST_WORKERS`."""
    return min(MOST_WORKERS, (os.cpu_count() or 1) * 3 // 4)
