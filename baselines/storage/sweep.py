"""Sweeps: several combinations of settings train in one program, each with the same seeds.

Swept settings are input arrays of the program with one element per agent, so all combinations share
one compilation. The axis of seeds becomes an axis of agents, in the order of `Config.agents`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from ..registry import ALGORITHMS
from .runs import Config, RunError

BY_FACTORS = ("learning_rate", "weight_decay", "advantage_floor")  # settings with geometric ranges
DIGITS = 4  # significant digits of the values in a range


def parse(texts: tuple[str, ...], settings: Any, algorithm: str) -> dict[str, list[float]]:
    """Parse the values of `NAME=A,B,C` or `NAME=FROM..TO:COUNT` for each setting.

    Raises `RunError` for settings that cannot be swept, and `ValueError` for invalid combinations.
    """
    sweep = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name not in settings.swept:
            known = ", ".join(settings.swept)
            raise RunError(
                f"--sweep {text}: {name} cannot be swept; choose from {known}; train other "
                f"settings, such as sizes of layers, one after another"
                if known
                else f"--sweep {text}: {algorithm} trains one setting at a time; use "
                f"{', '.join(n for n, row in ALGORITHMS.items() if row.load().Settings.swept)}"
            )
        if name in sweep:
            raise RunError(f"--sweep {text}: {name} is named twice; join its values by commas")
        sweep[name] = _values(name, values, text)
    for values in itertools.product(*sweep.values()):
        dataclasses.replace(settings, **dict(zip(sweep, values, strict=True))).check()
    return sweep


def as_arguments(sweep: dict[str, list[float]]) -> tuple[str, ...]:
    """Return the arguments that `parse` turns into this sweep."""
    return tuple(f"{name}={','.join(map(repr, values))}" for name, values in sweep.items())


def _values(name: str, values: str, text: str) -> list[float]:
    try:
        if ".." in values:
            ends, _, count = values.partition(":")
            low, high = map(float, ends.split("..", 1))
            spaced = np.geomspace if name in BY_FACTORS else np.linspace
            numbers = spaced(low, high, int(count))
            found = [float(f"{number:.{DIGITS}g}") for number in numbers]
        else:
            found = [float(value) for value in values.split(",")]
    except ValueError as error:
        raise RunError(
            f"--sweep {text}: {error}; write {name}=0.001,0.003,0.01 or {name}=0.001..0.01:8, "
            f"8 values evenly spaced (those of {', '.join(BY_FACTORS)} by factors, from above 0)"
        ) from error
    shown = {f"{value:g}" for value in found}  # agents' names use this format and must differ
    if not found or len(shown) < len(found) or not np.isfinite(found).all():
        raise RunError(
            f"--sweep {text}: give one or more finite values that differ in their first six digits"
        )
    return found


def values(config: Config) -> dict[str, np.ndarray]:
    """Return the value of each agent, for each swept setting."""
    return {
        name: np.array([of[name] for of, _ in config.agents], np.float32) for name in config.sweep
    }
