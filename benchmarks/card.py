"""Measure every figure that needs a GPU, by one command, in half an hour on a card.

    python -m jaxenvs.benchmarks.card --minutes 25         # installed
    python benchmarks card --minutes 25 --out DIR          # from a checkout, nothing installed
    python benchmarks card --list

Jobs start in order of importance, each in a separate process, so that a crash, a lack of memory or
an overrun costs one job. `--jobs` of them run at once: they compile side by side, and one at a time
measures. Each leaves one JSON in --out; a job that is done for this device and code, in --out or in
benchmarks/results/card, is passed over; one that was cut goes on from its records, after the jobs
that have none yet. A run leaves at most --files files, the limit of the machine on returned files:
it begins no job that would exceed it, and the next run takes those up.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs.commands.parser import Parser, number

from . import card_apart, card_jobs, card_work, exclusive
from .card_jobs import Job
from .card_work import CUT, DONE, FAILED, LEFT_OUT, RUNNING

COMMAND = "python -m jaxenvs.benchmarks.card"
FILES = 8  # in --out after a run, unless it is tiny
START, END = 240.0, 15.0  # seconds: to ask what is here at most; to kill a job and write it down
TINY = (0.5, 4.0)  # minutes that a job of a tiny run takes, and may take
LEFT = "left"  # how a job ended that was not begun
AT_ONCE, CORES = 4, 4  # most jobs that run at once by default, and the cores that each should have


class Task(NamedTuple):
    """A job with its file here, and what earlier runs left of it."""

    job: Job
    file: Path
    before: dict[str, Any] | None

    @property
    def state(self) -> str:
        """How it ended before; empty if it never began."""
        return str(self.before["state"]) if self.before else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 1 where a job failed."""
    args = _parser().parse_args(argv)
    if args.list:
        print(listed())
        return 0
    if args.about:
        print(json.dumps(card_work.about(args.commit)), flush=True)
        return 0
    if args.job:
        return run_here(next(job for job in card_jobs.JOBS if job.name == args.job))
    end = time.monotonic() + 60 * args.minutes
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        about = _asked(args)
    except (OSError, RuntimeError) as error:
        print(f"card: {error}", file=sys.stderr)
        return 2
    print(f"{about['device']}, jax {about['jax']}, code {about['code']}, {args.minutes:g} min")
    told = Run(args, about, end).all(tasks(args, about))
    return 1 if FAILED in told else 0


