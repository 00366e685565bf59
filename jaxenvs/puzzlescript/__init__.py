"""Environments and search problems that are built from the source text of PuzzleScript games."""

from .env import PuzzleScript
from .game import Game, load, parse
from .text import GameError

__all__ = ["Game", "GameError", "PuzzleScript", "load", "parse"]
