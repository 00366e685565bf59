"""PuzzleScript games as data, parsed from their source text."""

from .game import Game, load, parse
from .text import GameError

__all__ = ["Game", "GameError", "load", "parse"]
