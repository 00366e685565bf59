"""Shared parts of the learners: settings, devices, rollouts, replay, returns, evaluation."""
