"""Imitation learning and offline RL: behaviour cloning, DAgger and implicit Q-learning."""
