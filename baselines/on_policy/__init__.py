"""On-policy learners: PPO, its recurrent and transformer variants, PQN and RL²."""
