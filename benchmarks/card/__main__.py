"""Run every measurement that needs a GPU, in half an hour on one card.

    python -m jaxenvs.benchmarks.card --minutes 25         # installed
    python benchmarks card --minutes 25 --out DIR          # from a checkout, nothing installed
    python benchmarks card --list

Jobs start in order of importance, each in a separate process, so a crash, an out-of-memory error or
a timeout loses only that job. `--jobs` jobs run at once: they compile in parallel, but only one at
a time measures. Each job writes one JSON file to --out. A job is skipped if --out or
benchmarks/results/card already has its result for this device and this code. An interrupted job
resumes from its records, after the jobs that were never started. A run leaves at most --files
files in --out, because some remote machines limit how many files they return: a job that would
exceed this limit is left to the next run.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs.commands.parser import Parser, number

from . import jobs, processes, results
from .jobs import Job
from .results import CUT, DONE, FAILED, RUNNING

COMMAND = "python -m jaxenvs.benchmarks.card"
FILES = 8  # default limit on the number of files in --out; tiny runs have no limit
# Time limit in seconds of the process that queries the device, and seconds reserved for ending a
# job.
START, END = 240.0, 15.0
# Estimated and maximum minutes of a job in a tiny run, a quick test of the jobs.
TINY = (0.5, 4.0)
LEFT = "left"  # state of a job that was not started
# Default of --jobs: one job at once per `CORES` CPU cores, but at most `AT_ONCE` jobs.
AT_ONCE, CORES = 4, 4


class Task(NamedTuple):
    """A job to run, its result file, and the result of an earlier run, if there is one."""

    job: Job
    file: Path
    before: dict[str, Any] | None

    @property
    def state(self) -> str:
        """State in the job's earlier result, such as `done`; "" if there is no earlier result."""
        return str(self.before["state"]) if self.before else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the jobs that the arguments select; return the exit code, 1 if a job failed."""
    args = _parser().parse_args(argv)
    if args.list:
        print(listed())
        return 0
    if args.about:
        print(json.dumps(results.about(args.commit)), flush=True)
        return 0
    if args.job:
        return processes.work(next(job for job in jobs.JOBS if job.name == args.job))
    end = time.monotonic() + 60 * args.minutes
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        about = _about_device(args)
    except (OSError, RuntimeError) as error:
        print(f"card: {error}", file=sys.stderr)
        return 2
    print(f"{about['device']}, jax {about['jax']}, code {about['code']}, {args.minutes:g} min")
    states = Run(args, about, end).all(tasks(args, about))
    return 1 if FAILED in states else 0


def _parser() -> Parser:
    parser = Parser(COMMAND, __doc__)
    names = [job.name for job in jobs.JOBS]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    at_once = max(1, min(AT_ONCE, (cores or 1) // CORES))
    at_once_help = "jobs that run at once; one measures, the others compile (here: %(default)s)"
    scratch = Path("runs/card-scratch")
    folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}
    add = parser.add_argument
    add("--list", action="store_true", help="list the jobs with their estimated minutes")
    add("--only", nargs="+", choices=names, metavar="NAME", help="these jobs, even if they failed")
    add("--minutes", type=float, default=25.0, help="time for all jobs together (default: 25)")
    add("--again", action="store_true", help="repeat finished jobs and drop their old records")
    add("--out", default=Path("runs/card"), help="default: %(default)s", **folder)
    add("--jobs", type=number(1, 64), default=at_once, metavar="N", help=at_once_help)
    add("--files", type=int, help=f"most files in DIR after the run (default: {FILES}; tiny: any)")
    add("--tiny", action="store_true", help="tiny sizes, to test every job on a CPU")
    add("--commit", default="", help="commit to record if git is not available")
    add("--scratch", default=scratch, help="of unfinished runs (default: %(default)s)", **folder)
    # Internal options of child processes: --job runs one job with its input from stdin, --about
    # prints the device and the package versions as JSON.
    add("--job", help=argparse.SUPPRESS)
    add("--about", action="store_true", help=argparse.SUPPRESS)
    return parser


def listed() -> str:
    """Return one line for each job: name, minutes, description, and the packages it needs."""
    return "\n".join(
        f"{job.name:13} {job.minutes:2g} min, at most {job.most:g}: {job.what}"
        + (f" (needs {', '.join(job.needs)})" if job.needs else "")
        for job in jobs.JOBS
    )


def _about_device(args: argparse.Namespace) -> dict[str, Any]:
    """Return the device and the package versions; a separate process finds them out.

    If this process initialised JAX, it would occupy the device while the jobs run.
    """
    command = processes.child("--about", "--commit", args.commit)
    done = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise RuntimeError(f"jax finds no device to measure: {last}")
    return json.loads(done.stdout.splitlines()[-1])


def tasks(args: argparse.Namespace, about: dict[str, Any]) -> list[Task]:
    """Return the jobs to run, sorted by priority; interrupted jobs come after all others."""
    found = []
    for job in jobs.JOBS:
        if args.only and job.name not in args.only:
            continue
        file = args.out / f"{results.slug(about['device'])}-{job.name}.json"
        before = None if args.again else _before(job, file, args.tiny, about["code"])
        task = Task(job, file, before)
        if task.state == DONE:
            print(f"{job.name}: done before; --again repeats it")
        elif task.state == FAILED and not args.only:
            print(f"{job.name}: failed before; --only {job.name} tries again")
        else:
            found.append(task)
    # Move interrupted jobs to the end. The sort is stable, so it keeps the order of priority.
    return sorted(found, key=lambda task: task.state in (CUT, RUNNING))


def _before(job: Job, file: Path, tiny: bool, code: str) -> dict[str, Any] | None:
    """Return the most complete earlier result of a job, or None if there is none.

    Earlier results are in --out and in the repository. A result that was measured with other code
    is ignored, unless the job resumes such results (`Job.goes_on`).
    """
    fitting = []
    for path in (file, results.BROUGHT_HOME / file.name):
        found = results.load(path)
        if found and bool(found.get("tiny")) == tiny and (job.goes_on or found["code"] == code):
            fitting.append(found)
    completeness = lambda found: (found["state"] == DONE, len(found["rows"]))  # noqa: E731
    return max(fitting, key=completeness, default=None)


class Run:
    """Runs the jobs of one `card` command within its limits on time and on the number of files."""

    def __init__(self, args: argparse.Namespace, about: dict[str, Any], end: float) -> None:
        self.args, self.about, self.end = args, about, end
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.running: list[Task] = []

    def all(self, tasks: Sequence[Task]) -> list[str]:
        """Run the jobs and return their states; jobs that run `alone` come last, one at a time."""
        together = [task for task in tasks if not task.job.alone]
        apart = [task for task in tasks if task.job.alone]
        return [*self._several(together, self.args.jobs), *self._several(apart, 1)]

    def _several(self, tasks: Sequence[Task], count: int) -> list[str]:
        """Run `count` jobs at once, in the given order, and return their states.

        An error in one job, or Ctrl-C, stops all jobs.
        """
        with ThreadPoolExecutor(count) as pool:
            try:
                waiting = [pool.submit(self._unless_stopped, task) for task in tasks]
                return [done.result() for done in as_completed(waiting)]
            except BaseException:
                self.stop.set()
                raise

    def _unless_stopped(self, task: Task) -> str:
        if self.stop.is_set():
            return LEFT
        try:
            return self._one(task)
        except BaseException:
            # Set `stop` here, in the worker thread. If only the main thread set `stop`, this worker
            # could start its next job before the main thread has noticed the error.
            self.stop.set()
            raise

    def _one(self, task: Task) -> str:
        """Run a job if time and the limit on files permit; return its state."""
        job, left = task.job, self.end - time.monotonic() - END
        needed, most = TINY if self.args.tiny else (job.minutes, job.most)
        if left < 60 * needed:
            minutes = f"{max(left, 0) / 60:.1f}"
            print(f"{job.name}: not started, it takes {needed:g} min and {minutes} are left")
            return LEFT
        with self.lock:
            if self.too_many(task):
                print(f"{job.name}: not started, it would exceed the limit on files (--files)")
                return LEFT
            self.running.append(task)
        try:
            return self._started(task, processes.Limits(min(60 * most, left), left))
        finally:
            self.running.remove(task)

    def _started(self, task: Task, limits: processes.Limits) -> str:
        job, begun = task.job, time.monotonic()
        print(f"{job.name}: {job.what}; at most {limits.seconds / 60:.1f} min", flush=True)
        header = _header(task, self.args, self.about)
        output, trouble = run_apart(task, self.args, header, limits, self.stop)
        state, records = _settle(task, header, output, trouble)
        seconds = time.monotonic() - begun
        print(f"{job.name}: {state}, {records} records, {seconds:.0f} s", flush=True)
        return state

    def too_many(self, task: Task) -> bool:
        """Return whether --out would have more files than `--files` allows if `task` also ran."""
        most = self.args.files or (None if self.args.tiny else FILES)
        if most is None:
            return False
        present = {path.name for path in self.args.out.iterdir() if not path.name.startswith(".")}
        now = [task, *self.running]
        theirs = {name for name in present if name.split(".")[0] in {t.file.stem for t in now}}
        return len(present - theirs) + sum(t.job.files for t in now) > most


def _header(task: Task, args: argparse.Namespace, about: dict[str, Any]) -> dict[str, Any]:
    """Return the header of a job's result; it includes the records of an earlier run, if any."""
    command = [COMMAND, "--only", task.job.name, *(["--tiny"] if args.tiny else [])]
    made = {**about, "date": time.strftime("%Y-%m-%d %H:%M:%S"), "command": " ".join(command)}
    made |= {"job": task.job.name, "tiny": args.tiny, "jobs": args.jobs}
    made["xla_flags"] = processes.environment(task.job.environment, made)["XLA_FLAGS"]
    kept = {name: task.before[name] for name in ("rows", "failed")} if task.before else {}
    return made | kept


