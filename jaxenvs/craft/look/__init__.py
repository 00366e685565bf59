"""Sprites of the Craft games, drawn by code, and pictures of game states by day and by night."""
