"""Presets: tuned settings of a learner for the environments whose id matches a pattern.

Each package of learners (on_policy, off_policy and so on) lists its presets in a module `presets`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

# Regular expressions that match ids of environments for which several learners have presets.
MAZES = r"(Grid|BabyAI)-.*"
MEMORY = r"Grid-Memory.*"
CRAFT = r"Craft-.*"
CRAFT_CLASSIC_IDS = r"Craft-Classic-Ids-v\d+"
CRAFT_IDS = r"Craft-Ids-v\d+"  # the whole game
CARTPOLE = r"Classic-CartPole-v\d+"
PENDULUM = r"Classic-Pendulum-v\d+"
EIGHT_PUZZLE = r"Puzzle-SlidingTile-3x3-v\d+"
GAMES = r"PuzzleScript-v\d+"


class Preset(NamedTuple):
    """Settings of one learner for the environments whose id matches a pattern."""

    ids: str  # regular expression, matched against the whole id
    settings: Mapping[str, Any]  # fields of the learner's Settings that differ from their defaults
    name: str | None = None  # value of `--preset` that selects this preset; None: always applied
    algorithm: str = "ppo"  # key of `registry.ALGORITHMS`
    # whether the preset applies only to ids whose default observation includes a mission text
    mission: bool = False


def rows(
    algorithms: str, *pairs: tuple[str, Mapping[str, Any]], name: str | None = None
) -> tuple[Preset, ...]:
    """Return one preset for each combination of a learner and a pair.

    `algorithms` lists learners, separated by spaces. Each pair is (pattern of ids, settings).
    """
    return tuple(Preset(*pair, name, each) for each in algorithms.split() for pair in pairs)


def steps(algorithm: str, millions: Mapping[str, float]) -> tuple[Preset, ...]:
    """Return presets that set only `total_steps`.

    `millions` maps patterns of ids to millions of environment steps.
    """
    pairs = ((ids, {"total_steps": round(each * 1e6)}) for ids, each in millions.items())
    return rows(algorithm, *pairs)
