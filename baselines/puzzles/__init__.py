"""Learners of a cost-to-go for puzzles: DAVI, and a learned world model."""
