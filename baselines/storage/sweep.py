"""Sweeps: several settings train side by side in one program, each with the same seeds.

Numbers that are swept are arrays of the program, one element for each agent, so that all
settings are compiled once. A sweep is a run whose agents take the place of seeds, in the order of
`Config.agents`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from ..registry import ALGORITHMS
from .runs import Config, RunError

BY_FACTORS = ("learning_rate", "weight_decay", "advantage_floor")  # spacing of their ranges
DIGITS = 4  # of the values in a range


def parse(texts: tuple[str, ...], settings: Any, algorithm: str) -> dict[str, list[float]]:
    """Values of each setting that `NAME=A,B,C` or `NAME=FROM..TO:COUNT` names.

    Every combination is a setting of its own. `RunError` for what cannot be swept.
    """
    sweep = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name not in settings.swept:
            known = ", ".join(settings.swept)
            raise RunError(
                f"--sweep {text}: {name} is no number of the program that can be swept; these are: "
                f"{known}; train others, such as sizes of layers, one after another"
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


def written(sweep: dict[str, list[float]]) -> tuple[str, ...]:
    """What `parse` makes this sweep of."""
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
    shown = {f"{value:g}" for value in found}  # as in the names of agents
    if not found or len(shown) < len(found) or not np.isfinite(found).all():
        raise RunError(
            f"--sweep {text}: give one or more finite values that differ in their first six digits"
        )
    return found


def values(config: Config) -> dict[str, np.ndarray]:
    """For each swept setting, the value of each agent."""
    return {
        name: np.array([of[name] for of, _ in config.agents], np.float32) for name in config.sweep
    }
