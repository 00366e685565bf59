"""Every figure that needs a GPU, by one command, in an hour on a card or less.

    python -m jaxenvs.benchmarks.card --minutes 25         # installed
    python benchmarks card --minutes 25 --out DIR          # from a checkout, nothing installed
    python benchmarks card --list

Jobs run in order of worth, each in a separate process, so that a crash, a lack of memory or an
overrun costs one job. Each leaves one JSON in --out; a job that is done for this device and code,
in --out or in benchmarks/results/card, is passed over; one that was cut goes on from its records,
after the jobs that have none yet. A run leaves at most --files files, as many as such a machine may
send home: it begins no job whose files would be too many, and the next run takes those up.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxenvs.commands.parser import Parser

from . import card_jobs, card_work
from .card_jobs import Job
from .card_work import CUT, DONE, FAILED, LEFT_OUT, RUNNING

COMMAND = "python -m jaxenvs.benchmarks.card"
FILES = 8  # in --out after a run, unless it is tiny
START, END = 240.0, 15.0  # seconds: to ask what is here at most; to kill a job and write it down
MARGIN = 10.0  # seconds before its limit in which a job begins no other case
TINY = (0.5, 4.0)  # minutes that a job of a tiny run takes, and may take
SAID = 40  # last lines of a job that failed
LEFT = "left"  # how a job ended that was not begun
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # to compile


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
    told = [_run(task, args, about, end) for task in tasks(args, about)]
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
        f"{job.name:10} {job.minutes:2g} min, at most {job.most:g}: {job.what}"
        + (f" (needs {', '.join(job.needs)})" if job.needs else "")
        for job in card_jobs.JOBS
    )


# The process that runs the others.


def child(*words: str) -> list[str]:
    """The words of this command, installed or not, for a separate process."""
    return [sys.executable, str(Path(__file__).with_name("__main__.py")), "card", *words]


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The device and versions, from another process: this one leaves the device alone."""
    words = child("--about", "--commit", args.commit)
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


def _run(task: Task, args: argparse.Namespace, about: dict[str, Any], end: float) -> str:
    """Run a job if there is time and room for it; return how it ended."""
    job, left = task.job, end - time.monotonic() - END
    needed, most = TINY if args.tiny else (job.minutes, job.most)
    if left < 60 * needed:
        minutes = f"{max(left, 0) / 60:.1f}"
        print(f"{job.name}: not begun, it takes {needed:g} min and {minutes} are left")
        return LEFT
    if too_many(task, args):
        print(f"{job.name}: not begun, {args.out} has as many files as it may; see --files")
        return LEFT
    seconds = min(60 * most, left)
    print(f"{job.name}: {job.what}; at most {seconds / 60:.1f} min", flush=True)
    header = _header(task, args, about)
    begun = time.monotonic()
    said, trouble = run_apart(task, args, header, seconds)
    state, records = _settle(task, header, said, trouble)
    print(f"{job.name}: {state}, {records} records, {time.monotonic() - begun:.0f} s", flush=True)
    return state


def too_many(task: Task, args: argparse.Namespace) -> bool:
    """Whether a job would leave more files than may be there."""
    most = args.files or (None if args.tiny else FILES)
    if most is None:
        return False
    there = {path.name for path in args.out.iterdir() if not path.name.startswith(".")}
    mine = {name for name in there if name.split(".")[0] == task.file.stem}
    return len(there - mine) + task.job.files > most


def _header(task: Task, args: argparse.Namespace, about: dict[str, Any]) -> dict[str, Any]:
    """What the file of a job says beside its figures, and the records that it goes on from."""
    words = [COMMAND, "--only", task.job.name, *(["--tiny"] if args.tiny else [])]
    told = {**about, "date": time.strftime("%Y-%m-%d %H:%M:%S"), "command": " ".join(words)}
    told |= {"job": task.job.name, "tiny": args.tiny}
    told["xla_flags"] = _environment(task.job, told)["XLA_FLAGS"]
    kept = {name: task.before[name] for name in ("rows", "failed")} if task.before else {}
    return told | kept


def _environment(job: Job, header: dict[str, Any]) -> dict[str, str]:
    """Variables of a job's process; its flags for XLA stand behind those that are set."""
    on_gpu = header["platform"] == "gpu"
    extra = dict(job.environment) if on_gpu else {}
    quick = QUICK if header["tiny"] and not on_gpu else ""
    flags = (os.environ.get("XLA_FLAGS", ""), extra.pop("XLA_FLAGS", ""), quick)
    return {
        **os.environ,
        **extra,
        "XLA_FLAGS": " ".join(filter(None, flags)),
        "PYTHONUNBUFFERED": "1",
    }


def run_apart(
    task: Task, args: argparse.Namespace, header: dict[str, Any], seconds: float
) -> tuple[list[str], str]:
    """Run a job in a separate process and repeat its output; return the last lines and an error.

    The error is empty if the job recorded its own end.
    """
    process = subprocess.Popen(
        child("--job", task.job.name),
        env=_environment(task.job, header),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    told = {"file": str(task.file), "scratch": str(args.scratch), "seconds": seconds - MARGIN}
    said: deque[str] = deque(maxlen=SAID)
    reader = threading.Thread(target=_repeat, args=(process, said), daemon=True)
    with _ended(process):
        reader.start()
        with contextlib.suppress(BrokenPipeError):  # it says why it ended
            assert process.stdin is not None
            process.stdin.write(json.dumps({**told, "header": header}))
            process.stdin.close()
        try:
            code = process.wait(seconds)
            trouble = "" if code == 0 else f"its process ended with {code}"
        except subprocess.TimeoutExpired:
            trouble = f"killed at its limit of {seconds / 60:.1f} min"
    reader.join()  # nobody is left who could write
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            assert pipe is not None
            pipe.close()
    return list(said), trouble


def _repeat(process: subprocess.Popen, said: deque[str]) -> None:
    for line in process.stdout or ():
        said.append(line.rstrip())
        print(f"  {said[-1]}", flush=True)


@contextlib.contextmanager
def _ended(process: subprocess.Popen) -> Iterator[None]:
    """Leave no process of a job behind, nor any that it began."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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
    work = card_work.Work(file, told["header"], told["seconds"], scratch)
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
