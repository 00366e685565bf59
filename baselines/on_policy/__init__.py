"""On-policy learners: PPO, its recurrent and transformer variants, PQN, RL², PLR and SFL."""
