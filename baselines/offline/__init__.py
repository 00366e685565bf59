"""Learners from demonstrations."""
