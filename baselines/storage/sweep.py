"""Sweeps: one program trains several combinations of settings, each with the same seeds.

Swept settings are input arrays of the compiled program, with one element per agent, so a single
compilation serves all combinations. An agent is one combination trained with one seed. In a sweep,
the first axis of a run's arrays has one entry per agent instead of one per seed, in the order of
`Config.agents`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from ..registry import ALGORITHMS
from .runs import Config, RunError

# Settings for which a range `FROM..TO:COUNT` gives a geometric sequence; the ranges of all other
# settings give equal differences.
BY_FACTORS = ("learning_rate", "weight_decay", "advantage_floor")
DIGITS = 4  # number of significant digits to which the values of a range are rounded


def parse(texts: tuple[str, ...], settings: Any, algorithm: str) -> dict[str, list[float]]:
    """Return the swept values of each setting in texts like `NAME=A,B` or `NAME=FROM..TO:COUNT`.

    Raises `RunError` for settings that cannot be swept, and `ValueError` for invalid combinations.
    """
    sweep = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name not in settings.sweepable():
            known = ", ".join(settings.sweepable())
            raise RunError(
                f"--sweep {text}: {name} cannot be swept; choose from {known}; train other "
                f"settings, such as sizes of layers, one after another"
                if known
                else f"--sweep {text}: {algorithm} trains one setting at a time; use "
                f"{', '.join(n for n, row in ALGORITHMS.items() if row.load().Settings.can_sweep)}"
            )
        if name in sweep:
            raise RunError(f"--sweep {text}: {name} is named twice; join its values by commas")
        sweep[name] = _values(name, values, text)
    for values in itertools.product(*sweep.values()):
        dataclasses.replace(settings, **dict(zip(sweep, values, strict=True))).check()
    return sweep


def as_arguments(sweep: dict[str, list[float]]) -> tuple[str, ...]:
    """Return the arguments of `--sweep` from which `parse` makes `sweep`."""
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
    # The name of an agent contains its value in the format `g`. Names must differ, so the values
    # must differ in this format.
    shown = {f"{value:g}" for value in found}
    if not found or len(shown) < len(found) or not np.isfinite(found).all():
        raise RunError(
            f"--sweep {text}: give one or more finite values that differ in their first six digits"
        )
    return found


def values(config: Config) -> dict[str, np.ndarray]:
    """Return, for each swept setting, an array of the values of all agents, float32 (agents,)."""
    return {
        name: np.array([of[name] for of, _ in config.agents], np.float32) for name in config.sweep
    }
