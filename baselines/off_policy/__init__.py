"""Learners from a replay buffer: DQN and its relatives, and actor-critic learners."""
