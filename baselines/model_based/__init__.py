"""Learners that plan: AlphaZero with the true model; MuZero and Dyna with a learned one."""
