"""Plugin for the worker processes of pytest: they import this checkout, installed or not."""

from typing import Any

from .__main__ import extend


def pytest_configure(config: Any) -> None:
    """Let `jaxenvs.benchmarks` be imported from here."""
    extend()
