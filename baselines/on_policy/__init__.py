"""Learners from fresh rollouts: PPO and its recurrent and transformer variants, PQN, RL²."""
