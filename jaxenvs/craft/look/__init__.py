"""Sprites of the Craft games, and pictures of their states by day and by night."""