def run_apart(
    task: Task,
    args: argparse.Namespace,
    header: dict[str, Any],
    limits: processes.Limits,
    stop: threading.Event,
) -> tuple[list[str], str]:
    """Run a job in a separate process; return its last output lines, and an error message or ""."""
    variables = processes.environment(task.job.environment, header, shared=args.jobs > 1)
    order = processes.Order(task.job.name, task.file, args.scratch, header, limits)
    return processes.run(order, variables, stop)


def _settle(task: Task, header: dict[str, Any], output: list[str], trouble: str) -> tuple[str, int]:
    """Return a job's state and its number of records, after its process has ended.

    If the process failed or was killed, first write its state and error message to the result file.
    """
    found = results.load(task.file)
    fresh = found if found and found.get("date") == header["date"] else None
    if not trouble and fresh:
        return str(fresh["state"]), len(fresh["rows"])
    if not trouble:
        print(f"{task.job.name}: no result could be written to {task.file}")
        return FAILED, 0
    state = CUT if trouble.startswith("killed") else FAILED
    content = {"missing": {}, "failed": [], "rows": [], **header, **(fresh or {})}
    try:
        results.save(task.file, {**content, "state": state, "trouble": trouble, "said": output})
    except OSError as error:
        print(f"{task.file} cannot be written ({error})")
    print(f"{task.job.name}: {trouble}")
    return state, len(content["rows"])


if __name__ == "__main__":
    sys.exit(main())