def _parser() -> Parser:
    parser = Parser(COMMAND, __doc__)
    names = [job.name for job in card_jobs.JOBS]
    add = parser.add_argument
    add("--list", action="store_true", help="list the jobs with their estimated minutes")
    add(
        "--only", nargs="+", choices=names, metavar="NAME", help="only these jobs, even failed ones"
    )
    add("--minutes", type=float, default=25.0, help="time for all jobs together (default: 25)")
    add("--again", action="store_true", help="repeat finished jobs and drop their old records")
    add("--out", type=Path, default=Path("runs/card"), metavar="DIR", help="default: %(default)s")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    add(
        "--jobs",
        type=number(1, 64),
        default=max(1, min(AT_ONCE, (cores or 1) // CORES)),
        metavar="N",
        help="jobs that run at once, of which one measures and the others compile (default here: "
        "%(default)s)",
    )
    add("--files", type=int, help=f"most files in DIR after the run (default: {FILES}; tiny: any)")
    add("--tiny", action="store_true", help="tiny sizes, to test every job on a CPU")
    add("--commit", default="", help="commit to record if git is not available")
    add(
        "--scratch",
        type=Path,
        default=Path("runs/card-scratch"),
        metavar="DIR",
        help="where unfinished training is kept on this machine (default: %(default)s)",
    )
    add("--job", help=argparse.SUPPRESS)  # of the process of one job, told the rest by its input
    add("--about", action="store_true", help=argparse.SUPPRESS)
    return parser


def listed() -> str:
    """One line for each job."""
    return "\n".join(
        f"{job.name:13} {job.minutes:2g} min, at most {job.most:g}: {job.what}"
        + (f" (needs {', '.join(job.needs)})" if job.needs else "")
        for job in card_jobs.JOBS
    )


# The process that runs the others.


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The device and versions, from another process: this one leaves the device alone."""
    words = card_apart.child("--about", "--commit", args.commit)
    done = subprocess.run(words, capture_output=True, text=True, timeout=START, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"jax finds no device to measure: {last}")
    return json.loads(done.stdout.splitlines()[-1])


def tasks(args: argparse.Namespace, about: dict[str, Any]) -> list[Task]:
    """The jobs to run: those never started, then those interrupted, each by priority."""
    found = []
    for job in card_jobs.JOBS:
        if args.only and job.name not in args.only:
            continue
        file = args.out / f"{card_work.slug(about['device'])}-{job.name}.json"
        before = None if args.again else _before(job, file, args.tiny, about["code"])
        task = Task(job, file, before)
        if task.state == DONE:
            print(f"{job.name}: done before; --again measures it anew")
        elif task.state == FAILED and not args.only:
            print(f"{job.name}: failed before; --only {job.name} tries again")
        else:
            found.append(task)
    return sorted(found, key=lambda task: task.state in (CUT, RUNNING))  # a stable order


def _before(job: Job, file: Path, tiny: bool, code: str) -> dict[str, Any] | None:
    """The most complete earlier result of a job by the same code, local or copied back."""
    fitting = []
    for path in (file, card_work.BROUGHT_HOME / file.name):
        found = card_work.load(path)
        if found and bool(found.get("tiny")) == tiny and (job.goes_on or found["code"] == code):
            fitting.append(found)
    worth = lambda found: (found["state"] == DONE, len(found["rows"]))  # noqa: E731
    return max(fitting, key=worth, default=None)


class Run:
    """The jobs of one command: which run now, and whether another may begin."""

    def __init__(self, args: argparse.Namespace, about: dict[str, Any], end: float) -> None:
        self.args, self.about, self.end = args, about, end
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.running: list[Task] = []

    def all(self, tasks: Sequence[Task]) -> list[str]:
        """Run the jobs, those that need the machine to themselves last; return how they ended."""
        together = [task for task in tasks if not task.job.alone]
        apart = [task for task in tasks if task.job.alone]
        return [*self._several(together, self.args.jobs), *self._several(apart, 1)]

    def _several(self, tasks: Sequence[Task], count: int) -> list[str]:
        """Run jobs in this order, `count` at once."""
        waiting, told = deque(tasks), []

        def work() -> None:
            while waiting and not self.stop.is_set():
                try:
                    told.append(self._one(waiting.popleft()))
                except BaseException:
                    self.stop.set()
                    raise

        with ThreadPoolExecutor(count) as pool:
            try:
                for done in as_completed([pool.submit(work) for _ in range(count)]):
                    done.result()
            except BaseException:
                self.stop.set()  # also where the user stops this thread
                raise
        return told

    def _one(self, task: Task) -> str:
        """Run a job if there is time and room for it; return how it ended."""
        job, left = task.job, self.end - time.monotonic() - END
        needed, most = TINY if self.args.tiny else (job.minutes, job.most)
        if left < 60 * needed:
            minutes = f"{max(left, 0) / 60:.1f}"
            print(f"{job.name}: not begun, it takes {needed:g} min and {minutes} are left")
            return LEFT
        with self.lock:
            if self.too_many(task):
                out = self.args.out
                print(f"{job.name}: not begun, {out} has as many files as it may; see --files")
                return LEFT
            self.running.append(task)
        try:
            return self._begun(task, card_apart.Limits(min(60 * most, left), left))
        finally:
            self.running.remove(task)

    def _begun(self, task: Task, limits: card_apart.Limits) -> str:
        job, begun = task.job, time.monotonic()
        print(f"{job.name}: {job.what}; at most {limits.seconds / 60:.1f} min", flush=True)
        header = _header(task, self.args, self.about)
        said, trouble = run_apart(task, self.args, header, limits, self.stop)
        state, records = _settle(task, header, said, trouble)
        seconds = time.monotonic() - begun
        print(f"{job.name}: {state}, {records} records, {seconds:.0f} s", flush=True)
        return state

    def too_many(self, task: Task) -> bool:
        """Return whether the running jobs and this one would leave more files than allowed."""
        most = self.args.files or (None if self.args.tiny else FILES)
        if most is None:
            return False
        there = {path.name for path in self.args.out.iterdir() if not path.name.startswith(".")}
        now = [task, *self.running]
        theirs = {name for name in there if name.split(".")[0] in {t.file.stem for t in now}}
        return len(there - theirs) + sum(t.job.files for t in now) > most


def _header(task: Task, args: argparse.Namespace, about: dict[str, Any]) -> dict[str, Any]:
    """Header of the file of a job, and the records of an earlier run."""
    words = [COMMAND, "--only", task.job.name, *(["--tiny"] if args.tiny else [])]
    told = {**about, "date": time.strftime("%Y-%m-%d %H:%M:%S"), "command": " ".join(words)}
    told |= {"job": task.job.name, "tiny": args.tiny, "jobs": args.jobs}
    told["xla_flags"] = card_apart.environment(task.job.environment, told)["XLA_FLAGS"]
    kept = {name: task.before[name] for name in ("rows", "failed")} if task.before else {}
    return told | kept


def run_apart(
    task: Task,
    args: argparse.Namespace,
    header: dict[str, Any],
    limits: card_apart.Limits,
    stop: threading.Event,
) -> tuple[list[str], str]:
    """Run a job in a separate process; return its last lines and an error, see `card_apart`."""
    variables = card_apart.environment(task.job.environment, header, shared=args.jobs > 1)
    order = card_apart.Order(task.job.name, task.file, args.scratch, header, limits)
    return card_apart.run(order, variables, stop)


def _settle(task: Task, header: dict[str, Any], said: list[str], trouble: str) -> tuple[str, int]:
    """Record the end of a job that could not do so itself; return its state and records."""
    found = card_work.load(task.file)
    fresh = found if found and found.get("date") == header["date"] else None
    if not trouble and fresh:
        return str(fresh["state"]), len(fresh["rows"])
    if not trouble:
        print(f"{task.job.name}: no result could be written to {task.file}")
        return FAILED, 0
    state = CUT if trouble.startswith("killed") else FAILED
    content = {"missing": {}, "failed": [], "rows": [], **header, **(fresh or {})}
    try:
        card_work.save(task.file, {**content, "state": state, "trouble": trouble, "said": said})
    except OSError as error:
        print(f"{task.file} cannot be written ({error})")
    print(f"{task.job.name}: {trouble}")
    return state, len(content["rows"])


# The process of one job.


def run_here(job: Job) -> int:
    """Run a job in this process, as its input says; return the exit code."""
    told = json.loads(sys.stdin.read())
    _end_with(os.getppid())
    file, scratch = Path(told["file"]), Path(told["scratch"])
    scratch.mkdir(parents=True, exist_ok=True)
    exclusive.DEVICE.share(scratch / card_apart.LOCK, Path(told["report"]))
    work = card_work.Work(file, told["header"], told["seconds"], scratch, told["most"])
    if work.tiny:
        card_jobs.shorten()
    state = _state_after(job, work)
    work.write(state)
    return 0


def _state_after(job: Job, work: card_work.Work) -> str:
    absent = card_work.absent(job.needs)
    for name in absent:
        work.miss(name, "not installed, and this job needs it")
    if absent:
        return LEFT_OUT
    work.write(RUNNING)
    try:
        job.run(work)
    except card_work.OutOfTimeError:
        return CUT
    except ModuleNotFoundError as error:
        work.miss(str(error.name), "not installed, and this job needs it")
        return LEFT_OUT
    return DONE if work.records or not work.failed else FAILED


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, or it would keep the device."""

    def watch(ended: Callable[[int], Any] = os._exit) -> None:
        while os.getppid() == parent:
            time.sleep(1)
        ended(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
