"""Demonstrations: record episodes, write them in Minari's layout, load them as arrays."""

from .data import Demos, Episode, joined
from .layout import DemosError
from .reading import load
from .recording import Recorder
from .writing import Writer

__all__ = ["Demos", "DemosError", "Episode", "Recorder", "Writer", "joined", "load"]
