"""Rows of tuned settings. Each package of learners has a module `presets` with its rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

# Regular expressions of ids that several learners have presets for.
MAZES = r"(Grid|BabyAI)-.*"
MEMORY = r"Grid-Memory.*"
CRAFT = r"Craft-.*"
CRAFT_CLASSIC_IDS = r"Craft-Classic-Ids-v\d+"
CARTPOLE = r"Classic-CartPole-v\d+"
PENDULUM = r"Classic-Pendulum-v\d+"
EIGHT_PUZZLE = r"Puzzle-SlidingTile-3x3-v\d+"


class Preset(NamedTuple):
    """Settings of one learner for the environments whose id matches a pattern."""

    ids: str  # regular expression, matched against the whole id
    settings: Mapping[str, Any]  # fields of the learner's Settings that differ from their defaults
    name: str | None = None  # of `--preset`; None: applied without a name
    algorithm: str = "ppo"  # key of `registry.ALGORITHMS`
    mission: bool = False  # whether it applies only where the observation has a mission by default


def rows(
    algorithms: str, *pairs: tuple[str, Mapping[str, Any]], name: str | None = None
) -> tuple[Preset, ...]:
    """Return presets for learners (names joined by spaces) from pairs of pattern and settings."""
    return tuple(Preset(*pair, name, each) for each in algorithms.split() for pair in pairs)


def steps(algorithm: str, millions: Mapping[str, float]) -> tuple[Preset, ...]:
    """Return presets of the number of training steps of each seed, in millions by pattern."""
    pairs = ((ids, {"total_steps": round(each * 1e6)}) for ids, each in millions.items())
    return rows(algorithm, *pairs)
