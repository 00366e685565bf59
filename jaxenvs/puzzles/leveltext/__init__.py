"""Levels of puzzles as text: boards of all puzzles, and maps of Sokoban."""
