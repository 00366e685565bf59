"""Terminal output of a running command: a progress bar, or the current activity's duration."""

import contextlib
import contextvars
import io
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from . import processes

# Largest width of a displayed environment id, in terminal columns. Longer ids are shortened; only
# environments from users' modules have such ids.
LONGEST_ID = 40
COMPILING = "compiling"
# Outside a terminal, least number of seconds between lines that tell how far an activity is.
SECONDS_APART = 60.0
# Shows a line of text below the current activity.
_detail: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar(
    "detail", default=None
)


@contextlib.contextmanager
def activity(id: str, what: str, plain: str = "") -> Iterator[None]:
    """Show the activity `what` and its duration in a terminal; elsewhere print the line `plain`.

    In a terminal, lines printed in the `with` block are shown only at its end. `detail` tells how
    far the activity is.
    """
    # made before stdout is redirected below, so that the console writes to the real stdout
    console = Console(file=sys.stdout, quiet=not processes.first())
    if not console.is_terminal or console.quiet:
        if plain and processes.first():
            say(f"{id}: {plain}")
        with _shown_by(_now_and_then(id)):
            yield
        return
    shown, said = bar(console, transient=True), io.StringIO()
    task = shown.add_task(id, total=None, text="", left="", what=what)
    try:
        with (
            shown,
            contextlib.redirect_stdout(said),
            _shown_by(lambda text: shown.update(task, text=text)),
        ):
            yield
    finally:
        print(said.getvalue(), end="", flush=True)


def detail(text: str) -> None:
    """Show how far the current activity is; without an activity, do nothing.

    An empty text removes what was shown. Outside a terminal, print a line at most every
    `SECONDS_APART` seconds.
    """
    show = _detail.get()
    if show is not None:
        show(text)


@contextlib.contextmanager
def _shown_by(show: Callable[[str], None]) -> Iterator[None]:
    token = _detail.set(show)
    try:
        yield
    finally:
        _detail.reset(token)


def _now_and_then(id: str) -> Callable[[str], None]:
    last = time.monotonic()

    def show(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if text and now - last >= SECONDS_APART and processes.first():
            last = now
            say(f"{id}: {text}")

    return show


def clock(seconds: float) -> str:
    """Format a duration as minutes and seconds, and hours if needed: `3:05`, `2:03:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Left(ProgressColumn):
    """Column with the time left; if it is unknown, the current activity and its duration."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        left = task.fields["left"] or (
            f"{task.fields.get('what', COMPILING)} {clock(task.elapsed or 0)}"
        )
        return Text(left, no_wrap=True)


class _Bar(Progress):
    """Progress display of two lines: id, bar and time left in the first, metrics in the second."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if text := task.fields["text"]:
                narrow = text.replace("   ", "  ")
                yield Text(f"  {narrow}", no_wrap=True, overflow="ellipsis")


def bar(console: Console, transient: bool = False) -> Progress:
    """Return a progress display: for each task the id, a bar, the time left and a line of text.

    A `transient` display disappears at its end. Nothing is shown outside a terminal.
    """
    name = Column(max_width=LONGEST_ID, no_wrap=True, overflow="ellipsis")
    return _Bar(
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", table_column=name),
        BarColumn(bar_width=None),
        _Left(),
        console=console,
        expand=True,
        transient=transient,
        redirect_stdout=not transient,
        disable=not console.is_terminal,
    )


def say(line: str) -> None:
    """Print a line and flush stdout, so that the line appears at once."""
    with contextlib.suppress(OSError):  # if stdout is a file on a full disk, training continues
        print(line, flush=True)
