"""Set-up of the tests of rendering, which need no display: windows use SDL's dummy driver."""

import os

import pytest

os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"


@pytest.fixture
def dummy_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use SDL's dummy display, which shows nothing."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the environment variables that name a display."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
