"""PuzzleScript games as data: environments and search problems from their source text."""

from .env import PuzzleScript
from .game import Game, load, parse
from .text import GameError

__all__ = ["Game", "GameError", "PuzzleScript", "load", "parse"]
