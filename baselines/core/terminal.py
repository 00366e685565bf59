"""Terminal output of a running command: a progress bar, or the current activity's duration."""

import contextlib
import io
import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from . import processes

# Largest width of a displayed environment id, in terminal columns. Longer ids are shortened; only
# environments from users' modules have such ids.
LONGEST_ID = 40
COMPILING = "compiling"


@contextlib.contextmanager
def activity(id: str, what: str, plain: str = "") -> Iterator[None]:
    """Show the activity `what` and its duration in a terminal; elsewhere print the line `plain`.

    In a terminal, lines printed in the `with` block are shown only at its end.
    """
    # made before stdout is redirected below, so that the console writes to the real stdout
    console = Console(file=sys.stdout, quiet=not processes.first())
    if not console.is_terminal or console.quiet:
        if plain and processes.first():
            say(f"{id}: {plain}")
        yield
        return
    shown, said = bar(console, transient=True), io.StringIO()
    shown.add_task(id, total=None, text="", left="", what=what)
    try:
        with shown, contextlib.redirect_stdout(said):
            yield
    finally:
        print(said.getvalue(), end="", flush=True)


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
