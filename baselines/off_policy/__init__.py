"""Off-policy learners, which learn from a replay buffer: DQN and its variants, actor-critics."""
