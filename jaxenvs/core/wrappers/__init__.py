"""Wrappers of environments, as in Gymnasium.

They add episode statistics, limit or restart episodes, and change observations, actions and
rewards. `Wrapper` and `StatefulWrapper` are base classes for new wrappers.
"""

from ..stateful import StatefulWrapper, WrappedState
from ..wrapper import Wrapper
from .actions import ActionRepeat, StickyAction, StickyParams
from .episodes import (
    AutoReset,
    EpisodeStatistics,
    EpisodeTotals,
    LogWrapper,
    TimeLimit,
    mean_over_finished,
)
from .levels import FromLevels, LevelSet
from .normalisation import NormalizeObservation, NormalizeReward
from .observations import Flatten, FrameStack, OneHot
from .optimal import DistanceTable, OptimalInInfo
from .previous import Previous, PreviousStep
from .rewards import ClipReward, TransformReward

__all__ = [
    "ActionRepeat",
    "AutoReset",
    "ClipReward",
    "DistanceTable",
    "EpisodeStatistics",
    "EpisodeTotals",
    "Flatten",
    "FrameStack",
    "FromLevels",
    "LevelSet",
    "LogWrapper",
    "NormalizeObservation",
    "NormalizeReward",
    "OneHot",
    "OptimalInInfo",
    "Previous",
    "PreviousStep",
    "StatefulWrapper",
    "StickyAction",
    "StickyParams",
    "TimeLimit",
    "TransformReward",
    "WrappedState",
    "Wrapper",
    "mean_over_finished",
]
