"""Code shared by the learners: settings, devices, rollouts, replay, returns, evaluation."""
