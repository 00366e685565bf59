"""Learners of a cost-to-go heuristic for puzzles: DAVI, and Q-learning in a learned model."""
