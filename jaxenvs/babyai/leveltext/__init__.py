"""Levels of BabyAI as text: those of MiniGrid, with missions, marks and progress."""
