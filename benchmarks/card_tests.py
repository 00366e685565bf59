"""The job of `card` that runs the tests which need a GPU, in slices: a record for each test."""

import os
from typing import Any

from .card_work import HERE, OutOfTimeError, Work, absent

TESTS = HERE.parent / "tests"
MARK = "mark.gpu"  # in every file that has such tests
IMPORTED = "Module already imported"  # of pytest's own warnings: this process has imported much
LONGEST = 45.0  # seconds that a test may take: with less left none is begun
MOST_WORKERS = 12  # processes that share the GPU, each with its own context and programs


class Keeper:
    """A plugin of pytest: passes over what has a record, keeps the others, ends in time."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.cut = False

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out what an earlier slice ran, and of a tiny run all but a few."""
        rest = [item for item in items if not self.work.has(test=item.nodeid)]
        items[:] = rest[:3] if self.work.tiny else rest

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the outcome of a test, or why it could not begin; stop where no time is left."""
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
        work.miss("tests", "they are in a checkout only")
        return
    keeper = Keeper(work)
    files = [str(f) for f in sorted(TESTS.rglob("test_*.py")) if MARK in f.read_text("utf-8")]
    words = [*files, "-m", "gpu", "-q", "-p", "no:cacheprovider", "-W", f"ignore:{IMPORTED}"]
    code = pytest.main([*words, *_divided(work)], plugins=[keeper])
    if code not in (0, 1, 2, 5):  # passed, failed, stopped, none left
        raise RuntimeError(f"pytest ended with {code}; see above")
    if keeper.cut:
        raise OutOfTimeError


def _divided(work: Work) -> list[str]:
    """Options that divide the tests among processes: nearly all of their time is compilation."""
    count = workers()
    if work.tiny or count < 2 or absent(["xdist"]):
        return []
    done = [f"--deselect={record['test']}" for record in work.records]  # workers lack the plugin
    # pytest-benchmark, where it is installed, warns about xdist, and warnings are errors.
    return ["-n", str(count), "--dist", "worksteal", "-p", "no:benchmark", *done]


def workers() -> int:
    """Processes that run tests at once."""
    return min(MOST_WORKERS, (os.cpu_count() or 1) * 3 // 4)
