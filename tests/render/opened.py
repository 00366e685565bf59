"""Helpers of the window's tests: open a window, and wait for its background jobs."""

from collections.abc import Callable

from jaxenvs.render.controls import Controller
from jaxenvs.render.window import Window


def opened(prepare: Callable[[], Controller]) -> Window:
    """Return a window that shows its first picture."""
    window = Window(prepare, "an id")
    settle(window)
    return window


def settle(window: Window, seconds: float = 0.0) -> None:
    """Run the event loop until the window shows the result of all events."""
    window.pump(seconds)
    while window.open and window.busy:
        window.pump(0.0)
