"""Levels of BabyAI as text: MiniGrid's format, with missions, marks and progress."""
