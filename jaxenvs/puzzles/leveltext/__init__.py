"""Levels of puzzles as text: boards, and the maps of Sokoban."""
